"""Operators that move, repeat or cut data, and compute nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering import phrases
from glenside.frontends.lowering.known import padded_places, pick
from glenside.frontends.lowering.phrases import reshape, spread, transpose
from glenside.frontends.torch.promotion import as_tensor
from glenside.frontends.torch.signature import Node, operator
from glenside.language import Term, builders

Ints = tuple[int, ...]


@operator("view", "_unsafe_view", "reshape", "view_copy", implied=("size", "shape"))
def view(node: Node, x: Term) -> Term:
    """The same elements in row-major order."""
    return reshape(x, node.shape)


@operator("permute", "permute_copy")
def permute(x: Term, dims: Ints) -> Term:
    """Axes permuted."""
    return transpose(x, [each % x.type.rank for each in dims])


@operator("t", "transpose")
def swap(x: Term, dim0: int = 0, dim1: int = 1) -> Term:
    """Two axes exchanged; a vector stays as it is."""
    if x.type.rank < 2:
        return x
    order = list(range(x.type.rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return transpose(x, order)


@operator("squeeze", "squeeze_copy", "unsqueeze", "unsqueeze_copy", implied=("dim",))
def refit(node: Node, x: Term) -> Term:
    """Axes of length 1 removed or inserted."""
    return reshape(x, node.shape)


@operator("expand", "expand_copy", implied=("size",))
def expand(node: Node, x: Term) -> Term:
    """Axes of length 1 repeated, others added in front."""
    return spread(x, node.shape)


@operator("cat")
def cat(node: Node, tensors: tuple[Term, ...], dim: int = 0) -> Term:
    """Tensors joined along an axis."""
    # An empty vector may stand among tensors of any shape.
    parts = [each for each in tensors if each.shape != (0,) or len(node.shape) == 1]
    if not parts:
        raise ShapeError("there is nothing to join")
    return builders.concat(dim % len(node.shape), *(as_tensor(each, node.dtype) for each in parts))


@operator("stack")
def stack(node: Node, tensors: tuple[Term, ...], dim: int = 0) -> Term:
    """Tensors of one shape joined along a new axis."""
    at = dim % len(node.shape)
    parts = (builders.unsqueeze(as_tensor(each, node.dtype), at) for each in tensors)
    return builders.concat(at, *parts)


@operator("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(x: Term, split_sizes: Ints, dim: int = 0) -> tuple[Term, ...]:
    """Parts of these lengths along an axis."""
    edges = [0, *itertools.accumulate(split_sizes)]
    axis = dim % x.type.rank
    return tuple(builders.slice_(x, axis, low, high) for low, high in itertools.pairwise(edges))


@operator("split")
def split(x: Term, split_size: int, dim: int = 0) -> tuple[Term, ...]:
    """Parts of one length along an axis; the last may be shorter."""
    length = x.shape[dim % x.type.rank]
    sizes = [min(split_size, length - low) for low in range(0, length, max(split_size, 1))]
    return split_with_sizes(x, tuple(sizes or [0]), dim)


@operator("unbind")
def unbind(x: Term, dim: int = 0) -> tuple[Term, ...]:
    """Every position of an axis."""
    axis = dim % x.type.rank
    return tuple(_at(x, axis, position) for position in range(x.shape[axis]))


def _at(x: Term, axis: int, position: int) -> Term:
    return builders.squeeze(builders.slice_(x, axis, position, position + 1), axis)


@operator("select", "select_copy")
def select(x: Term, dim: int, index: int) -> Term:
    """One position of an axis."""
    axis = dim % x.type.rank
    return _at(x, axis, index % x.shape[axis])


def _spots(length: int, start: int | None, end: int | None, step: int) -> range:
    return range(length)[start:end:step]


@operator("slice", "slice_copy")
def slice_(
    x: Term, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Term:
    """Positions from ``start`` to before ``end`` of an axis."""
    axis = dim % x.type.rank
    spots = _spots(x.shape[axis], start, end, step)
    if len(spots) == x.shape[axis]:
        return x
    if not spots:
        return builders.slice_(x, axis, 0, 0)
    return builders.slice_(x, axis, spots[0], spots[-1] + 1, step)


@operator("slice_scatter")
def slice_scatter(
    node: Node,
    x: Term,
    src: Term,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Term:
    """``x`` with positions of an axis replaced."""
    axis = dim % x.type.rank
    return _replaced(node, x, src, axis, _spots(x.shape[axis], start, end, step))


@operator("select_scatter")
def select_scatter(node: Node, x: Term, src: Term, dim: int, index: int) -> Term:
    """``x`` with one position of an axis replaced."""
    axis = dim % x.type.rank
    at = index % x.shape[axis]
    return _replaced(node, x, builders.unsqueeze(src, axis), axis, range(at, at + 1))


def _replaced(node: Node, x: Term, src: Term, axis: int, spots: range) -> Term:
    """``x`` with evenly spaced positions of an axis taken from ``src``."""
    src = builders.cast(src, x.dtype)
    if not spots:
        return x
    if spots.step == 1:
        before = builders.slice_(x, axis, 0, spots.start)
        after = builders.slice_(x, axis, spots.stop, x.shape[axis])
        parts = [each for each in (before, src, after) if each.shape[axis]]
        return builders.concat(axis, *parts)
    origin = np.full(x.shape[axis], -1, np.int64)
    origin[list(spots)] = np.arange(len(spots))
    moved = pick(node.constants, src, np.maximum(origin, 0).tolist(), axis)
    column = (origin >= 0).reshape((-1,) + (1,) * (x.type.rank - axis - 1))
    return phrases.select(node.parameter(column, "slice"), moved, x)


@operator("repeat")
def repeat(x: Term, repeats: Ints) -> Term:
    """Whole copies along every axis."""
    return phrases.tile(x, repeats)


@operator("repeat_interleave")
def repeat_interleave(
    x: Term, repeats: int, dim: int | None = None, output_size: int | None = None
) -> Term:
    """Every position of an axis several times."""
    del output_size
    return phrases.repeat(x, repeats, dim)


@operator("flip")
def flip(node: Node, x: Term, dims: Ints) -> Term:
    """Axes backwards."""
    for dim in dims:
        axis = dim % x.type.rank
        x = pick(node.constants, x, range(x.shape[axis])[::-1], axis)
    return x


@operator("roll")
def roll(x: Term, shifts: Ints, dims: Ints = ()) -> Term:
    """Axes turned round; without one the flattened elements."""
    if not dims:
        return reshape(roll(reshape(x, (x.type.size,)), shifts, (0,)), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = dim % x.type.rank
        length = x.shape[axis]
        if not length or not shift % length:
            continue
        cut = length - shift % length
        low, high = builders.slice_(x, axis, 0, cut), builders.slice_(x, axis, cut, length)
        x = builders.concat(axis, high, low)
    return x


@operator("constant_pad_nd")
def constant_pad_nd(x: Term, pad: Ints, value: float = 0) -> Term:
    """Axes, the last one first, padded with a number; negative widths cut off."""
    number = phrases.like(x, value)["value"]
    for i, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = x.type.rank - 1 - i
        x = builders.slice_(x, axis, max(-before, 0), x.shape[axis] - max(-after, 0))
        x = builders.pad(x, axis, max(before, 0), max(after, 0), "zero" if number == 0 else number)
    return x


def _padding(mode: str) -> Callable[..., Term]:
    def apply(node: Node, x: Term, padding: Ints) -> Term:
        """The last axes padded with what they hold themselves."""
        for i, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True)):
            axis = x.type.rank - 1 - i
            places = padded_places(x.shape[axis], max(before, 0), max(after, 0), mode)
            places = places[max(-before, 0) : len(places) - max(-after, 0)]
            x = pick(node.constants, x, places, axis)
        return x

    return apply


for _spatial in (1, 2, 3):
    operator(f"reflection_pad{_spatial}d")(_padding("reflect"))
    operator(f"replication_pad{_spatial}d")(_padding("edge"))


@operator("diagonal", "diagonal_copy")
def diagonal(node: Node, x: Term, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Term:
    """The diagonal of two axes, as the last axis."""
    moved, _ = phrases.to_end(x, [dim1 % x.type.rank, dim2 % x.type.rank])
    *outer, rows, columns = moved.shape
    places = (np.arange(rows)[:, None] * columns + np.arange(columns)).diagonal(offset)
    flat = reshape(moved, (*outer, rows * columns))
    return pick(node.constants, flat, places.tolist(), len(outer))


def _triangle(lower: bool) -> Callable[..., Term]:
    def apply(node: Node, x: Term, diagonal: int = 0) -> Term:
        """Elements on one side of a diagonal of each matrix; the others become 0."""
        node.make_room(x.shape[-2:], "the triangle")
        ones = np.ones(x.shape[-2:], bool)
        kept = np.tril(ones, diagonal) if lower else np.triu(ones, diagonal)
        return phrases.select(node.parameter(kept, "kept"), x, 0)

    return apply


operator("tril")(_triangle(True))
operator("triu")(_triangle(False))


@operator("pixel_shuffle")
def pixel_shuffle(x: Term, upscale_factor: int) -> Term:
    """Blocks of channels become blocks of pixels."""
    block = upscale_factor
    *batch, channels, height, width = x.shape
    depth, rank = channels // block**2, len(batch)
    blocks = reshape(x, (*batch, depth, block, block, height, width))
    order = (*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2)
    return reshape(transpose(blocks, order), (*batch, depth, height * block, width * block))


@operator("pixel_unshuffle")
def pixel_unshuffle(x: Term, downscale_factor: int) -> Term:
    """Blocks of pixels become blocks of channels."""
    block = downscale_factor
    *batch, depth, height, width = x.shape
    h, w, rank = height // block, width // block, len(batch)
    blocks = reshape(x, (*batch, depth, h, block, w, block))
    order = (*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3)
    return reshape(transpose(blocks, order), (*batch, depth * block**2, h, w))


@operator("unfold", "unfold_copy")
def unfold(node: Node, x: Term, dimension: int, size: int, step: int) -> Term:
    """Windows of an axis, as a new last axis."""
    if not x.type.rank:
        return reshape(x, (size,))
    axis = dimension % x.type.rank
    moved, _ = phrases.to_end(x, [axis])
    looks = builders.windows(builders.access(moved, x.type.rank - 1), (size,), (step,))
    flat = builders.outer_only(looks)
    rank = x.type.rank
    # (others, windows, size): the windows go where the axis was.
    order = list(range(rank - 1))
    order.insert(axis, rank - 1)
    return transpose(flat, [*order, rank])


@operator("im2col")
def im2col(x: Term, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Term:
    """The windows of an image, one below the other: (N, C, h, w) to (N, C k l, h' w')."""
    single = x.type.rank == 3
    x = builders.unsqueeze(x, 0) if single else x
    for axis, width in enumerate(padding, 2):
        x = builders.pad(x, axis, width, width)
    looks = builders.outer_only(
        builders.windows(builders.access(x, 2), kernel_size, stride, dilation)
    )
    n, c, *size = looks.shape[:4]
    moved = transpose(looks, (0, 1, 4, 5, 2, 3))
    result = reshape(moved, (n, c * math.prod(kernel_size), math.prod(size)))
    return builders.squeeze(result, 0) if single else result


@operator("col2im")
def col2im(
    x: Term, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Term:
    """The sum of windows where they overlap: (N, C k l, h' w') to (N, C, h, w)."""
    single = x.type.rank == 2
    x = builders.unsqueeze(x, 0) if single else x
    n, depth, _ = x.shape
    whole = [o + 2 * p for o, p in zip(output_size, padding, strict=True)]
    counts = [
        (w - d * (k - 1) - 1) // s + 1
        for w, d, k, s in zip(whole, dilation, kernel_size, stride, strict=True)
    ]
    channels = depth // math.prod(kernel_size)
    looks = reshape(x, (n, channels, *kernel_size, *counts))
    total: Term | None = None
    for at in itertools.product(*map(range, kernel_size)):
        part = _at(_at(looks, 2, at[0]), 2, at[1])
        for i in range(2):
            before = at[i] * dilation[i]
            reach = before + (counts[i] - 1) * stride[i] + 1
            part = builders.pad(part, 2 + i, before, whole[i] - reach, interior=stride[i] - 1)
        total = part if total is None else phrases.add(total, part)
    assert total is not None
    for i in range(2):
        total = builders.slice_(total, 2 + i, padding[i], padding[i] + output_size[i])
    return builders.squeeze(total, 0) if single else total
