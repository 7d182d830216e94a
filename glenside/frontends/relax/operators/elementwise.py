"""Operators on every element by itself, with NumPy broadcasting."""

from __future__ import annotations

import math

from glenside.frontends.lowering.axes import axis_of, check_vector
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.known import number_of
from glenside.frontends.lowering.phrases import (
    add,
    as_term,
    elementwise,
    maximum,
    minimum,
    mul,
    select,
    square,
    sub,
    unsqueeze_to,
)
from glenside.frontends.lowering.tvm_elementwise import ELEMENTWISE, both, clipped
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders

for _name, _lower in ELEMENTWISE.items():
    operator(_name)(_lower)


@operator("log_add_exp")
def log_add_exp(a: Term | float, b: Term | float) -> Term:
    """``log(exp(a) + exp(b))``, formed so that nothing overflows."""
    a, b = both(a, b)
    larger = maximum(a, b)
    apart = elementwise("neg", elementwise("abs", sub(a, b)))
    # The difference of two infinities of one sign is no number; their sum is that infinity.
    level = elementwise("equal", a, b)
    smaller = elementwise("exp", select(level, 0, apart))
    return add(larger, elementwise("log", add(smaller, 1)))


@operator("square")
def squared(x: Term) -> Term:
    """``x * x``"""
    return square(x)


@operator("ewise_fma")
def ewise_fma(a: Term, b: Term, c: Term) -> Term:
    """``a * b + c``"""
    return add(mul(a, b), c)


@operator("clip")
def clip(constants: Constants, x: Term, low: Term | float, high: Term | float) -> Term:
    """Every element brought between two bounds; the lower one wins where they cross."""
    return clipped(x, number_of(constants, low, "min"), number_of(constants, high, "max"))


@operator("astype", "wrap_param")
def astype(x: Term, *, dtype: str) -> Term:
    """Every element converted; floats to integers toward zero."""
    return builders.cast(x, dtype_of(dtype, x.dtype))


# --- activations --------------------------------------------------------------------------------


@operator("nn.gelu")
def gelu(x: Term) -> Term:
    """``x * P(X <= x)`` for a standard normal X."""
    return mul(mul(x, 0.5), add(elementwise("erf", mul(x, math.sqrt(0.5))), 1))


@operator("nn.gelu_tanh")
def gelu_tanh(x: Term) -> Term:
    """The approximation of gelu by ``tanh``."""
    inner = mul(mul(x, math.sqrt(2 / math.pi)), add(mul(square(x), 0.044715), 1))
    return mul(mul(x, 0.5), add(elementwise("tanh", inner), 1))


@operator("nn.silu")
def silu(x: Term) -> Term:
    """``x * sigmoid(x)``"""
    return mul(x, elementwise("sigmoid", x))


@operator("nn.selu")
def selu(x: Term) -> Term:
    """``scale * x`` where positive, else ``scale * alpha * (exp(x) - 1)``."""
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    below = mul(sub(elementwise("exp", minimum(x, 0)), 1), alpha * scale)
    return add(mul(elementwise("relu", x), scale), below)


@operator("nn.leakyrelu")
def leakyrelu(x: Term, *, alpha: float) -> Term:
    """``x`` where it is positive, else ``alpha * x``."""
    return add(elementwise("relu", x), mul(minimum(x, 0), alpha))


@operator("nn.prelu")
def prelu(x: Term, alpha: Term, *, axis: int) -> Term:
    """``x`` where it is positive, else times the slope of its position along an axis."""
    axis = axis_of(axis, x.type.rank)
    if alpha.type.size != 1:
        check_vector("alpha", alpha, x, axis)
        alpha = unsqueeze_to(alpha, axis, x.type.rank)
    return add(elementwise("relu", x), mul(minimum(x, 0), alpha))


@operator("nn.softplus")
def softplus(x: Term, *, beta: float, threshold: float) -> Term:
    """``log(1 + exp(beta x)) / beta``, and ``x`` where ``beta x`` exceeds the threshold."""
    scaled = mul(x, beta)
    # Bounded before the power is formed, so that what is not chosen does not overflow either.
    curve = elementwise("log", add(elementwise("exp", minimum(scaled, threshold)), 1))
    return select(elementwise("greater", scaled, as_term(threshold, x)), x, mul(curve, 1 / beta))


@operator("nn.dropout")
def dropout(x: Term, *, rate: float) -> tuple[Term, Term]:
    """Nothing is dropped at inference, whatever the rate: ``x`` and a mask of ones."""
    del rate
    return x, builders.constant(1, x.shape, x.dtype)


@operator("to_vdevice")
def to_vdevice(x: Term, *, dst_vdevice: object) -> Term:
    """The same value, wherever it is."""
    del dst_vdevice
    return x


@operator("hint_on_device")
def hint_on_device(x: Term, *, device_type: object, index: object, memory_scope: object) -> Term:
    """The same value, wherever it is."""
    del device_type, index, memory_scope
    return x


@operator("builtin.stop_lift_params")
def stop_lift_params(x: Term) -> Term:
    """The same value: a mark for a pass of TVM."""
    return x
