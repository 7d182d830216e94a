"""Elementwise operators that TVM's two languages, Relay and Relax, have under one name."""

from __future__ import annotations

from collections.abc import Callable

from glenside.errors import ShapeError
from glenside.frontends.lowering.phrases import as_term, elementwise, select
from glenside.language import Term, builders

_MAPS = {
    "abs": "abs",
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "ceil": "ceil",
    "cos": "cos",
    "cosh": "cosh",
    "erf": "erf",
    "exp": "exp",
    "floor": "floor",
    "isinf": "is_inf",
    "isnan": "is_nan",
    "log": "log",
    "logical_not": "not",
    "negative": "neg",
    "nn.relu": "relu",
    "round": "round",
    "sigmoid": "sigmoid",
    "sign": "sign",
    "sin": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
_FOLDS = {
    "add": "add",
    "divide": "div",
    "equal": "equal",
    "floor_mod": "mod",
    "greater": "greater",
    "greater_equal": "greater_equal",
    "left_shift": "shift_left",
    "less": "less",
    "less_equal": "less_equal",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    "maximum": "maximum",
    "minimum": "minimum",
    "mod": "fmod",
    "multiply": "mul",
    "power": "pow",
    "right_shift": "shift_right",
    "subtract": "sub",
}


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


ELEMENTWISE: dict[str, Callable[..., Term]] = {
    **{name: _map(function) for name, function in _MAPS.items()},
    **{name: _fold(function) for name, function in _FOLDS.items()},
    "not_equal": _not_equal,
    "rsqrt": _rsqrt,
    "where": _where,
}
"""By name, all with NumPy broadcasting. Numbers stand for operands in Relax only: whether one may
is for the front end to say."""
