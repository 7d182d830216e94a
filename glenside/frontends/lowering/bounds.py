"""Between which numbers the values of a program lie, whatever its inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.language import TRANSFORMERS, Term
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import Moves, fill_value, transformers

Array = np.ndarray[Any, Any]

LARGEST_EXPONENT = 10.0
"""The exponential of numbers up to this is within every float dtype."""

_REPEATING = transformers(Moves.REORDERS | Moves.REPEATS)
"""Moves of all numbers of a value, in one order or another."""


@dataclass(frozen=True)
class Bounds:
    """The least and the largest number a value may have."""

    least: float = -math.inf
    most: float = math.inf

    def within(self, most: float, both: bool = False) -> bool:
        """Whether nothing is larger than ``most``, with ``both`` in magnitude."""
        return self.most <= most and (not both or self.least >= -most)

    def __or__(self, other: Bounds) -> Bounds:
        return Bounds(min(self.least, other.least), max(self.most, other.most))


_ANY = Bounds()


def moved_from(term: Term) -> Term:
    """What the elements of ``term`` are, before moves that keep them all."""
    while term.op in _REPEATING:
        term = term.children[0]
    return term


def magnitude(array: Array) -> float:
    """The largest finite magnitude of an array; 0 where there is none."""
    kept = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    if not kept.size:
        return 0.0
    kept = np.asarray(kept, np.float64) if kept.dtype.kind != "f" else kept
    with np.errstate(all="ignore"):
        largest = float(max(abs(float(kept.max())), abs(float(kept.min()))))
        if not math.isfinite(largest):
            finite = kept[np.isfinite(kept)]
            largest = float(np.abs(finite).max()) if finite.size else 0.0
    return largest


def bounds_of(order: Iterable[Term], params: Mapping[str, Array]) -> dict[Term, Bounds]:
    """Bounds of every float of a program, given children first; what is not known is missing."""
    found: dict[Term, Bounds] = {}
    for term in order:
        bounds = _bounds(term, found, params)
        if bounds != _ANY:
            found[term] = bounds
    return found


def _bounds(term: Term, found: Mapping[Term, Bounds], params: Mapping[str, Array]) -> Bounds:
    below = [found.get(child, _ANY) for child in term.children]
    match term.op:
        case "tensor":
            array = params.get(term["name"])
            if array is None or not array.size or array.dtype.kind not in "fiu":
                return Bounds(0, 1) if term.dtype == "bool" else _ANY
            return Bounds(float(array.min()), float(array.max()))
        case "constant":
            value = float(term["value"])
            return _ANY if math.isnan(value) else Bounds(value, value)
        case "cast":
            return _cast(term.children[0], below[0])
        case "pad":
            value = float(fill_value(term["value"], term.dtype))
            return below[0] | Bounds(value, value)
        case "where":
            return below[1] | below[2]
        case "gather":
            return below[0]
        case "cart_prod":
            return _ANY
        case "compute":
            return _computed(term, below[0], found)
    if term.op in TRANSFORMERS:
        result = below[0]
        for other in below[1:]:
            result = result | other
        return result
    return _ANY


def _cast(child: Term, below: Bounds) -> Bounds:
    kinds = {"bool": Bounds(0, 1), "uint8": Bounds(0, 255), "int8": Bounds(-128, 127)}
    known = kinds.get(child.dtype, _ANY)
    return Bounds(max(known.least, below.least), min(known.most, below.most))


def _computed(term: Term, x: Bounds, found: Mapping[Term, Bounds]) -> Bounds:
    name = term["function"]
    declared = FUNCTIONS[name]
    if declared.bounds is not None:
        return Bounds(*declared.bounds)
    match name:
        case "relu":
            return Bounds(max(x.least, 0), max(x.most, 0))
        case "neg":
            return Bounds(-x.most, -x.least)
        case "abs":
            if x.least >= 0:
                return x
            return Bounds(max(0, -x.most), max(-x.least, x.most))
        case "exp":
            return Bounds(_exp(x.least), _exp(x.most))
        case "max" | "min" | "mean":
            return x
    (child,) = term.children
    if declared.kind == "fold" and child.op == "pair":
        one, two = child.children
        return _fold(name, one, two, found.get(one, _ANY), found.get(two, _ANY))
    return _ANY


def _fold(name: str, one: Term, two: Term, a: Bounds, b: Bounds) -> Bounds:
    match name:
        case "maximum":
            return Bounds(max(a.least, b.least), max(a.most, b.most))
        case "minimum":
            return Bounds(min(a.least, b.least), min(a.most, b.most))
        case "add":
            return _ordered(a.least + b.least, a.most + b.most)
        case "sub":
            difference = _ordered(a.least - b.most, a.most - b.least)
            if _is_greatest(two, one):
                return Bounds(difference.least, min(difference.most, 0.0))
            return difference
        case "mul":
            if one is two:
                most = max(abs(a.least), abs(a.most))
                return Bounds(0, most * most)
            ends = [_times(p, q) for p in (a.least, a.most) for q in (b.least, b.most)]
            return _ordered(min(ends), max(ends))
    return _ANY


def _is_greatest(two: Term, one: Term) -> bool:
    """Whether ``two`` is the largest element of each row of ``one``, repeated along it."""
    top = moved_from(two)
    if top.op != "compute" or top["function"] != "max":
        return False
    return moved_from(top.children[0]) is moved_from(one)


def _ordered(least: float, most: float) -> Bounds:
    return Bounds(-math.inf if math.isnan(least) else least, math.inf if math.isnan(most) else most)


def _times(p: float, q: float) -> float:
    return 0.0 if p == 0 or q == 0 else p * q


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf
