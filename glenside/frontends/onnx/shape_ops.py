"""Operators that move, repeat or cut data, and those that ask for shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glenside.frontends.lowering.phrases import reshape, select, spread, transpose
from glenside.frontends.onnx.node import Array, Node, operator
from glenside.language import Term, builders


@operator("Reshape")
def _reshape(node: Node) -> Term:
    x = node[0]
    zero_is_length = node.attributes.flag("allowzero")
    wanted = node.ints(1, "shape")
    shape = list(wanted)
    for axis, length in enumerate(wanted):
        if length == 0 and not zero_is_length:
            if axis >= x.type.rank:
                raise node.error(f"shape {wanted} copies axis {axis} of {x.shape}, not there")
            shape[axis] = x.shape[axis]
    if shape.count(-1) > 1 or min(shape, default=0) < -1:
        raise node.error(f"shape {wanted} may hold one -1 and no other negative length")
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        if known == 0 or x.type.size % known:
            raise node.error(f"shape {wanted} does not divide the {x.type.size} elements given")
        shape[shape.index(-1)] = x.type.size // known
    return reshape(x, shape)


@operator("Flatten")
def _flatten(node: Node) -> Term:
    x = node[0]
    axis = node.attributes.integer("axis", 1)
    axis = axis if axis == x.type.rank else node.axis(axis, x.type.rank)
    return reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Transpose")
def _transpose(node: Node) -> Term:
    x = node[0]
    order = node.attributes.integers("perm")
    return transpose(x, order if order is not None else range(x.type.rank)[::-1])


@operator("Squeeze")
def _squeeze(node: Node) -> Term:
    x = node[0]
    axes = _axes(node)
    if axes is None:
        axes = [axis for axis, length in enumerate(x.shape) if length == 1]
    for axis in sorted(node.axes(axes, x.type.rank), reverse=True):
        x = builders.squeeze(x, axis)
    return x


@operator("Unsqueeze")
def _unsqueeze(node: Node) -> Term:
    x = node[0]
    axes = _axes(node)
    if axes is None:
        raise node.error("axes are missing")
    for axis in sorted(node.axes(axes, x.type.rank + len(axes))):
        x = builders.unsqueeze(x, axis)
    return x


def _axes(node: Node) -> list[int] | None:
    """Axes from the attribute or (opset 13 on) the second operand."""
    if node.opset < 13:
        return node.attributes.integers("axes")
    return None if node.get(1) is None else node.ints(1, "axes")


@operator("Concat")
def _concat(node: Node) -> Term:
    parts = node.given()
    if not parts:
        raise node.error("takes at least one operand")
    axis = node.axis(node.attributes.integer("axis"), parts[0].type.rank)
    return builders.concat(axis, *parts)


@operator("Expand")
def _expand(node: Node) -> Term:
    x = node[0]
    shape = node.ints(1, "shape")
    if min(shape, default=0) < 0:
        raise node.error(f"shape {shape} must not be negative")
    return spread(x, builders.broadcast_shapes(x.shape, tuple(shape)))


@operator("Tile")
def _tile(node: Node) -> Term:
    x = node[0]
    repeats = node.ints(1, "repeats")
    if len(repeats) != x.type.rank or min(repeats, default=0) < 0:
        raise node.error(f"repeats {repeats} do not fit data of shape {x.shape}")
    # Each axis gets one of length 1 in front, which is repeated.
    split: list[int] = []
    repeated: list[int] = []
    for length, times in zip(x.shape, repeats, strict=True):
        split += [1, length]
        repeated += [times, length]
    whole = builders.broadcast(reshape(x, split), repeated)
    return reshape(whole, [n * t for n, t in zip(x.shape, repeats, strict=True)])


@operator("Split")
def _split(node: Node) -> list[Term]:
    x = node[0]
    axis = node.axis(node.attributes.integer("axis", 0), x.type.rank)
    length, parts = x.shape[axis], len(node.proto.output)
    sizes: list[int] | None = None
    if node.opset < 13:
        sizes = node.attributes.integers("split")
    elif node.get(1) is not None:
        sizes = node.ints(1, "split")
    if node.opset >= 18 and node.attributes.integer("num_outputs", parts) != parts:
        raise node.error(f"attribute num_outputs is not the {parts} outputs it has")
    if sizes is None:
        each = -(-length // parts)
        sizes = [min(each, max(length - i * each, 0)) for i in range(parts)]
    if sum(sizes) != length or min(sizes, default=0) < 0 or len(sizes) < len(node.proto.output):
        raise node.error(f"split {sizes} does not add up to the {length} positions of axis {axis}")
    starts = np.cumsum([0, *sizes])
    return [
        builders.slice_(x, axis, int(low), int(low) + size)
        for low, size in zip(starts, sizes, strict=False)
    ]


@operator("Slice")
def _slice(node: Node) -> Term:
    x = node[0]
    rank = x.type.rank
    if node.opset < 10:
        starts, ends = node.attributes.integers("starts"), node.attributes.integers("ends")
        given, steps = node.attributes.integers("axes"), None
    else:
        starts, ends = node.ints(1, "starts"), node.ints(2, "ends")
        given = node.ints(3, "axes") if node.get(3) is not None else None
        steps = node.ints(4, "steps") if node.get(4) is not None else None
    if starts is None or ends is None:
        raise node.error("starts or ends are missing")
    axes = node.axes(given if given is not None else range(len(starts)), rank)
    steps = steps if steps is not None else [1] * len(axes)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise node.error(f"starts {starts}, ends {ends}, axes {axes}, steps {steps} do not fit")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        x = take(node, x, range(x.shape[axis])[start:end:step], axis)
    return x


def take(node: Node, x: Term, positions: Sequence[int] | Array, axis: int) -> Term:
    """Known positions of one axis: a slice where they ascend evenly, else a gather."""
    if len(positions) == 0:
        return builders.slice_(x, axis, 0, 0)
    first, last = int(positions[0]), int(positions[-1])
    step = int(positions[1]) - first if len(positions) > 1 else 1
    if step < 1 or not isinstance(positions, range):
        node.check_size(len(positions), "positions")
        places = np.asarray(positions, np.int64)
        if step < 1 or not np.array_equal(places, np.arange(first, last + 1, step)):
            return builders.gather(x, node.parameter(places, "positions"), axis)
    if (first, last, step) == (0, x.shape[axis] - 1, 1):
        return x
    return builders.slice_(x, axis, first, last + 1, step)


@operator("Pad")
def _pad(node: Node) -> Term:
    x = node[0]
    rank = x.type.rank
    mode = node.attributes.choice("mode", "constant", "reflect", "edge", "wrap")
    value: float = 0
    axes = list(range(rank))
    if node.opset < 11:
        name = "paddings" if "paddings" in node.attributes else "pads"
        widths = node.attributes.integers(name)
        value = node.attributes.real("value", 0.0)
    else:
        widths = node.ints(1, "pads")
        if node.get(2) is not None and mode == "constant":
            value = node.number(2, "constant_value")
        if node.get(3) is not None:
            axes = node.axes(node.ints(3, "axes"), rank)
    if widths is None or len(widths) != 2 * len(axes):
        raise node.error(f"pads {widths} must hold two entries for each of {len(axes)} axes")
    for axis, before, after in zip(axes, widths, widths[len(axes) :], strict=False):
        length = x.shape[axis]
        if min(length + before, length + after, length + before + after) < 0:
            raise node.error(f"pads {widths} cut more off than shape {x.shape} has")
        if mode == "constant":
            low, high = max(-before, 0), length - max(-after, 0)
            kept = (
                x if (low, high) == (0, length) else builders.slice_(x, axis, low, max(low, high))
            )
            fill = value if value or isinstance(value, bool) else "zero"
            x = builders.pad(kept, axis, max(before, 0), max(after, 0), fill)
        else:
            x = take(node, x, _padded_positions(node, length, before, after, mode), axis)
    return x


def _padded_positions(node: Node, length: int, before: int, after: int, mode: str) -> Array:
    # What is cut off is gone before the rest is repeated, as onnxruntime has it.
    low, high = max(-before, 0), length - max(-after, 0)
    if high <= low and (before > 0 or after > 0):
        raise node.error(f"an empty axis cannot be padded with mode {mode}")
    places = np.arange(low, max(low, high))
    if before > 0 or after > 0:
        widths = (max(before, 0), max(after, 0))
        node.check_size(sum(widths), "padding")
        places = np.pad(places, widths, mode=mode)  # type: ignore[call-overload]
    return places


@operator("CenterCropPad")
def _center_crop_pad(node: Node) -> Term:
    x = node[0]
    axes = node.axes(node.attributes.integers("axes") or range(x.type.rank), x.type.rank)
    shape = node.ints(1, "shape")
    if len(shape) != len(axes) or min(shape, default=0) < 0:
        raise node.error(f"shape {shape} does not give lengths to axes {axes} of {x.shape}")
    for axis, wanted in zip(axes, shape, strict=True):
        node.check_size(wanted, "shape")
        more = wanted - x.shape[axis]
        if more >= 0:
            x = builders.pad(x, axis, more // 2, more - more // 2)
        else:
            x = builders.slice_(x, axis, -more // 2, -more // 2 + wanted)
    return x


@operator("Trilu")
def _trilu(node: Node) -> Term:
    x = node[0]
    if x.type.rank < 2:
        raise node.error(f"takes matrices, got shape {x.shape}")
    upper = node.attributes.flag("upper", True)
    k = node.number(1, "k") if node.get(1) is not None else 0
    k = max(min(k, x.shape[-1] + 1), -x.shape[-2] - 1)
    node.make_room(x.shape[-2:], "the triangle", each=3)
    ones = np.ones(x.shape[-2:], bool)
    kept = np.triu(ones, k) if upper else np.tril(ones, k)
    return select(node.parameter(kept, "kept"), x, 0)


@operator("DepthToSpace")
def _depth_to_space(node: Node) -> Term:
    x = node[0]
    block = node.attributes.integer("blocksize")
    mode = node.attributes.choice("mode", "DCR", "CRD")
    if x.type.rank != 4 or block < 1 or x.shape[1] % (block * block):
        raise node.error(f"blocksize {block} does not divide data of shape {x.shape}")
    n, c, h, w = x.shape
    depth = c // block**2
    if mode == "DCR":
        blocks = transpose(reshape(x, (n, block, block, depth, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        blocks = transpose(reshape(x, (n, depth, block, block, h, w)), (0, 1, 4, 2, 5, 3))
    return reshape(blocks, (n, depth, h * block, w * block))


@operator("SpaceToDepth")
def _space_to_depth(node: Node) -> Term:
    x = node[0]
    block = node.attributes.integer("blocksize")
    mode = node.attributes.choice("mode", "DCR", "CRD") if node.opset >= 29 else "DCR"
    if x.type.rank != 4 or block < 1 or x.shape[2] % block or x.shape[3] % block:
        raise node.error(f"blocksize {block} does not divide data of shape {x.shape}")
    n, c, h, w = x.shape
    split = reshape(x, (n, c, h // block, block, w // block, block))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return reshape(transpose(split, order), (n, c * block**2, h // block, w // block))


@operator("Shape")
def _shape(node: Node) -> Array:
    x = node[0]
    start, end = 0, x.type.rank
    if node.opset >= 15:
        start = node.attributes.integer("start", 0)
        end = node.attributes.integer("end", x.type.rank)
    return np.array(x.shape[slice(start, end)], np.int64)


@operator("Size")
def _size(node: Node) -> Array:
    return np.array(node[0].type.size, np.int64)
