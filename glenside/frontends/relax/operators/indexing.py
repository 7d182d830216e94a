"""Operators that pick elements by position."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import axes_of, axis_of
from glenside.frontends.lowering.phrases import (
    add,
    as_term,
    elementwise,
    maximum,
    minimum,
    mul,
    reshape,
    select,
)
from glenside.frontends.refusal import Refused
from glenside.frontends.relax.constants import Constants
from glenside.frontends.relax.operators.common import ints_of, pick
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders, memory


@operator("take")
def take(constants: Constants, x: Term, indices: Term, *, axis: int | None, mode: str) -> Term:
    """``numpy.take``; positions outside are brought inside as ``mode`` says.

    ``clip`` takes the nearest one (so -1 is the first), ``wrap`` counts around, and ``fast``
    leaves them undefined.
    """
    if axis is None:
        x, axis = reshape(x, (x.type.size,)), 0
    axis = axis_of(axis, x.type.rank)
    length = x.shape[axis]
    if mode == "clip":
        indices = minimum(maximum(indices, 0), length - 1)
    elif mode == "wrap":
        indices = elementwise("mod", indices, as_term(length, indices))
    elif mode != "fast":
        raise Refused(f"attribute mode {mode} is not supported; clip, wrap and fast are")
    known = constants.known(indices) if indices.type.rank == 0 else None
    if known is not None and 0 <= int(known) < length:
        at = int(known)
        return builders.squeeze(builders.slice_(x, axis, at, at + 1), axis)
    return builders.gather(x, indices, axis)


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
    places = _from_front(indices, x.shape[axis])
    strides = [math.prod(x.shape[k + 1 :]) for k in range(x.type.rank)]
    memory.require(indices.type.size * 16, "gather_elements: the places")
    base = np.zeros(indices.shape, np.int64)
    for k, length in enumerate(indices.shape):
        if k != axis:
            along = (np.arange(length) * strides[k]).reshape(
                [-1 if j == k else 1 for j in range(x.type.rank)]
            )
            base += along
    flat = add(mul(places, strides[axis]), constants.parameter(base, "base"))
    return builders.gather(reshape(x, (x.type.size,)), flat, 0)


@operator("gather_nd")
def gather_nd(constants: Constants, x: Term, indices: Term, *, batch_dims: int) -> Term:
    """The last axis of the indices holds a position of the first axes of ``x``."""
    if batch_dims:
        raise Refused(f"attribute batch_dims {batch_dims} is not supported; 0 is")
    if indices.type.rank < 1 or not 1 <= indices.shape[-1] <= x.type.rank:
        raise ShapeError(f"indices of shape {indices.shape} do not fit data of {x.shape}")
    *outer, depth = indices.shape
    last = indices.type.rank - 1
    flat: Term | None = None
    for k in range(depth):
        column = builders.squeeze(builders.slice_(indices, last, k, k + 1), last)
        stride = math.prod(x.shape[k + 1 : depth])
        part = mul(_from_front(column, x.shape[k]), stride)
        flat = part if flat is None else add(flat, part)
    assert flat is not None
    rows = reshape(x, (math.prod(x.shape[:depth]), *x.shape[depth:]))
    result = builders.gather(rows, flat, 0)
    return reshape(result, (*outer, *x.shape[depth:]))


def _from_front(indices: Term, length: int) -> Term:
    """Positions as int64, negative ones counted from the end."""
    indices = builders.cast(indices, "int64")
    negative = elementwise("less", indices, as_term(0, indices))
    return select(negative, add(indices, length), indices)
