"""Pools: windows over each channel, reduced."""

from __future__ import annotations

import math

import numpy as np

from glenside.frontends.lowering.phrases import add, elementwise, mul, power, reduce
from glenside.frontends.lowering.pooling import max_pool
from glenside.frontends.lowering.window import Window, patches
from glenside.frontends.onnx.node import Node, operator
from glenside.frontends.onnx.spatial import read_window, spatial_size
from glenside.language import Term, builders
from glenside.language.builders import compute
from glenside.language.shape import FLOATS


@operator("MaxPool")
def _max_pool(node: Node) -> list[Term | None]:
    x = node[0]
    column_major = node.attributes.flag("storage_order")
    window = read_window(node, spatial_size(node, x), None)
    values = max_pool(x, window)
    if not node.wants(1):
        return [values, None]
    return [values, _positions(node, x, window, column_major)]


def _positions(node: Node, x: Term, window: Window, column_major: bool) -> Term:
    """Where in ``x``, counted over all its elements, the maximum of each window stands."""
    if x.dtype not in FLOATS:
        # Wider, for the least number of the data is not to tie with the padding.
        x = builders.cast(x, "int32")
    looks = patches(window.pad(x, "lowest"), window)
    split = looks.type.split
    size = x.shape[2:]
    if column_major:
        strides = [math.prod(size[:i]) for i in range(len(size))]
    else:
        strides = [math.prod(size[i + 1 :]) for i in range(len(size))]
    within = np.zeros(window.kernel, np.int64)
    node.make_room((*looks.outer[:2], *looks.outer[2:]), "the places of windows")
    corner = np.zeros(looks.outer[2:], np.int64)
    for i, stride in enumerate(strides):
        steps = np.arange(window.kernel[i]) * window.dilation[i] * stride
        starts = (np.arange(corner.shape[i]) * window.stride[i] - window.before[i]) * stride
        within += steps.reshape([-1 if j == i else 1 for j in range(len(size))])
        corner += starts.reshape([-1 if j == i else 1 for j in range(len(size))])
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) * math.prod(size)
    base = planes.reshape(x.shape[:2] + (1,) * len(size)) + corner
    flat = builders.reshape(looks, looks.outer, (math.prod(window.kernel),))
    best = compute("argmax", flat)
    assert best.type.split == split
    steps_taken = builders.gather(node.parameter(within.reshape(-1), "offsets"), best, 0)
    return add(steps_taken, node.parameter(base, "corners"))


@operator("AveragePool")
def _average_pool(node: Node) -> Term:
    x = node[0]
    count_padding = node.attributes.flag("count_include_pad")
    size = spatial_size(node, x)
    window = read_window(node, size, None)
    looks = patches(window.pad(x, "zero"), window)
    if not window.padded or (count_padding and not any(window.overhang)):
        return compute("mean", looks)
    counts = _counts(size, window, count_padding)
    scale = node.parameter((1.0 / counts).astype(x.dtype), "scale")
    return mul(compute("sum", looks), scale)


def _counts(size: tuple[int, ...], window: Window, count_padding: bool) -> np.ndarray:
    """How many elements each window averages over."""
    counts = np.ones((1,) * len(size))
    for i, length in enumerate(size):
        before, after = window.before[i], window.after[i]
        counted = np.full(before + length + after + window.overhang[i], 0)
        counted[before : before + length] = 1
        if count_padding:
            counted[: before + length + after] = 1
        reach = (window.kernel[i] - 1) * window.dilation[i] + 1
        looks = np.lib.stride_tricks.sliding_window_view(counted, reach)
        along = looks[:: window.stride[i], :: window.dilation[i]].sum(axis=1)
        counts = counts * along.reshape([-1 if j == i else 1 for j in range(len(size))])
    return np.maximum(counts, 1)


@operator("LpPool")
def _lp_pool(node: Node) -> Term:
    x = node[0]
    p = node.attributes.integer("p", 2)
    window = read_window(node, spatial_size(node, x), None)
    powers = power(elementwise("abs", x), p)
    return power(compute("sum", patches(window.pad(powers, "zero"), window)), 1.0 / p)


@operator("GlobalAveragePool")
def _global_average_pool(node: Node) -> Term:
    return _global(node, "mean")


@operator("GlobalMaxPool")
def _global_max_pool(node: Node) -> Term:
    return _global(node, "max")


@operator("GlobalLpPool")
def _global_lp_pool(node: Node) -> Term:
    x = node[0]
    p = node.attributes.integer("p", 2)
    axes = range(2, x.type.rank)
    return power(reduce("sum", power(elementwise("abs", x), p), axes, True), 1.0 / p)


def _global(node: Node, function: str) -> Term:
    x = node[0]
    spatial_size(node, x)
    return reduce(function, x, range(2, x.type.rank), True)
