"""Operators that pick or put back elements by position."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints, Terms
from glenside.frontends.lowering import places
from glenside.frontends.lowering.axes import axes_of, axis_of
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.known import ints_of, pick
from glenside.frontends.lowering.ordering import best_places, sorted_by
from glenside.frontends.lowering.phrases import (
    add,
    elementwise,
    like,
    maximum,
    minimum,
    reduce,
    reshape,
    select,
    spread,
)
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import DTYPES, Term, builders
from glenside.language.shape import INTEGERS


@operator("take")
def take(
    constants: Constants,
    x: Term,
    indices: Term,
    *,
    axis: int | None = None,
    mode: str = "clip",
    batch_dims: int = 0,
) -> Term:
    """``numpy.take``; positions outside are brought inside as ``mode`` says.

    ``clip`` takes the nearest one (so -1 is the first), ``wrap`` counts around, and ``fast`` asks
    that there are none. The first ``batch_dims`` axes of both go together.
    """
    if axis is None:
        x, axis = reshape(x, (x.type.size,)), 0
    axis = axis_of(axis, x.type.rank)
    batch = axis_of(batch_dims, indices.type.rank + 1)
    length = x.shape[axis]
    if indices.dtype not in INTEGERS or (length == 0 and indices.type.size):
        raise ShapeError(f"{indices.type} cannot hold positions on axis {axis} of {x.type}")
    if batch > axis or x.shape[:batch] != indices.shape[:batch]:
        raise ShapeError(f"batch_dims {batch_dims} does not fit {x.type} and {indices.type}")
    if length > np.iinfo(indices.dtype).max:
        indices = builders.cast(indices, "int64")
    if mode == "clip":
        indices = minimum(maximum(indices, 0), length - 1)
    elif mode == "wrap":
        indices = elementwise("mod", indices, builders.constant(length, (), indices.dtype))
    elif mode == "fast":
        places.check_range(constants, indices, length, axis)
        indices = places.from_front(indices, length) if batch else indices
    else:
        raise Refused(f"attribute mode {mode} is not supported; clip, wrap and fast are")
    if not batch:
        return builders.gather(x, indices, axis)
    # Batches stand one behind the other along the axis: each index is moved to its own.
    count = math.prod(x.shape[:batch])
    before, behind = x.shape[batch:axis], x.shape[axis + 1 :]
    joined = reshape(x, (count, math.prod(before), length, *behind))
    joined = builders.transpose(joined, (1, 0, *range(2, joined.type.rank)))
    rows = reshape(joined, (math.prod(before), count * length, *behind))
    starts = constants.parameter(np.arange(count).reshape(-1, 1) * length, "starts")
    flat = reshape(indices, (count, indices.type.size // max(count, 1)))
    picked = builders.gather(rows, add(builders.cast(flat, "int64"), starts), 1)
    picked = builders.transpose(picked, (1, 0, *range(2, picked.type.rank)))
    return reshape(picked, (*x.shape[:batch], *before, *indices.shape[batch:], *behind))


@operator("strided_slice")
def strided_slice(
    constants: Constants,
    x: Term,
    *,
    begin: Ints,
    end: Ints,
    strides: Ints = (1,),
    axes: Ints | None = None,
    slice_mode: str = "end",
) -> Term:
    """Positions from ``begin`` to before ``end`` of the first axes, or of those in ``axes``.

    Negative positions count from the end, and what reaches outside is cut. In the mode ``size``,
    ``end`` holds lengths, -1 for all that is left, and strides are 1.
    """
    if slice_mode not in ("end", "size"):
        raise Refused(f"attribute slice_mode {slice_mode} is not supported; end and size are")
    chosen = axes_of(range(len(begin)) if axes is None else axes, x.type.rank)
    for axis, spots in zip(chosen, _spots(x, chosen, begin, end, strides, slice_mode), strict=True):
        x = pick(constants, x, spots, axis)
    return x


def _spots(
    x: Term,
    axes: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    mode: str,
) -> list[range]:
    """Positions along each of ``axes`` that a slice holds."""
    strides = tuple(strides) * len(begin) if len(strides) == 1 else tuple(strides)
    # The last ends and strides may be left out: all there is, and 1.
    strides += (1,) * (len(begin) - len(strides))
    end = tuple(end) + tuple(x.shape[axis] for axis in axes[len(end) :])
    if not len(begin) == len(end) == len(strides) == len(axes):
        raise ShapeError(
            f"begin {list(begin)}, end {list(end)}, strides {list(strides)} and "
            f"axes {list(axes)} must have one entry for each axis"
        )
    result = []
    for axis, low, high, step in zip(axes, begin, end, strides, strict=True):
        length = x.shape[axis]
        if mode == "size":
            first = low + length if low < 0 else low
            low, high, step = first, length if high < 0 else first + high, 1
        if step == 0:
            raise ShapeError("a stride must not be 0")
        result.append(range(length)[_cut(low, high, step, length)])
    return result


def _cut(low: int, high: int, step: int, length: int) -> slice:
    """As Python has it: an end before the first position takes that in when going backwards."""
    low = low + length if low < 0 else low
    high = high + length if high < 0 else high
    if step > 0:
        return slice(min(max(low, 0), length), min(max(high, 0), length), step)
    low, high = min(max(low, -1), length - 1), min(max(high, -1), length - 1)
    if low < 0:
        return slice(0, 0, step)
    return slice(low, None if high < 0 else high, step)


@operator("dyn.strided_slice")
def dynamic_strided_slice(
    constants: Constants,
    x: Term,
    begin: Term,
    end: Term,
    strides: Term,
    *,
    axes: Ints | None = None,
    slice_mode: str = "end",
) -> Term:
    """``strided_slice`` where operands say what is cut; they must be known."""
    low, high, step = (
        tuple(ints_of(constants, each, name))
        for each, name in ((begin, "begin"), (end, "end"), (strides, "strides"))
    )
    return strided_slice(
        constants, x, begin=low, end=high, strides=step, axes=axes, slice_mode=slice_mode
    )


@operator("strided_set")
def strided_set(
    constants: Constants, x: Term, values: Term, begin: Term, end: Term, strides: Term
) -> Term:
    """``x`` with a slice replaced; what is cut must be known."""
    low, high, step = (
        ints_of(constants, each, name)
        for each, name in ((begin, "begin"), (end, "end"), (strides, "strides"))
    )
    spots = _spots(x, range(len(low)), low, high, step, "end")
    spots += [range(n) for n in x.shape[len(low) :]]
    if values.shape != tuple(len(each) for each in spots):
        raise ShapeError(f"values of shape {values.shape} do not fit the slice")
    if not values.type.size:
        return x
    source = np.full(x.shape, -1, np.int64)
    source[np.ix_(*map(np.array, spots))] = np.arange(values.type.size).reshape(values.shape)
    held = constants.parameter(source >= 0, "slice")
    flat = reshape(values, (values.type.size,))
    moved = builders.gather(flat, constants.parameter(np.maximum(source, 0), "source"), 0)
    return select(held, moved, x)


@operator("slice_like")
def slice_like(x: Term, like: Term, *, axes: Ints | None = None) -> Term:
    """Cut to the lengths of another tensor along all axes, or those named."""
    for axis in axes_of(axes or range(like.type.rank), x.type.rank):
        if axis >= like.type.rank or like.shape[axis] > x.shape[axis]:
            raise ShapeError(f"axis {axis} of shape {x.shape} is not cut to shape {like.shape}")
        if like.shape[axis] != x.shape[axis]:
            x = builders.slice_(x, axis, 0, like.shape[axis])
    return x


@operator("reverse")
def reverse(constants: Constants, x: Term, *, axis: int) -> Term:
    """One axis backwards."""
    axis = axis_of(axis, x.type.rank)
    return pick(constants, x, range(x.shape[axis])[::-1], axis)


@operator("reverse_sequence")
def reverse_sequence(
    constants: Constants, x: Term, lengths: Term, *, seq_axis: int = 1, batch_axis: int = 0
) -> Term:
    """The first so many positions of each sequence backwards."""
    time, batch = axis_of(seq_axis, x.type.rank), axis_of(batch_axis, x.type.rank)
    return places.reversed_sequences(constants, x, lengths, time, batch)


@operator("gather")
def gather(constants: Constants, x: Term, indices: Term, *, axis: int) -> Term:
    """Along one axis every element picks its own position."""
    axis = axis_of(axis, x.type.rank)
    if indices.type.rank != x.type.rank or indices.dtype not in INTEGERS:
        raise ShapeError(f"indices {indices.type} do not fit data of shape {x.shape}")
    places.check_range(constants, indices, x.shape[axis], axis)
    return places.gather_elements(constants, x, indices, axis)


@operator("gather_nd")
def gather_nd(
    constants: Constants,
    x: Term,
    indices: Term,
    *,
    batch_dims: int = 0,
    index_rank: int | None = None,
) -> Term:
    """The first axis of the indices holds a position of the first axes of ``x``."""
    depth = indices.shape[0] if indices.shape else 0
    if index_rank not in (None, depth):
        raise ShapeError(f"index_rank is {index_rank}, the indices have {depth}")
    batch = axis_of(batch_dims, x.type.rank + 1)
    last = builders.transpose(indices, (*range(1, indices.type.rank), 0))
    return places.gather_nd(constants, x, last, batch)


@operator("adv_index")
def adv_index(constants: Constants, inputs: Terms) -> Term:
    """The first tensor at the positions that the others, broadcast together, hold."""
    x, *indices = inputs
    if not indices or len(indices) > x.type.rank:
        raise ShapeError(f"{len(indices)} indices do not fit data of shape {x.shape}")
    shape = builders.broadcast_shapes(*(each.shape for each in indices))
    stacked = builders.concat(
        len(shape), *(builders.unsqueeze(spread(builders.cast(i, "int64"), shape), len(shape))
                      for i in indices)
    )  # fmt: skip
    return places.gather_nd(constants, x, stacked)


_REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}


@operator("scatter", "scatter_elements")
def scatter(
    constants: Constants,
    x: Term,
    indices: Term,
    updates: Term,
    *,
    axis: int = 0,
    reduction: str = "update",
) -> Term:
    """Elements replaced by, or combined with, updates at positions along one axis."""
    axis = axis_of(axis, x.type.rank)
    if reduction not in _REDUCTIONS:
        raise Refused(f"attribute reduction {reduction} is not supported; {_listed()} are")
    if indices.shape != updates.shape or indices.type.rank != x.type.rank:
        raise ShapeError(f"indices {indices.shape} and updates {updates.shape} do not fit")
    combine = _REDUCTIONS[reduction]
    return places.scatter_elements(constants, x, indices, updates, axis, combine)


def _listed() -> str:
    return ", ".join(_REDUCTIONS)


@operator("scatter_add")
def scatter_add(
    constants: Constants, x: Term, indices: Term, updates: Term, *, axis: int = 0
) -> Term:
    """Updates added at positions along one axis."""
    return scatter(constants, x, indices, updates, axis=axis, reduction="add")


@operator("scatter_nd")
def scatter_nd(
    constants: Constants, x: Term, indices: Term, updates: Term, *, mode: str = "update"
) -> Term:
    """As ``gather_nd`` picks rows, rows replaced by or combined with updates."""
    if mode not in _REDUCTIONS:
        raise Refused(f"attribute mode {mode} is not supported; {_listed()} are")
    depth = indices.shape[0] if indices.shape else 0
    if not 1 <= depth <= x.type.rank or updates.shape != indices.shape[1:] + x.shape[depth:]:
        raise ShapeError(f"indices {indices.shape} and updates {updates.shape} do not fit")
    rows, rest = x.shape[:depth], x.shape[depth:]
    count = math.prod(indices.shape[1:])
    last = builders.transpose(indices, (*range(1, indices.type.rank), 0))
    where = reshape(places.flat_indices(constants, last, rows), (count,))
    flat = reshape(x, (math.prod(rows), *rest))
    result = places.scatter(
        constants, flat, where, reshape(updates, (count, *rest)), _REDUCTIONS[mode]
    )
    return reshape(result, x.shape)


@operator("sparse_to_dense")
def sparse_to_dense(
    constants: Constants,
    indices: Term,
    values: Term,
    default: Term | None = None,
    *,
    output_shape: Ints,
) -> Term:
    """Values at the positions that the rows of ``indices`` hold, else the default, 0."""
    count = math.prod(indices.shape[:1])
    rank = len(output_shape)
    fits = indices.type.rank <= 2 and indices.type.size == count * rank
    if not fits or values.type.size not in (1, count):
        raise ShapeError(f"indices {indices.shape}, values {values.shape} and rank {rank}")
    filled = builders.constant(0, (), values.dtype) if default is None else default
    flat = spread(reshape(filled, ()), (math.prod(output_shape),))
    where = places.flat_indices(constants, reshape(indices, (count, rank)), output_shape)
    updates = spread(values, (count,)) if values.type.rank == 0 else values
    return reshape(places.scatter(constants, flat, where, updates, "none"), output_shape)


@operator("one_hot")
def one_hot(
    constants: Constants,
    indices: Term,
    on: Term,
    off: Term,
    *,
    depth: int,
    axis: int = -1,
    dtype: str | None = None,
) -> Term:
    """``on`` where the position along a new axis is the index, else ``off``."""
    at = axis_of(axis, indices.type.rank + 1)
    wanted = on.dtype if dtype in (None, "") else dtype
    if wanted not in DTYPES:
        raise Refused(f"attribute dtype {dtype} is not one of {', '.join(DTYPES)}")
    column = np.arange(depth).reshape((-1,) + (1,) * (indices.type.rank - at))
    wide = builders.cast(builders.unsqueeze(indices, at), "int64")
    hot = elementwise("equal", wide, constants.parameter(column, "positions"))
    values = (builders.cast(reshape(each, ()), wanted) for each in (on, off))
    return select(hot, *values)


@operator("sequence_mask")
def sequence_mask(
    constants: Constants, x: Term, lengths: Term, *, mask_value: float = 0.0, axis: int = 0
) -> Term:
    """What stands behind the end of each sequence replaced by a number."""
    if axis not in (0, 1) or x.type.rank < 2 or lengths.shape != (x.shape[1 - axis],):
        raise ShapeError(f"axis {axis} and lengths {lengths.shape} do not fit shape {x.shape}")
    rest = (1,) * (x.type.rank - 2)
    steps = np.arange(x.shape[axis]).reshape((1, -1) if axis else (-1, 1))
    now = constants.parameter(steps.reshape(steps.shape + rest), "steps")
    ends = builders.unsqueeze(builders.cast(lengths, "int64"), axis)
    ends = reshape(ends, ends.shape + rest)
    return select(elementwise("less", now, ends), x, like(x, mask_value))


@operator("unravel_index")
def unravel_index(indices: Term, shape: Term) -> Term:
    """Row-major positions as one row for each axis of a shape."""
    rank = shape.type.size
    flat = reshape(indices, (indices.type.size,))
    rows = []
    rest = flat
    for axis in reversed(range(rank)):
        at = builders.slice_(reshape(shape, (rank,)), 0, axis, axis + 1)
        length = builders.cast(at, indices.dtype)
        rows.append(builders.unsqueeze(elementwise("fmod", rest, length), 0))
        rest = elementwise("div", rest, length)
    stacked = builders.concat(0, *reversed(rows))
    return reshape(stacked, (rank, *indices.shape))


@operator("invert_permutation")
def invert_permutation(constants: Constants, x: Term) -> Term:
    """Where each number stands in a permutation."""
    if x.type.rank != 1:
        raise ShapeError(f"takes a vector, got shape {x.shape}")
    return builders.cast(sorted_by(constants, x, 0, True)[1], x.dtype)


@operator("searchsorted")
def searchsorted(
    sorted_sequence: Term, values: Term, *, right: bool = False, dtype: str = "int32"
) -> Term:
    """How many elements of a sorted vector, the last axis, are less than each value.

    With ``right`` those that are equal count as well.
    """
    if sorted_sequence.type.rank < 1 or (
        sorted_sequence.type.rank > 1 and sorted_sequence.shape[:-1] != values.shape[:-1]
    ):
        raise ShapeError(f"shapes {sorted_sequence.shape} and {values.shape} do not fit")
    if sorted_sequence.type.rank > 1:
        others = builders.unsqueeze(sorted_sequence, sorted_sequence.type.rank - 1)
    else:
        others = sorted_sequence
    mine = builders.unsqueeze(values, values.type.rank)
    before = elementwise("less_equal" if right else "less", others, mine)
    counted = builders.cast(before, dtype if dtype in ("int32", "int64") else "int64")
    return reduce("sum", counted, [values.type.rank], False)


# --- order --------------------------------------------------------------------------------------


@operator("argsort")
def argsort(
    constants: Constants, x: Term, *, axis: int = -1, is_ascend: bool = True, dtype: str = "int32"
) -> Term:
    """Where the elements stand in order; of equal ones the first comes first."""
    return builders.cast(sorted_by(constants, x, axis_of(axis, x.type.rank), is_ascend)[1], dtype)


@operator("sort")
def sort(constants: Constants, x: Term, *, axis: int = -1, is_ascend: bool = True) -> Term:
    """The elements along an axis in order."""
    return sorted_by(constants, x, axis_of(axis, x.type.rank), is_ascend)[0]


@operator("topk")
def topk(
    constants: Constants,
    x: Term,
    *,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Value:
    """The ``k`` greatest (or least) elements along an axis, and where they stand; 0 means all."""
    axis = axis_of(axis, x.type.rank)
    count = x.shape[axis] if k < 1 else min(k, x.shape[axis])
    if count == 0:
        found = builders.cast(builders.slice_(x, axis, 0, 0), "int64")
    else:
        found = best_places(constants, x, axis, count, not is_ascend)
    indices = builders.cast(found, dtype)
    if ret_type == "indices":
        return indices
    values = places.gather_elements(constants, x, found, axis)
    if ret_type not in ("both", "values"):
        raise Refused(f"attribute ret_type {ret_type} is not supported; both, values, indices are")
    return values if ret_type == "values" else (values, indices)


@operator("dyn.topk")
def dynamic_topk(
    constants: Constants,
    x: Term,
    k: Term,
    *,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Value:
    """``topk`` where an operand, which must be known, says how many."""
    (count,) = ints_of(constants, k, "k")
    return topk(
        constants, x, k=count, axis=axis, ret_type=ret_type, is_ascend=is_ascend, dtype=dtype
    )


@operator("matrix_set_diag")
def matrix_set_diag(
    constants: Constants,
    x: Term,
    diagonal: Term,
    *,
    k1: int = 0,
    k2: int = 0,
    super_diag_right_align: bool = True,
    sub_diag_right_align: bool = False,
) -> Term:
    """Each matrix with the diagonals ``k1`` to ``k2`` replaced; short ones are aligned."""
    rows, columns = x.shape[-2:]
    longest = diagonal.shape[-1]
    several = k1 != k2
    places = np.zeros((rows, columns), np.int64)
    held = np.zeros((rows, columns), bool)
    for k in range(k1, k2 + 1):
        length = min(columns - max(k, 0), rows + min(k, 0))
        right = super_diag_right_align if k >= 0 else sub_diag_right_align
        start = longest - length if right and several else 0
        for i in range(length):
            at = (i, i + k) if k >= 0 else (i - k, i)
            places[at] = (k2 - k) * longest + start + i if several else i
            held[at] = True
    flat = builders.reshape(diagonal, (*x.shape[:-2], (k2 - k1 + 1) * longest))
    picked = builders.gather(flat, constants.parameter(places, "places"), flat.type.rank - 1)
    return select(constants.parameter(held, "diagonals"), picked, x)
