"""From rules in egglog's Python to the commands that declare them in an e-graph.

Declaring rules through egglog's Python costs more than running them, so it is done once for each
combination of rule sets; afterwards the parsed program is sent as it is.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import egglog
from egglog import bindings

from glenside.deadline import check_time
from glenside.errors import GlensideError
from glenside.rewrites.engine import loading
from glenside.rewrites.engine.ordering import in_order, tables_of
from glenside.rewrites.engine.types import type_rules
from glenside.rewrites.ruleset import Rule
from glenside.rewrites.vocabulary import Access

TYPES = "types"
ACCESS = f"{Access.__module__}.{Access.__name__}"
"""What egglog calls the sort of accesses."""
OPERANDS = f"Vec[{ACCESS}]"


_SPAN = bindings.RustSpan("glenside", 0, 0)


@dataclass(frozen=True)
class Program:
    """Commands that declare everything, and the egglog ruleset in which each rule stands."""

    commands: tuple[Any, ...]
    rulesets: dict[Rule, str]
    types: str
    """The ruleset of the analyses: those of types, and what the rules add."""
    _spare: list[bindings.EGraph] = field(default_factory=list)

    def take(self) -> bindings.EGraph:
        """An e-graph with everything declared and nothing in it."""
        check_time()  # Declaring takes a second for large units.
        if self._spare:
            egraph = self._spare.pop()
        else:
            egraph = bindings.EGraph(no_decomp=True, num_threads=1)
            egraph.run_program(*self.commands)
            loading.load_functions(egraph)
        egraph.run_program(bindings.Push(1))
        return egraph

    def give_back(self, egraph: bindings.EGraph) -> None:
        """Empties an e-graph that was taken, for the next to take: declaring takes longer."""
        egraph.run_program(bindings.Pop(_SPAN, 1))
        self._spare.append(egraph)


@functools.lru_cache(maxsize=64)
def program_for(rules: tuple[Rule, ...]) -> Program:
    """The program with these rules, their analyses, that of types and the means to load terms.

    :raises GlensideError: egglog does not accept a rule; says which, where it stands and why.
    """
    try:
        return _declare(rules)
    except bindings.EggSmolError as problem:
        raise _refusal(rules, problem) from problem


def _refusal(rules: tuple[Rule, ...], problem: bindings.EggSmolError) -> GlensideError:
    for rule in rules:
        try:
            _declare((rule,))
        except bindings.EggSmolError as own:
            # Its first line says where in a temporary file, which is gone.
            reason = str(own).strip().splitlines()[-1]
            return GlensideError(
                f"rule {rule.described} is not accepted by egglog: {reason} (what the right side "
                "uses must be bound on the left by an operator or by a fact such as "
                "eq(s).to(x.outer); a bare variable binds nothing)"
            )
    return GlensideError(f"egglog does not accept these rules together: {problem}")


def _declare(rules: tuple[Rule, ...]) -> Program:
    # Each rule has a ruleset of its own: steps are short, and who broke a type is known at once.
    local = {rule: f"rule_{number}" for number, rule in enumerate(dict.fromkeys(rules))}
    rulesets = []
    for rule, name in local.items():
        check_time()
        rulesets.append(egglog.ruleset(*rule.cases, name=name))
    analyses = {id(each): each for rule in rules for each in rule.analyses}
    text = _text(egglog.ruleset(*type_rules(), *analyses.values(), name=TYPES), *rulesets)
    text += loading.declarations(ACCESS, OPERANDS, text)
    commands = bindings.EGraph().parse_program(text)
    tables = tables_of(commands)
    # egglog prefixes what it names with the module that does so.
    return Program(
        tuple(in_order(command, tables) for command in commands),
        {rule: f"{__name__}.{name}" for rule, name in local.items()},
        f"{__name__}.{TYPES}",
    )


def _text(*rulesets: egglog.Ruleset) -> str:
    egraph = egglog.EGraph(save_egglog_string=True)
    for ruleset in rulesets:
        check_time()
        egraph.run(ruleset)
    lines = egraph.as_egglog_string.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("(run-schedule"))
