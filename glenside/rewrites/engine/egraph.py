"""An e-graph of access patterns: load terms, apply one rule at a time, freeze.

It runs on ``egglog.bindings`` with one thread, which makes results the same on every run. Each
step is one call; between two of them Python decides whether to go on, and Ctrl-C is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from egglog import bindings

from glenside.errors import RewriteFailed, UnsoundRewrite
from glenside.interrupt import in_background
from glenside.language.operators import OPERATORS
from glenside.language.term import Term
from glenside.rewrites.engine.freezing import Reader, freeze, read
from glenside.rewrites.engine.frozen import FrozenEGraph
from glenside.rewrites.engine.loading import (
    BIRTH,
    STAMP,
    WATCH,
    Rows,
    Tables,
    birth_declarations,
    constructor,
    put,
    watch_declarations,
)
from glenside.rewrites.engine.program import ACCESS, OPERANDS, program_for
from glenside.rewrites.engine.regions import Explored, Region
from glenside.rewrites.ruleset import Rule

_SPAN = bindings.RustSpan("glenside", 0, 0)
_OPERATOR = {constructor(operator): name for name, operator in OPERATORS.items()}
"""Operators by what egglog calls their nodes."""


def _number(value: int) -> Any:
    return bindings.Lit(_SPAN, bindings.Int(value))


@dataclass(frozen=True)
class Step:
    """What applying a rule once did."""

    matches: int
    changed: bool
    reports: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    """egglog's own run reports: of the rule, then of inferring types."""


@dataclass(frozen=True)
class Watched:
    """A node to look out for.

    It has the operator and attributes of ``term``. An operand is a term that was loaded, or the
    position in the list of another node that is watched. None for operands: whatever they are.
    """

    term: Term
    operands: tuple[Term | int, ...] | None


