"""Numbers on a coarse scale: ``real = scale * (quantised - zero point)``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.axes import axis_of, check_vector
from glenside.frontends.lowering.constants import Arrays
from glenside.frontends.lowering.phrases import (
    add,
    div,
    elementwise,
    like,
    maximum,
    minimum,
    mul,
    select,
    sub,
    unsqueeze_to,
)
from glenside.language import Term, builders
from glenside.language.shape import highest, lowest


def along_axis(x: Term, parameter: Term, axis: int, name: str) -> Term:
    """A scale or zero point to be combined with ``x``: one for all, or one each along an axis."""
    if parameter.type.size == 1:
        return builders.reshape(parameter, ())
    axis = axis_of(axis, x.type.rank)
    check_vector(name, parameter, x, axis)
    return unsqueeze_to(parameter, axis, x.type.rank)


def quantized(x: Term, scale: Term, zero_point: Term, axis: int, dtype: str) -> Term:
    """The nearest quantised number (of two, the even one), brought into the range of the dtype."""
    steps = elementwise("round", div(x, along_axis(x, scale, axis, "scale")))
    offset = builders.cast(along_axis(x, zero_point, axis, "zero_point"), x.dtype)
    shifted = minimum(maximum(add(steps, offset), lowest(dtype)), highest(dtype))
    return builders.cast(shifted, dtype)


def dequantized(x: Term, scale: Term, zero_point: Term, axis: int, dtype: str) -> Term:
    """The real number that a quantised one stands for."""
    steps = builders.cast(less_zero(x, zero_point, axis), dtype)
    return mul(steps, builders.cast(along_axis(x, scale, axis, "scale"), dtype))


def less_zero(x: Term, zero_point: Term, axis: int = -1) -> Term:
    """Quantised numbers in int32, counted from the one that stands for 0."""
    offset = builders.cast(along_axis(x, zero_point, axis, "zero_point"), "int32")
    return sub(builders.cast(x, "int32"), offset)


def shifted_right(x: Term, by: int) -> Term:
    """``x / 2^by`` in int64, halves rounded up."""
    return elementwise("shift_right", add(x, 1 << (by - 1)), like(x, by))


def requantized(
    arrays: Arrays,
    x: Term,
    scales: Sequence[float],
    zero_point: Term,
    out_scale: float,
    out_zero_point: Term,
    axis: int,
    rounding: str,
    dtype: str,
) -> Term:
    """Quantised numbers on another scale, in fixed-point arithmetic of 31 bits, as TVM does it.

    ``rounding`` says where halves go: ``UPWARD``, or ``TONEAREST`` away from zero.
    """
    factors = [each / out_scale for each in scales]
    if not all(0 < each < math.inf for each in factors):
        raise ShapeError(f"scales {list(scales)} and {out_scale} must be positive")
    offset = builders.cast(along_axis(x, zero_point, axis, "zero_point"), "int64")
    wide = sub(builders.cast(x, "int64"), offset)
    if any(each != 1 for each in factors):
        wide = _scaled(arrays, wide, factors, axis, rounding)
    wide = add(wide, builders.cast(builders.reshape(out_zero_point, ()), "int64"))
    inside = minimum(maximum(wide, int(lowest(dtype))), int(highest(dtype)))
    return builders.cast(inside, dtype)


def _scaled(arrays: Arrays, x: Term, factors: Sequence[float], axis: int, rounding: str) -> Term:
    numbers, lefts, rights = [], [], []
    for factor in factors:
        significand, exponent = math.frexp(factor)
        number = math.floor(significand * 2**31 + 0.5)
        if number == 2**31:
            number, exponent = number // 2, exponent + 1
        numbers.append(number)
        lefts.append(max(exponent, 0))
        rights.append(31 - min(exponent, 0))

    def vector(values: Sequence[int], name: str) -> Term:
        term = arrays.parameter(np.array(values, np.int64), name)
        return along_axis(x, term, axis, name)

    product = mul(
        elementwise("shift_left", x, vector(lefts, "left_shift")), vector(numbers, "multiplier")
    )
    half = vector([1 << (by - 1) for by in rights], "half")
    if rounding == "TONEAREST":
        negative = elementwise("less", product, like(product, 0))
        half = select(negative, sub(half, 1), half)
    return elementwise("shift_right", add(product, half), vector(rights, "right_shift"))
