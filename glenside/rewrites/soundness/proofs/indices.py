"""Offsets and indices: row-major numbering, without division.

The digits of an offset are new integers in the range of their axes, all but the last, which is what
is left of the offset: so that putting them together again gives the offset as a polynomial. That
they are in range is assumed where they are made; it is so where the offset is in range, which is
why elements are only looked into under their conditions.
"""

from __future__ import annotations

import itertools

import z3

from glenside.language.denotation import (
    Index,
    Length,
    Lengths,
    floor_divide,
    minus,
    plus,
    product,
    ravel,
    times,
)
from glenside.rewrites.soundness.proofs.facts import Facts, fresh
from glenside.rewrites.soundness.proofs.polynomials import alike, multiple, normal, same

_MOST_AXES = 64
_MOST_NESTED = 8
"""Blocks within blocks: beside axes of length 1 an offset is that of several indices, and one might
lead to the other for ever."""


def regrouped(facts: Facts, lengths: Lengths, of: Lengths, index: Index, nested: int = 0) -> Index:
    """The index into ``lengths`` at the offset of ``index`` into ``of``."""
    if alike(lengths, of):
        return list(index)
    return unravelled(facts, lengths, _offset(facts, of, index), nested)


def _offset(facts: Facts, lengths: Lengths, index: Index) -> Length:
    """The offset of an index, remembered, so that unravelling it gives the index back."""
    offset = normal(ravel(lengths, index))
    if len(lengths) > 1:
        facts.indices.append(([normal(n) for n in lengths], offset, list(index)))
    return offset


def unravelled(facts: Facts, lengths: Lengths, offset: Length, nested: int = 0) -> Index:
    """The index into ``lengths`` at an offset, which is in range."""
    offset = normal(offset)
    if not lengths:
        return []
    if len(lengths) == 1:
        return [offset]
    if isinstance(offset, int) and all(isinstance(n, int) for n in lengths):
        digits = []
        for n in reversed(lengths):
            digits.append(offset % n if n else 0)
            offset = offset // n if n else 0
        return digits[::-1]
    key = [normal(n) for n in lengths]
    for known, at, index in facts.indices:
        if same(at, offset) and alike(known, key):
            return index
    found = _by_blocks(facts, lengths, offset, nested + 1) if nested < _MOST_NESTED else None
    if found is None:
        found = _digits(facts, lengths, offset)
    facts.indices.append((key, offset, found))
    return found


def _digits(facts: Facts, lengths: Lengths, offset: Length) -> Index:
    digits: Index = [0 if same(n, 1) else fresh("digit") for n in lengths[:-1]]
    rest = offset
    for position, digit in enumerate(digits):
        rest = minus(rest, times(digit, product(lengths[position + 1 :])))
    digits.append(rest)
    for digit, n in zip(digits, lengths, strict=True):
        if isinstance(digit, int):
            continue
        facts.assume(digit == 0 if same(n, 1) else z3.And(digit >= 0, digit < n))
    if same(lengths[-1], 1):
        digits[-1] = 0
    return digits


def _by_blocks(facts: Facts, lengths: Lengths, offset: Length, nested: int) -> Index | None:
    """Of an offset that is that of an index (i1, i2) into E1 ++ E2, the index into D1 ++ D2 is that
    of i1 into D1 and of i2 into D2, if these have as many elements each."""

    def identical(a: Length, b: Length) -> bool:
        return same(a, b) or facts.identical(a, b)

    def equal(a: Length, b: Length) -> bool:
        return identical(a, b) or facts.equal(a, b) is True

    known = [
        (of, index)
        for of, at, index in list(facts.indices)
        if same(at, offset) or (len(of) > 1 and facts.identical(at, offset))
    ]
    for test, most in ((identical, _MOST_AXES), (equal, 2)):
        for of, index in known:
            for a, b in itertools.product(range(1, len(lengths) + 1), range(1, len(of) + 1)):
                if (a, b) == (len(lengths), len(of)) or max(a, b) > most:
                    continue
                heads, tails = (lengths[:a], of[:b]), (lengths[a:], of[b:])
                if all(
                    test(normal(product(one)), normal(product(other)))
                    for one, other in (heads, tails)
                ):
                    return [
                        *regrouped(facts, *heads, index[:b], nested),
                        *regrouped(facts, *tails, index[b:], nested),
                    ]
    return None


def identify(facts: Facts) -> bool:
    """The same offset into the same lengths has the same digits: says so of all known indices.

    :return: whether that was news.
    """
    news = False
    for (n, p, i), (m, q, j) in itertools.combinations(list(facts.indices), 2):
        if len(n) != len(m) or all(map(same, i, j)):
            continue
        lengths = all(same(a, b) or facts.identical(a, b) for a, b in zip(n, m, strict=True))
        if lengths and (same(p, q) or facts.identical(p, q)):
            for a, b in zip(i, j, strict=True):
                if not same(a, b):
                    facts.assume(a == b)
                    news = True
    return news


def steps(facts: Facts, length: Length, step: Length) -> Length:
    """``length // step + 1``.

    A solver makes little of a division by a variable, so there its result is a new integer with
    bounds. One that divides further is expressed by it:
    ``floor((x + c y) / (k y)) = floor((floor(x / y) + c) / k)``.
    """
    if isinstance(step, int):
        return plus(floor_divide(length, step), 1)
    length, step = normal(length), normal(step)
    for known, by, count in facts.quotients:
        if same(known, length) and same(by, step):
            return count
        factor, more = multiple(step, by), multiple(normal(minus(length, known)), by)
        if factor and factor > 0 and more is not None:
            return plus(floor_divide(plus(minus(count, 1), more), factor), 1)
    exact = multiple(length, step)
    if exact is not None:
        return exact + 1
    count = fresh("steps")
    facts.assume(count >= 1)
    facts.assume(step * (count - 1) <= length)
    facts.assume(length < step * count)
    facts.quotients.append((length, step, count))
    return count
