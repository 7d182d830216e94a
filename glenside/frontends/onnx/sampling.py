"""Operators that look up or put back values at computed places."""

from __future__ import annotations

import itertools
import math

import numpy as np

from glenside.frontends.lowering.phrases import (
    add,
    div,
    dot,
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
    swap_last,
    transpose,
    unsqueeze_to,
)
from glenside.frontends.onnx.convolution import check_bias, check_filters
from glenside.frontends.onnx.indexing import scatter, steps
from glenside.frontends.onnx.node import Node, operator
from glenside.frontends.onnx.shape_ops import take
from glenside.frontends.onnx.spatial import entries, read_window, spatial_size
from glenside.language import Term, builders
from glenside.language.builders import access

Tap = tuple[Term, Term | None, Term | None]
"""A position along one axis that a place looks at, its weight (None: 1), and where it lies on the
axis (None: everywhere). What does not is 0, whatever the element looked at instead may be."""


@operator("AffineGrid")
def _affine_grid(node: Node) -> Term:
    theta, size = node[0], node.ints(1, "size")
    aligned = node.attributes.flag("align_corners")
    rank = len(size) - 2
    if rank not in (2, 3) or theta.shape != (size[0], rank, rank + 1) or min(size) < 1:
        raise node.error(f"size {size} and theta of shape {theta.shape} do not fit")
    node.check_size(math.prod(size[2:]), "size")
    # The last axis comes first in a position: x, y, z.
    along = [_from_minus_one(length, aligned) for length in reversed(size[2:])]
    places = np.meshgrid(*reversed(along), indexing="ij")[::-1]
    rows = np.stack([*places, np.ones(size[2:])], axis=-1).reshape(-1, rank + 1)
    grid = matmul(node.parameter(rows.astype(theta.dtype), "places"), swap_last(theta))
    return reshape(grid, (size[0], *size[2:], rank))


def _from_minus_one(length: int, aligned: bool) -> np.ndarray:
    """Where positions of an axis stand from -1 to 1: their middles, or the ends at both ends."""
    if not aligned:
        return (2 * np.arange(length) + 1) / length - 1
    return np.linspace(-1, 1, length) if length > 1 else np.zeros(1)


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
    return builders.cast(_look_up(builders.cast(x, dtype), base, taps, 1), x.dtype)


def _look_up(x: Term, base: Term, taps: list[list[Tap]], channel_axis: int) -> Term:
    """Weighted sums of the elements of ``x`` at all combinations of taps along its last axes.

    ``base`` says where each channel begins; the taps know no channels, whose axis they are given.
    """
    flat = reshape(x, (x.type.size,))
    size = x.shape[x.type.rank - len(taps) :]
    total: Term | None = None
    for chosen in itertools.product(*taps):
        place: Term | None = None
        weight: Term | None = None
        held: Term | None = None
        for (position, share, on), step in zip(chosen, steps(size), strict=True):
            moved = mul(builders.cast(position, "int64"), step)
            place = moved if place is None else add(place, moved)
            weight = share if weight is None or share is None else mul(weight, share)
            held = on if held is None or on is None else elementwise("and", held, on)
        assert place is not None
        value = builders.gather(flat, add(base, builders.unsqueeze(place, channel_axis)), 0)
        if weight is not None:
            value = mul(value, builders.unsqueeze(weight, channel_axis))
        if held is not None:
            value = select(builders.unsqueeze(held, channel_axis), value, 0)
        total = value if total is None else add(total, value)
    assert total is not None
    return total


def _axis_taps(place: Term, length: int, mode: str, padding: str, corners: bool) -> list[Tap]:
    """Positions along one axis that a place looks at, each with its weight."""
    if corners:
        place = mul(add(place, 1), (length - 1) / 2)
        least, most = 0.0, length - 1.0
    else:
        place = mul(sub(mul(add(place, 1), length), 1), 0.5)
        least, most = -0.5, length - 0.5
    return _taps(place, length, mode, padding, least, most)


def _taps(
    place: Term, length: int, mode: str, padding: str, least: float, most: float
) -> list[Tap]:
    """As :func:`_axis_taps`, for places counted in positions of the axis."""
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
) -> Tap:
    if padding == "reflection":
        return _clamp(_reflect(position, least, most), length), share, None
    inside = _clamp(position, length)
    if padding == "border":
        return inside, share, None
    held = elementwise("equal", inside, position)
    # A place that is not a number lies nowhere.
    return select(held, inside, 0), share, held


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


