"""Operators that pick elements by position."""

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
from glenside.frontends.lowering.phrases import (
    as_term,
    elementwise,
    like,
    maximum,
    minimum,
    reshape,
    select,
    spread,
)
from glenside.frontends.refusal import Refused
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders
from glenside.language.shape import FLOATS


@operator("take")
def take(constants: Constants, x: Term, indices: Term, *, axis: int | None, mode: str) -> Term:
    """``numpy.take``; positions outside are brought inside as ``mode`` says.

    ``clip`` takes the nearest one (so -1 is the first), ``wrap`` counts around, ``nan`` gives NaN,
    and ``fast`` asks that there are none.
    """
    if axis is None:
        x, axis = reshape(x, (x.type.size,)), 0
    axis = axis_of(axis, x.type.rank)
    length = x.shape[axis]
    if mode == "clip":
        indices = minimum(maximum(indices, 0), length - 1)
    elif mode == "wrap":
        indices = elementwise("mod", indices, as_term(length, indices))
    elif mode == "nan":
        return _or_nan(x, indices, axis)
    elif mode == "fast":
        places.check_range(constants, indices, length, axis)
    else:
        raise Refused(f"attribute mode {mode} is not supported; clip, wrap, nan and fast are")
    known = constants.known(indices) if indices.type.rank == 0 else None
    if known is not None and 0 <= int(known) < length:
        at = int(known)
        return builders.squeeze(builders.slice_(x, axis, at, at + 1), axis)
    return builders.gather(x, indices, axis)


def _or_nan(x: Term, indices: Term, axis: int) -> Term:
    """Positions of one axis, NaN at those that lie outside, as all negative ones do."""
    if x.dtype not in FLOATS:
        raise Refused(f"mode nan has no NaN of {x.dtype}")
    wide, length = builders.cast(indices, "int64"), x.shape[axis]
    held = elementwise(
        "and",
        elementwise("greater_equal", wide, like(wide, 0)),
        elementwise("less", wide, like(wide, length)),
    )
    for _ in x.shape[axis + 1 :]:
        held = builders.unsqueeze(held, held.type.rank)
    found = builders.gather(x, minimum(maximum(wide, 0), length - 1), axis)
    return select(held, found, math.nan)


@operator("strided_slice")
def strided_slice(
    constants: Constants,
    x: Term,
    axes: Ints,
    begin: Ints,
    end: Ints,
    strides: Ints | None = None,
    *,
    assume_inbound: bool,
) -> Term:
    """Positions from ``begin`` to before ``end`` of some axes, as Python's slices have it."""
    del assume_inbound  # A promise that nothing reaches outside.
    return _sliced(constants, x, axes, begin, end, strides or (1,) * len(begin))


@operator("dynamic_strided_slice")
def dynamic_strided_slice(
    constants: Constants, x: Term, begin: Term, end: Term, strides: Term
) -> Term:
    """Positions of all axes; where they are must be known while importing."""
    low, high, step = (
        ints_of(constants, each, name)
        for each, name in ((begin, "begin"), (end, "end"), (strides, "strides"))
    )
    return _sliced(constants, x, range(len(low)), low, high, step)


def _sliced(
    constants: Constants,
    x: Term,
    axes: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
) -> Term:
    chosen = axes_of(axes, x.type.rank)
    if not len(chosen) == len(begin) == len(end) == len(strides) or 0 in strides:
        raise ShapeError(
            f"axes {chosen}, begin {list(begin)}, end {list(end)} and strides {list(strides)} "
            "do not fit"
        )
    for axis, low, high, step in zip(chosen, begin, end, strides, strict=True):
        x = pick(constants, x, range(x.shape[axis])[low:high:step], axis)
    return x


@operator("gather_elements")
def gather_elements(constants: Constants, x: Term, indices: Term, *, axis: int) -> Term:
    """Along one axis every element picks its own position; negative ones count from the end."""
    axis = axis_of(axis, x.type.rank)
    if indices.type.rank != x.type.rank:
        raise ShapeError(f"indices of shape {indices.shape} and data of {x.shape} differ in rank")
    places.check_range(constants, indices, x.shape[axis], axis)
    return places.gather_elements(constants, x, indices, axis)


@operator("gather_nd")
def gather_nd(constants: Constants, x: Term, indices: Term, *, batch_dims: int) -> Term:
    """The last axis of the indices holds a position of the axes of ``x`` behind ``batch_dims``."""
    return places.gather_nd(constants, x, indices, batch_dims)


def _together(indices: Terms, rank: int) -> Term:
    """Index tensors, broadcast together, side by side along a new last axis."""
    if not 1 <= len(indices) <= rank:
        raise ShapeError(f"{len(indices)} indices do not fit {rank} axes")
    shape = builders.broadcast_shapes(*(each.shape for each in indices))
    wide = (spread(builders.cast(each, "int64"), shape) for each in indices)
    return builders.concat(len(shape), *(builders.unsqueeze(each, len(shape)) for each in wide))


@operator("index_tensor")
def index_tensor(constants: Constants, x: Term, indices: Terms) -> Term:
    """``x[i, j, ...]`` with index tensors that are broadcast together."""
    return places.gather_nd(constants, x, _together(indices, x.type.rank))


@operator("index_put")
def index_put(
    constants: Constants, x: Term, indices: Terms, values: Term, *, accumulate: bool
) -> Term:
    """``x`` with ``x[i, j, ...]`` replaced by values, or with these added."""
    where = _together(indices, x.type.rank)
    shape = where.shape[:-1] + x.shape[len(indices) :]
    return _put(constants, x, where, spread(values, shape), "add" if accumulate else "none")


def _put(constants: Constants, x: Term, where: Term, updates: Term, combine: str) -> Term:
    depth, count = where.shape[-1], math.prod(where.shape[:-1])
    rows, rest = x.shape[:depth], x.shape[depth:]
    flat = reshape(places.flat_indices(constants, where, rows), (count,))
    result = places.scatter(
        constants,
        reshape(x, (math.prod(rows), *rest)),
        flat,
        reshape(updates, (count, *rest)),
        combine,
    )
    return reshape(result, x.shape)


def _combination(reduction: str) -> str:
    known = {"update": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}
    if reduction not in known:
        raise Refused(f"attribute reduction {reduction} is not supported; {', '.join(known)} are")
    return known[reduction]


@operator("scatter_nd")
def scatter_nd(
    constants: Constants, x: Term, indices: Term, updates: Term, *, reduction: str
) -> Term:
    """Rows of ``x``, whose positions the last axis of the indices holds, replaced or combined."""
    depth = indices.shape[-1] if indices.shape else 0
    if not 1 <= depth <= x.type.rank or updates.shape != indices.shape[:-1] + x.shape[depth:]:
        raise ShapeError(f"indices {indices.shape} and updates {updates.shape} do not fit")
    return _put(constants, x, indices, updates, _combination(reduction))


@operator("scatter_elements")
def scatter_elements(
    constants: Constants, x: Term, indices: Term, updates: Term, *, axis: int, reduction: str
) -> Term:
    """Elements at positions along one axis replaced by, or combined with, updates."""
    axis = axis_of(axis, x.type.rank)
    if indices.shape != updates.shape or indices.type.rank != x.type.rank:
        raise ShapeError(f"indices {indices.shape} and updates {updates.shape} do not fit")
    return places.scatter_elements(constants, x, indices, updates, axis, _combination(reduction))


@operator("slice_scatter")
def slice_scatter(
    constants: Constants, x: Term, source: Term, start: int, end: int, step: int, *, axis: int
) -> Term:
    """``x`` with every ``step``-th position of a part of one axis replaced."""
    axis = axis_of(axis, x.type.rank)
    spots = range(x.shape[axis])[start:end:step]
    if source.shape != (*x.shape[:axis], len(spots), *x.shape[axis + 1 :]):
        raise ShapeError(f"{source.shape} does not fit {len(spots)} positions of {x.shape}")
    if not len(spots):
        return x
    origin = np.full(x.shape[axis], -1, np.int64)
    origin[list(spots)] = np.arange(len(spots))
    moved = pick(constants, source, np.maximum(origin, 0).tolist(), axis)
    column = (origin >= 0).reshape((-1,) + (1,) * (x.type.rank - axis - 1))
    return select(constants.parameter(column, "slice"), moved, x)


@operator("reverse_sequence")
def reverse_sequence(
    constants: Constants, x: Term, lengths: Term, *, seq_axis: int, batch_axis: int
) -> Term:
    """The first so many positions of each sequence backwards."""
    time, batch = axis_of(seq_axis, x.type.rank), axis_of(batch_axis, x.type.rank)
    return places.reversed_sequences(constants, x, lengths, time, batch)
