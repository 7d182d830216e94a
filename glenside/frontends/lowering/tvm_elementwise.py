"""Elementwise operators that TVM's two languages, Relay and Relax, have under one name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.phrases import (
    as_term,
    div,
    elementwise,
    maximum,
    minimum,
    select,
    sub,
)
from glenside.language import Term, builders
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import FLOATS, INTEGERS

_MAPS, _FOLDS = (
    {f.tvm: f.name for f in FUNCTIONS.values() if f.kind == kind and f.tvm}
    for kind in ("map", "fold")
)
"""TVM's operators that mean what one function does, and those functions."""


def both(a: Term | float, b: Term | float) -> tuple[Term, Term]:
    """Two operands, one of which may be a number."""
    if isinstance(a, Term):
        return a, as_term(b, a)
    if isinstance(b, Term):
        return as_term(a, b), b
    raise ShapeError("one operand must be a tensor")


def _map(function: str) -> Callable[..., Term]:
    def apply(x: Term) -> Term:
        return elementwise(function, x)

    return apply


def _fold(function: str) -> Callable[..., Term]:
    def apply(a: Term | float, b: Term | float) -> Term:
        return elementwise(function, *both(a, b))

    return apply


def _not_equal(a: Term | float, b: Term | float) -> Term:
    return elementwise("not", elementwise("equal", *both(a, b)))


def _rsqrt(x: Term) -> Term:
    return elementwise("recip", elementwise("sqrt", x))


def _where(condition: Term, a: Term | float, b: Term | float) -> Term:
    """``a`` where the condition holds (is not 0), else ``b``."""
    return select(builders.cast(condition, "bool"), *both(a, b))


def _bitwise(function: str) -> Callable[..., Term]:
    def apply(a: Term | float, b: Term | float) -> Term:
        a, b = both(a, b)
        return elementwise(function if a.dtype == "bool" else f"bit_{function}", a, b)

    return apply


def _bitwise_not(x: Term) -> Term:
    return elementwise("not" if x.dtype == "bool" else "bit_not", x)


def _floor_divide(a: Term | float, b: Term | float) -> Term:
    """The quotient rounded toward minus infinity."""
    a, b = both(a, b)
    if a.dtype in FLOATS:
        return elementwise("floor", div(a, b))
    return div(sub(a, elementwise("mod", a, b)), b)


def _is_finite(x: Term) -> Term:
    return elementwise("not", elementwise("or", elementwise("is_inf", x), elementwise("is_nan", x)))


def _trunc(x: Term) -> Term:
    """The fraction cut off."""
    negative = elementwise("less", x, as_term(0.0, x))
    return select(negative, elementwise("ceil", x), elementwise("floor", x))


def clipped(x: Term, low: float, high: float) -> Term:
    """Every element brought between two numbers; the lower bound wins where they cross.

    Bounds beyond an integer dtype bound nothing.
    """
    if x.dtype in INTEGERS:
        limits = np.iinfo(x.dtype)
        low = min(max(low, int(limits.min)), int(limits.max))
        high = min(max(high, int(limits.min)), int(limits.max))
    return maximum(minimum(x, high), low)


ELEMENTWISE: dict[str, Callable[..., Term]] = {
    **{name: _map(function) for name, function in _MAPS.items()},
    **{name: _fold(function) for name, function in _FOLDS.items()},
    **{f"bitwise_{name}": _bitwise(name) for name in ("and", "or", "xor")},
    "bitwise_not": _bitwise_not,
    "floor_divide": _floor_divide,
    "isfinite": _is_finite,
    "not_equal": _not_equal,
    "trunc": _trunc,
    "rsqrt": _rsqrt,
    "where": _where,
}
"""By name, all with NumPy broadcasting. Numbers stand for operands in Relax only: whether one may
is for the front end to say."""
