"""Numbers on a coarse scale: ``real = scale * (quantised - zero point)``."""

from __future__ import annotations

from glenside.frontends.lowering.axes import axis_of, check_vector
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.phrases import (
    add,
    div,
    elementwise,
    maximum,
    minimum,
    mul,
    sub,
    unsqueeze_to,
)
from glenside.frontends.refusal import Refused
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders
from glenside.language.shape import highest, lowest


def _along(x: Term, parameter: Term, axis: int, name: str) -> Term:
    if parameter.type.size == 1:
        return builders.reshape(parameter, ())
    axis = axis_of(axis, x.type.rank)
    check_vector(name, parameter, x, axis)
    return unsqueeze_to(parameter, axis, x.type.rank)


@operator("quantize")
def quantize(x: Term, scale: Term, zero_point: Term, *, out_dtype: str, axis: int) -> Term:
    """The nearest quantised number (of two, the even one), brought into the range of the dtype."""
    if out_dtype not in ("int8", "uint8", "int16", "uint16"):
        raise Refused(f"attribute out_dtype {out_dtype} is not supported; int8, uint8, ... are")
    steps = elementwise("round", div(x, _along(x, scale, axis, "scale")))
    offset = builders.cast(_along(x, zero_point, axis, "zero_point"), x.dtype)
    shifted = minimum(maximum(add(steps, offset), lowest(out_dtype)), highest(out_dtype))
    return builders.cast(shifted, out_dtype)


@operator("dequantize")
def dequantize(x: Term, scale: Term, zero_point: Term, *, out_dtype: str, axis: int) -> Term:
    """The real number that a quantised one stands for."""
    dtype = dtype_of(out_dtype, "float32")
    offset = builders.cast(_along(x, zero_point, axis, "zero_point"), "int32")
    steps = builders.cast(sub(builders.cast(x, "int32"), offset), dtype)
    return mul(steps, builders.cast(_along(x, scale, axis, "scale"), dtype))
