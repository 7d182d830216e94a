"""Finds out by computing whether rules are sound: whether both sides of a rule are equal.

Every class of a saturated e-graph is given one value, that of its least term, and every node is
computed from the values of its operands. If each gives the value of its class, then all programs
the e-graph holds compute the same, however many there are.

:func:`check_sound` and :func:`check_fires` do so for random programs and need Hypothesis.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import GlensideError, InputError, UnsoundRewrite
from glenside.language.interpreter import evaluate
from glenside.language.invocation import run_batch
from glenside.language.operators import OPERATORS
from glenside.language.shape import is_float
from glenside.language.syntax import to_text
from glenside.language.term import Term, make, topological_order
from glenside.language.units import find_unit
from glenside.rewrites.engine.blame import LONGEST
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from glenside.rewrites.engine.saturation import Saturation, saturate
from glenside.rewrites.ruleset import RuleSet, as_ruleset

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Array = np.ndarray[Any, Any]


def evaluate_classes(egraph: FrozenEGraph, env: Mapping[str, Array]) -> list[Array]:
    """The value of each class; small programs only, since nothing is freed or contracted.

    :param env: arrays of the tensors by name.
    :raises UnsoundRewrite: two nodes of a class have different values.
    """
    values: list[Array] = []
    # Classes are numbered so that the least term of each is over earlier ones.
    least = [
        next(node for node in nodes if all(child < number for child in node.children))
        for number, nodes in enumerate(egraph.classes)
    ]
    for node in least:
        values.append(_evaluate(egraph, node, values, env))
    for number, nodes in enumerate(egraph.classes):
        for node in nodes:
            found = _evaluate(egraph, node, values, env)
            if not _alike(found, values[number]):
                terms: list[Term] = []
                for each in least:
                    terms.append(each.term([terms[child] for child in each.children]))
                other = node.term([terms[child] for child in node.children])
                raise UnsoundRewrite(
                    f"one class holds {_show(other)} = {_brief(found)} and "
                    f"{_show(terms[number])} = {_brief(values[number])}"
                )
    return values


def _evaluate(
    egraph: FrozenEGraph, node: ENode, values: Sequence[Array], env: Mapping[str, Array]
) -> Array:
    if node.op == "tensor":
        try:
            return evaluate([node.term(())], env)[0]
        except InputError as problem:  # Of a tensor that a rule made up.
            raise UnsoundRewrite(f"the program has no such input: {problem}") from None
    types = tuple(egraph.types[child] for child in node.children)
    arrays = [values[child] for child in node.children]
    if node.op == "call":
        # What the unit means: its simulator may round as its hardware does.
        unit, parameters, batch = node.values
        exact = replace(find_unit(unit), simulate=None, in_products=None)
        return run_batch(exact, parameters, types, arrays, batch)
    return OPERATORS[node.op].evaluate(arrays, types, node.attributes())


def same(a: Array, b: Array) -> bool:
    """Same shape, dtype and elements, nan being itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return np.array_equal(a, b, equal_nan=is_float(a.dtype))


def _alike(a: Array, b: Array) -> bool:
    """The same, or floats within the rounding of a few sums: operands are chosen so that sums are
    exact, but what ``exp`` and its like give of them is not."""
    tolerance = {"float64": 1e-12, "float32": 1e-5}.get(a.dtype.name)
    if tolerance is None or a.dtype != b.dtype or a.shape != b.shape or same(a, b):
        return same(a, b)
    return np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def _show(term: Term) -> str:
    text = to_text(term)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _brief(array: Array) -> str:
    return np.array2string(array, threshold=6, edgeitems=2).replace("\n", " ")


def check_program(
    roots: Sequence[Term], rules: Sequence[RuleSet], env: Mapping[str, Array], **limits: Any
) -> Saturation:
    """Saturates one program and computes all that was found.

    :param limits: as of :func:`~glenside.rewrites.engine.saturation.saturate`.
    :raises UnsoundRewrite: something was found that does not compute the same.
    """
    result = saturate(roots, rules, **limits)
    values = evaluate_classes(result.egraph, env)
    for root, number, expected in zip(
        roots, result.egraph.roots, evaluate(list(roots), env), strict=True
    ):
        if not _alike(values[number], expected):
            raise UnsoundRewrite(
                f"{root!r} is {_brief(expected)}, its class is {_brief(values[number])}"
            )
    return result