@operator("DeformConv")
def _deform_conv(node: Node) -> Term:
    """Every place of the kernel looks where its offset says; then a convolution like others."""
    x, w, offset, bias, mask = node[0], node[1], node[2], node.get(3), node.get(4)
    if x.type.rank != 4:
        node.refuse("only two spatial axes are supported")
    groups = node.attributes.integer("group", 1)
    parts = node.attributes.integer("offset_group", 1)
    check_filters(node, x, w, groups)
    check_bias(node, bias, w.shape[0])
    window = read_window(node, x.shape[2:], w.shape[2:])
    n, c, *size = x.shape
    o, depth, *kernel = w.shape
    count = math.prod(kernel)
    if parts < 1 or c % parts or offset.shape[:2] != (n, parts * count * 2):
        raise node.error(f"offsets of shape {offset.shape} do not fit {parts} groups of {kernel}")
    out = offset.shape[2:]
    moved = reshape(offset, (n, parts, count, 2, *out))
    taps = []
    for axis, length in enumerate(size):
        within = np.arange(kernel[axis]) * window.dilation[axis]
        corner = np.arange(out[axis]) * window.stride[axis] - window.before[axis]
        grid = np.zeros((*kernel, *out))
        grid += within.reshape([-1 if i == axis else 1 for i in range(4)])
        grid += corner.reshape([-1 if i == axis + 2 else 1 for i in range(4)])
        start = node.parameter(grid.reshape(count, *out).astype(x.dtype), "grid")
        by = builders.squeeze(builders.slice_(moved, 3, axis, axis + 1), 3)
        taps.append(_taps(add(by, start), length, "linear", "zeros", 0, 0))
    planes = np.arange(n * c).reshape(n, parts, c // parts, 1, 1, 1) * math.prod(size)
    seen = _look_up(x, node.parameter(planes, "planes"), taps, 2)
    if mask is not None:
        seen = mul(seen, builders.unsqueeze(reshape(mask, (n, parts, count, *out)), 2))
    columns = transpose(reshape(seen, (n, groups, c // groups, count, *out)), (1, 0, 4, 5, 2, 3))
    filters = access(reshape(w, (groups, o // groups, depth, count)), 2)
    product = transpose(dot(filters, access(columns, 4), 1), (2, 0, 1, 3, 4))
    result = reshape(product, (n, o, *out))
    return result if bias is None else add(result, unsqueeze_to(bias, 1, 4))


@operator("RoiAlign")
def _roi_align(node: Node) -> Term:
    x, rois, batches = node[0], node[1], node[2]
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    other = "output_half_pixel" if node.opset >= 16 else "half_pixel"
    pixels = default
    if node.opset >= 16:
        pixels = node.attributes.choice("coordinate_transformation_mode", default, other)
    out = [node.attributes.integer(f"output_{side}", 1) for side in ("height", "width")]
    samples = node.attributes.integer("sampling_ratio", 0)
    scale = node.attributes.real("spatial_scale", 1.0)
    if node.attributes.choice("mode", "avg", "max") == "max":
        node.refuse("mode max is not supported")
    if samples == 0:
        node.refuse("sampling_ratio 0, as many samples as a region is large, is not supported")
    count = rois.shape[0]
    if x.type.rank != 4 or rois.shape != (count, 4) or batches.shape != (count,):
        raise node.error(f"rois {rois.shape} and batch_indices {batches.shape} do not fit")
    if min(*out, samples) < 1 or not x.type.size:
        raise node.error("output sizes and sampling_ratio must be positive, the data not empty")
    _, channels, *size = x.shape
    corner = sub(mul(rois, scale), 0.5 if pixels == "half_pixel" else 0.0)
    taps = []
    for axis, length in enumerate(size):
        low, high = (
            reshape(builders.slice_(corner, 1, at, at + 1), (count, 1, 1, 1, 1))
            for at in (1 - axis, 3 - axis)
        )
        extent = sub(high, low)
        if pixels != "half_pixel":
            extent = maximum(extent, 1)
        cell = np.arange(out[axis])[:, None] + (np.arange(samples) + 0.5) / samples
        shape = [1, 1, 1, 1, 1]
        shape[1 + axis], shape[3 + axis] = out[axis], samples
        steps_ = node.parameter((cell / out[axis]).reshape(shape).astype(x.dtype), "cells")
        taps.append(_inner_taps(add(low, mul(extent, steps_)), length))
    start = mul(builders.cast(batches, "int64"), channels * math.prod(size))
    planes = node.parameter(np.arange(channels).reshape(1, -1) * math.prod(size), "planes")
    base = reshape(add(reshape(start, (count, 1)), planes), (count, channels, 1, 1, 1, 1))
    return reduce("mean", _look_up(x, base, taps, 1), [4, 5], False)


def _inner_taps(place: Term, length: int) -> list[Tap]:
    """The neighbours of a place; up to one position outside counts as the border, beyond as 0."""
    seen = elementwise(
        "and",
        elementwise("greater_equal", place, like(place, -1)),
        elementwise("less_equal", place, like(place, length)),
    )
    inside = _clamp(place, length)
    low = elementwise("floor", inside)
    part = sub(inside, low)
    return [
        (low, sub(like(part, 1), part), seen),
        (minimum(add(low, 1), length - 1), part, seen),
    ]


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
