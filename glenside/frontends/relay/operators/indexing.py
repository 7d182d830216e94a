"""Operators that pick elements by position."""

from __future__ import annotations

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import axes_of, axis_of
from glenside.frontends.lowering.phrases import elementwise, maximum, minimum, reshape
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.language import Term, builders
from glenside.language.shape import INTEGERS


@operator("take")
def take(
    x: Term, indices: Term, *, axis: int | None = None, mode: str = "clip", batch_dims: int = 0
) -> Term:
    """``numpy.take``; positions outside are brought inside as ``mode`` says.

    ``clip`` takes the nearest one (so -1 is the first), ``wrap`` counts around, and ``fast``
    leaves them undefined.
    """
    if batch_dims:
        raise Refused(f"attribute batch_dims {batch_dims} is not supported; 0 is")
    if axis is None:
        x, axis = reshape(x, (x.type.size,)), 0
    axis = axis_of(axis, x.type.rank)
    length = x.shape[axis]
    if indices.dtype not in INTEGERS or (length == 0 and indices.type.size):
        raise ShapeError(f"{indices.type} cannot hold positions on axis {axis} of {x.type}")
    if length > np.iinfo(indices.dtype).max:
        indices = builders.cast(indices, "int64")
    if mode == "clip":
        indices = minimum(maximum(indices, 0), length - 1)
    elif mode == "wrap":
        indices = elementwise("mod", indices, builders.constant(length, (), indices.dtype))
    elif mode != "fast":
        raise Refused(f"attribute mode {mode} is not supported; clip, wrap and fast are")
    return builders.gather(x, indices, axis)


@operator("strided_slice")
def strided_slice(
    x: Term,
    *,
    begin: Ints,
    end: Ints,
    strides: Ints = (1,),
    axes: Ints | None = None,
    slice_mode: str = "end",
) -> Term:
    """Positions from ``begin`` to below ``end`` of the first axes, or of those that ``axes`` names.

    Negative positions count from the end, and what reaches outside is cut. In the mode ``size``,
    ``end`` holds lengths, -1 for all that is left, and strides are 1.
    """
    if slice_mode not in ("end", "size"):
        raise Refused(f"attribute slice_mode {slice_mode} is not supported; end and size are")
    chosen = axes_of(range(len(begin)) if axes is None else axes, x.type.rank)
    strides = strides * len(begin) if len(strides) == 1 else strides
    if not len(begin) == len(end) == len(strides) == len(chosen):
        raise ShapeError(
            f"begin {list(begin)}, end {list(end)}, strides {list(strides)} and "
            f"axes {chosen} must have one entry for each axis"
        )
    for axis, low, high, step in zip(chosen, begin, end, strides, strict=True):
        length = x.shape[axis]
        if slice_mode == "size":
            first = low + length if low < 0 else low
            low, high, step = first, length if high < 0 else first + high, 1
        if step < 1:
            raise Refused(f"a stride of {step} is not supported; positive ones are")
        low, high, _ = slice(low, high, 1).indices(length)
        if (low, high, step) != (0, length, 1):
            x = builders.slice_(x, axis, low, max(low, high), step)
    return x
