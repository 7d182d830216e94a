"""Elements that are known to be zero.

Numbers are taken to be finite: a product with a zero is zero.
"""

from __future__ import annotations

import functools

import z3

from glenside.language.denotation import (
    Apply,
    Choice,
    Constant,
    Element,
    Fold,
    Read,
    Reduce,
)
from glenside.language.functions import FUNCTIONS
from glenside.rewrites.engine.known_zeros import ZEROS, keeps_zero
from glenside.rewrites.soundness.proofs.facts import Facts, code, fresh, text_of, within

FINITE = "takes numbers to be finite"
_ZEROS = ("zero", *ZEROS)
_OF_ALL = frozenset({"add", "cast", "over", "maximum", "minimum"})


@functools.cache
def _keeping() -> frozenset[str]:
    """Functions of elements that are zero where all their operands are."""
    declared = (f for f in FUNCTIONS.values() if f.kind in ("map", "fold"))
    return _OF_ALL | {f.name for f in declared if keeps_zero(f)}


def opened(facts: Facts, e: Element) -> Element:
    """``e`` without the conditions at its top that the facts decide."""
    while isinstance(e, Choice):
        if facts.holds(e.condition):
            e = e.then()
        elif facts.holds(z3.Not(e.condition)):
            e = e.otherwise()
        else:
            break
    return e


def is_zero(facts: Facts, e: Element) -> bool:
    """Whether an element is known to be zero."""
    e = opened(facts, e)
    match e:
        case Constant():
            if isinstance(e.value, int):
                return text_of(e.value) in _ZEROS
            return facts.holds(z3.Or(*[e.value == code(zero) for zero in _ZEROS]))
        case Choice():
            for condition, way in ((e.condition, e.then), (z3.Not(e.condition), e.otherwise)):
                with facts.scope(condition):
                    if facts.feasible() and not is_zero(facts, way()):
                        return False
            return True
        case Read():
            return any(
                s.leaf is e.leaf
                and facts.holds(z3.And(s.low <= e.index[s.axis], e.index[s.axis] < s.high))
                for s in facts.stretches
            )
        case Apply():
            name = e.function[0]
            if name == "mul":
                zeros = [is_zero(facts, each) for each in e.operands]
                if any(zeros) and not all(zeros):
                    facts.steps.add(FINITE)
                return any(zeros)
            if name == "where":
                return all(is_zero(facts, each) for each in e.operands[1:])
            return name in _keeping() and all(is_zero(facts, each) for each in e.operands)
        case Reduce():
            return _reduction(facts, e)
        case Fold():
            i = fresh("zero")
            with facts.scope(i >= 0, i < e.length):
                return e.function in _keeping() and is_zero(facts, e.body(i))
    return False


def _reduction(facts: Facts, e: Reduce) -> bool:
    # The sum of nothing is zero; no other reduction of nothing is.
    if e.operation != "add" and not all(facts.holds(n >= 1) for n in e.lengths):
        return False
    index = [fresh("zero") for _ in e.lengths]
    with facts.scope(*within(index, e.lengths)):
        if not facts.feasible():
            return True
        # Of equal elements the first is the greatest: its position is 0.
        return is_zero(facts, e.body(index))
