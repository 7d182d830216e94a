"""Operators that look up or put back values at computed places."""

from __future__ import annotations

import itertools
import math

import numpy as np

from glenside.frontends.onnx.indexing import scatter, steps
from glenside.frontends.onnx.node import Node, operator
from glenside.frontends.onnx.phrases import (
    add,
    div,
    elementwise,
    like,
    maximum,
    minimum,
    mul,
    reshape,
    select,
    sub,
)
from glenside.frontends.onnx.shape_ops import take
from glenside.frontends.onnx.spatial import entries, spatial_size
from glenside.language import Term, builders


@operator("GridSample")
def _grid_sample(node: Node) -> Term:
    x, grid = node[0], node[1]
    size = spatial_size(node, x)
    mode = node.attributes.choice("mode", "linear", "bilinear", "nearest", "cubic", "bicubic")
    mode = mode.removeprefix("bi")
    padding = node.attributes.choice("padding_mode", "zeros", "border", "reflection")
    corners = node.attributes.flag("align_corners")
    rank = len(size)
    if grid.type.rank != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise node.error(f"a grid of shape {grid.shape} does not fit data of shape {x.shape}")
    dtype = "float64" if "float64" in (x.dtype, grid.dtype) else "float32"
    grid = builders.cast(grid, dtype)
    taps = []
    for i, length in enumerate(size):
        # The grid names its axes backwards.
        at = rank - 1 - i
        along = builders.squeeze(builders.slice_(grid, rank + 1, at, at + 1), rank + 1)
        taps.append(_axis_taps(along, length, mode, padding, corners))
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2] + (1,) * rank)
    base = node.parameter(planes * math.prod(size), "planes")
    flat = reshape(builders.cast(x, dtype), (x.type.size,))
    total: Term | None = None
    for chosen in itertools.product(*taps):
        place: Term | None = None
        weight: Term | None = None
        for (position, share), step in zip(chosen, steps(size), strict=True):
            moved = mul(builders.cast(position, "int64"), step)
            place = moved if place is None else add(place, moved)
            weight = share if weight is None or share is None else mul(weight, share)
        assert place is not None
        value = builders.gather(flat, add(base, builders.unsqueeze(place, 1)), 0)
        if weight is not None:
            value = mul(value, builders.unsqueeze(weight, 1))
        total = value if total is None else add(total, value)
    assert total is not None
    return builders.cast(total, x.dtype)


def _axis_taps(
    place: Term, length: int, mode: str, padding: str, corners: bool
) -> list[tuple[Term, Term | None]]:
    """Positions along one axis that a place looks at, each with its weight."""
    if corners:
        place = mul(add(place, 1), (length - 1) / 2)
        least, most = 0.0, length - 1.0
    else:
        place = mul(sub(mul(add(place, 1), length), 1), 0.5)
        least, most = -0.5, length - 0.5
    if mode == "nearest":
        place = elementwise("round", place)
    if padding == "border" and mode != "cubic":
        # A cubic goes on beyond the border, over copies of the last value.
        place = _clamp(place, length)
    elif padding == "reflection":
        place = _reflect(place, least, most)
    if mode == "nearest":
        return [_tap(place, None, length, padding, least, most)]
    first = elementwise("floor", place)
    part = sub(place, first)
    if mode == "linear":
        shares = [(0, sub(like(part, 1), part)), (1, part)]
    else:
        shares = [(offset, _cubic(part, offset)) for offset in (-1, 0, 1, 2)]
    return [
        _tap(add(first, offset) if offset else first, share, length, padding, least, most)
        for offset, share in shares
    ]


def _clamp(place: Term, length: int) -> Term:
    return minimum(maximum(place, 0), length - 1)


def _reflect(place: Term, least: float, most: float) -> Term:
    """Folded back at both borders until it lies between them."""
    span = most - least
    if span <= 0:
        return mul(place, 0)
    beyond = elementwise("abs", sub(place, least))
    times = elementwise("floor", div(beyond, span))
    rest = sub(beyond, mul(times, span))
    odd = elementwise("greater", elementwise("mod", times, like(times, 2)), like(times, 0.5))
    return select(odd, sub(like(rest, most), rest), add(rest, least))


