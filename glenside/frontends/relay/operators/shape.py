"""Operators that move elements or fill shapes, and compute nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints, Rows, Terms
from glenside.frontends.lowering import phrases
from glenside.frontends.lowering.axes import axes_of, axis_of, relayout, through_layout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.known import ints_of, number_of, pick
from glenside.frontends.lowering.phrases import reshape as reshape_to
from glenside.frontends.lowering.phrases import select, spread
from glenside.frontends.lowering.phrases import transpose as permute
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import DTYPES, Term, builders
from glenside.language.shape import FLOATS

MOST_AXES = 64
"""NumPy has no arrays of more axes."""


@operator("reshape")
def reshape(
    x: Term, *, newshape: Ints | int, allowzero: bool = False, reverse: bool = False
) -> Term:
    """The same elements in row-major order under another shape.

    0 keeps a length, -1 stands for what is left over, -2 keeps all remaining axes, -3 merges two
    axes, -4 splits one into the two lengths that follow. With ``reverse`` this is read from right
    to left.
    """
    wanted = (newshape,) if isinstance(newshape, int) else newshape
    if reverse:
        return contrib_reverse_reshape(x, newshape=wanted)
    return reshape_to(x, _new_shape(x.shape, wanted, allowzero))


@operator("contrib_reverse_reshape")
def contrib_reverse_reshape(x: Term, *, newshape: Ints | int, allowzero: bool = False) -> Term:
    """As ``reshape``, the entries read from right to left."""
    wanted = (newshape,) if isinstance(newshape, int) else newshape
    if -4 in wanted:
        raise Refused("attribute newshape with -4, read from the right, is not supported")
    return reshape_to(x, _new_shape(x.shape[::-1], wanted[::-1], allowzero)[::-1])


@operator("dyn.reshape")
def dynamic_reshape(
    constants: Constants, x: Term, shape: Term, *, newshape: object = None, allowzero: bool = False
) -> Term:
    """``reshape`` to a shape that an operand, which must be known, holds."""
    del newshape
    return reshape_to(x, _new_shape(x.shape, ints_of(constants, shape, "shape"), allowzero))


@operator("reshape_like")
def reshape_like(
    x: Term,
    like: Term,
    *,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> Term:
    """Some axes, by default all, given the shape of some axes of another tensor."""
    wanted = like.shape[_axes_between(rhs_begin, rhs_end, like.type.rank)]
    kept = _axes_between(lhs_begin, lhs_end, x.type.rank)
    return reshape_to(x, x.shape[: kept.start] + wanted + x.shape[kept.stop :])


def _axes_between(begin: int, end: int | None, rank: int) -> slice:
    return slice(*slice(begin, end).indices(rank)[:2])


def _new_shape(old: Sequence[int], wanted: Sequence[int], allowzero: bool) -> list[int]:
    what = f"shape {tuple(old)} reshaped to {list(wanted)}"
    result: list[int] = []
    taken = 0  # axes of the old shape that are dealt with
    unknown: int | None = None
    entries = iter(wanted)

    def take(count: int) -> Sequence[int]:
        nonlocal taken
        if taken + count > len(old):
            raise ShapeError(f"{what}: too few axes")
        taken += count
        return old[taken - count : taken]

    for entry in entries:
        if entry > 0 or (entry == 0 and allowzero):
            result.append(entry)
            taken += 1
        elif entry == 0:
            result += take(1)
        elif entry == -1:
            if unknown is not None:
                raise ShapeError(f"{what}: -1 stands twice")
            unknown = len(result)
            result.append(1)
            taken += 1
        elif entry == -2:
            result += take(max(len(old) - taken, 0))
        elif entry == -3:
            result.append(math.prod(take(2)))
        elif entry == -4:
            (length,) = take(1)
            parts = [next(entries, 0), next(entries, 0)]
            if -1 in parts and parts != [-1, -1]:
                known = max(parts)
                parts[parts.index(-1)] = length // known if known > 0 else 0
            if min(parts) < 1 or math.prod(parts) != length:
                raise ShapeError(f"{what}: {length} is not split so")
            result += parts
        else:
            raise ShapeError(f"{what}: {entry} has no meaning")
    if unknown is not None:
        rest = math.prod(result)
        if rest == 0 or math.prod(old) % rest:
            raise ShapeError(f"{what}: the elements do not divide evenly")
        result[unknown] = math.prod(old) // rest
    return result


@operator("nn.batch_flatten")
def batch_flatten(x: Term) -> Term:
    """All axes but the first made one."""
    if x.type.rank < 1:
        raise ShapeError("a scalar has no batch axis")
    return reshape_to(x, (x.shape[0], math.prod(x.shape[1:])))


@operator("transpose")
def transpose(x: Term, *, axes: Ints | None = None) -> Term:
    """Axes permuted; reversed if no order is given."""
    rank = x.type.rank
    order = axes_of(axes, rank) if axes else list(reversed(range(rank)))
    if len(order) != rank:
        raise ShapeError(f"axes {list(axes or ())} do not permute {rank} axes")
    return permute(x, order)


@operator("squeeze")
def squeeze(x: Term, *, axis: Ints | int | None = None) -> Term:
    """Axes of length 1 removed: those named, or all."""
    if axis is None:
        axes = [i for i, length in enumerate(x.shape) if length == 1]
    else:
        axes = axes_of((axis,) if isinstance(axis, int) else axis, x.type.rank)
    for each in sorted(axes, reverse=True):
        x = builders.squeeze(x, each)
    return x


@operator("expand_dims")
def expand_dims(x: Term, *, axis: int, num_newaxis: int = 1) -> Term:
    """Axes of length 1 inserted before ``axis``; -1 puts them last."""
    if not 0 <= num_newaxis <= MOST_AXES:
        raise ShapeError(f"num_newaxis must be 0 to {MOST_AXES}, got {num_newaxis}")
    at = axis_of(axis, x.type.rank + 1)
    for _ in range(num_newaxis):
        x = builders.unsqueeze(x, at)
    return x


@operator("concatenate")
def concatenate(parts: Terms, *, axis: int = 0) -> Term:
    """Tensors joined along an axis."""
    if not parts:
        raise ShapeError("there is nothing to join")
    return builders.concat(axis_of(axis, parts[0].type.rank), *parts)


@operator("stack")
def stack(parts: Terms, *, axis: int = 0) -> Term:
    """Tensors of one shape joined along a new axis."""
    if not parts:
        raise ShapeError("there is nothing to join")
    at = axis_of(axis, parts[0].type.rank + 1)
    return builders.concat(at, *(builders.unsqueeze(part, at) for part in parts))


@operator("split")
def split(x: Term, *, indices_or_sections: Ints | int, axis: int = 0) -> Value:
    """A tuple of parts along an axis: so many equal ones, or cut at the positions listed."""
    axis = axis_of(axis, x.type.rank)
    length = x.shape[axis]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1 or length % count:
            raise ShapeError(f"length {length} does not divide into {count} equal parts")
        cuts = [length // count * i for i in range(1, count)]
    else:
        cuts = list(indices_or_sections)
    edges = [0, *cuts, length]
    if edges != sorted(edges):
        raise ShapeError(f"cuts {cuts} of length {length} must rise")
    if len(edges) == 2:
        return (x,)
    return tuple(builders.slice_(x, axis, low, high) for low, high in itertools.pairwise(edges))


@operator("nn.pad")
def pad(
    constants: Constants,
    x: Term,
    value: Term | None = None,
    *,
    pad_width: Rows,
    pad_mode: str = "constant",
    pad_value: float | None = None,
) -> Term:
    """Every axis padded with one number, the second operand or in older text an attribute.

    In the modes ``edge`` and ``reflect`` it is padded with the data itself.
    """
    _check_widths("pad_width", pad_width, x.type.rank)
    if pad_mode in ("edge", "reflect"):
        return _padded_with_itself(constants, x, pad_width, pad_mode)
    if pad_mode != "constant":
        raise Refused(
            f"attribute pad_mode {pad_mode} is not supported; constant, edge, reflect are"
        )
    number: float = pad_value or 0.0
    if value is not None:
        known = constants.known(value)
        if known is None or known.size != 1:
            raise Refused("a padding value that is not known is not supported")
        number = known.item()
    if x.dtype not in FLOATS:
        if number != number // 1:
            raise ShapeError(f"padding value {number} is not a value of {x.dtype}")
        number = int(number)
    for axis, (before, after) in enumerate(pad_width):
        x = builders.pad(x, axis, before, after, "zero" if number == 0 else number)
    return x


def _check_widths(name: str, rows: Rows, count: int) -> None:
    if len(rows) != count or any(len(row) != 2 for row in rows):
        raise ShapeError(f"{name} needs a pair for each of {count} axes, got {rows}")


def _padded_with_itself(constants: Constants, x: Term, widths: Rows, mode: Any) -> Term:
    for axis, pair in enumerate(widths):
        length = x.shape[axis]
        least = {"reflect": length - 1, "symmetric": length}.get(mode, max(pair))
        if min(pair) < 0 or (any(pair) and (not length or max(pair) > least)):
            raise ShapeError(f"widths {list(pair)} do not fit axis {axis} of shape {x.shape}")
        if any(pair):
            spots = np.pad(np.arange(length), pair, mode=mode)
            x = pick(constants, x, spots.tolist(), axis)
    return x


@operator("dyn.nn.pad")
def dynamic_pad(
    constants: Constants,
    x: Term,
    widths: Term,
    value: Term | None = None,
    *,
    pad_mode: str = "constant",
) -> Term:
    """``nn.pad`` by widths that an operand, which must be known, holds."""
    flat = ints_of(constants, widths, "pad_width")
    rows = tuple(zip(flat[::2], flat[1::2], strict=True))
    return pad(constants, x, value, pad_width=rows, pad_mode=pad_mode)


@operator("nn.mirror_pad")
def mirror_pad(constants: Constants, x: Term, *, mode: str = "SYMMETRIC", pad_width: Rows) -> Term:
    """Every axis padded with its mirror image; ``SYMMETRIC`` repeats the border."""
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise Refused(f"attribute mode {mode} is not supported; SYMMETRIC and REFLECT are")
    _check_widths("pad_width", pad_width, x.type.rank)
    return _padded_with_itself(constants, x, pad_width, mode.lower())


# --- blocks -------------------------------------------------------------------------------------


@operator("nn.depth_to_space")
def depth_to_space(
    x: Term, *, block_size: int = 1, layout: str = "NCHW", mode: str = "DCR"
) -> Term:
    """Blocks of channels become blocks of pixels; ``mode`` says which channels go together."""
    if mode not in ("DCR", "CDR"):
        raise Refused(f"attribute mode {mode} is not supported; DCR and CDR are")

    def work(x: Term) -> Term:
        n, c, h, w = x.shape
        if block_size < 1 or c % block_size**2:
            raise ShapeError(f"block_size {block_size} does not fit {c} channels")
        b, depth = block_size, c // block_size**2
        if mode == "DCR":
            apart = permute(reshape_to(x, (n, b, b, depth, h, w)), (0, 3, 4, 1, 5, 2))
        else:
            apart = permute(reshape_to(x, (n, depth, b, b, h, w)), (0, 1, 4, 2, 5, 3))
        return reshape_to(apart, (n, depth, h * b, w * b))

    return through_layout(x, "NCHW", layout, "", work)


@operator("nn.space_to_depth")
def space_to_depth(
    x: Term, *, block_size: int = 1, layout: str = "NCHW", mode: str = "DCR"
) -> Term:
    """Blocks of pixels become blocks of channels."""
    if mode != "DCR":
        raise Refused(f"attribute mode {mode} is not supported; DCR is")

    def work(x: Term) -> Term:
        n, c, h, w = x.shape
        b = block_size
        if b < 1 or h % b or w % b:
            raise ShapeError(f"block_size {block_size} does not divide size {(h, w)}")
        apart = permute(reshape_to(x, (n, c, h // b, b, w // b, b)), (0, 3, 5, 1, 2, 4))
        return reshape_to(apart, (n, c * b * b, h // b, w // b))

    return through_layout(x, "NCHW", layout, "", work)


@operator("nn.space_to_batch_nd")
def space_to_batch_nd(
    x: Term, *, block_shape: Ints = (1, 1), paddings: Rows, pad_value: float = 0.0
) -> Term:
    """The axes behind the first, padded, are cut into blocks; places in a block become batches."""
    count = len(block_shape)
    _check_widths("paddings", paddings, count)
    if count >= x.type.rank:
        raise ShapeError(f"block_shape {list(block_shape)} does not fit shape {x.shape}")
    for axis, (before, after) in enumerate(paddings, 1):
        x = builders.pad(x, axis, before, after, "zero" if pad_value == 0 else pad_value)
    n, *size = x.shape
    spatial, rest = size[:count], tuple(size[count:])
    if min(block_shape) < 1 or any(k % b for k, b in zip(spatial, block_shape, strict=True)):
        raise ShapeError(f"block_shape {list(block_shape)} does not divide size {spatial}")
    blocks = [part for k, b in zip(spatial, block_shape, strict=True) for part in (k // b, b)]
    inner = range(2, 2 * count + 1, 2)
    order = (*inner, 0, *(axis - 1 for axis in inner), *range(2 * count + 1, x.type.rank + count))
    apart = permute(reshape_to(x, (n, *blocks, *rest)), order)
    return reshape_to(apart, (n * math.prod(block_shape), *blocks[::2], *rest))


@operator("nn.batch_to_space_nd")
def batch_to_space_nd(x: Term, *, block_shape: Ints = (1, 1), crops: Rows) -> Term:
    """The opposite of ``nn.space_to_batch_nd``; borders are cut off at the end."""
    count, area = len(block_shape), math.prod(block_shape)
    _check_widths("crops", crops, count)
    if count >= x.type.rank or area < 1 or x.shape[0] % area:
        raise ShapeError(f"block_shape {list(block_shape)} does not fit shape {x.shape}")
    spatial, rest = x.shape[1 : 1 + count], x.shape[1 + count :]
    apart = reshape_to(x, (*block_shape, x.shape[0] // area, *spatial, *rest))
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    apart = permute(apart, (count, *pairs, *range(2 * count + 1, apart.type.rank)))
    whole = [k * b for k, b in zip(spatial, block_shape, strict=True)]
    x = reshape_to(apart, (x.shape[0] // area, *whole, *rest))
    for axis, (before, after) in enumerate(crops, 1):
        if min(before, after) < 0 or before + after > x.shape[axis]:
            raise ShapeError(f"crops {crops} do not fit shape {x.shape}")
        x = builders.slice_(x, axis, before, x.shape[axis] - after)
    return x


@operator("layout_transform")
def layout_transform(x: Term, *, src_layout: str, dst_layout: str) -> Term:
    """Axes brought into another order, blocks of them split off or merged."""
    return relayout(x, src_layout, dst_layout)


@operator("sliding_window")
def sliding_window(x: Term, *, axis: int, window_shape: Ints, strides: Ints) -> Term:
    """Windows over the axes from ``axis`` on."""
    axis = axis_of(axis, x.type.rank)
    return builders.outer_only(builders.windows(builders.access(x, axis), window_shape, strides))


@operator("meshgrid")
def meshgrid(parts: Terms, *, indexing: str = "ij") -> Value:
    """Every vector repeated along the axes of the others; ``xy`` exchanges the first two."""
    if indexing not in ("ij", "xy"):
        raise Refused(f"attribute indexing {indexing} is not supported; ij and xy are")
    if any(part.type.rank > 1 for part in parts):
        raise ShapeError("takes vectors")
    order = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        order[:2] = [1, 0]
    shape = [1] * len(parts)
    for part, axis in zip(parts, order, strict=True):
        shape[axis] = part.type.size
    ones = [1] * len(parts)
    return tuple(
        spread(reshape_to(part, [*ones[:axis], part.type.size, *ones[axis + 1 :]]), shape)
        for part, axis in zip(parts, order, strict=True)
    )


@operator("repeat")
def repeat(x: Term, *, repeats: int, axis: int | None = None) -> Term:
    """Every position of an axis several times; without one the flattened elements."""
    return phrases.repeat(x, repeats, axis)


@operator("tile")
def tile(x: Term, *, reps: Ints) -> Term:
    """Whole copies along every axis; the shorter of shape and counts is filled up in front."""
    return phrases.tile(x, reps)


@operator("dyn.tile")
def dynamic_tile(constants: Constants, x: Term, reps: Term) -> Term:
    """``tile`` by counts that an operand, which must be known, holds."""
    return phrases.tile(x, ints_of(constants, reps, "reps"))


@operator("trilu")
def trilu(constants: Constants, x: Term, k: Term, *, upper: bool = True) -> Term:
    """Elements on one side of a diagonal of each matrix; the others become 0."""
    (offset,) = ints_of(constants, k, "k")
    cut = np.triu if upper else np.tril
    kept = cut(np.ones(x.shape[-2:], bool), offset)
    return select(constants.parameter(kept, "kept"), x, 0)


@operator("broadcast_to")
def broadcast_to(x: Term, *, shape: Ints) -> Term:
    """Repeated to a shape, as NumPy broadcasts."""
    if builders.broadcast_shapes(x.shape, shape) != shape:
        raise ShapeError(f"shape {x.shape} does not broadcast to {list(shape)}")
    return spread(x, shape)


def _filled(value: int, shape: Sequence[int], dtype: str) -> Term:
    if dtype not in DTYPES:
        raise Refused(f"attribute dtype {dtype} is not one of {', '.join(DTYPES)}")
    return builders.constant(value, shape, dtype)


@operator("zeros")
def zeros(*, shape: Ints, dtype: str) -> Term:
    """A tensor of zeros."""
    return _filled(0, shape, dtype)


@operator("ones")
def ones(*, shape: Ints, dtype: str) -> Term:
    """A tensor of ones."""
    return _filled(1, shape, dtype)


@operator("zeros_like")
def zeros_like(x: Term) -> Term:
    """Zeros in the shape and dtype of another tensor."""
    return _filled(0, x.shape, x.dtype)


@operator("ones_like")
def ones_like(x: Term) -> Term:
    """Ones in the shape and dtype of another tensor."""
    return _filled(1, x.shape, x.dtype)


@operator("broadcast_to_like")
def broadcast_to_like(x: Term, like: Term) -> Term:
    """Repeated to the shape of another tensor."""
    return broadcast_to(x, shape=like.shape)


@operator("dyn.broadcast_to")
def dynamic_broadcast_to(
    constants: Constants, x: Term, shape: Term, *, dtype: object = None
) -> Term:
    """Repeated to a shape that an operand, which must be known, holds."""
    del dtype
    return broadcast_to(x, shape=tuple(ints_of(constants, shape, "shape")))


@operator("collapse_sum_to")
def collapse_sum_to(constants: Constants, x: Term, shape: Term, *, dtype: object = None) -> Term:
    """The opposite of broadcasting, to a shape that an operand, which must be known, holds."""
    del dtype
    return phrases.collapse_sum(x, ints_of(constants, shape, "shape"))


@operator("collapse_sum_like")
def collapse_sum_like(x: Term, like: Term) -> Term:
    """The opposite of broadcasting: what would be repeated is summed."""
    return phrases.collapse_sum(x, like.shape)


@operator("full")
def full(value: Term, *, shape: Ints, dtype: str | None = None) -> Term:
    """A shape filled with one number."""
    return spread(builders.cast(value, dtype_of(dtype, value.dtype)), shape)


@operator("full_like")
def full_like(x: Term, value: Term) -> Term:
    """The shape and dtype of another tensor, filled with one number."""
    return spread(builders.cast(value, x.dtype), x.shape)


@operator("dyn.full")
def dynamic_full(
    constants: Constants, value: Term, shape: Term, *, dtype: str | None = None
) -> Term:
    """A shape that an operand, which must be known, holds, filled with one number."""
    return full(value, shape=tuple(ints_of(constants, shape, "shape")), dtype=dtype)


@operator("dyn.zeros")
def dynamic_zeros(constants: Constants, shape: Term, *, dtype: str) -> Term:
    """Zeros in a shape that an operand, which must be known, holds."""
    return _filled(0, ints_of(constants, shape, "shape"), dtype)


@operator("dyn.ones")
def dynamic_ones(constants: Constants, shape: Term, *, dtype: str) -> Term:
    """Ones in a shape that an operand, which must be known, holds."""
    return _filled(1, ints_of(constants, shape, "shape"), dtype)


@operator("dyn.expand_dims")
def dynamic_expand_dims(constants: Constants, x: Term, axis: Term, *, num_newaxis: int = 1) -> Term:
    """``expand_dims`` at an axis that an operand, which must be known, holds."""
    (at,) = ints_of(constants, axis, "axis")
    return expand_dims(x, axis=at, num_newaxis=num_newaxis)


@operator("dyn.squeeze")
def dynamic_squeeze(constants: Constants, x: Term, axis: Term) -> Term:
    """``squeeze`` of axes that an operand, which must be known, holds."""
    return squeeze(x, axis=tuple(ints_of(constants, axis, "axis")))


@operator("arange")
def arange(
    constants: Constants,
    first: Term,
    end: Term,
    by: Term,
    *,
    dtype: str,
    start: object = None,
    stop: object = None,
    step: object = None,
) -> Term:
    """``first``, ``first + by``, ... before ``end``; all must be known."""
    del start, stop, step  # Attributes that repeat the operands.
    low, high, stride = (
        number_of(constants, each, name)
        for each, name in ((first, "start"), (end, "stop"), (by, "step"))
    )
    if stride == 0:
        raise ShapeError("step must not be 0")
    return constants.parameter(
        np.arange(low, high, stride).astype(dtype_of(dtype, "int32")), "range"
    )


@operator("shape_of", "vm.shape_of")
def shape_of(constants: Constants, x: Term, *, dtype: str | None = None) -> Term:
    """The lengths of all axes."""
    return constants.parameter(np.array(x.shape, dtype_of(dtype, "int32")), "shape")


@operator("ndarray_size")
def ndarray_size(x: Term, *, dtype: str | None = None) -> Term:
    """The number of elements."""
    return builders.constant(x.type.size, (), dtype_of(dtype, "int32"))
