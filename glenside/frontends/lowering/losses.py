"""Losses of predictions."""

from __future__ import annotations

from glenside.errors import ShapeError
from glenside.frontends.lowering.constants import Arrays
from glenside.frontends.lowering.phrases import div, elementwise, like, mul, reduce, select
from glenside.frontends.lowering.places import gather_elements
from glenside.frontends.refusal import Refused
from glenside.language import Term, builders


def nll_loss(
    arrays: Arrays,
    predictions: Term,
    targets: Term,
    weights: Term | None,
    reduction: str,
    ignore_index: int,
) -> Term:
    """The negative prediction (N, C, d...) for the targets (N, d...), weighted by class (C).

    ``reduction`` is ``none``, ``sum`` or ``mean``, weighted. Targets ``ignore_index`` count for
    nothing.
    """
    single = predictions.type.rank == 1
    x = builders.unsqueeze(predictions, 0) if single else predictions
    y = builders.unsqueeze(targets, 0) if single else targets
    if x.type.rank < 2 or y.shape != (x.shape[0], *x.shape[2:]):
        raise ShapeError(f"targets {targets.shape} do not fit predictions {predictions.shape}")
    if weights is not None and weights.shape != (x.shape[1],):
        raise ShapeError(f"weights {weights.shape} do not fit {x.shape[1]} classes")
    y = builders.cast(y, "int64")
    counted = elementwise("not", elementwise("equal", y, like(y, ignore_index)))
    safe = select(counted, y, 0)
    arrays.require(safe, 0, x.shape[1], f"takes targets from 0 to {x.shape[1] - 1}")
    chosen = builders.squeeze(gather_elements(arrays, x, builders.unsqueeze(safe, 1), 1), 1)
    one = builders.constant(1, safe.shape, x.dtype)
    share = one if weights is None else builders.gather(weights, safe, 0)
    share = select(counted, share, 0)
    loss = mul(elementwise("neg", chosen), share)
    if reduction == "none":
        return builders.squeeze(loss, 0) if single else loss
    axes = list(range(loss.type.rank))
    total = reduce("sum", loss, axes, False)
    if reduction == "sum":
        return total
    if reduction == "mean":
        return div(total, reduce("sum", share, axes, False))
    raise Refused(f"attribute reduction {reduction} is not supported; none, sum and mean are")
