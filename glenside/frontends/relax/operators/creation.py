"""Operators that fill tensors, and those that ask for shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import axis_of
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.known import ints_of, number_of
from glenside.frontends.lowering.phrases import elementwise, select, spread
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders, memory

Array = np.ndarray[Any, Any]


@operator("full")
def full(shape: Ints, value: Term, *, dtype: str | None) -> Term:
    """A shape filled with one number."""
    return spread(builders.cast(value, dtype_of(dtype, value.dtype)), shape)


@operator("full_like")
def full_like(x: Term, value: Term, *, dtype: str | None) -> Term:
    """The shape of another tensor filled with one number."""
    return full(x.shape, value, dtype=dtype_of(dtype, x.dtype))


@operator("zeros")
def zeros(shape: Ints, *, dtype: str | None) -> Term:
    """Zeros."""
    return builders.constant(0, shape, dtype_of(dtype, "float32"))


@operator("ones")
def ones(shape: Ints, *, dtype: str | None) -> Term:
    """Ones."""
    return builders.constant(1, shape, dtype_of(dtype, "float32"))


@operator("zeros_like")
def zeros_like(x: Term, *, dtype: str | None) -> Term:
    """Zeros in the shape of another tensor."""
    return builders.constant(0, x.shape, dtype_of(dtype, x.dtype))


@operator("ones_like")
def ones_like(x: Term, *, dtype: str | None) -> Term:
    """Ones in the shape of another tensor."""
    return builders.constant(1, x.shape, dtype_of(dtype, x.dtype))


@operator("arange")
def arange(
    constants: Constants, start: float, end: float, step: float, *, dtype: str | None
) -> Term:
    """``start``, ``start + step``, ... before ``end``."""
    memory.require(abs((end - start) / (step or 1)) * 16, "arange: the range")
    numbers = np.arange(start, end, step).astype(dtype_of(dtype, "int64"))
    return constants.parameter(numbers, "range")


@operator("eye")
def eye(constants: Constants, n: int, m: int, k: int, *, dtype: str | None) -> Term:
    """Ones on a diagonal."""
    memory.require(float(n) * m * 16, "eye: the matrix")
    return constants.parameter(np.eye(n, m, k, dtype_of(dtype, "float32")), "eye")


@operator("eye_like")
def eye_like(constants: Constants, x: Term, k: int, *, dtype: str | None) -> Term:
    """Ones on a diagonal, in the shape of a matrix."""
    if x.type.rank != 2:
        raise ShapeError(f"takes a matrix, got shape {x.shape}")
    return eye(constants, x.shape[0], x.shape[1], k, dtype=dtype_of(dtype, x.dtype))


@operator("tril")
def tril(constants: Constants, x: Term, k: int) -> Term:
    """Elements on and below a diagonal of each matrix; the others become 0."""
    kept = np.tril(_ones(x), k)
    return select(constants.parameter(kept, "kept"), x, 0)


def _ones(x: Term) -> Array:
    """For each element of a matrix."""
    rows, columns = x.shape[-2:]
    memory.require(float(rows) * columns * 3, f"the triangle of a matrix of {x.type}")
    return np.ones((rows, columns), bool)


@operator("triu")
def triu(constants: Constants, x: Term, k: int) -> Term:
    """Elements on and above a diagonal of each matrix; the others become 0."""
    kept = np.triu(_ones(x), k)
    return select(constants.parameter(kept, "kept"), x, 0)


@operator("one_hot")
def one_hot(
    constants: Constants,
    indices: Term,
    on: Term | float,
    off: Term | float,
    *,
    depth: int,
    axis: int,
) -> Term:
    """``on`` where the position along a new axis is the index, else ``off``."""
    at = axis_of(axis, indices.type.rank + 1)
    memory.require(float(depth) * 16, "one_hot: the positions")
    positions = builders.cast(constants.parameter(np.arange(depth), "positions"), indices.dtype)
    for _ in range(indices.type.rank - at):
        positions = builders.unsqueeze(positions, positions.type.rank)
    hot = elementwise("equal", builders.unsqueeze(indices, at), positions)
    dtype = on.dtype if isinstance(on, Term) else "float32" if isinstance(on, float) else "int64"
    values = (builders.constant(number_of(constants, v, "value"), (), dtype) for v in (on, off))
    return select(hot, *values)


@operator("shape_of")
def shape_of(x: Term) -> Ints:
    """The lengths of all axes."""
    return x.shape


@operator("size")
def size(x: Term) -> Term:
    """The number of elements, as a tensor."""
    return builders.constant(x.type.size, (), "int64")


@operator("shape_to_tensor")
def shape_to_tensor(constants: Constants, shape: Ints) -> Term:
    """Lengths as a vector of int64."""
    return constants.parameter(np.array(shape, np.int64), "shape")


@operator("tensor_to_shape")
def tensor_to_shape(constants: Constants, x: Term) -> Ints:
    """A vector as lengths; its elements must be known while importing."""
    return tuple(ints_of(constants, x, "shape"))


@operator("null_value")
def null_value() -> None:
    """An operand that is absent."""
