"""Whether two elements are equal: by their structure, by cases, and by what sums and extremes are.

Lengths and indices are reasoned about by :class:`~.facts.Facts`, elements here; a solver only ever
sees integers. Of ``add`` and ``mul`` nothing is used but that they make a commutative ring: so what
is shown holds of integers of any width, which wrap around, and of real numbers, which floats stand
for. Division is moved where it is that of reals. Steps that do not keep the bits of floats are
noted in ``Facts.steps``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import z3

from glenside.language.denotation import (
    Apply,
    Choice,
    Constant,
    Element,
    Fold,
    Index,
    Leaf,
    Length,
    Lengths,
    Read,
    Reduce,
    Softmax,
    product,
    ravel,
)
from glenside.language.shape import FLOATS
from glenside.rewrites.soundness.proofs import extremes, indices, powers, sums
from glenside.rewrites.soundness.proofs.conversions import plain
from glenside.rewrites.soundness.proofs.facts import (
    Differs,
    Facts,
    Open,
    code,
    fresh,
    text_of,
    within,
)
from glenside.rewrites.soundness.proofs.polynomials import normal, same
from glenside.rewrites.soundness.proofs.zeros import is_zero

REGROUPED = "regroups sums"
DEEPEST = 40
_MOST_ORDERS = 24
_COMMUTE = frozenset({"add", "mul", "maximum", "minimum", "equal", "and", "or", "xor"})
_REARRANGED = frozenset({"add", "sub", "mul", "div", "maximum", "minimum", "over"})
FAILURES = (Differs, Open)


class Comparison:
    """Compares elements under facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def equal(self, a: Element, b: Element, depth: int = 0) -> None:
        """:raises Differs: there are sizes for which the two differ, or :class:`Open`."""
        facts = self.facts
        if depth > DEEPEST:
            raise Open("the elements are too deep")
        a, b = plain(facts, a), plain(facts, b)
        if isinstance(a, Choice):
            return self._by_cases(a, lambda e: self.equal(e, b, depth + 1))
        if isinstance(b, Choice):
            return self._by_cases(b, lambda e: self.equal(a, e, depth + 1))
        match a, b:
            case Read(), Read() if a.leaf is b.leaf:
                return self.same_index(a.leaf, a.index, b.index)
            case Constant(), Constant():
                return self._constants(a, b)
            case (Read(), Constant()) | (Constant(), Read()):
                if is_zero(facts, a) and is_zero(facts, b):
                    return None
            case Softmax(), Softmax():
                facts.must(a.length, b.length, "softmax: lengths")
                facts.must(a.at, b.at, "softmax: positions")
                return self._bodies(a.length, a.body, b.body, depth)
            case (Softmax(), _) | (_, Softmax()):
                one, other = (
                    powers.spelled(facts, e) if isinstance(e, Softmax) else e for e in (a, b)
                )
                return self.equal(one, other, depth + 1)
            case Fold(), Fold() if a.function == b.function:
                facts.must(a.length, b.length, "fold: lengths")
                return self._bodies(a.length, a.body, b.body, depth)
            case Apply(), Apply() if self._same_function(a, b):
                try:
                    return self.attempt(lambda: self._operands(a.operands, b.operands, depth))
                except FAILURES:
                    if self._crossed(a, b, depth):
                        return None
                    if a.function[0] not in _REARRANGED:
                        raise
        return self._rearranged(a, b, depth)

    def _rearranged(self, a: Element, b: Element, depth: int) -> None:
        if sums.is_sum(a) or sums.is_sum(b):
            return sums.equal(self, a, b, depth)
        if extremes.is_extreme(a) or extremes.is_extreme(b):
            return extremes.equal(self, a, b, depth)
        if isinstance(a, Reduce) and isinstance(b, Reduce) and a.operation == b.operation:
            return self.bijection(a, b, depth)
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Reduce) and one.operation == "mul":
                alone = Reduce("mul", one.dtype, [], lambda _, other=other: other)  # type: ignore[misc]
                return self.bijection(one, alone, depth)
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Apply) and one.function[0] == "where" and not _is_where(other):
                for branch in one.operands[1:]:
                    self.equal(branch, other, depth + 1)
                return None
        if _is_product(a) or _is_product(b):
            return self._products(a, b, depth)
        return self.facts.impossible(f"{shown(a)} against {shown(b)}")

    # --- ways to go on ----------------------------------------------------------------------------

    def attempt(self, what: Callable[[], None]) -> None:
        """What is assumed on the way is forgotten."""
        with self.facts.scope():
            what()

    def _by_cases(self, e: Choice, goes_on: Callable[[Element], None]) -> None:
        for condition, way in ((e.condition, e.then), (z3.Not(e.condition), e.otherwise)):
            with self.facts.scope(condition):
                if self.facts.feasible():
                    goes_on(way())

    def _bodies(self, length: Length, one: Any, other: Any, depth: int) -> None:
        j = fresh("j")
        with self.facts.scope(j >= 0, j < length):
            if self.facts.feasible():
                self.equal(one(j), other(j), depth + 1)

    def _operands(self, a: Sequence[Element], b: Sequence[Element], depth: int) -> None:
        for one, other in zip(a, b, strict=True):
            self.equal(one, other, depth + 1)

    def _crossed(self, a: Apply, b: Apply, depth: int) -> bool:
        if a.function[0] not in _COMMUTE or len(a.operands) != 2:
            return False
        try:
            self.attempt(lambda: self._operands(a.operands, b.operands[::-1], depth))
        except FAILURES:
            return False
        return True

    def _same_function(self, a: Apply, b: Apply) -> bool:
        one, other = a.function, b.function
        if one[0] != other[0] or len(one) != len(other) or len(a.operands) != len(b.operands):
            return False
        pairs = zip(one[1:], other[1:], strict=True)
        return all(same(x, y) or self.facts.equal(x, y) is True for x, y in pairs)

    def _constants(self, a: Constant, b: Constant) -> None:
        if same(a.value, b.value) or self.facts.equal(a.value, b.value):
            return
        texts = [text_of(e.value) if isinstance(e.value, int) else None for e in (a, b)]
        if None not in texts and _number(str(texts[0])) == _number(str(texts[1])) is not None:
            return
        if not (is_zero(self.facts, a) and is_zero(self.facts, b)):
            self.facts.impossible("two constants")

    # --- indices ----------------------------------------------------------------------------------

    def same_index(self, leaf: Leaf, i: Index, j: Index, again: bool = True) -> None:
        """Two indices into one leaf have to be equal: each position, or the offsets over the axes
        that may differ, which in range is the same."""
        facts, lengths = self.facts, leaf.lengths
        differ = [
            k
            for k, (x, y) in enumerate(zip(i, j, strict=True))
            if not (same(normal(x), normal(y)) or facts.identical(x, y))
        ]
        if not differ:
            return
        low, high = differ[0], differ[-1] + 1
        for start in range(low, -1, -1):
            for stop in range(high, len(i) + 1):
                part = slice(start, stop)
                if facts.identical(ravel(lengths[part], i[part]), ravel(lengths[part], j[part])):
                    return
        if again and indices.identify(facts):
            return self.same_index(leaf, i, j, False)
        unknown = False
        for k in differ:
            answer = facts.equal(i[k], j[k])
            if answer is False and not (_has_digit(i[k]) or _has_digit(j[k])):
                what = f"axis {k} of {leaf.name}: {normal(i[k])} against {normal(j[k])}"
                raise Differs(what, facts.model)
            unknown |= answer is not True
        if not unknown:
            return
        part = slice(low, high)
        answer = facts.equal(ravel(lengths[part], i[part]), ravel(lengths[part], j[part]))
        if answer is False:
            raise Differs(f"offsets into {leaf.name} differ", facts.model)
        if answer is None:
            at = ", ".join(f"{normal(i[k])} = {normal(j[k])}" for k in differ)
            raise Open(f"index into {leaf.name}: {at}")

    # --- reductions and products ------------------------------------------------------------------

    def bijection(self, a: Reduce, b: Reduce, depth: int) -> None:
        """There has to be a bijection between the domains that keeps the body: the axes in some
        order, or row-major numbers."""
        facts = self.facts
        one, other = _Domain(a), _Domain(b)
        last: Exception | None = None
        for order in self._orders(one.lengths, other.lengths):
            index = [fresh("i") for _ in one.lengths]
            permuted = [index[order.index(k)] for k in range(len(order))]
            try:
                with facts.scope(*within(index, one.lengths)):
                    if facts.feasible():
                        self.equal(one.body(index), other.body(permuted), depth + 1)
                    return
            except FAILURES as problem:
                last = problem
        answer = facts.equal(product(one.lengths), product(other.lengths))
        if answer:
            if a.operation in ("add", "mul") and not facts.equal(product(one.lengths), 1):
                facts.steps.add(REGROUPED)
            index = [fresh("i") for _ in one.lengths]
            with facts.scope(*within(index, one.lengths)):
                if facts.feasible():
                    found = indices.unravelled(facts, other.lengths, ravel(one.lengths, index))
                    self.equal(one.body(index), other.body(found), depth + 1)
                return
        if last:
            raise last
        counts = f"{normal(product(one.lengths))} against {normal(product(other.lengths))}"
        if answer is False:
            raise Differs(f"{a.operation} over {counts} elements", facts.model)
        raise Open(f"{a.operation} over {counts} elements")

    def _orders(self, a: Lengths, b: Lengths) -> list[tuple[int, ...]]:
        """Permutations with which b has the lengths of a."""
        if len(a) != len(b):
            return []
        equal = {
            (k, o): same(normal(m), normal(n)) or self.facts.equal(m, n) is True
            for (k, m), (o, n) in itertools.product(enumerate(a), enumerate(b))
        }
        orders = itertools.islice(itertools.permutations(range(len(b))), _MOST_ORDERS)
        return [order for order in orders if all(equal[pair] for pair in enumerate(order))]

    def _products(self, a: Element, b: Element, depth: int) -> None:
        left, right = self._factors(a), self._factors(b)
        left, right = _without_signs(left, right)
        if all(any(is_zero(self.facts, e) for e in side) for side in (left, right)):
            return None
        if len(left) != len(right):
            left, right = (powers.gathered(self.facts, side) for side in (left, right))
        if len(left) != len(right):
            return self.facts.impossible("products of different length")
        return self.matching(left, right, lambda x, y: self.equal(x, y, depth + 1))

    def _factors(self, e: Element) -> list[Element]:
        e = plain(self.facts, e)
        if isinstance(e, Apply) and e.function[0] == "mul":
            return [factor for each in e.operands for factor in self._factors(each)]
        if isinstance(e, Apply) and e.function[0] == "div" and self.is_real(e):
            self.facts.steps.add("moves divisions")
            return [*self._factors(e.operands[0]), Apply(("recip",), [e.operands[1]])]
        return [e]

    def is_real(self, division: Apply) -> bool:
        """Whether a division is one of floats."""
        dtype = division.function[1]
        if isinstance(dtype, int):
            return dtype in map(code, FLOATS)
        return self.facts.holds(z3.Or(*[dtype == code(each) for each in FLOATS]))

    def matching(
        self, left: list[Any], right: list[Any], equal: Callable[[Any, Any], None]
    ) -> None:
        """Each of the left has to be one of the right."""
        right = list(right)
        for one in left:
            last: Exception | None = None
            for position, other in enumerate(right):
                try:
                    with self.facts.scope():
                        equal(one, other)
                except FAILURES as problem:
                    if last is None or isinstance(problem, Differs):
                        last = problem
                    continue
                del right[position]
                break
            else:
                raise last or Open("nothing to match with")


