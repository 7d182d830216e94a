"""Operators on every element by itself, with NumPy broadcasting."""

from __future__ import annotations

import math

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.phrases import add, elementwise, maximum, minimum, mul
from glenside.frontends.lowering.tvm_elementwise import ELEMENTWISE
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.language import DTYPES, Term, builders
from glenside.language.shape import INTEGERS

for _name, _lower in ELEMENTWISE.items():
    operator(_name)(_lower)


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