class EGraph:
    """E-classes of the terms loaded, grown by :meth:`apply`."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._program = program_for(tuple(rules))
        self._egg: Any = self._program.take()
        self._numbers: dict[Term, int] = {}
        self._roots: tuple[Term, ...] = ()
        self._regions: list[tuple[list[int], list[int]]] = []
        self._tables = Tables(())
        self._loaded: Rows = {}
        self._unseen: dict[int, tuple[str, Any]] = {}
        self._known_sizes: dict[str, int] | None = None

    def close(self) -> None:
        """Gives the e-graph's memory and declarations back; it cannot be used any more."""
        egg, self._egg = self._egg, None
        if egg is not None:
            self._program.give_back(egg)

    def load(self, roots: Sequence[Term], *, state_types: bool = True) -> None:
        """Adds a program; once for each e-graph.

        :param state_types: say what type each term has; else only the analyses say so, which do
            not know about calls.
        :raises UnsoundRewrite: the analyses find another type than is stated.
        """
        if self._numbers:
            raise ValueError("a program has been loaded already")
        tables = Tables(roots, state_types)
        self._numbers, self._roots = tables.numbers, tuple(roots)
        self._load(tables)

    def load_regions(self, regions: Sequence[Region]) -> None:
        """Adds regions of a program, placeholders standing for what is elsewhere."""
        tables = Tables()
        self._regions = []
        for region in regions:
            places = [tables.add_placeholder(each.type) for each in region.inputs]
            terms: list[int] = []
            for term, operands in zip(region.terms, region.operands, strict=True):
                below = [terms[at] if inside else places[at] for inside, at in operands]
                terms.append(tables.add_term(term, below))
            for at in region.roots:
                tables.add_root(terms[at])
            self._regions.append((terms, places))
        self._load(tables)

    def _load(self, tables: Tables) -> None:
        self._tables = tables
        self._loaded = tables.load(self._egg)
        self._known_sizes = None
        self._infer_types("loading")

    def apply(self, rule: Rule) -> Step:
        """Applies a rule wherever it matches now, then infers the types of what is new.

        :raises UnsoundRewrite: the rule equated accesses of different types.
        """
        step = self._run(f"(run {self._program.rulesets[rule]})", rule.described)
        if step.changed:
            inferred = self._infer_types(rule.described)
            return replace(step, reports=step.reports + inferred.reports)
        return step

    def tried(self, rule: Rule) -> tuple[Step, int]:
        """What :meth:`apply` would do, and how many e-nodes there would be; on a copy, which takes
        as much memory as there is of the e-graph.

        :raises UnsoundRewrite: likewise.
        """
        self._egg.run_program(bindings.Push(1))
        step = self.apply(rule)
        nodes, _ = self.size()
        self._pop()
        return step, nodes

    def rewind(self, applied: Sequence[Rule]) -> None:
        """Goes back to what these steps made of what was loaded; takes as long as they did."""
        self._pop()
        self._egg.run_program(bindings.Push(1))
        put(self._egg, self._loaded)
        self._infer_types("loading")
        for rule in applied:
            self.apply(rule)

    def _pop(self) -> None:
        self._egg.run_program(bindings.Pop(_SPAN, 1))
        self._known_sizes = None

    def note_unions(self, rule: Rule, relation: str) -> Reader:
        """Matches a rule, but enters what it would equate into a relation; the e-graph is then
        only good to look at.
        """
        ruleset = self._program.rulesets[rule]
        noting = f"{ruleset}_noted"
        commands = [f"(relation {relation} ({ACCESS} {ACCESS}))", f"(ruleset {noting})"]
        for number, command in enumerate(self._program.commands):
            text = _noting(command, ruleset, noting, relation, number)
            if text:
                commands.append(text)
        self._egg.parse_and_run_program("\n".join(commands))
        self._run(f"(run {noting})", rule.described)
        self._infer_types(rule.described)
        return Reader(self._egg)

    def are_equal(self, pairs: Sequence[tuple[Term, Term]]) -> bool:
        """Whether the two terms of each pair, which were loaded, are by now in one class."""
        return all(self._class_of(a) == self._class_of(b) for a, b in pairs)

    def _class_of(self, term: Term) -> Any:
        number = self._egg.eval_expr(_number(self._numbers[term]))[1]
        return self._egg.lookup_function("load_node", [number])

    def watch(self, nodes: Sequence[Watched]) -> None:
        """From now on :meth:`seen` tells which of these nodes there are; once for each e-graph."""
        first = len(self._numbers)
        self._egg.parse_and_run_program(watch_declarations(ACCESS, OPERANDS))
        for position, node in enumerate(nodes):
            operands = None
            if node.operands is not None:
                operands = tuple(
                    first + each if isinstance(each, int) else self._numbers[each]
                    for each in node.operands
                )
            self._tables.watch(first + position, node.term, operands)
            number = _number(first + position)
            table = "watched" if node.operands is None else "load_node"
            self._unseen[position] = table, self._egg.eval_expr(number)[1]
        self._tables.load(self._egg)

    def seen(self) -> list[int]:
        """Positions of the watched nodes that there are now and were not the last time."""
        self._run(f"(saturate (run {WATCH}))", WATCH)
        found = [
            position
            for position, (table, number) in self._unseen.items()
            if self._egg.lookup_function(table, [number]) is not None
        ]
        for position in found:
            del self._unseen[position]
        return found

    def expect(
        self, loaded: Mapping[Term, int], nodes: Sequence[tuple[Term, int, Sequence[int]]]
    ) -> None:
        """Names the nodes of a later state, so that :meth:`stamp` notes when they come to be; once
        for each e-graph.

        :param loaded: the class there of each term that was loaded, operands before users.
        :param nodes: what to look out for: a term with the node's operator, attributes and types of
            operands, the class that it ends up in, and the classes of its operands.
        """
        self._egg.parse_and_run_program(birth_declarations(ACCESS, OPERANDS))
        led: set[int] = set()
        for term, owner in loaded.items():
            self._tables.ends_up(term, owner, owner not in led)
            led.add(owner)
        for number, (term, owner, operands) in enumerate(nodes):
            self._tables.expect(number, term, owner, tuple(operands))
        self._tables.load(self._egg)

    def stamp(self, number: int) -> None:
        """Notes ``number`` for the expected nodes that there are by now, or that have become
        members of their class by now, and have none."""
        self._egg.parse_and_run_program(f"(set (birth_now) {number})")
        self._run(f"(seq (saturate (run {BIRTH})) (run {STAMP}))", BIRTH)

    def stamps(self) -> tuple[dict[int, int], dict[int, int]]:
        """By the position of each expected node the number with which it was first there, and that
        with which it was first a member of its class."""
        reader = Reader(self._egg)
        return reader.numbers("birth_of"), reader.numbers("birth_joined")

    def _infer_types(self, after: str) -> Step:
        return self._run(f"(saturate (run {self._program.types}))", after)

    def _run(self, schedule: str, rule: str) -> Step:
        try:
            output: Any = in_background(
                self._egg.parse_and_run_program, f"(run-schedule {schedule})"
            )[0]
        except bindings.EggSmolError as problem:
            if "Illegal merge" in str(problem):
                raise UnsoundRewrite(
                    f"rule {rule} equates accesses of different shape or dtype"
                ) from problem
            raise RewriteFailed(f"rule {rule} failed in egglog: {problem}") from problem
        report = output.report
        if report.updated:
            self._known_sizes = None
        return Step(sum(report.num_matches_per_rule.values()), report.updated, (report,))

    def size(self) -> tuple[int, int]:
        """Numbers of e-nodes and of e-classes."""
        sizes = self._sizes()
        nodes = sum(count for name, count in sizes.items() if name in _OPERATOR)
        return nodes, sizes["Access.dtype"]

    def operators(self) -> dict[str, int]:
        """Numbers of e-nodes of each operator, in the order of the language."""
        sizes = self._sizes()
        return {op: sizes[name] for name, op in _OPERATOR.items() if sizes.get(name)}

    def _sizes(self) -> dict[str, int]:
        if self._known_sizes is None:
            output: Any = self._egg.run_program(bindings.PrintSize(_SPAN, None))[0]
            self._known_sizes = dict(output.sizes)
        return self._known_sizes

    def freeze(self) -> FrozenEGraph:
        """What can be reached from the roots, as plain data.

        :raises UnsoundRewrite: a node does not have the type of its class.
        """
        return self.freeze_with_terms()[0]

    def freeze_with_terms(self) -> tuple[FrozenEGraph, dict[Term, int]]:
        """Likewise, and the class of each term that was loaded."""
        return freeze(self._egg, self._roots, self._numbers)

    def explored_regions(self) -> Explored:
        """What was found for the regions that were loaded.

        :raises UnsoundRewrite: a node does not have the type of its class.
        """
        nodes, types, loaded = read(self._egg)
        return Explored(
            nodes,
            types,
            [[loaded[n] for n in terms] for terms, _ in self._regions],
            [[loaded[n] for n in places] for _, places in self._regions],
        )


def _noting(command: Any, ruleset: str, noting: str, relation: str, number: int) -> str | None:
    """A rule of ``ruleset`` as one of ``noting`` that fills ``relation``, None for all else."""
    if isinstance(command, bindings.RuleCommand) and command.rule.ruleset == ruleset:
        body, head = (" ".join(map(str, each)) for each in (command.rule.body, command.rule.head))
        head = head.replace("(union ", f"({relation} ")
    elif isinstance(command, bindings.RewriteCommand) and command.name == ruleset:
        rewrite = command.rewrite
        body = f"(= noted {rewrite.lhs}) {' '.join(map(str, rewrite.conditions))}"
        head = f"({relation} noted {rewrite.rhs})"
    else:
        return None
    return f'(rule ({body}) ({head}) :ruleset {noting} :name "noted {number}")'