class _Domain:
    """The domain of a reduction without axes of length 1."""

    def __init__(self, e: Reduce) -> None:
        self._e = e
        self._kept = [k for k, n in enumerate(e.lengths) if not same(n, 1)]
        self.lengths = [e.lengths[k] for k in self._kept]

    def body(self, index: Index) -> Element:
        whole: Index = [0] * len(self._e.lengths)
        for k, value in zip(self._kept, index, strict=True):
            whole[k] = value
        return self._e.body(whole)


def _is_product(e: Element) -> bool:
    return isinstance(e, Apply) and e.function[0] in ("mul", "div")


def _is_where(e: Element) -> bool:
    return isinstance(e, Apply) and e.function[0] == "where"


def _without_signs(
    left: list[Element], right: list[Element]
) -> tuple[list[Element], list[Element]]:
    """Factors without those of -1, but for one that only one side has."""
    odd = sum(e is sums.MINUS_ONE for side in (left, right) for e in side) % 2
    left, right = ([e for e in side if e is not sums.MINUS_ONE] for side in (left, right))
    return [*left, *[sums.MINUS_ONE] * odd], right


def _has_digit(e: Length) -> bool:
    return not isinstance(e, int) and "digit!" in str(e)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def shown(e: Element) -> str:
    """An element in a word."""
    match e:
        case Read():
            return e.leaf.name
        case Apply() | Fold():
            return str(e.function[0] if isinstance(e, Apply) else e.function)
        case Reduce():
            return e.operation
    return type(e).__name__.lower()
