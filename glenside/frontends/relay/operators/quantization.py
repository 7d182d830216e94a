"""Operators of the dialect ``qnn``: numbers on a coarse scale, integers inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints, Terms
from glenside.frontends.lowering import quantization
from glenside.frontends.lowering.axes import axis_of
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.known import number_of
from glenside.frontends.lowering.phrases import add, elementwise, maximum, minimum, mul, sub
from glenside.frontends.lowering.quantization import along_axis, less_zero
from glenside.frontends.lowering.tvm_convolution import CONVOLUTIONS, TRANSPOSED
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.operators import linear
from glenside.frontends.relay.signature import operator
from glenside.language import Term, builders
from glenside.language.shape import highest, lowest


def _settle_axis(x: Term, axis: int) -> int:
    return axis_of(axis, x.type.rank) if x.type.rank else 0


def _numbers(constants: Constants, scale: Term, what: str) -> list[float]:
    known = constants.known(scale)
    if known is None:
        raise Refused(f"operand {what} must be known: fixed-point factors are made of it")
    return [float(each) for each in known.reshape(-1)]


@operator("qnn.quantize")
def quantize(
    x: Term, scale: Term, zero_point: Term, *, out_dtype: str = "int8", axis: int = -1
) -> Term:
    """The nearest quantised number, brought into the range of the dtype."""
    dtype = dtype_of(out_dtype, "int8")
    return quantization.quantized(x, scale, zero_point, _settle_axis(x, axis), dtype)


@operator("qnn.dequantize")
def dequantize(
    x: Term, scale: Term, zero_point: Term, *, axis: int = -1, out_dtype: str = "float32"
) -> Term:
    """The real number that a quantised one stands for."""
    dtype = dtype_of(out_dtype, "float32")
    return quantization.dequantized(x, scale, zero_point, _settle_axis(x, axis), dtype)


@operator("qnn.requantize")
def requantize(
    constants: Constants,
    x: Term,
    scale: Term,
    zero_point: Term,
    out_scale: Term,
    out_zero_point: Term,
    *,
    axis: int = -1,
    rounding: str = "UPWARD",
    compute_dtype: str = "int64",
    out_dtype: str = "int8",
) -> Term:
    """Quantised numbers brought to another scale in fixed-point arithmetic."""
    if compute_dtype not in ("int64", "None", ""):
        raise Refused(f"attribute compute_dtype {compute_dtype} is not supported; int64 is")
    rounding = "UPWARD" if rounding in ("None", "") else rounding
    if rounding not in ("UPWARD", "TONEAREST"):
        raise Refused(f"attribute rounding {rounding} is not supported; UPWARD, TONEAREST are")
    return quantization.requantized(
        constants,
        x,
        _numbers(constants, scale, "input_scale"),
        zero_point,
        number_of(constants, out_scale, "output_scale"),
        out_zero_point,
        _settle_axis(x, axis),
        rounding,
        dtype_of(out_dtype, "int8"),
    )


# --- elementwise --------------------------------------------------------------------------------


def _narrowed(x: Term, dtype: str) -> Term:
    inside = minimum(maximum(x, int(lowest(dtype))), int(highest(dtype)))
    return builders.cast(inside, dtype)


class _Scaled(NamedTuple):
    """An operand: quantised numbers, what they stand for, and the axis of scales of their own."""

    numbers: Term
    scale: Term
    zero: Term
    axis: int


def _of_two(
    compute: Callable[[Constants, _Scaled, _Scaled, Term, Term], Term],
) -> Callable[..., Term]:
    """What operators of two operands have in common: each has its scale, so has the result."""

    def apply(
        constants: Constants,
        a: Term,
        b: Term,
        a_scale: Term,
        a_zero: Term,
        b_scale: Term,
        b_zero: Term,
        out_scale: Term,
        out_zero: Term,
        *,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> Term:
        left = _Scaled(a, a_scale, a_zero, lhs_axis)
        right = _Scaled(b, b_scale, b_zero, rhs_axis)
        return compute(constants, left, right, out_scale, out_zero)

    apply.__doc__ = compute.__doc__
    return apply


def _sum(function: str) -> Callable[..., Term]:
    def total(
        constants: Constants, a: _Scaled, b: _Scaled, out_scale: Term, out_zero: Term
    ) -> Term:
        """Both brought to the scale of the result in int32, then added or subtracted."""
        left, right = (
            requantize(
                constants,
                each.numbers,
                each.scale,
                each.zero,
                out_scale,
                out_zero,
                axis=each.axis,
                out_dtype="int32",
            )
            for each in (a, b)
        )
        zero = builders.cast(builders.reshape(out_zero, ()), "int32")
        both = elementwise(function, left, right)
        both = sub(both, zero) if function == "add" else add(both, zero)
        return _narrowed(both, a.numbers.dtype)

    return _of_two(total)


def _product(constants: Constants, a: _Scaled, b: _Scaled, out_scale: Term, out_zero: Term) -> Term:
    """The product in int32, brought to the scale of the result."""
    left, right = (less_zero(x, zero, _settle_axis(x, axis)) for x, _, zero, axis in (a, b))
    scale = number_of(constants, a.scale, "lhs_scale") * number_of(constants, b.scale, "rhs_scale")
    return requantize(
        constants,
        mul(left, right),
        builders.constant(scale, (), "float64"),
        builders.constant(0, (), "int32"),
        out_scale,
        out_zero,
        out_dtype=a.numbers.dtype,
    )


operator("qnn.add")(_sum("add"))
operator("qnn.subtract")(_sum("sub"))
operator("qnn.mul")(_of_two(_product))


def _hardswish(x: Term) -> Term:
    return mul(mul(x, minimum(maximum(add(x, 3), 0), 6)), 1 / 6)


_UNARY: dict[str, Callable[[Term], Term]] = {
    **{name: lambda x, name=name: elementwise(name, x)  # type: ignore[misc]
       for name in ("abs", "erf", "exp", "log", "sigmoid", "sqrt", "tanh")},
    "hardswish": _hardswish,
    "rsqrt": lambda x: elementwise("recip", elementwise("sqrt", x)),
}  # fmt: skip


def _through_reals(function: Callable[[Term], Term]) -> Callable[..., Term]:
    def apply(
        x: Term, scale: Term, zero_point: Term, out_scale: Term, out_zero_point: Term
    ) -> Term:
        """The function of the real numbers, quantised again: TVM makes a table of it."""
        real = quantization.dequantized(x, scale, zero_point, -1, "float32")
        return quantization.quantized(function(real), out_scale, out_zero_point, -1, x.dtype)

    return apply


for _name, _function in _UNARY.items():
    operator(f"qnn.{_name}")(_through_reals(_function))


@operator("qnn.leaky_relu")
def leaky_relu(
    x: Term,
    scale: Term,
    zero_point: Term,
    out_scale: Term,
    out_zero_point: Term,
    *,
    alpha: float = 0.25,
) -> Term:
    """``x`` where it is positive, else ``alpha * x``, of the real numbers."""

    def bent(real: Term) -> Term:
        return add(elementwise("relu", real), mul(minimum(real, 0), alpha))

    return _through_reals(bent)(x, scale, zero_point, out_scale, out_zero_point)


@operator("qnn.concatenate")
def concatenate(
    constants: Constants,
    parts: Terms,
    scales: Terms,
    zero_points: Terms,
    out_scale: Term,
    out_zero_point: Term,
    *,
    axis: int = 0,
) -> Term:
    """Tensors brought to one scale and joined."""
    if not parts or not len(parts) == len(scales) == len(zero_points):
        raise ShapeError(f"{len(parts)} parts need as many scales and zero points")
    same = [
        requantize(constants, x, scale, zero, out_scale, out_zero_point, out_dtype=x.dtype)
        for x, scale, zero in zip(parts, scales, zero_points, strict=True)
    ]
    return builders.concat(axis_of(axis, parts[0].type.rank), *same)


# --- products: scales do not matter, the result is on the product of both ------------------------


@operator("qnn.dense")
def dense(
    x: Term,
    w: Term,
    x_zero: Term,
    w_zero: Term,
    x_scale: Term | None = None,
    w_scale: Term | None = None,
    *,
    units: int | None = None,
    out_dtype: str = "int32",
) -> Term:
    """Every vector with every row of the weights, both counted from their zero points."""
    return linear.dense(
        less_zero(x, x_zero), less_zero(w, w_zero, 0), units=units, out_dtype=out_dtype
    )


@operator("qnn.batch_matmul")
def batch_matmul(
    a: Term,
    b: Term,
    a_zero: Term,
    b_zero: Term,
    a_scale: Term | None = None,
    b_scale: Term | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = True,
    out_dtype: str = "int32",
) -> Term:
    """Products of two batches of matrices, both counted from their zero points."""
    return linear.batch_matmul(
        less_zero(a, a_zero),
        less_zero(b, b_zero),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        out_dtype=out_dtype,
    )


@operator("qnn.conv2d")
def conv2d(
    x: Term,
    w: Term,
    x_zero: Term,
    w_zero: Term,
    x_scale: Term | None = None,
    w_scale: Term | None = None,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "int32",
) -> Term:
    """A convolution of both counted from their zero points; padding stands for 0."""
    # Per channel, zero points belong to the axis of the filters.
    filters = _from_zero(w, w_zero, kernel_layout.index("O") if "O" in kernel_layout else 0)
    return CONVOLUTIONS["nn.conv2d"](
        less_zero(x, x_zero),
        filters,
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=groups,
        channels=channels,
        kernel_size=kernel_size,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def _from_zero(w: Term, zero_point: Term, axis: int) -> Term:
    offset = builders.cast(along_axis(w, zero_point, axis, "kernel_zero_point"), "int32")
    return sub(builders.cast(w, "int32"), offset)


@operator("qnn.conv2d_transpose")
def conv2d_transpose(
    constants: Constants,
    x: Term,
    w: Term,
    x_zero: Term,
    w_zero: Term,
    x_scale: Term | None = None,
    w_scale: Term | None = None,
    *,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    output_padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    out_dtype: str = "int32",
) -> Term:
    """A transposed convolution of both counted from their zero points."""
    return TRANSPOSED["nn.conv2d_transpose"](
        constants,
        less_zero(x, x_zero),
        _from_zero(w, w_zero, kernel_layout.index("O") if "O" in kernel_layout else 1),
        channels=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )
