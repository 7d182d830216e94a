"""Elements at computed places: row-major positions, gathers and scatters over them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.constants import Arrays
from glenside.frontends.lowering.phrases import (
    add,
    elementwise,
    like,
    minimum,
    mul,
    reduce,
    reshape,
    select,
    spread,
    sub,
)
from glenside.frontends.refusal import Refused
from glenside.language import Term, builders
from glenside.language.shape import FLOATS

OUTSIDE = -(2**40)
"""Stands for an index that is out of range: far from all places, whatever it is scaled by."""


def from_front(indices: Term, length: int) -> Term:
    """Indices as int64, negative ones counted from the end made positive.

    Those out of range become :data:`OUTSIDE`: as they are, they might count as another place.
    """
    wide = builders.cast(indices, "int64")
    found = select(elementwise("less", wide, like(wide, 0)), add(wide, length), wide)
    inside = elementwise(
        "and",
        elementwise("greater_equal", found, like(found, 0)),
        elementwise("less", found, like(found, length)),
    )
    return select(inside, found, OUTSIDE)


def check_range(arrays: Arrays, indices: Term, length: int, axis: int) -> None:
    """Indices must be among the positions of an axis, negative ones counted from its end.

    Those that are known are held against it now, those made of inputs at every call; others, that
    the program computes, are not.

    :raises ModelError: a known one is outside.
    """
    what = f"takes indices from {-length} to {length - 1}" if length else "takes no index"
    told = f"{what} along axis {axis} of {length} positions"
    arrays.require(indices, -length, length, told)


def steps(shape: Sequence[int]) -> list[int]:
    """How far apart neighbours along each axis stand in row-major order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def places_but(arrays: Arrays, shape: Sequence[int], within: Sequence[int], axis: int) -> Term:
    """Row-major places in ``shape`` of the positions of ``within``, as if 0 along ``axis``."""
    arrays.make_room(within, "the places")
    places = np.zeros(within, np.int64)
    for other, step in enumerate(steps(shape)):
        if other != axis:
            along = np.arange(within[other]) * step
            places += along.reshape([-1 if a == other else 1 for a in range(len(within))])
    return arrays.parameter(places, "places")


def gather_elements(arrays: Arrays, x: Term, indices: Term, axis: int) -> Term:
    """``x[..., indices[i, j...], ...]``: one index along ``axis`` for every position.

    A model's own indices are for :func:`check_range` first.
    """
    along = mul(from_front(indices, x.shape[axis]), steps(x.shape)[axis])
    places = add(along, places_but(arrays, x.shape, indices.shape, axis))
    return builders.gather(reshape(x, (x.type.size,)), places, 0)


def flat_indices(arrays: Arrays, indices: Term, shape: Sequence[int], first: int = 0) -> Term:
    """Row-major places in ``shape`` of index tuples along the last axis, as of a model's operand.

    ``first`` is the axis of the data that the tuples begin with; :func:`check_range` sees to all.
    """
    last = indices.type.rank - 1
    places: Term | None = None
    for i, (length, step) in enumerate(zip(shape, steps(shape), strict=True)):
        one = builders.squeeze(builders.slice_(indices, last, i, i + 1), last)
        check_range(arrays, one, length, first + i)
        term = mul(from_front(one, length), step)
        places = term if places is None else add(places, term)
    assert places is not None
    return places


def gather_nd(arrays: Arrays, x: Term, indices: Term, batch: int = 0) -> Term:
    """Slices of ``x`` at index tuples along the last axis; the first ``batch`` axes go together.

    :raises ShapeError: the tuples do not fit.
    """
    depth = indices.shape[-1] if indices.shape else 0
    fits = 0 <= batch < indices.type.rank and 1 <= depth <= x.type.rank - batch
    if not fits or indices.shape[:batch] != x.shape[:batch]:
        told = f", batch_dims {batch}" if batch else ""
        raise ShapeError(f"indices {indices.shape} do not fit data {x.shape}{told}")
    rows, rest = x.shape[: batch + depth], x.shape[batch + depth :]
    where = flat_indices(arrays, indices, rows[batch:], batch)
    if batch:
        start = np.arange(math.prod(rows[:batch])) * math.prod(rows[batch:])
        column = start.reshape(rows[:batch] + (1,) * (where.type.rank - batch))
        where = add(where, arrays.parameter(column, "starts"))
    return builders.gather(reshape(x, (math.prod(rows), *rest)), where, 0)


