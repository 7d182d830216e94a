"""Matrix products."""

from __future__ import annotations

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.kinds import Terms
from glenside.frontends.lowering.axes import axis_of, relayout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import accumulator
from glenside.frontends.lowering.einsum import einsum as product_of
from glenside.frontends.lowering.phrases import add, dot, spread, sub, swap_last
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import Term, builders
from glenside.language.builders import access


@operator("nn.dense")
def dense(x: Term, w: Term, *, units: int | None = None, out_dtype: str | None = None) -> Term:
    """Every vector along the last axis of ``x`` with every row of ``w``."""
    if x.type.rank < 1 or w.type.rank != 2:
        raise ShapeError(f"data of shape {x.shape} and weights of shape {w.shape} do not multiply")
    if units not in (None, w.shape[0]):
        raise ShapeError(f"units is {units}, the weights have shape {w.shape}")
    return dot(access(x, x.type.rank - 1), access(w, 1), 0, accumulator(out_dtype))


@operator("nn.matmul")
def matmul(
    a: Term,
    b: Term,
    *,
    units: int | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Term:
    """The product of two matrices, each optionally transposed."""
    if a.type.rank < 2 or b.type.rank != 2:
        raise ShapeError(f"shapes {a.shape} and {b.shape} do not multiply as matrices")
    rows = swap_last(a) if transpose_a else a
    return dense(rows, b if transpose_b else swap_last(b), units=units, out_dtype=out_dtype)


@operator("nn.batch_matmul")
def batch_matmul(
    a: Term,
    b: Term,
    *,
    transpose_a: bool = False,
    transpose_b: bool = True,
    out_dtype: str | None = None,
) -> Term:
    """Matrix products of two batches; a batch of one meets every matrix of the other.

    The second is (B, N, K) unless the attributes say otherwise: text that has no attributes comes
    from when there were none.
    """
    if a.type.rank != 3 or b.type.rank != 3:
        raise ShapeError(f"shapes {a.shape} and {b.shape} are not both batches of matrices")
    rows = swap_last(a) if transpose_a else a
    columns = b if transpose_b else swap_last(b)
    (batch,) = builders.broadcast_shapes(rows.shape[:1], columns.shape[:1])
    rows = spread(rows, (batch, *rows.shape[1:]))
    columns = spread(columns, (batch, *columns.shape[1:]))
    return dot(access(rows, 2), access(columns, 2), 1, accumulator(out_dtype))


@operator("einsum")
def einsum(constants: Constants, operands: Terms, *, equation: str) -> Term:
    """``numpy.einsum``."""
    return product_of(constants, equation, operands)


@operator("nn.contrib_dense_pack")
def dense_pack(
    x: Term,
    w: Term,
    *,
    units: int | None = None,
    out_dtype: str | None = None,
    weight_layout: str = "NC",
) -> Term:
    """``nn.dense`` with blocked weights, as TVM's passes make it."""
    return dense(x, relayout(w, weight_layout, "NC"), units=units, out_dtype=out_dtype)


@operator("nn.fifo_buffer")
def fifo_buffer(x: Term, buffer: Term, *, axis: int = 0) -> Term:
    """What a queue holds once ``x`` is put in behind and as much is taken out in front."""
    axis = axis_of(axis, x.type.rank)
    whole = builders.concat(axis, buffer, x)
    return builders.slice_(whole, axis, x.shape[axis], whole.shape[axis])


@operator("dft")
def dft(constants: Constants, real: Term, imaginary: Term, *, inverse: bool = False) -> Value:
    """The discrete Fourier transform along the last axis, real and imaginary parts apart."""
    if real.type != imaginary.type or real.type.rank < 1:
        raise ShapeError(f"parts of shapes {real.shape} and {imaginary.shape} must be alike")
    length = real.shape[-1]
    angles = 2 * np.pi / max(length, 1) * np.outer(np.arange(length), np.arange(length))
    scale = 1 / length if inverse and length else 1.0
    cosine, sine = (
        constants.parameter((function(angles) * scale).astype(real.dtype), name)
        for function, name in ((np.cos, "cosine"), (np.sin, "sine"))
    )

    def times(x: Term, matrix: Term) -> Term:
        return dot(access(x, x.type.rank - 1), access(matrix, 1))

    turned = (times(imaginary, sine), times(real, sine))
    if inverse:
        return (
            sub(times(real, cosine), turned[0]),
            add(times(imaginary, cosine), turned[1]),
        )
    return add(times(real, cosine), turned[0]), sub(times(imaginary, cosine), turned[1])
