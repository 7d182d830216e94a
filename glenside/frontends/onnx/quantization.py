"""Quantised operators: integers that stand for ``(q - zero_point) * scale``.

Products are formed in int32 on operands from which the zero points are taken; padding comes after
that, so that it stands for 0.
"""

from __future__ import annotations

import math

import numpy as np

from glenside.frontends.lowering.convolution import correlate
from glenside.frontends.lowering.phrases import (
    add,
    div,
    elementwise,
    like,
    matmul,
    maximum,
    minimum,
    mul,
    reduce,
    reshape,
    select,
    sub,
    unsqueeze_to,
)
from glenside.frontends.onnx.convolution import check_bias, check_filters
from glenside.frontends.onnx.linear import check_product
from glenside.frontends.onnx.node import Node, dtype_name, operator
from glenside.frontends.onnx.spatial import read_window, spatial_size
from glenside.frontends.onnx.tensors import NARROW, narrow_name, narrowed
from glenside.language import Term, builders
from glenside.language.shape import FLOATS, HALVES


def aligned(node: Node, which: Term, x: Term, axis: int, block: int) -> Term:
    """A scale or zero point in a shape that broadcasts to ``x``: one number, one a slice, or one
    for every ``block`` positions along ``axis``."""
    if which.type.size == 1 and which.type.rank <= 1:
        return reshape(which, ())
    axis = node.axis(axis, x.type.rank)
    if which.type.rank == 1 and not block:
        if which.shape[0] != x.shape[axis]:
            raise node.error(f"{which.shape[0]} scales for {x.shape[axis]} slices of axis {axis}")
        return unsqueeze_to(which, axis, x.type.rank)
    if which.type.rank != x.type.rank or block < 1:
        raise node.error(f"a scale of shape {which.shape} does not fit data of shape {x.shape}")
    shape = list(which.shape)
    wide = builders.unsqueeze(which, axis + 1)
    wide = builders.broadcast(wide, (*shape[: axis + 1], block, *shape[axis + 1 :]))
    shape[axis] *= block
    wide = reshape(wide, shape)
    if not x.shape[axis] <= shape[axis] < x.shape[axis] + block:
        raise node.error(
            f"{which.shape[axis]} blocks of {block} do not cover data of shape {x.shape}"
        )
    if any(n != m for i, (n, m) in enumerate(zip(shape, x.shape, strict=True)) if i != axis):
        raise node.error(f"a scale of shape {which.shape} does not fit data of shape {x.shape}")
    if shape[axis] == x.shape[axis]:
        return wide
    return builders.slice_(wide, axis, 0, x.shape[axis])


def saturate(x: Term, zero_point: Term | None, dtype: str) -> Term:
    """Floats rounded to even, shifted and clipped to the range of an integer dtype."""
    return builders.cast(_whole(x, zero_point, dtype), dtype)


def _whole(x: Term, zero_point: Term | None, kind: str) -> Term:
    """As :func:`saturate`, still as floats, and for integers of 4 and 2 bits too."""
    whole = elementwise("round", x)
    if zero_point is not None:
        whole = add(whole, builders.cast(zero_point, x.dtype))
    bits = int(kind.lstrip("uint"))
    low = 0 if kind.startswith("u") else -(2 ** (bits - 1))
    return minimum(maximum(whole, low), low + 2**bits - 1)


@operator("QuantizeLinear")
def _quantize_linear(node: Node) -> Term:
    x, scale, zero_point = node[0], node.scalar(1), node.get(2)
    axis = node.attributes.integer("axis", 1)
    block = node.attributes.integer("block_size", 0)
    saturating = node.attributes.flag("saturate", True)  # For float8 only.
    dtype = "uint8" if zero_point is None else zero_point.dtype
    kind = node.narrow(2)
    wanted = node.attributes.integer("output_dtype", 0)
    if wanted in NARROW:
        kind, dtype = narrow_name(wanted), NARROW[wanted]
    elif wanted:
        kind, dtype = None, dtype_name(wanted)
    if kind is None:
        _check_integer(node, dtype)
    precision = node.attributes.integer("precision", 0)
    exact = dtype_name(precision) if precision else "float32"
    if exact in HALVES or (not precision and scale.dtype == "float64"):
        exact = "float64" if scale.dtype == "float64" else "float32"
    x = builders.cast(x, exact)
    scale = builders.cast(aligned(node, scale, x, axis, block), exact)
    if zero_point is not None:
        zero_point = aligned(node, node.scalar(2), x, axis, block)
    steps = div(x, scale)
    if kind is None:
        return saturate(steps, zero_point, dtype)
    if dtype in FLOATS:
        # Zero points of floats are 0.
        values = node.value_of(node.fold(steps, "steps"), f"what is quantised to {kind}")
        return node.stored(node.parameter(narrowed(values, kind, saturating), "stored"), kind)
    return node.stored(builders.cast(_whole(steps, zero_point, kind), dtype), kind)


def _check_integer(node: Node, dtype: str) -> None:
    if dtype in FLOATS or dtype == "bool":
        raise node.error(f"cannot quantise to {dtype}")


