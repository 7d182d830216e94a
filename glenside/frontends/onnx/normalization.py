"""Normalisations, as they run at inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.frontends.lowering.half_precision import WIDE, Half
from glenside.frontends.lowering.normalization import log_softmax
from glenside.frontends.lowering.phrases import (
    add,
    along,
    div,
    elementwise,
    like,
    mul,
    power,
    reduce,
    reshape,
    select,
    square,
    sub,
    to_end,
    transpose,
    unsqueeze_to,
)
from glenside.frontends.onnx.node import Node, dtype_name, operator
from glenside.language import Term, builders
from glenside.language.builders import access, compute
from glenside.language.shape import HALVES


@operator("BatchNormalization")
def _batch_normalization(node: Node) -> list[Term | None]:
    x = node[0]
    scale, bias, mean, variance = (node[i] for i in range(1, 5))
    epsilon = node.attributes.real("epsilon", 1e-5)
    node.attributes.ignore("momentum")  # It only matters where statistics are gathered.
    if node.opset < 7 and not node.attributes.flag("is_test"):
        node.refuse("is_test=0 is not supported: only inference is")
    if node.opset < 9 and not node.attributes.flag("spatial", True):
        node.refuse("spatial=0, statistics for every position, is not supported")
    if x.type.rank < 1 or any(
        v.shape != (x.shape[1] if x.type.rank > 1 else 1,) for v in (scale, bias, mean, variance)
    ):
        raise node.error(f"scale, bias, mean and variance do not fit data of shape {x.shape}")
    if node.attributes.flag("training_mode"):
        return _batch_statistics(node, epsilon)
    known = [node.known(i) for i in range(1, 5)]
    if all(value is not None for value in known):
        s, b, m, v = (np.asarray(value, np.float64) for value in known)
        factor = s / np.sqrt(v + epsilon)
        offset = b - m * factor
        kept = _holding(x.dtype, factor, offset)
        mul_by = node.parameter(factor.astype(kept), "scale")
        add_to = node.parameter(offset.astype(kept), "offset")
    else:
        scale, bias, mean, variance = (
            builders.cast(each, x.dtype) for each in (scale, bias, mean, variance)
        )
        mul_by = div(scale, elementwise("sqrt", add(variance, epsilon)))
        add_to = sub(bias, mul(mean, mul_by))
    rank = x.type.rank
    axis = min(1, rank - 1)
    scaled = mul(builders.cast(x, mul_by.dtype), unsqueeze_to(mul_by, axis, rank))
    return [builders.cast(add(scaled, unsqueeze_to(add_to, axis, rank)), x.dtype)]


def _holding(dtype: str, *values: np.ndarray[Any, Any]) -> str:
    """The dtype itself, or float32 where a half does not hold the values in its normal range."""
    if dtype not in HALVES:
        return dtype
    half = Half.named(dtype)
    return WIDE if any(half.range_of(np.abs(v).max(initial=0)) for v in values) else dtype


def _batch_statistics(node: Node, epsilon: float) -> list[Term | None]:
    """Normalisation by the batch's own mean and variance; they also move the running ones."""
    rank = node[0].type.rank
    x = builders.cast(node[0], "float32") if node[0].dtype in HALVES else node[0]
    scale, bias = (builders.cast(node[i], x.dtype) for i in (1, 2))
    momentum = node.attributes.real("momentum", 0.9)
    axes = [axis for axis in range(rank) if axis != 1]
    mean = reduce("mean", x, axes, True)
    centred = sub(x, mean)
    variance = reduce("mean", square(centred), axes, True)
    normal = div(centred, elementwise("sqrt", add(variance, epsilon)))
    scaled = mul(normal, unsqueeze_to(scale, 1, rank))
    running: list[Term | None] = []
    for old, new in ((node[3], mean), (node[4], variance)):
        now = builders.cast(reshape(new, old.shape), old.dtype)
        running.append(add(mul(old, momentum), mul(now, 1 - momentum)))
    result = add(scaled, unsqueeze_to(bias, 1, rank))
    return [builders.cast(result, node[0].dtype), *running]