LARGEST_COMPARISON = 2**24
"""Pairs of places that a scatter by comparison may look at; more are left to the host."""

COMBINE = {
    "add": ("sum", "add", 0.0),
    "mul": ("prod", "mul", 1.0),
    "max": ("max", "maximum", None),
    "min": ("min", "minimum", None),
}


def scatter(arrays: Arrays, x: Term, places: Term, updates: Term, reduction: str) -> Term:
    """Rows of ``x`` (P, s...) at ``places`` (U) replaced by or combined with ``updates`` (U, s...).

    Every place looks for the updates meant for it: a comparison of all with all, and the last one
    found, or a reduction of those found. No element is written twice, so the order of duplicates is
    a matter of the program, not of luck.
    """
    count, total = x.shape[0], places.shape[0]
    if total == 0:
        return x
    if count * total * math.prod(x.shape[1:]) > LARGEST_COMPARISON and reduction != "none":
        raise Refused(f"{count} places for {total} updates are too many to compare")
    if count * total > LARGEST_COMPARISON:
        raise Refused(f"{count} places for {total} updates are too many to compare")
    own = arrays.parameter(np.arange(count).reshape(-1, 1), "places")
    meant = elementwise("equal", own, places)
    if reduction == "none":
        order = arrays.parameter(np.arange(total), "order")
        last = reduce("max", select(meant, order, -1), [1], False)
        hit = elementwise("greater_equal", last, like(last, 0))
        found = builders.gather(updates, elementwise("maximum", last, like(last, 0)), 0)
        for _ in x.shape[1:]:
            hit = builders.unsqueeze(hit, hit.type.rank)
        return select(hit, found, x)
    reducer, combine, neutral = COMBINE[reduction]
    rest = x.type.rank - 1
    for _ in range(rest):
        meant = builders.unsqueeze(meant, meant.type.rank)
    if neutral is None:
        edge = _edge(x.dtype, reduction)
        offered = select(meant, builders.unsqueeze(updates, 0), edge)
    else:
        offered = select(meant, builders.unsqueeze(updates, 0), neutral)
    return elementwise(combine, x, reduce(reducer, offered, [1], False))


def _edge(dtype: str, reduction: str) -> Term:
    """What never wins a maximum, or a minimum."""
    if dtype in FLOATS:
        return builders.constant(-math.inf if reduction == "max" else math.inf, (), dtype)
    limits = np.iinfo(dtype)
    return builders.constant(int(limits.min if reduction == "max" else limits.max), (), dtype)


def scatter_elements(
    arrays: Arrays, x: Term, indices: Term, updates: Term, axis: int, reduction: str
) -> Term:
    """``x`` with the elements at ``indices`` along one axis replaced or combined.

    :func:`check_range` sees to the indices.
    """
    check_range(arrays, indices, x.shape[axis], axis)
    along = mul(from_front(indices, x.shape[axis]), steps(x.shape)[axis])
    where = add(along, places_but(arrays, x.shape, indices.shape, axis))
    count = (indices.type.size,)
    flat = reshape(x, (x.type.size,))
    result = scatter(arrays, flat, reshape(where, count), reshape(updates, count), reduction)
    return reshape(result, x.shape)


def reversed_sequences(arrays: Arrays, x: Term, lengths: Term, time: int, batch: int) -> Term:
    """The first ``lengths`` positions of axis ``time`` backwards, one number for each batch.

    A length beyond the axis counts as its length.
    """
    if time == batch or lengths.shape != (x.shape[batch],):
        raise ShapeError(f"lengths of shape {lengths.shape} do not fit data of shape {x.shape}")

    def along(term: Term, axis: int) -> Term:
        return reshape(term, [term.type.size if k == axis else 1 for k in range(x.type.rank)])

    ends = along(minimum(builders.cast(lengths, "int64"), x.shape[time]), batch)
    now = along(arrays.parameter(np.arange(x.shape[time]), "steps"), time)
    source = select(elementwise("less", now, ends), sub(sub(ends, 1), now), now)
    return gather_elements(arrays, x, spread(source, x.shape), time)
