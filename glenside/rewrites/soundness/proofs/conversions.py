"""Integers as floats: the float of a sum or product is that of the floats, of real numbers, where
nothing on the way is beyond the integers' dtype."""

from __future__ import annotations

import functools
import operator
from typing import Any

from glenside.language.denotation import Apply, Element, Read, Reduce, product, times
from glenside.rewrites.soundness.proofs.facts import Facts, code, fresh, within
from glenside.rewrites.soundness.proofs.polynomials import number
from glenside.rewrites.soundness.proofs.zeros import opened

_INTEGER, _FLOAT = "int32", "float32"
_MOST = 2**31 - 1
SMALL = 255
"""The largest magnitude of what is known to be small."""


def plain(facts: Facts, e: Element) -> Element:
    """``e`` opened, and conversions within its products brought to what sums are made of."""
    e = opened(facts, e)
    if not (facts.small and isinstance(e, Apply)):
        return e
    if e.function[0] == "cast":
        return _inward(facts, e)
    if e.function[0] not in ("mul", "div", "over"):
        return e
    return Apply(e.function, [plain(facts, each) for each in e.operands])


def _inward(facts: Facts, e: Apply) -> Element:
    _, to, of = e.function
    if not (facts.holds(to == code(_FLOAT)) and facts.holds(of == code(_INTEGER))):
        return e
    inner = opened(facts, e.operands[0])
    if not _is_made(inner) or _magnitude(facts, inner) is None:
        return e
    facts.steps.add("converts sums")

    def converted(each: Element) -> Element:
        return Apply(e.function, [each])

    if isinstance(inner, Reduce):
        body = inner.body
        return Reduce(inner.operation, to, inner.lengths, lambda index: converted(body(index)))
    assert isinstance(inner, Apply)
    return Apply(inner.function, [converted(each) for each in inner.operands])


def _is_made(e: Element) -> bool:
    if isinstance(e, Reduce):
        return e.operation == "add"
    return isinstance(e, Apply) and e.function[0] in ("add", "sub", "mul")


def _magnitude(facts: Facts, e: Element) -> Any:
    """What the magnitude of an integer is at most, None where it is not known to be held."""
    e = opened(facts, e)
    found: Any = None
    if isinstance(e, Read) and any(e.leaf is leaf for leaf in facts.small):
        return SMALL
    if isinstance(e, Reduce) and e.operation == "add":
        index = [fresh("i") for _ in e.lengths]
        with facts.scope(*within(index, e.lengths)):
            one = _magnitude(facts, e.body(index))
        found = None if one is None else times(product(e.lengths), one)
    elif isinstance(e, Apply) and _is_made(e):
        parts = [_magnitude(facts, each) for each in e.operands]
        if None in parts:
            return None
        combined = operator.mul if e.function[0] == "mul" else operator.add
        found = functools.reduce(combined, parts)
    if found is None:
        return None
    held = number(found) <= _MOST
    return found if (held if isinstance(held, bool) else facts.holds(held)) else None