@operator("LRN")
def _local_response_normalization(node: Node) -> Term:
    x = node[0]
    size = node.attributes.integer("size")
    alpha = node.attributes.real("alpha", 1e-4)
    beta = node.attributes.real("beta", 0.75)
    bias = node.attributes.real("bias", 1.0)
    if size < 1 or x.type.rank < 2:
        raise node.error(f"size {size} and data of shape {x.shape} do not fit")
    if not x.type.size:
        return x
    padded = builders.pad(square(x), 1, (size - 1) // 2, size // 2)
    moved, inverse = to_end(padded, [1])
    looks = builders.windows(access(moved, x.type.rank - 1), (size,), (1,))
    near = transpose(compute("sum", looks), inverse)
    scaled = div(x, power(add(mul(near, alpha / size), bias), beta))
    if bias > 0:
        return scaled
    # Among neighbours that are all 0 an element is 0, not 0 / 0.
    return select(elementwise("equal", x, like(x, 0)), 0.0, scaled)


@operator("LogSoftmax")
def _log_softmax(node: Node) -> Term:
    x = node[0]
    if node.opset >= 13:
        axes = [node.axis(node.attributes.integer("axis", -1), x.type.rank)]
    else:
        axes = list(range(node.axis(node.attributes.integer("axis", 1), x.type.rank), x.type.rank))
    return log_softmax(x, axes)


@operator("Softmax")
def _softmax(node: Node) -> Term:
    x = node[0]
    if node.opset >= 13:
        return along("softmax", x, node.axis(node.attributes.integer("axis", -1), x.type.rank))
    # Until opset 12 all axes from the given one on are one.
    axis = node.attributes.integer("axis", 1)
    axis = x.type.rank if axis == x.type.rank else node.axis(axis, x.type.rank)
    if axis == x.type.rank - 1:
        return along("softmax", x, axis)
    before, behind = x.shape[:axis], x.shape[axis:]
    flat = reshape(x, (int(np.prod(before)), int(np.prod(behind))))
    return reshape(along("softmax", flat, 1), x.shape)


@operator("LayerNormalization")
def _layer_normalization(node: Node) -> list[Term | None]:
    x, scale, bias = node[0], node[1], node.get(2)
    axis = node.axis(node.attributes.integer("axis", -1), x.type.rank)
    epsilon = node.attributes.real("epsilon", 1e-5)
    stash = dtype_name(node.attributes.integer("stash_type", 1))
    wide = builders.cast(x, _stash(node, x))
    axes = range(axis, x.type.rank)
    mean = reduce("mean", wide, axes, True)
    centred = sub(wide, mean)
    spread_ = reciprocal_deviation(centred, axes, epsilon)
    result = mul(builders.cast(mul(centred, spread_), x.dtype), scale)
    statistics = [builders.cast(each, stash) for each in (mean, spread_)]
    return [result if bias is None else add(result, bias), *statistics]


def _stash(node: Node, x: Term) -> str:
    """The dtype in which statistics are formed."""
    kind = dtype_name(node.attributes.integer("stash_type", 1))
    return x.dtype if x.dtype == "float64" else kind


def reciprocal_deviation(centred: Term, axes: Sequence[int], epsilon: float) -> Term:
    """One over the standard deviation of what has mean 0, lengths 1 kept."""
    variance = reduce("mean", square(centred), axes, True)
    return elementwise("recip", elementwise("sqrt", add(variance, epsilon)))


@operator("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_normalization(node: Node) -> list[Term]:
    """The latter is what onnxruntime called it before ONNX had it, in ONNX's own domain."""
    x, scale = node[0], node[1]
    axis = node.axis(node.attributes.integer("axis", -1), x.type.rank)
    epsilon = node.attributes.real("epsilon", 1e-5)
    wide = builders.cast(x, _stash(node, x))
    by = reciprocal_deviation(wide, range(axis, x.type.rank), epsilon)
    return [mul(builders.cast(mul(wide, by), scale.dtype), scale), by]


@operator("InstanceNormalization")
def _instance_normalization(node: Node) -> Term:
    x, scale, bias = node[0], node[1], node[2]
    epsilon = node.attributes.real("epsilon", 1e-5)
    rank = x.type.rank
    if rank < 3 or scale.shape != (x.shape[1],) or bias.shape != (x.shape[1],):
        raise node.error(f"scale or bias does not fit data of shape {x.shape}")
    axes = range(2, rank)
    centred = sub(x, reduce("mean", x, axes, True))
    normal = mul(centred, reciprocal_deviation(centred, axes, epsilon))
    return add(mul(normal, unsqueeze_to(scale, 1, rank)), unsqueeze_to(bias, 1, rank))


@operator("GroupNormalization")
def _group_normalization(node: Node) -> Term:
    x, scale, bias = node[0], node[1], node[2]
    epsilon = node.attributes.real("epsilon", 1e-5)
    groups = node.attributes.integer("num_groups")
    if x.type.rank < 2 or groups < 1 or x.shape[1] % groups:
        raise node.error(f"{groups} groups do not divide data of shape {x.shape}")
    n, c, *size = x.shape
    entries = (c if node.opset >= 21 else groups,)
    if scale.shape != entries or bias.shape != entries:
        raise node.error(f"scale or bias does not fit data of shape {x.shape}")
    wide = builders.cast(x, _stash(node, x)) if node.opset >= 21 else x
    grouped = reshape(wide, (n, groups, c // groups, *size))
    axes = range(2, grouped.type.rank)
    centred = sub(grouped, reduce("mean", grouped, axes, True))
    normal = mul(centred, reciprocal_deviation(centred, axes, epsilon))
    if node.opset < 21:
        # Then scale and bias had one entry a group.
        rank = normal.type.rank
        scaled = mul(normal, unsqueeze_to(scale, 1, rank))
        return reshape(add(scaled, unsqueeze_to(bias, 1, rank)), x.shape)
    normal = builders.cast(reshape(normal, x.shape), x.dtype)
    rank = x.type.rank
    return add(mul(normal, unsqueeze_to(scale, 1, rank)), unsqueeze_to(bias, 1, rank))


@operator("LpNormalization")
def _lp_normalization(node: Node) -> Term:
    x = node[0]
    axis = node.axis(node.attributes.integer("axis", -1), x.type.rank)
    p = node.attributes.integer("p", 2)
    if p not in (1, 2):
        raise node.error(f"attribute p must be 1 or 2, got {p}")
    powers = square(x) if p == 2 else elementwise("abs", x)
    total = reduce("sum", powers, [axis], True)
    length = elementwise("sqrt", total) if p == 2 else total
    empty = elementwise("equal", length, like(length, 0))
    return select(empty, 0.0, div(x, select(empty, 1.0, length)))


@operator("MeanVarianceNormalization")
def _mean_variance_normalization(node: Node) -> Term:
    x = node[0]
    axes = node.axes(node.attributes.integers("axes") or [0, 2, 3], x.type.rank)
    centred = sub(x, reduce("mean", x, axes, True))
    deviation = elementwise("sqrt", reduce("mean", square(centred), axes, True))
    return div(centred, add(deviation, 1e-9))