class NeverFired(GlensideError):
    """A rule matched none of the programs it was tried on, so nothing is known about it."""


class Counterexample(UnsoundRewrite):
    """A program that rules equate with another one; ``program`` is the smallest found."""

    def __init__(self, reason: str, program: Term) -> None:
        self.reason, self.program = reason, program
        super().__init__(f"{reason} (in {program})")


@dataclass(frozen=True)
class Verdict:
    """What trying one rule showed."""

    rule: str
    fired: int
    """How often it matched, over all programs."""
    counterexample: Counterexample | None = None
    tried: bool = True
    """False where time was up before."""

    @property
    def ok(self) -> bool:
        """It fired, and all it found computes the same."""
        return self.fired > 0 and self.counterexample is None

    def __str__(self) -> str:
        if self.counterexample is not None:
            return "unsound"
        if not self.tried:
            return "not tried"
        return "sound" if self.fired else "never fired"


def check_sound(
    rules: object,
    programs: SearchStrategy[Term] | None = None,
    *,
    examples: int = 100,
    smallest: bool = True,
) -> dict[str, int]:
    """Tries rules on random programs and computes every form they find.

    :param rules: a rule, a rule set (ours or egglog's), or several.
    :param programs: what to try them on; by default what each of the rules looks for.
    :param examples: programs for each rule.
    :param smallest: look for the smallest counterexample, which takes far longer than to find one.
    :return: how often each rule matched.
    :raises Counterexample: the rules equate programs that differ.
    """
    ruleset = as_ruleset(rules)
    fired = dict.fromkeys((rule.name for rule in ruleset), 0)
    if programs is not None:
        _try(ruleset, programs, examples, fired, smallest)
        return fired
    from glenside.rewrites.soundness.instances import instances

    for rule in ruleset:
        _try(ruleset, instances(rule), examples, fired, smallest)
    return fired


def check_fires(
    rules: object, programs: SearchStrategy[Term] | None = None, *, examples: int = 100
) -> None:
    """Likewise, and raises :class:`NeverFired` when a rule never matched, on :data:`MORE` times as
    many programs either."""
    from glenside.rewrites.soundness.instances import instances

    fired = check_sound(rules, programs, examples=examples)
    for rule in as_ruleset(rules):
        alone = {rule.name: fired[rule.name]}
        if not alone[rule.name]:
            source = instances(rule) if programs is None else programs
            found = RuleSet(rule.name, (rule,))
            _try(found, source, MORE * examples, alone, until_fired=True)
            fired |= alone
    idle = [name for name, count in fired.items() if not count]
    if idle:
        tried = MORE * examples
        raise NeverFired(f"never fired in {tried} programs each: {', '.join(idle)}")


MORE = 10
"""How many times more programs are drawn of a rule that has not fired yet, to see it fire."""


def judge(
    rules: object,
    *,
    examples: int = 100,
    time_limit: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    judged: Callable[[Verdict], None] | None = None,
) -> list[Verdict]:
    """Tries each rule by itself on programs that hold what it looks for.

    A rule that fires on none of them is tried on up to :data:`MORE` times as many.

    :param time_limit: seconds after which no further rule is begun; None: no limit, and the same
        verdicts everywhere.
    :param progress: called with (rule, rules done, rules in all).
    :param judged: called with each verdict once it is known.
    """
    from glenside.rewrites.soundness.instances import instances

    end = math.inf if time_limit is None else time.monotonic() + time_limit
    ruleset = as_ruleset(rules)
    verdicts: list[Verdict] = []
    for done, rule in enumerate(ruleset):
        if progress:
            progress(rule.name, done, len(ruleset.rules))
        fired, found = {rule.name: 0}, None
        tried = time.monotonic() < end
        if tried:
            alone, source = RuleSet(rule.name, (rule,)), instances(rule)
            try:
                _try(alone, source, examples, fired)
                if not fired[rule.name]:
                    _try(alone, source, MORE * examples, fired, until_fired=True)
            except Counterexample as problem:
                found = problem
        verdicts.append(Verdict(rule.name, fired[rule.name], found, tried))
        if judged:
            judged(verdicts[-1])
    return verdicts


