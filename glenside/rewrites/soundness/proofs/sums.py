"""Sums: brought to lists of sums of what is no sum, and matched one by one.

Nested sums are joined, factors that do not depend on the index are moved in, domains are cut where
a condition of the body changes or where the other side's domain ends, and sums of zeros left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import z3

from glenside.language.denotation import (
    Apply,
    Choice,
    Constant,
    Element,
    Index,
    Length,
    Lengths,
    Reduce,
    minus,
    plus,
    times,
)
from glenside.rewrites.soundness.proofs.conversions import plain
from glenside.rewrites.soundness.proofs.facts import Differs, Facts, Open, code, fresh, within
from glenside.rewrites.soundness.proofs.polynomials import (
    added,
    difference,
    expression,
    normal,
    same,
    solved,
    variables,
)
from glenside.rewrites.soundness.proofs.zeros import FINITE, is_zero, opened

if TYPE_CHECKING:
    from glenside.rewrites.soundness.proofs.comparison import Comparison

_DEEPEST = 30
MINUS_ONE = Constant(code("-1"), None)
"""The factor of what is subtracted: of numbers that wrap around it is one as well."""


@dataclass(frozen=True, eq=False)
class Sum:
    """``1 / count`` of the sum of ``body`` over a domain."""

    lengths: Lengths
    body: Callable[[Index], Element]
    count: Length = 1

    def part(self, axis: int, low: Length, length: Length) -> Sum:
        """That of ``length`` positions from ``low`` on along an axis."""
        lengths = [*self.lengths[:axis], normal(length), *self.lengths[axis + 1 :]]

        def body(i: Index) -> Element:
            return self.body([*i[:axis], plus(i[axis], low), *i[axis + 1 :]])

        return _without_ones(Sum(lengths, body, self.count))

    def negated(self) -> Sum:
        """Without the factor of -1 that its body begins with."""

        def body(i: Index) -> Element:
            e = self.body(i)
            assert isinstance(e, Apply)
            return e.operands[1]

        return Sum(self.lengths, body, self.count)

    def halves(self, axis: int, at: Length) -> tuple[Sum, Sum]:
        """Cut along an axis."""
        return self.part(axis, 0, at), self.part(axis, at, minus(self.lengths[axis], at))


class Depends(Exception):
    """On a condition on sizes that nothing decides."""

    def __init__(self, condition: Any) -> None:
        self.condition = condition


def is_sum(e: Element) -> bool:
    """Whether an element is one, perhaps multiplied or divided by something."""
    if isinstance(e, Reduce):
        return e.operation == "add"
    if not isinstance(e, Apply):
        return False
    name = e.function[0]
    return (
        name in ("add", "sub")
        or (name in ("mul", "over") and any(map(is_sum, e.operands)))
        or (name == "div" and is_sum(e.operands[0]))
    )


def equal(comparison: Comparison, a: Element, b: Element, depth: int) -> None:
    """Two elements, at least one a sum.

    :raises Differs: there are sizes for which they differ, or :class:`Open`.
    """
    facts = comparison.facts
    try:
        comparison.attempt(lambda: _equal(comparison, a, b, depth))
    except Depends as on:
        if depth > _DEEPEST:
            raise Open("sums have too many cases") from None
        for condition in (on.condition, z3.Not(on.condition)):
            with facts.scope(condition):
                if facts.feasible():
                    equal(comparison, a, b, depth + 1)


def _equal(comparison: Comparison, a: Element, b: Element, depth: int) -> None:
    left, right = (
        [s for s in _summands(comparison, e) if not _vanishes(comparison.facts, s)] for e in (a, b)
    )
    if len(left) != len(right):
        left, right = (_without_opposites(comparison, side, depth) for side in (left, right))
    _matched(comparison, left, right, depth)


def _without_opposites(comparison: Comparison, found: list[Sum], depth: int) -> list[Sum]:
    """Without pairs of which one takes away what the other adds."""
    for less, more in itertools.permutations(found, 2):
        if len(less.lengths) != len(more.lengths) or not _is_negated(less) or _is_negated(more):
            continue
        try:
            with comparison.facts.scope():
                _same(comparison, less.negated(), more, depth)
        except (Differs, Open):
            continue
        comparison.facts.steps.add(FINITE)
        rest = [each for each in found if each is not less and each is not more]
        return _without_opposites(comparison, rest, depth)
    return found


def _is_negated(s: Sum) -> bool:
    e = s.body([fresh("i") for _ in s.lengths])
    return isinstance(e, Apply) and e.function[0] == "mul" and e.operands[0] is MINUS_ONE


def _matched(comparison: Comparison, left: list[Sum], right: list[Sum], depth: int) -> None:
    facts = comparison.facts
    if len(left) == len(right):
        if len(left) > 1:
            facts.steps.add("reorders sums")
        try:
            return comparison.matching(left, right, lambda p, q: _same(comparison, p, q, depth))
        except (Differs, Open):
            if len(left) == 1:
                raise
    few, many = (left, right) if len(left) <= len(right) else (right, left)
    for one in few:
        for other in many:
            parts = _cut_alike(facts, one, other)
            if parts is None:
                continue
            first, rest = parts
            try:
                with facts.scope():
                    _same(comparison, first, other, depth)
            except (Differs, Open):
                continue
            remaining = [each for each in few if each is not one]
            if not _vanishes(facts, rest):
                remaining.append(rest)
            others = [each for each in many if each is not other]
            return _matched(comparison, remaining, others, depth)
    return facts.impossible(f"{len(left)} sums against {len(right)}")


def _same(comparison: Comparison, p: Sum, q: Sum, depth: int) -> None:
    comparison.facts.must(p.count, q.count, "mean: counts")
    one, other = (Reduce("add", None, s.lengths, s.body) for s in (p, q))
    comparison.bijection(one, other, depth)


def _cut_alike(facts: Facts, one: Sum, other: Sum) -> tuple[Sum, Sum] | None:
    """``one`` cut so that its first part has the domain of ``other``."""
    if len(one.lengths) != len(other.lengths):
        return None
    differ = [
        k
        for k, (m, n) in enumerate(zip(one.lengths, other.lengths, strict=True))
        if not (same(normal(m), normal(n)) or facts.equal(m, n))
    ]
    if len(differ) != 1:
        return None
    at, n = other.lengths[differ[0]], one.lengths[differ[0]]
    if not (facts.holds(at >= 0) and facts.holds(at <= n)):
        return None
    facts.steps.add("cuts sums")
    return one.halves(differ[0], at)


def _vanishes(facts: Facts, s: Sum) -> bool:
    index = [fresh("i") for _ in s.lengths]
    with facts.scope(*within(index, s.lengths)):
        return not facts.feasible() or is_zero(facts, s.body(index))


# --- elements as lists of sums --------------------------------------------------------------------


def _summands(comparison: Comparison, e: Element, count: Length = 1) -> list[Sum]:
    facts = comparison.facts
    e = plain(facts, e)
    if isinstance(e, Reduce) and e.operation == "add":
        return _spread(comparison, _without_ones(Sum(e.lengths, e.body, count)))
    if isinstance(e, Apply):
        name, operands = e.function[0], e.operands
        if name == "add":
            return [s for each in operands for s in _summands(comparison, each, count)]
        if name == "sub":
            less = _summands(comparison, operands[1], count)
            negated = _inside(less, lambda x: Apply(("mul",), [MINUS_ONE, x]))
            return [*_summands(comparison, operands[0], count), *negated]
        if name == "over":
            return _summands(comparison, operands[0], times(count, e.function[1]))
        if name == "mul" and any(map(is_sum, operands)):
            facts.steps.add("distributes")
            k = next(k for k, each in enumerate(operands) if is_sum(each))
            others = operands[:k] + operands[k + 1 :]
            found = _inside(_summands(comparison, operands[k], count), lambda x: _by(x, others))
            # What it is multiplied by may be a sum too.
            return [s for each in found for s in _without_sums(comparison, each)]
        if name == "div" and is_sum(operands[0]) and comparison.is_real(e):
            facts.steps.add("distributes")
            divided = _summands(comparison, operands[0], count)
            return _inside(divided, lambda x: Apply(e.function, [x, operands[1]]))
    return [Sum([], lambda _: e, count)]


def _without_sums(comparison: Comparison, s: Sum) -> list[Sum]:
    """One that has no domain, as sums of what is no sum."""
    if s.lengths or not is_sum(s.body([])):
        return [s]
    return _summands(comparison, s.body([]), s.count)


def _inside(found: list[Sum], change: Callable[[Element], Element]) -> list[Sum]:
    def changed(s: Sum) -> Sum:
        return Sum(s.lengths, lambda i: change(s.body(i)), s.count)

    return list(map(changed, found))


def _by(x: Element, factors: list[Element]) -> Element:
    for each in factors:
        x = Apply(("mul",), [x, each])
    return x


def _without_ones(s: Sum) -> Sum:
    kept = [k for k, n in enumerate(s.lengths) if not same(n, 1)]

    def body(index: Index) -> Element:
        whole: Index = [0] * len(s.lengths)
        for k, value in zip(kept, index, strict=True):
            whole[k] = value
        return s.body(whole)

    return Sum([s.lengths[k] for k in kept], body, s.count)


def _spread(comparison: Comparison, s: Sum) -> list[Sum]:
    """One sum as sums whose bodies are no sums, cut where a condition of the body changes."""
    facts = comparison.facts
    index = [fresh("i") for _ in s.lengths]
    with facts.scope(*within(index, s.lengths)):
        if not facts.feasible():
            return []
        body = opened(facts, s.body(index))
        condition = _undecided(facts, body)
        if condition is None:
            if is_zero(facts, body):
                return []
            if not is_sum(body):
                return [s]
            inner = _summands(comparison, body, s.count)
            return _joined(comparison, s, index, inner)
        found = _threshold(condition, index)
    if found is None:
        return [s]
    axis, at = found
    for inside in (at >= 0, at <= s.lengths[axis]):
        if not facts.holds(inside):
            if facts.holds(z3.Not(inside)):
                return [s]
            raise Depends(inside)
    facts.steps.add("cuts sums")
    low, high = s.halves(axis, at)
    return _spread(comparison, low) + _spread(comparison, high)


def _joined(comparison: Comparison, s: Sum, index: Index, inner: list[Sum]) -> list[Sum]:
    """Sums within a sum, their domains joined: they are made anew for every index."""
    own = {each.get_id() for each in index}
    if any(own & variables(n) for each in inner for n in (*each.lengths, each.count)):
        return [s]
    rank = len(s.lengths)

    def one(k: int) -> Sum:
        def body(j: Index) -> Element:
            return _summands(comparison, s.body(j[:rank]), s.count)[k].body(j[rank:])

        return _without_ones(Sum(s.lengths + inner[k].lengths, body, inner[k].count))

    comparison.facts.steps.add("joins sums")
    return [one(k) for k in range(len(inner))]


def _undecided(facts: Facts, e: Element) -> Any:
    """A condition within an element, through functions and products, that the facts leave open."""
    e = opened(facts, e)
    if isinstance(e, Choice):
        return e.condition
    if isinstance(e, Reduce) and e.operation == "mul":
        index = [fresh("i") for _ in e.lengths]
        with facts.scope(*within(index, e.lengths)):
            if not facts.feasible():
                return None
            found = _undecided(facts, e.body(index))
        inner = {each.get_id() for each in index}
        return None if found is None or variables(found) & inner else found
    if isinstance(e, Apply):
        for each in e.operands:
            found = _undecided(facts, each)
            if found is not None:
                return found
    return None


def _threshold(condition: Any, index: Index) -> tuple[int, Length] | None:
    """``(k, at)`` where a condition says ``index[k] < at`` or the opposite."""
    if z3.is_not(condition):
        condition = condition.children()[0]
    inclusive = z3.is_le(condition) or z3.is_gt(condition)
    own = {each.get_id() for each in index}
    if z3.is_eq(condition):  # i = 0, of the axis of a pair.
        p = difference(*condition.children())
        for k, each in enumerate(index):
            if p in ({(each.get_id(),): 1}, {(each.get_id(),): -1}):
                return k, 1
        return None
    if not (inclusive or z3.is_lt(condition) or z3.is_ge(condition)):
        return None
    p = difference(*condition.children())
    for k, each in enumerate(index):
        found = solved(p, each)
        if found is None or abs(found[0]) != 1:
            continue
        c, rest = found
        at = expression(added({}, rest, -c))
        if variables(at) & own:
            continue
        # c i + rest < 0 or <= 0, or the opposite.
        return k, normal(plus(at, int(inclusive) if c == 1 else int(not inclusive)))
    return None
