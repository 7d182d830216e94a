"""Matrix products."""

from __future__ import annotations

from glenside.errors import ShapeError
from glenside.frontends.kinds import Terms
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import accumulator
from glenside.frontends.lowering.einsum import einsum as product_by
from glenside.frontends.lowering.phrases import matmul as product_of
from glenside.frontends.lowering.phrases import mul, reshape
from glenside.frontends.relax.signature import operator
from glenside.language import Term


@operator("matmul")
def matmul(a: Term, b: Term, *, out_dtype: str | None) -> Term:
    """``numpy.matmul``, sums formed in ``out_dtype``."""
    if not a.shape or not b.shape or a.shape[-1] != b.shape[max(b.type.rank - 2, 0)]:
        raise ShapeError(f"shapes {a.shape} and {b.shape} do not multiply")
    return product_of(a, b, accumulator(out_dtype))


@operator("outer")
def outer(a: Term, b: Term) -> Term:
    """Every element of one vector with every one of the other."""
    if a.type.rank != 1 or b.type.rank != 1:
        raise ShapeError(f"takes two vectors, got shapes {a.shape} and {b.shape}")
    return mul(reshape(a, (a.type.size, 1)), b)


@operator("einsum")
def einsum(constants: Constants, operands: Terms, *, subscripts: str) -> Term:
    """``numpy.einsum``."""
    return product_by(constants, subscripts, operands)