_TOGETHER = 8
"""Programs that are explored in one e-graph: making an e-graph costs more than they do."""


def _try(
    ruleset: RuleSet,
    source: SearchStrategy[Term],
    examples: int,
    fired: dict[str, int],
    smallest: bool = True,
    until_fired: bool = False,
) -> None:
    """Adds to ``fired``; raises :class:`Counterexample` with the smallest program, or the first.

    :param until_fired: not all programs, but until all rules have fired.
    """
    # By the order in which they were drawn; the same ones are drawn now and then.
    programs = list(dict.fromkeys(drawn(source, examples)))
    sound: set[Term] = set()
    for start in range(0, len(programs), _TOGETHER):
        together = programs[start : start + _TOGETHER]
        try:
            explored = _explored(ruleset, _apart(together))
        except UnsoundRewrite as problem:
            # An ill-typed or unequal result is a match all the same.
            fired.update({name: count + 1 for name, count in fired.items() if not count})
            found = _blamed(ruleset, together, problem)
            if smallest:
                _shrink(ruleset, source, examples, sound)
            raise found from problem
        sound.update(together)
        for name, count in explored.rules.items():
            fired[name] += count
        if until_fired and all(fired.values()):
            return


def drawn(source: SearchStrategy[Term], examples: int) -> list[Term]:
    """So many programs, always the same; none where the source has none."""
    programs: list[Term] = []
    _given(source, examples, programs.append, smallest=False)
    return programs


def _shrink(
    ruleset: RuleSet, source: SearchStrategy[Term], examples: int, sound: Collection[Term]
) -> None:
    """Draws the same programs once more and raises :class:`Counterexample` with the smallest.

    :param sound: those on which the rules are known to be right.
    """

    def judge(program: Term) -> None:
        if program in sound:
            return
        try:
            _explored(ruleset, [program])
        except UnsoundRewrite as problem:
            raise Counterexample(str(problem), program) from problem

    _given(source, examples, judge, smallest=True)


def _given(
    source: SearchStrategy[Term], examples: int, body: Callable[[Term], None], smallest: bool
) -> None:
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis.errors import Unsatisfiable

    @seed(0)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, *[Phase.shrink] * smallest],
        suppress_health_check=list(HealthCheck),
    )
    @given(source)
    def with_each(program: Term) -> None:
        body(program)

    # Where no program holds what the rules look for, they never fire: that is the verdict.
    with contextlib.suppress(Unsatisfiable):
        with_each()


def _explored(ruleset: RuleSet, programs: Sequence[Term]) -> Saturation:
    from glenside.rewrites.soundness.instances import environment

    limits = {"iter_limit": 4, "node_limit": 2_000 * len(programs)}
    return check_program(programs, [ruleset], environment(programs), **limits)


def _apart(programs: Sequence[Term]) -> list[Term]:
    """The programs with tensors of their own."""
    made: list[Term] = []
    for number, program in enumerate(programs):
        own: dict[Term, Term] = {}
        for term in topological_order([program]):
            named = {"name": term["name"] + "'" * number} if term.op == "tensor" else {}
            operands = [own[child] for child in term.children]
            own[term] = make(term.op, operands, **{**term.attributes, **named})
        made.append(own[program])
    return made


def _blamed(ruleset: RuleSet, programs: Sequence[Term], problem: UnsoundRewrite) -> Counterexample:
    """What was found for several programs, told of the one for which it is."""
    for program in programs:
        try:
            _explored(ruleset, [program])
        except UnsoundRewrite as own:
            return Counterexample(str(own), program)
    return Counterexample(str(problem), _apart(programs)[-1])
