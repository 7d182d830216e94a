"""Maxima and minima, of which only the set of elements counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import z3

from glenside.language.denotation import Apply, Choice, Constant, Element, Read, Reduce
from glenside.rewrites.soundness.proofs.facts import Differs, Facts, Open, code, fresh, within
from glenside.rewrites.soundness.proofs.polynomials import (
    added,
    difference,
    expression,
    same,
    solved,
    variables,
)
from glenside.rewrites.soundness.proofs.zeros import opened

if TYPE_CHECKING:
    from glenside.rewrites.soundness.proofs.comparison import Comparison

_OF_TWO = {"max": "maximum", "min": "minimum"}

Member = tuple[list[Any], list[Any], Element]
"""Variables, conditions on them, and an element: all such elements."""


def is_extreme(e: Element) -> bool:
    """Whether an element is a maximum or a minimum."""
    if isinstance(e, Reduce):
        return e.operation in _OF_TWO
    return isinstance(e, Apply) and e.function[0] in _OF_TWO.values()


def _operation(e: Element) -> str:
    name = e.operation if isinstance(e, Reduce) else e.function[0] if isinstance(e, Apply) else ""
    return str(name)[:3]


def equal(comparison: Comparison, a: Element, b: Element, depth: int) -> None:
    """Two elements, at least one an extreme.

    :raises Differs: there are sizes for which they differ, or :class:`Open`.
    """
    facts = comparison.facts
    operation = _operation(a if is_extreme(a) else b)
    if isinstance(a, Reduce) and isinstance(b, Reduce) and a.operation == b.operation:
        try:
            return comparison.attempt(lambda: comparison.bijection(a, b, depth))
        except (Differs, Open):
            pass
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Reduce) and not is_extreme(other):
            if all(same(n, 1) or facts.equal(n, 1) for n in one.lengths):
                return comparison.equal(one.body([0] * len(one.lengths)), other, depth + 1)
            if one is a:
                return facts.impossible("an extreme against an element")
    left, right = _members(facts, a, operation), _members(facts, b, operation)
    for mine, theirs in ((left, right), (right, left)):
        for variables_, conditions, element in mine:
            with facts.scope(*conditions):
                if facts.feasible():
                    _is_one_of(facts, element, theirs, variables_)
    return None


def _is_one_of(facts: Facts, element: Element, members: list[Member], own: list[Any]) -> None:
    if not isinstance(element, Read):
        raise Open("extremes of what is not read")
    ways = []
    for unknown, conditions, other in members:
        if isinstance(other, Read) and other.leaf is element.leaf:
            pairs = zip(element.index, other.index, strict=True)
            equations = [x == y for x, y in pairs if not same(x, y)]
            ways.append(_witnessed(unknown, conditions, equations))
    answer = facts.prove(z3.Or(*ways) if ways else False)
    if answer is False:
        raise Differs("an element is in one extreme only", facts.model)
    if answer is None:
        raise Open("extremes as sets")


def _members(facts: Facts, e: Element, operation: str) -> list[Member]:
    """What ``e`` is the extreme of; of nothing it is the value that is least, or greatest."""
    e = opened(facts, e)
    if operation == "max" and isinstance(e, Constant) and same(e.value, code("lowest")):
        return []
    if isinstance(e, Apply) and e.function[0] == _OF_TWO[operation]:
        return [m for each in e.operands for m in _members(facts, each, operation)]
    found: list[Member] = []
    if isinstance(e, Reduce) and e.operation == operation:
        index = [fresh("m") for _ in e.lengths]
        inside = within(index, e.lengths)
        with facts.scope(*inside):
            if facts.feasible():
                for more, conditions, element in _members(facts, e.body(index), operation):
                    found.append((index + more, inside + conditions, element))
        return found
    if isinstance(e, Choice):
        for condition, way in ((e.condition, e.then), (z3.Not(e.condition), e.otherwise)):
            with facts.scope(condition):
                if facts.feasible():
                    for more, conditions, element in _members(facts, way(), operation):
                        found.append((more, [condition, *conditions], element))
        return found
    return [([], [], e)]


def _witnessed(unknown: list[Any], conditions: list[Any], equations: list[Any]) -> Any:
    """That there are values for the unknown with which all holds: each is solved for in an equation
    that has it linearly, since solvers are slow at ``exists``."""
    everything = [z3.BoolVal(e) if isinstance(e, bool) else e for e in conditions + equations]
    chosen: list[tuple[Any, Any]] = []
    left = list(unknown)
    for _ in unknown:
        for equation in filter(z3.is_eq, everything):
            sides = (z3.substitute(side, *chosen) for side in equation.children())
            p = difference(*sides)
            here = [(v, s) for v in left if (s := solved(p, v)) is not None]
            if not here:
                continue
            (variable, (c, rest)), *_ = here
            value = expression(added({}, rest, -1 if c > 0 else 1))
            if variables(value) & {v.get_id() for v in left}:
                continue
            value = z3.IntVal(value) if isinstance(value, int) else value
            chosen.append((variable, value if abs(c) == 1 else value / abs(c)))
            left.remove(variable)
    body = z3.And(*everything) if everything else z3.BoolVal(True)
    body = z3.substitute(body, *chosen) if chosen else body
    return z3.Exists(left, body) if left else body
