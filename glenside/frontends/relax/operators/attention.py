"""Scaled dot-product attention."""

from __future__ import annotations

import math

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.phrases import add, along, mul, select, spread, transpose
from glenside.frontends.lowering.phrases import matmul as product_of
from glenside.frontends.refusal import Refused
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders


@operator("nn.attention", "nn.attention_bias")
def attention(
    constants: Constants,
    query: Term,
    key: Term,
    value: Term,
    bias: Term | None = None,
    *,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> Term:
    """``softmax(scale * Q K' + bias) V`` for each batch and head; operands are (B, S, H, D).

    ``causal_mask`` lets each query see keys up to its own position, counted from the first
    (``TopLeft``) or from the last (``BottomRight``).
    """
    if window_size is not None:
        raise Refused("attribute window_size is not supported")
    if any(each.type.rank != 4 for each in (query, key, value)):
        raise ShapeError("query, key and value must have four axes")
    q, k, v = (transpose(each, (0, 2, 1, 3)) for each in (query, key, value))
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    scores = mul(product_of(q, transpose(k, (0, 1, 3, 2))), scale)
    if bias is not None:
        # Axes are added in front of a bias without batch or heads.
        scores = add(scores, spread(bias, scores.shape))
    if causal_mask is not None:
        rows, columns = scores.shape[2:]
        shifts = {"TopLeft": 0, "BottomRight": columns - rows}
        if causal_mask not in shifts:
            raise Refused(f"attribute causal_mask {causal_mask} is not supported")
        seen = constants.parameter(
            np.tril(np.ones((rows, columns), bool), shifts[causal_mask]), "seen"
        )
        scores = select(seen, scores, builders.constant(-math.inf, (), scores.dtype))
    return transpose(product_of(along("softmax", scores, 3), v), (0, 2, 1, 3))
