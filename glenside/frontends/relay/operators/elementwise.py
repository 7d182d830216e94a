"""Operators on every element by itself, with NumPy broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.phrases import add, elementwise, maximum, minimum, mul, select
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import DTYPES, Term, builders
from glenside.language.shape import INTEGERS

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
    "log": "log",
    "logical_not": "not",
    "negative": "neg",
    "nn.relu": "relu",
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
    "greater": "greater",
    "greater_equal": "greater_equal",
    "less": "less",
    "less_equal": "less_equal",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    "maximum": "maximum",
    "minimum": "minimum",
    "multiply": "mul",
    "power": "pow",
    "subtract": "sub",
}


def _map(function: str) -> Callable[..., Value]:
    def apply(x: Term) -> Term:
        return elementwise(function, x)

    return apply


def _fold(function: str) -> Callable[..., Value]:
    def apply(a: Term, b: Term) -> Term:
        return elementwise(function, a, b)

    return apply


for _name, _function in _MAPS.items():
    operator(_name)(_map(_function))
for _name, _function in _FOLDS.items():
    operator(_name)(_fold(_function))


@operator("not_equal")
def not_equal(a: Term, b: Term) -> Term:
    """Where two tensors differ."""
    return elementwise("not", elementwise("equal", a, b))


@operator("rsqrt")
def rsqrt(x: Term) -> Term:
    """``1 / sqrt(x)``"""
    return elementwise("recip", elementwise("sqrt", x))


@operator("copy")
def copy(x: Term) -> Term:
    """The same value: terms never change, so a copy is the original."""
    return x


@operator("cast")
def cast(x: Term, *, dtype: str) -> Term:
    """Every element converted; floats to integers toward zero."""
    if dtype not in DTYPES:
        raise Refused(f"attribute dtype {dtype} is not one of {', '.join(DTYPES)}")
    return builders.cast(x, dtype)


@operator("clip")
def clip(x: Term, *, a_min: float, a_max: float) -> Term:
    """Every element brought between two bounds."""
    if x.dtype in INTEGERS:
        limits = np.iinfo(x.dtype)
        a_min, a_max = max(a_min, limits.min), min(a_max, limits.max)
    if math.isnan(a_min) or math.isnan(a_max):
        raise ShapeError(f"bounds {a_min} and {a_max} must be numbers")
    return minimum(maximum(x, a_min), a_max)


@operator("nn.leaky_relu")
def leaky_relu(x: Term, *, alpha: float = 0.25) -> Term:
    """``x`` where it is positive, else ``alpha * x``."""
    return add(elementwise("relu", x), mul(minimum(x, 0), alpha))


@operator("where")
def where(condition: Term, a: Term, b: Term) -> Term:
    """``a`` where the condition holds (is not 0), else ``b``."""
    return select(builders.cast(condition, "bool"), a, b)