def _tap(
    position: Term, share: Term | None, length: int, padding: str, least: float, most: float
) -> tuple[Term, Term | None]:
    if padding == "reflection":
        return _clamp(_reflect(position, least, most), length), share
    inside = _clamp(position, length)
    if padding == "border":
        return inside, share
    held = builders.cast(elementwise("equal", inside, position), position.dtype)
    return inside, held if share is None else mul(share, held)


def _cubic(part: Term, offset: int, a: float = -0.75) -> Term:
    """Weight of the neighbour ``offset`` away (Keys' cubic convolution)."""
    distance = {-1: add(part, 1), 0: part, 1: sub(like(part, 1), part)}.get(
        offset, sub(like(part, 2), part)
    )
    if offset in (0, 1):
        inner = sub(mul(distance, a + 2), a + 3)
        return add(mul(mul(inner, distance), distance), 1)
    inner = add(mul(sub(mul(distance, a), 5 * a), distance), 8 * a)
    return sub(mul(inner, distance), 4 * a)


@operator("Col2Im")
def _col2im(node: Node) -> Term:
    """Every place of the kernel spreads its blocks over the image; the images are added."""
    x = node[0]
    image, kernel = node.ints(1, "image_shape"), node.ints(2, "block_shape")
    rank = len(image)
    dilation = entries(node, "dilations", rank, 1) or [1] * rank
    pads = entries(node, "pads", 2 * rank, 0) or [0] * 2 * rank
    stride = entries(node, "strides", rank, 1) or [1] * rank
    whole = [n + pads[i] + pads[i + rank] for i, n in enumerate(image)]
    blocks = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(whole, kernel, dilation, stride, strict=True)
    ]
    count = math.prod(kernel)
    fits = x.type.rank == 3 and len(kernel) == rank and min(blocks) > 0
    if not fits or x.shape[1] % count or x.shape[2] != math.prod(blocks):
        raise node.error(f"data of shape {x.shape} does not hold blocks {kernel} of image {image}")
    columns = reshape(x, (x.shape[0], x.shape[1] // count, count, *blocks))
    total: Term | None = None
    for i, offset in enumerate(itertools.product(*map(range, kernel))):
        part = builders.squeeze(builders.slice_(columns, 2, i, i + 1), 2)
        for axis, at in enumerate(offset):
            low = at * dilation[axis]
            reach = low + (blocks[axis] - 1) * stride[axis] + 1
            part = builders.pad(part, 2 + axis, low, whole[axis] - reach, interior=stride[axis] - 1)
        total = part if total is None else add(total, part)
    assert total is not None
    for axis, length in enumerate(image):
        total = take(node, total, range(pads[axis], pads[axis] + length), 2 + axis)
    return total


@operator("MaxUnpool")
def _max_unpool(node: Node) -> Term:
    x, places = node[0], node[1]
    size = spatial_size(node, x)
    rank = len(size)
    kernel = entries(node, "kernel_shape", rank, 1)
    if kernel is None or places.shape != x.shape:
        raise node.error("kernel_shape is missing, or the indices do not fit the data")
    stride = entries(node, "strides", rank, 1) or [1] * rank
    pads = entries(node, "pads", 2 * rank, 0) or [0] * 2 * rank
    whole = [(n - 1) * stride[i] + kernel[i] - pads[i] - pads[i + rank] for i, n in enumerate(size)]
    shape = (*x.shape[:2], *whole)
    wanted = node.ints(2, "output_shape") if node.get(2) is not None else list(shape)
    if len(wanted) != len(shape) or any(w < n for w, n in zip(wanted, shape, strict=True)):
        raise node.error(f"output_shape {wanted} is smaller than {shape}")
    count = math.prod(shape)
    empty = builders.constant(0, (count,), x.dtype)
    filled = scatter(
        node,
        empty,
        reshape(builders.cast(places, "int64"), (x.type.size,)),
        reshape(x, (x.type.size,)),
        "none",
    )
    result = reshape(filled, shape)
    for axis, (n, w) in enumerate(zip(shape, wanted, strict=True)):
        result = builders.pad(result, axis, 0, w - n)
    return result
