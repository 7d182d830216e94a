"""Operators on every element by itself, with NumPy broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import axes_of, axis_of, check_vector
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.phrases import (
    add,
    div,
    elementwise,
    like,
    minimum,
    mul,
    sub,
    unsqueeze_to,
)
from glenside.frontends.lowering.quantization import shifted_right
from glenside.frontends.lowering.tvm_elementwise import ELEMENTWISE, clipped
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.language import DTYPES, Term, builders
from glenside.language.shape import FLOATS, INTEGERS

for _name, _lower in ELEMENTWISE.items():
    operator(_name)(_lower)
# Their approximations are allowed to differ from them, not meant to.
for _name in ("erf", "exp", "tanh"):
    operator(f"fast_{_name}")(ELEMENTWISE[_name])


@operator(
    "copy",
    "annotation.stop_fusion",
    "annotation.cast_hint",
    "annotation.checkpoint",
    "annotation.bitpack_start",
    "annotation.bitpack_end",
)
def copy(x: Term, *, dtype: object = None) -> Term:
    """The same value: terms never change, and marks are for passes that TVM would run."""
    del dtype
    return x


@operator("annotation.compiler_begin", "annotation.compiler_end")
def compiler(x: Term, *, compiler: str = "") -> Term:
    """The same value, at the border of what another compiler was to take."""
    del compiler
    return x


@operator("on_device", "device_copy")
def on_device(
    x: Term,
    *,
    device_type: object = None,
    virtual_device: object = None,
    constrain_result: object = None,
    constrain_body: object = None,
    src_dev_type: object = None,
    dst_dev_type: object = None,
    src_virtual_device: object = None,
    dst_virtual_device: object = None,
    is_fixed: object = None,
) -> Term:
    """The same value, wherever it is."""
    return x


@operator("cast")
def cast(x: Term, *, dtype: str) -> Term:
    """Every element converted; floats to integers toward zero."""
    if dtype not in DTYPES:
        raise Refused(f"attribute dtype {dtype} is not one of {', '.join(DTYPES)}")
    return builders.cast(x, dtype)


@operator("cast_like")
def cast_like(x: Term, other: Term) -> Term:
    """Every element converted to the dtype of another tensor."""
    return builders.cast(x, other.dtype)


@operator("reinterpret")
def reinterpret(x: Term, *, dtype: str) -> Term:
    """The bits taken for another dtype: only where it is the same one."""
    if dtype_of(dtype, x.dtype) != x.dtype:
        raise Refused("bits that are taken for another dtype are not supported")
    return x


@operator("clip")
def clip(x: Term, *, a_min: float, a_max: float) -> Term:
    """Every element brought between two bounds; the lower one wins where they cross."""
    if math.isnan(a_min) or math.isnan(a_max):
        raise ShapeError(f"bounds {a_min} and {a_max} must be numbers")
    return clipped(x, a_min, a_max)


@operator("nn.leaky_relu")
def leaky_relu(x: Term, *, alpha: float = 0.25) -> Term:
    """``x`` where it is positive, else ``alpha * x``."""
    return add(elementwise("relu", x), mul(minimum(x, 0), alpha))


@operator("nn.prelu")
def prelu(x: Term, alpha: Term, *, axis: int = 1) -> Term:
    """``x`` where it is positive, else times the slope of its position along an axis."""
    axis = axis_of(axis, x.type.rank)
    if alpha.type.size != 1:
        check_vector("alpha", alpha, x, axis)
        alpha = unsqueeze_to(alpha, axis, x.type.rank)
    else:
        alpha = builders.reshape(alpha, ())
    return add(elementwise("relu", x), mul(minimum(x, 0), alpha))


def _logarithm(base: float) -> Callable[..., Term]:
    def apply(x: Term) -> Term:
        return mul(elementwise("log", x), 1 / math.log(base))

    return apply


operator("log2")(_logarithm(2))
operator("log10")(_logarithm(10))


def _truncated(function: str) -> Callable[..., Term]:
    def apply(a: Term, b: Term) -> Term:
        if function == "mod":
            return elementwise("fmod", a, b)
        quotient = div(a, b)
        return ELEMENTWISE["trunc"](quotient) if a.dtype in FLOATS else quotient

    return apply


operator("trunc_divide")(_truncated("divide"))
operator("trunc_mod")(_truncated("mod"))


@operator("fixed_point_multiply")
def fixed_point_multiply(x: Term, *, multiplier: int, shift: int) -> Term:
    """``x * multiplier * 2^(shift - 31)`` in integers, halves rounded up."""
    _check_integers(x)
    wide = mul(builders.cast(x, "int64"), multiplier * 2 ** max(shift, 0))
    return builders.cast(shifted_right(wide, 31 - min(shift, 0)), x.dtype)


@operator("fixed_point_multiply_per_axis")
def fixed_point_multiply_per_axis(
    constants: Constants,
    x: Term,
    multiplier: Term,
    left: Term,
    right: Term,
    *,
    is_lshift_required: bool = False,
    is_rshift_required: bool = False,
    axes: Ints = (),
) -> Term:
    """As ``fixed_point_multiply``, with factors and shifts of their own along some axes."""
    del is_lshift_required, is_rshift_required, constants
    _check_integers(x)
    chosen = axes_of(axes, x.type.rank)
    shape = [n if axis in chosen else 1 for axis, n in enumerate(x.shape)]
    factor, up, down = (
        builders.reshape(builders.cast(each, "int64"), shape) for each in (multiplier, left, right)
    )
    wide = mul(elementwise("shift_left", builders.cast(x, "int64"), up), factor)
    down = add(down, 31)
    half = elementwise("shift_left", like(down, 1), sub(down, 1))
    return builders.cast(elementwise("shift_right", add(wide, half), down), x.dtype)


def _check_integers(x: Term) -> None:
    if x.dtype not in INTEGERS:
        raise ShapeError(f"takes integers, got {x.dtype}")


@operator("nn.cross_entropy")
def cross_entropy(predictions: Term, targets: Term) -> Term:
    """``-sum(targets * log(predictions))``, the mean over a batch."""
    return cross_entropy_with_logits(elementwise("log", predictions), targets)


@operator("nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: Term, targets: Term) -> Term:
    """``-sum(targets * predictions)``, the mean over a batch; predictions are logarithms."""
    if predictions.type != targets.type or predictions.type.rank != 2:
        raise ShapeError(f"shapes {predictions.shape} and {targets.shape} must be (N, C)")
    whole = builders.access(mul(predictions, targets), 0)
    return mul(builders.compute("sum", whole), -1 / max(predictions.shape[0], 1))
