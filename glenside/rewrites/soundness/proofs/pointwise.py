"""Rules about permutations, for any rank: lists of axes as functions from axis number to length.

What a permutation does to a run of axes cannot be said run by run. So where a rule transposes by a
list that is a variable, lists are functions: of lengths, of axis numbers, and the index itself. An
operator makes another function of them, and two functions are equal if they are at one axis of
which nothing is known. A permutation has an inverse; what holds of all axes is said of every axis
number that has come up.

Known are the operators that such rules are about: those that move data along a single axis.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from glenside.language.denotation import Denotation, Element, Index, Leaf, choose
from glenside.language.operators import OPERATORS
from glenside.language.shape import DTYPES
from glenside.rewrites.soundness.proofs.axes import Axes
from glenside.rewrites.soundness.proofs.facts import Differs, Facts, Open, code, fresh
from glenside.rewrites.soundness.proofs.limits import Budget
from glenside.rewrites.soundness.proofs.logic import NoMatch, Symbolic
from glenside.rewrites.soundness.proofs.reader import (
    Call,
    Case,
    Equation,
    Expression,
    Literal,
    Variable,
    sides,
)
from glenside.rewrites.soundness.proofs.zeros import opened

_OPERATORS = frozenset({"access", "transpose", "slice", "concat", "pad"})
_HELPERS = "glenside_rewrites_vocabulary_"
_ROUNDS = 2
_MOST_POINTS = 40

Function = Callable[[Any], Any]
"""From an axis number."""


@dataclass(eq=False)
class Listed:
    """A list: its length, and its entries."""

    length: Any
    at: Function


@dataclass(eq=False)
class Pointwise:
    """An access: how many axes it has, how many are outer, and its element at an index."""

    rank: Any
    split: Any
    dtype: Any
    lengths: Function
    at: Callable[[Function], Element]


@dataclass(eq=False)
class _Read:
    """The element of a leaf at an index that is a function."""

    leaf: Leaf
    rank: Any
    index: Function


@dataclass
class _Prover:
    """Facts, and what holds of every axis."""

    facts: Facts
    defined: Mapping[str, Call]
    values: dict[str, Any] = field(default_factory=dict)
    proving: bool = False
    universal: list[tuple[Any, Callable[[Any], list[Any]]]] = field(default_factory=list)
    """A rank, and conditions on each axis number below it."""
    points: dict[int, Any] = field(default_factory=dict)
    """Axis numbers that have come up."""
    inverses: list[tuple[Listed, Any, Function]] = field(default_factory=list)
    """Permutations of so many axes, and their inverses."""

    def __post_init__(self) -> None:
        self.logic = Symbolic(self.facts, Axes(self.facts, {}, 0))

    # --- facts ------------------------------------------------------------------------------------

    def applied(self, function: Any) -> Function:
        """A function of the solver; where it is applied is remembered."""

        def apply(k: Any) -> Any:
            k = z3.IntVal(k) if isinstance(k, int) else k
            self.points[k.get_id()] = k
            return function(k)

        return apply

    def holds(self, condition: Any) -> bool:
        """Whether a condition follows, what holds of every axis said of those that came up."""
        if isinstance(condition, bool):
            return condition
        with self._remembering(), self.facts.scope():
            said: set[tuple[int, int]] = set()
            for _ in range(_ROUNDS):
                for number, (rank, conditions) in enumerate(list(self.universal)):
                    for k in list(itertools.islice(self.points.values(), _MOST_POINTS)):
                        if (number, k.get_id()) not in said:
                            said.add((number, k.get_id()))
                            self.facts.assume(
                                z3.Implies(z3.And(k >= 0, k < rank), z3.And(*conditions(k)))
                            )
            return self.facts.holds(condition)

    def need(self, condition: Any, what: str) -> None:
        """Assumed on the left, to be proved on the right."""
        if not self.proving:
            if condition is False:
                raise NoMatch(what)
            self.facts.assume(condition)
        elif not self.holds(condition):
            raise Open(what)

    def every(self, rank: Any, conditions: Callable[[Any], list[Any]], what: str) -> None:
        """Likewise of each axis below a rank."""
        if not self.proving:
            self.universal.append((rank, conditions))
            return
        with self._axis(rank) as k:
            for each in conditions(k):
                if not self.holds(each):
                    raise Open(what)

    @contextlib.contextmanager
    def _axis(self, rank: Any) -> Iterator[Any]:
        """Some axis below a rank."""
        k = fresh("axis")
        with self._remembering(), self.facts.scope(_in(k, rank)):
            self.points[k.get_id()] = k
            yield k

    @contextlib.contextmanager
    def _remembering(self) -> Iterator[None]:
        """Axis numbers that come up within are forgotten behind it."""
        before = dict(self.points)
        try:
            yield
        finally:
            self.points = before

    # --- expressions ------------------------------------------------------------------------------

    def value(self, e: Expression) -> Any:
        """An access, a list or an integer."""
        match e:
            case Literal(value):
                return code(value) if isinstance(value, str) else value
            case Variable(name):
                if name not in self.values:
                    if name not in self.defined:
                        raise Open(f"nothing binds {name}")
                    self.values[name] = self.value(self.defined[name])
                return self.values[name]
        assert isinstance(e, Call)
        if e.operator is not None:
            return self.term(e)
        name = e.name.removeprefix(_HELPERS)
        arguments = [self.value(each) for each in e.arguments]
        match name, *arguments:
            case "vec-length", Listed() as v:
                return v.length
            case "vec-range", n:
                return Listed(n, lambda k: k)
            case "vec-get", Listed() as v, at:
                self.need(z3.And(at >= 0, at < v.length), "index")
                return v.at(at)
            case "permute", Listed() as v, Listed() as order:
                self.every(order.length, lambda k: [_in(order.at(k), v.length)], "permute")
                return Listed(order.length, lambda k: v.at(order.at(k)))
            case "index_of", Listed() as v, entry if not self.proving:
                at = fresh("at")
                self.facts.assume(_in(at, v.length))
                self.facts.assume(v.at(at) == entry)
                return at
        raise Open(f"{e.name} is not known of every axis")

    def access(self, e: Expression) -> Pointwise:
        """What a term denotes; a variable of which nothing is known is any access."""
        if isinstance(e, Variable) and e.name not in self.values and e.name not in self.defined:
            self.values[e.name] = self._leaf(e.name)
        found = self.value(e)
        assert isinstance(found, Pointwise)
        return found

    def _leaf(self, name: str) -> Pointwise:
        rank, split, dtype = (z3.Int(f"{name}.{part}") for part in ("rank", "split", "dtype"))
        lengths = self.applied(z3.Function(f"{name}.lengths", z3.IntSort(), z3.IntSort()))
        for known in (split >= 0, split <= rank, self.logic.among(dtype, DTYPES)):
            self.facts.assume(known)
        self.universal.append((rank, lambda k: [lengths(k) >= 0]))
        leaf = Leaf(name, [], [], dtype)
        return Pointwise(rank, split, dtype, lengths, lambda i: _Read(leaf, rank, i))  # type: ignore[return-value, arg-type]

    def attribute(self, e: Expression, listed: bool = False) -> Any:
        if isinstance(e, Variable) and e.name not in self.values:
            found: Any = z3.Int(e.name)
            if listed:
                entries = z3.Function(f"{e.name}.entries", z3.IntSort(), z3.IntSort())
                found = Listed(found, self.applied(entries))
            self.values[e.name] = found
        return self.value(e)

    # --- operators --------------------------------------------------------------------------------

    def term(self, e: Call) -> Pointwise:
        """What a term denotes."""
        if e.operator not in _OPERATORS:
            raise Open(f"{e.operator} is not known of every axis")
        operator = OPERATORS[e.operator]
        assert operator.arity is not None
        operands = [self.access(each) for each in e.arguments[: operator.arity]]
        given = [
            self.attribute(each, listed=e.operator == "transpose")
            for each in e.arguments[operator.arity :]
        ]
        made: Pointwise = getattr(self, f"_{e.operator}")(*operands, *given)
        return made

    def _access(self, x: Pointwise, split: Any) -> Pointwise:
        self.need(z3.And(split >= 0, split <= x.rank), "access")
        return Pointwise(x.rank, split, x.dtype, x.lengths, x.at)

    def _transpose(self, x: Pointwise, order: Listed) -> Pointwise:
        self.need(order.length == x.rank, "transpose: rank")
        inverse = self._inverse(order, x.rank)
        return Pointwise(
            x.rank,
            x.split,
            x.dtype,
            lambda k: x.lengths(order.at(k)),
            lambda i: x.at(lambda k: i(inverse(k))),
        )

    def _inverse(self, order: Listed, rank: Any) -> Function:
        """That of a permutation, which the list has to be: of so many different axes."""
        for known, of, inverse in self.inverses:
            if known is order and (of is rank or self.holds(of == rank)):
                return inverse
        if self.proving:
            self.every(rank, lambda k: [_in(order.at(k), rank)], "transpose: axes")
            with self._axis(rank) as j:
                self.every(
                    rank,
                    lambda k: [z3.Implies(order.at(k) == order.at(j), k == j)],
                    "transpose: permutation",
                )
        name = fresh("inverse").decl().name()
        inverse = self.applied(z3.Function(name, z3.IntSort(), z3.IntSort()))

        self.inverses.append((order, rank, inverse))

        def inverse_of(k: Any) -> list[Any]:
            there, back = order.at(k), inverse(k)
            return [
                _in(there, rank),
                _in(back, rank),
                inverse(there) == k,
                order.at(back) == k,
            ]

        self.universal.append((rank, inverse_of))
        return inverse

    def _slice(self, x: Pointwise, axis: Any, low: Any, high: Any, step: Any) -> Pointwise:
        self.need(_in(axis, x.rank), "slice: axis")
        inside = z3.And(low >= 0, low <= high, high <= x.lengths(axis), step >= 1)
        self.need(inside, "slice: bounds")
        count = (high - low + step - 1) / step
        return Pointwise(
            x.rank,
            x.split,
            x.dtype,
            lambda k: z3.If(k == axis, count, x.lengths(k)),
            lambda i: x.at(_changed(i, axis, lambda k: low + i(k) * step)),
        )

    def _concat(self, x: Pointwise, y: Pointwise, axis: Any) -> Pointwise:
        self.need(_in(axis, x.rank), "concat: axis")
        for one, other in ((x.rank, y.rank), (x.split, y.split), (x.dtype, y.dtype)):
            self.need(one == other, "concat: types")
        self.every(
            x.rank,
            lambda k: [z3.Implies(k != axis, x.lengths(k) == y.lengths(k))],
            "concat: lengths",
        )
        n = x.lengths(axis)

        def at(i: Function) -> Element:
            return choose(
                i(axis) < n,
                lambda: x.at(i),
                lambda: y.at(_changed(i, axis, lambda k: i(k) - n)),
            )

        total = n + y.lengths(axis)
        return Pointwise(
            x.rank, x.split, x.dtype, lambda k: z3.If(k == axis, total, x.lengths(k)), at
        )

    def _pad(
        self, x: Pointwise, fill: Any, axis: Any, before: Any, after: Any, inside: Any
    ) -> Pointwise:
        self.need(_in(axis, x.rank), "pad: axis")
        self.need(z3.And(before >= 0, after >= 0, inside >= 0), "pad: widths")
        self.need(self.logic.is_value(fill, x.dtype), "pad: value")
        n = x.lengths(axis)
        # Along the one axis it is the operator's own meaning.
        line = Leaf("line", [n], [], x.dtype)
        denote = OPERATORS["pad"].denote
        assert denote is not None

        def padded(i: Function) -> Denotation:
            def along(p: Index) -> Element:
                return x.at(_changed(i, axis, lambda _: p[0]))

            of = Denotation(self.logic, line.outer, [], x.dtype, along)
            widths = {"before": before, "after": after, "interior": inside}
            with self.logic.checked():
                return denote(self.logic, [of], {"value": fill, "axis": 0, **widths})

        total = padded(lambda k: k).lengths[0]
        return Pointwise(
            x.rank,
            x.split,
            x.dtype,
            lambda k: z3.If(k == axis, total, x.lengths(k)),
            lambda i: padded(i).at([i(axis)]),
        )

    # --- goals ------------------------------------------------------------------------------------

    def equal(self, a: Any, b: Any) -> None:
        """:raises Open: two elements are not shown to be equal."""
        a, b = opened(self.facts, a), opened(self.facts, b)
        for e, other in ((a, b), (b, a)):
            if hasattr(e, "condition"):
                for condition, way in (
                    (e.condition, e.then),
                    (z3.Not(e.condition), e.otherwise),
                ):
                    if self.holds(z3.Not(condition)):
                        continue
                    with self.facts.scope(condition):
                        self.equal(way(), other)
                return
        if isinstance(a, _Read) and isinstance(b, _Read) and a.leaf is b.leaf:
            self.every(a.rank, lambda k: [a.index(k) == b.index(k)], f"index into {a.leaf.name}")
        elif not (type(a) is type(b) and hasattr(a, "value") and self.holds(a.value == b.value)):
            raise Open("elements of different kinds")

    def same(self, left: Expression, right: Expression) -> None:
        """:raises Open: two terms are not shown to be equal."""
        a = self.access(left)
        self.proving = True
        b = self.access(right)
        for one, other in ((a.rank, b.rank), (a.split, b.split), (a.dtype, b.dtype)):
            self.need(one == other, "types")
        self.every(a.rank, lambda k: [a.lengths(k) == b.lengths(k)], "types: lengths")
        name = fresh("index").decl().name()
        index = self.applied(z3.Function(name, z3.IntSort(), z3.IntSort()))
        self.universal.append((a.rank, lambda k: [index(k) >= 0, index(k) < a.lengths(k)]))
        self.equal(a.at(index), b.at(index))


def _in(k: Any, rank: Any) -> Any:
    return z3.And(k >= 0, k < rank)


def _changed(index: Function, axis: Any, to: Function) -> Function:
    return lambda k: z3.If(k == axis, to(k), index(k))


def applies(case: Case, defined: Mapping[str, Call]) -> bool:
    """Whether a case transposes by a variable."""
    stack: list[Expression] = [e for fact in case.facts for e in sides(fact)]
    while stack:
        e = stack.pop()
        if isinstance(e, Call):
            if e.operator == "transpose" and isinstance(e.arguments[1], Variable):
                return True
            stack += e.arguments
    return False


def prove(case: Case, defined: Mapping[str, Call], budget: Budget) -> bool:
    """Whether a case is shown to hold for all ranks; False says nothing."""
    prover = _Prover(Facts(budget), defined)
    try:
        _match(prover, case.facts)
        if case.stated or not case.unions or not prover.facts.satisfied():
            return False
        for left, right in case.unions:
            before = dict(prover.values)
            with prover.facts.scope():
                prover.same(left, right)
            prover.values, prover.proving = before, False
    except (Open, Differs, NoMatch):
        return False
    return True


def _match(prover: _Prover, facts: Sequence[Any]) -> None:
    for fact in facts:
        if not isinstance(fact, Equation):
            e = fact.expression
            if isinstance(e, Call) and e.name == "!=":
                continue  # Where lists differ is not said: less is assumed.
            raise Open("a condition that is not an equation")
        for one, other in ((fact.left, fact.right), (fact.right, fact.left)):
            if isinstance(one, Variable) and one.name in prover.defined:
                prover.access(one)
                break
            if isinstance(one, Variable) and one.name not in prover.values:
                prover.values[one.name] = prover.value(other)
                break
        else:
            a, b = prover.value(fact.left), prover.value(fact.right)
            if isinstance(a, Listed):
                prover.need(a.length == b.length, "lengths")
                prover.every(a.length, lambda k, a=a, b=b: [a.at(k) == b.at(k)], "lists")  # type: ignore[misc]
            else:
                prover.need(a == b, "guard")