@operator("DynamicQuantizeLinear")
def _dynamic_quantize_linear(node: Node) -> list[Term | None]:
    x = node[0]
    axes = list(range(x.type.rank))
    least = minimum(reduce("min", x, axes, False), 0)
    most = maximum(reduce("max", x, axes, False), 0)
    scale = div(sub(most, least), 255)
    # Data that is zero everywhere has no range: as onnxruntime does, any scale is right.
    scale = select(elementwise("equal", scale, like(scale, 0)), 1, scale)
    zero_point = saturate(div(sub(like(least, 0), least), scale), None, "uint8")
    return [saturate(div(x, scale), zero_point, "uint8"), scale, zero_point]


@operator("DequantizeLinear")
def _dequantize_linear(node: Node) -> Term:
    x, scale = node[0], node.scalar(1)
    axis = node.attributes.integer("axis", 1)
    block = node.attributes.integer("block_size", 0)
    dtype = scale.dtype
    if node.attributes.integer("output_dtype", 0):
        dtype = dtype_name(node.attributes.integer("output_dtype", 0))
    if x.dtype in FLOATS:
        values, zero_point = x, None  # A narrow float, whose zero point is 0.
    else:
        values = builders.cast(x, "int64" if x.dtype in ("int32", "uint32") else "int32")
        zero_point = zero_of(node, 2)
    if zero_point is not None:
        zero_point = builders.cast(zero_point, values.dtype)
        values = sub(values, aligned(node, zero_point, x, axis, block))
    exact = "float32" if scale.dtype in HALVES else scale.dtype
    factor = builders.cast(aligned(node, scale, x, axis, block), exact)
    return builders.cast(mul(builders.cast(values, exact), factor), dtype)


def zero_of(node: Node, position: int) -> Term | None:
    """A zero point; None where it is left out or known to be 0, one number where all are alike."""
    if node.get(position) is None:
        return None
    known = node.known(position)
    if known is None or not known.size or np.ptp(known.astype(np.int64)):
        return node.scalar(position)
    value = int(known.flat[0])
    return builders.constant(value, (), node[position].dtype) if value else None


def centred(node: Node, position: int, zero_point: int, row: bool | None = None) -> Term:
    """An operand as int32 without its zero point; ``row`` says along which of the last two axes
    a vector of zero points runs."""
    x = builders.cast(node[position], "int32")
    shift = zero_of(node, zero_point)
    return x if shift is None else sub(x, _along(builders.cast(shift, "int32"), row))


def _along(which: Term, row: bool | None) -> Term:
    if which.type.rank == 1 and which.type.size == 1:
        return reshape(which, ())
    if which.type.rank == 1 and row:
        return builders.unsqueeze(which, 1)
    return which


@operator("MatMulInteger")
def _mat_mul_integer(node: Node) -> Term:
    check_product(node, node[0], node[1])
    return matmul(centred(node, 0, 2, True), centred(node, 1, 3, False))


@operator("QLinearMatMul")
def _qlinear_mat_mul(node: Node) -> Term:
    check_product(node, node[0], node[3])
    product = matmul(centred(node, 0, 2, True), centred(node, 3, 5, False))
    scales = (
        builders.cast(_along(node.scalar(1), True), "float32"),
        builders.cast(_along(node.scalar(4), False), "float32"),
        builders.cast(_along(node.scalar(6), True), "float32"),
    )
    factor = node.fold(div(mul(scales[0], scales[1]), scales[2]), "scale")
    values = mul(builders.cast(product, "float32"), factor)
    return saturate(values, _along(node.scalar(7), True), node[7].dtype)


def _integer_conv(node: Node, x: Term, w: Term) -> Term:
    groups = node.attributes.integer("group", 1)
    check_filters(node, x, w, groups)
    window = read_window(node, spatial_size(node, x), w.shape[2:])
    return correlate(x, w, window, groups)


def _filters(node: Node, position: int, zero_point: int) -> Term:
    # Not folded: units take the 8 bits, and compilers fold what is constant.
    w = builders.cast(node[position], "int32")
    shift = zero_of(node, zero_point)
    if shift is None:
        return w
    shift = builders.cast(shift, "int32")
    shift = reshape(shift, ()) if shift.type.size == 1 else unsqueeze_to(shift, 0, w.type.rank)
    return sub(w, shift)


@operator("ConvInteger")
def _conv_integer(node: Node) -> Term:
    return _integer_conv(node, centred(node, 0, 2), _filters(node, 1, 3))


@operator("QLinearConv")
def _qlinear_conv(node: Node) -> Term:
    x = centred(node, 0, 2)
    product = _integer_conv(node, x, _filters(node, 3, 5))
    rank = x.type.rank
    check_bias(node, node.get(8), node[3].shape[0])
    if node.get(8) is not None:
        product = add(product, unsqueeze_to(node[8], 1, rank))
    weight_scale = node.scalar(4)
    if math.prod(weight_scale.shape) == 1:
        weight_scale = reshape(weight_scale, ())
    else:
        weight_scale = unsqueeze_to(weight_scale, 1, rank)
    given = (reshape(node.scalar(1), ()), weight_scale, reshape(node.scalar(6), ()))
    factor = node.fold(div(mul(given[0], given[1]), given[2]), "scale")
    values = mul(builders.cast(product, "float32"), factor)
    return saturate(values, reshape(node.scalar(7), ()), node[7].dtype)
