"""Every way in which a case of a rule can match, and in each a proof that its two sides are equal.

A case is evaluated under decisions: how lists of axes are cut, what stands at an axis number. Where
evaluation needs another one it is tried both ways, from the start: so each instance is one run
through the facts of the case and its goals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from glenside.language.denotation import Denotation, Leaf
from glenside.rewrites.soundness.proofs.axes import (
    AXIS,
    Axes,
    Bind,
    Cut,
    Decision,
    Suppose,
    Undetermined,
)
from glenside.rewrites.soundness.proofs.comparison import Comparison
from glenside.rewrites.soundness.proofs.evaluation import Evaluation, Unbound
from glenside.rewrites.soundness.proofs.facts import (
    Differs,
    Facts,
    Open,
    Stretch,
    fresh,
    within,
)
from glenside.rewrites.soundness.proofs.limits import Budget
from glenside.rewrites.soundness.proofs.logic import NoMatch, Symbolic
from glenside.rewrites.soundness.proofs.reader import (
    TYPE_OF,
    Call,
    Case,
    Equation,
    Fact,
    Literal,
    Reading,
    Variable,
    sides,
    variables,
)

ENDLESS = "the ways to cut axes do not end"
_DEEPEST = 30
"""Decisions in one instance."""


@dataclass(frozen=True)
class Instance:
    """One way in which a case matches: what was decided, and what is known then."""

    case: Case
    evaluation: Evaluation
    decisions: tuple[Decision, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.decisions)) or "any ranks"


@dataclass
class Found:
    """What the search for proofs of a case came to."""

    proved: int = 0
    """Instances that are."""
    vacuous: int = 0
    """Instances that no sizes satisfy."""
    bounded: bool = False
    """Ranks were enumerated up to the bound somewhere."""
    steps: set[str] = field(default_factory=set)
    open: list[str] = field(default_factory=list)
    """Obligations that were not met."""
    refutation: Any = None

    def add(self, other: Found) -> None:
        """Takes over what another search found."""
        self.proved += other.proved
        self.vacuous += other.vacuous
        self.bounded |= other.bounded
        self.steps |= other.steps
        self.open += other.open
        self.refutation = self.refutation or other.refutation


Goals = Callable[[Instance], None]
"""Shows what is to be shown of an instance; raises Differs, Open or Undetermined."""
Refute = Callable[[Instance, Differs], Any]
"""A program that shows that an instance is wrong, or None."""


@dataclass
class Search:
    """The instances of one case."""

    reading: Reading
    case: Case
    bound: int
    budget: Budget
    goals: Goals
    refute: Refute
    general: frozenset[str] = frozenset()
    """Variables of terms of which only the type is to be used."""
    alongside: bool = True
    """See :attr:`Axes.alongside`."""
    stretches_inside: bool = False
    """Stretches of zeros are inside their axis and not empty, as the analysis keeps them."""

    def __post_init__(self) -> None:
        self._definitions, self._accesses = definitions(self.case), _accesses(self.case)

    def run(self, most_open: int = 1) -> Found:
        """Proves every instance; gives up at the first refutation, or so many that stay open."""
        found = Found()
        stack: list[tuple[Decision, ...]] = [_ranks_asked_for(self.case)]
        while stack:
            decisions = stack.pop()
            self.budget.spend()
            if len(decisions) > _DEEPEST:
                found.open.append(ENDLESS)
                break
            stack += reversed(list(self._instance(decisions, found)))
            if found.refutation is not None or len(found.open) >= most_open:
                break
        return found

    def _instance(
        self, decisions: tuple[Decision, ...], found: Found
    ) -> Iterator[tuple[Decision, ...]]:
        """Proves an instance, or gives the decisions that it needs."""
        facts = Facts(self.budget)
        cuts = {each.run: each.parts for each in decisions if isinstance(each, Cut)}
        logic = Symbolic(facts, Axes(facts, cuts, self.bound, self.alongside))
        evaluation = Evaluation(
            logic,
            self.reading.primitives,
            self._definitions,
            self._accesses,
            self.general,
            {each.variable: each.value for each in decisions if isinstance(each, Bind)},
        )
        for each in decisions:
            if isinstance(each, Suppose):
                facts.assume(each.condition)
        instance = Instance(self.case, evaluation, decisions)
        try:
            self._match(evaluation)
            if not facts.feasible():
                found.vacuous += 1
                return
            self.goals(instance)
        except NoMatch:
            return
        except Undetermined as undecided:
            if not facts.feasible():
                found.vacuous += not undecided.bounded
                return
            found.bounded |= undecided.bounded
            for way in undecided.ways:
                yield (*decisions, *way)
            return
        except (Differs, Open, Unbound) as problem:
            yield from self._failed(instance, problem, found)
            return
        found.proved += 1
        found.steps |= facts.steps

    def _failed(
        self, instance: Instance, problem: Exception, found: Found
    ) -> Iterator[tuple[Decision, ...]]:
        if isinstance(problem, Differs):
            found.refutation = self.refute(instance, problem)
            if found.refutation is not None:
                return
        # A run may hide what its axes would show.
        axes = instance.evaluation.logic.axes
        runs = [run for run in axes.runs.values() if run.origin == run.name]
        if runs and not isinstance(problem, Unbound):
            undecided = axes.enumerated(runs[0])
            found.bounded |= undecided.bounded
            for way in undecided.ways:
                yield (*instance.decisions, *way)
            return
        why = f"{problem} where {instance}" if instance.decisions else str(problem)
        found.open.append(" ".join(why.split()))

    # --- matching ---------------------------------------------------------------------------------

    def _match(self, evaluation: Evaluation) -> None:
        """Assumes all facts of the case, those first that others need."""
        pending = list(self.case.facts)
        while pending:
            waiting: list[Fact] = []
            problems: list[Unbound | Undetermined] = []
            for fact in pending:
                try:
                    self._assume(evaluation, fact)
                except (Unbound, Undetermined) as problem:
                    # Other facts may bind it, or say which way it is.
                    waiting.append(fact)
                    problems.append(problem)
            if len(waiting) == len(pending):
                undetermined = [each for each in problems if isinstance(each, Undetermined)]
                if undetermined:
                    raise min(undetermined, key=lambda each: (each.bounded, len(each.ways)))
                raise problems[0]
            pending = waiting

    def _assume(self, evaluation: Evaluation, fact: Fact) -> None:
        if isinstance(fact, Equation):
            self._equate(evaluation, fact)
            return
        e = fact.expression
        assert isinstance(e, Call)
        if e.name == "root":
            evaluation.value(e.arguments[0])
        elif e.name == "known_zero":
            self._stretch(evaluation, e)
        elif e.name == "small":
            (x,) = e.arguments
            evaluation.access(x)
            evaluation.logic.facts.small.append(_leaf(evaluation, x, "a term is known to be small"))
        elif (words := _words(e)) is not None:
            dtype, among = words
            evaluation.logic.need(evaluation.logic.among(evaluation.value(dtype), among), "dtype")
        else:
            condition = evaluation.value(e)
            if not isinstance(condition, Denotation):
                evaluation.logic.need(condition, "guard")

    def _equate(self, evaluation: Evaluation, fact: Equation) -> None:
        for one, other in ((fact.left, fact.right), (fact.right, fact.left)):
            if isinstance(one, Variable) and (
                not _known(evaluation, one.name)
                # Another name of an access, of which nothing has been said by this one.
                or (isinstance(other, Variable) and _unsaid(evaluation, one.name))
            ):
                evaluation.values[one.name] = evaluation.value(other)
                return
        logic = evaluation.logic
        a, b = evaluation.value(fact.left), evaluation.value(fact.right)
        if isinstance(a, Denotation):
            if a is not b:
                logic.alike(a.outer, b.outer, "equal terms")
                logic.alike(a.item, b.item, "equal terms")
                logic.need(a.dtype == b.dtype, "equal terms")
        elif isinstance(a, list):
            logic.alike(a, b, "guard")
        else:
            logic.need(a == b, "guard")

    def _stretch(self, evaluation: Evaluation, e: Call) -> None:
        x, *numbers = e.arguments
        of = evaluation.access(x)
        axis, low, high = (evaluation.integer(each) for each in numbers)
        logic = evaluation.logic
        at = logic.axis(axis, of.lengths, "known zero")
        if self.stretches_inside:
            for inside in (low >= 0, low < high, high <= of.lengths[at]):
                logic.need(inside, "known zero")
        leaf = _leaf(evaluation, x, "zeros are known of a term")
        logic.facts.stretches.append(Stretch(leaf, at, low, high))


def _leaf(evaluation: Evaluation, x: Any, otherwise: str) -> Leaf:
    """The leaf that an argument of a relation is; where it is a term, what is open."""
    if not isinstance(x, Variable) or x.name not in evaluation.leaves:
        raise Open(otherwise)
    return evaluation.leaves[x.name]


def prove_union(instance: Instance, left: Any, right: Any) -> None:
    """Both sides have one type and at each index one element; the types that the case states are
    those."""
    evaluation = instance.evaluation
    logic, facts = evaluation.logic, evaluation.logic.facts
    before = dict(evaluation.values)
    try:
        with facts.scope():
            a = evaluation.access(left)
            with logic.to_prove():
                try:
                    b = evaluation.access(right)
                except NoMatch as problem:
                    raise Open(f"right side: {problem}") from None
                _stated_types(instance, right, b)
                logic.alike(a.outer, b.outer, "types")
                logic.alike(a.item, b.item, "types")
                facts.must(a.dtype, b.dtype, "types: dtype")
                index = [fresh("o") for _ in a.lengths]
                with facts.scope(*within(index, a.lengths)):
                    if facts.feasible():
                        Comparison(facts).equal(a.at(index), b.at(index))
    finally:
        evaluation.values = before


def _stated_types(instance: Instance, right: Any, b: Denotation) -> None:
    evaluation = instance.evaluation
    for each in instance.case.stated:
        if each.function in TYPE_OF and each.arguments == (right,):
            said = evaluation.value(each.value)
            found = getattr(b, each.function.rpartition(".")[2])
            if isinstance(said, list):
                evaluation.logic.alike(said, found, each.function)
            else:
                evaluation.logic.facts.must(said, found, each.function)


def _known(evaluation: Evaluation, name: str) -> bool:
    return (
        name in evaluation.values
        or name in evaluation.defined
        or name in evaluation.bound
        or name in evaluation.accesses
    )


def _unsaid(evaluation: Evaluation, name: str) -> bool:
    return not (name in evaluation.values or name in evaluation.defined or name in evaluation.bound)


def _words(e: Call) -> tuple[Any, Sequence[str]] | None:
    """``" a b ".replace(" d ", " ") != " a b "`` says that d is one of the words."""
    if e.name != "!=" or not isinstance(e.arguments[0], Call):
        return None
    replaced, text = e.arguments
    assert isinstance(replaced, Call)
    if replaced.name != "replace" or not isinstance(text, Literal):
        return None
    spaced = replaced.arguments[1]
    assert isinstance(spaced, Call)
    return spaced.arguments[1], str(text.value).split()


# --- what kind of thing a variable is -------------------------------------------------------------


def definitions(case: Case) -> dict[str, Call]:
    """The terms that variables stand for."""
    found: dict[str, Call] = {}
    for fact in case.facts:
        if isinstance(fact, Equation):
            for one, other in ((fact.left, fact.right), (fact.right, fact.left)):
                if isinstance(one, Variable) and isinstance(other, Call) and other.operator:
                    found.setdefault(one.name, other)
    return found


def _accesses(case: Case) -> frozenset[str]:
    """Variables that stand where accesses do."""
    from glenside.language.operators import OPERATORS

    found: set[str] = set()
    stack: list[tuple[Any, bool]] = [(e, False) for fact in case.facts for e in sides(fact)]
    stack += [(e, True) for union in case.unions for e in union]
    while stack:
        e, wanted = stack.pop()
        if isinstance(e, Variable) and wanted:
            found.add(e.name)
        elif isinstance(e, Call):
            count = 0
            if e.operator is not None:
                arity = OPERATORS[e.operator].arity
                count = 1 if arity is None else arity
            elif e.name in (*TYPE_OF, "root", "known_zero", "small"):
                count = 1
            for position, each in enumerate(e.arguments):
                listed = isinstance(each, Call) and each.name == "vec-of" and position < count
                if listed:
                    assert isinstance(each, Call)
                    stack += [(inner, True) for inner in each.arguments]
                else:
                    stack.append((each, position < count))
    return frozenset(found)


def _ranks_asked_for(case: Case) -> tuple[Cut, ...]:
    """The lists whose rank a condition gives: it would come to that anyway, step by step."""
    equations = [fact for fact in case.facts if isinstance(fact, Equation)]
    both = [(e.left, e.right) for e in equations] + [(e.right, e.left) for e in equations]
    lists = {a.name: b for a, b in both if isinstance(a, Variable) and isinstance(b, Call)}
    defined = definitions(case)
    found: dict[str, Cut] = {}
    for one, other in both:
        if not (isinstance(one, Call) and one.name == "vec-length" and isinstance(other, Literal)):
            continue
        (of,) = one.arguments
        name = of.name if isinstance(of, Variable) else ""
        if isinstance(of, Variable) and name in lists:
            of = lists[name]
        if isinstance(of, Call) and of.name in TYPE_OF and isinstance(of.arguments[0], Variable):
            name = of.arguments[0].name
            if name in defined:
                continue
            name = f"{name}.{of.name.rpartition('.')[2]}"
        elif isinstance(of, Call):
            continue
        found[name] = Cut(name, (AXIS,) * other.value)
    return tuple(found.values())


def whole_operands(case: Case) -> frozenset[str]:
    """Variables of terms that the right side takes as they are."""
    used: set[str] = set()
    for _, right in case.unions:
        used |= variables(right)
    return frozenset(used & set(definitions(case)))


__all__ = ["AXIS", "Found", "Instance", "Search", "prove_union", "whole_operands"]
