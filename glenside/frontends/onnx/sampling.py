"""Operators that look up or put back values at computed places."""

from __future__ import annotations

import itertools
import math

import numpy as np

from glenside.frontends.lowering.phrases import (
    add,
    matmul,
    mul,
    reduce,
    reshape,
    sub,
    swap_last,
    unsqueeze_to,
)
from glenside.frontends.lowering.places import scatter
from glenside.frontends.lowering.sampling import (
    deformable_convolution,
    grid_taps,
    look_up,
    region_values,
)
from glenside.frontends.onnx.convolution import check_bias, check_filters
from glenside.frontends.onnx.node import Node, operator
from glenside.frontends.onnx.shape_ops import take
from glenside.frontends.onnx.spatial import entries, read_window, spatial_size
from glenside.language import Term, builders


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
        taps.append(grid_taps(along, length, mode, padding, corners))
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2] + (1,) * rank)
    base = node.parameter(planes * math.prod(size), "planes")
    return builders.cast(look_up(builders.cast(x, dtype), base, taps, 1), x.dtype)


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
    n, c = x.shape[:2]
    kernel = w.shape[2:]
    count = math.prod(kernel)
    if parts < 1 or c % parts or offset.shape[:2] != (n, parts * count * 2):
        raise node.error(f"offsets of shape {offset.shape} do not fit {parts} groups of {kernel}")
    result = deformable_convolution(node, x, w, offset, mask, window, groups, parts)
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
    corner = sub(mul(rois, scale), 0.5 if pixels == "half_pixel" else 0.0)
    least = 0.0 if pixels == "half_pixel" else 1.0
    seen = region_values(node, x, corner, batches, out, samples, least)
    return reduce("mean", seen, [4, 5], False)


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
    node.require(places, 0, count, f"takes indices from 0 to {count - 1}")
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
