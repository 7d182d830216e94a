"""Normalisations and softmax, as they run at inference."""

from __future__ import annotations

from collections.abc import Sequence

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering import normalization
from glenside.frontends.lowering.axes import axes_of, axis_of, check_vector
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.losses import nll_loss as weighted_loss
from glenside.frontends.lowering.phrases import (
    add,
    along,
    div,
    elementwise,
    mul,
    reduce,
    reshape,
    square,
)
from glenside.frontends.refusal import Refused
from glenside.frontends.relax.signature import operator
from glenside.language import Term


@operator("nn.batch_norm")
def batch_norm(
    x: Term,
    gamma: Term,
    beta: Term,
    moving_mean: Term,
    moving_var: Term,
    *,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    momentum: float,
    training: bool,
) -> tuple[Term, Term, Term]:
    """``x * a + b`` with ``a`` and ``b`` computed from the parameters; the statistics pass on."""
    del momentum  # Only training knows it.
    if training:
        raise Refused("attribute training True is not supported: only inference is")
    result = normalization.batch_norm(
        x, gamma, beta, moving_mean, moving_var, axis, epsilon, center, scale
    )
    return result, moving_mean, moving_var


def _over_axes(vector: Term, x: Term, axes: Sequence[int], name: str) -> Term:
    """A parameter with the axes ``axes`` of ``x``, so that it broadcasts with it."""
    if vector.shape != tuple(x.shape[axis] for axis in axes):
        raise ShapeError(f"{name} of shape {vector.shape} does not fit axes {list(axes)}")
    return reshape(vector, [n if axis in axes else 1 for axis, n in enumerate(x.shape)])


@operator("nn.layer_norm")
def layer_norm(
    x: Term, gamma: Term, beta: Term, *, axes: Ints, epsilon: float, center: bool, scale: bool
) -> Term:
    """Mean 0 and variance 1 over some axes, then scaled and shifted along them."""
    over = axes_of(axes, x.type.rank)
    if over != sorted(over):
        raise Refused(f"attribute axes {list(axes)} must ascend")
    result = normalization.standardised(x, over, epsilon)
    result = mul(result, _over_axes(gamma, x, over, "gamma")) if scale else result
    return add(result, _over_axes(beta, x, over, "beta")) if center else result


@operator("nn.rms_norm")
def rms_norm(x: Term, weight: Term, *, axes: Ints, epsilon: float) -> Term:
    """Divided by the root of the mean square over some axes, then scaled along them."""
    over = axes_of(axes, x.type.rank)
    if over != sorted(over):
        raise Refused(f"attribute axes {list(axes)} must ascend")
    power = reduce("mean", square(x), over, True)
    scaled = div(x, elementwise("sqrt", add(power, epsilon)))
    return mul(scaled, _over_axes(weight, x, over, "weight"))


@operator("nn.group_norm")
def group_norm(
    x: Term,
    gamma: Term,
    beta: Term,
    *,
    num_groups: int,
    channel_axis: int,
    axes: Ints,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Term:
    """Mean 0 and variance 1 over ``axes`` and the channels of each group together."""
    rank = x.type.rank
    channel = axis_of(channel_axis, rank)
    over = [axis for axis in axes_of(axes, rank) if axis != channel]
    return normalization.group_norm(
        x, gamma, beta, num_groups, channel, over, epsilon, center, scale
    )


@operator("nn.instance_norm")
def instance_norm(
    x: Term,
    gamma: Term,
    beta: Term,
    *,
    channel_axis: int,
    axes: Ints,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Term:
    """Mean 0 and variance 1 over ``axes``, then scaled and shifted along the channels."""
    channel = axis_of(channel_axis, x.type.rank)
    check_vector("gamma", gamma, x, channel)
    check_vector("beta", beta, x, channel)
    result = normalization.standardised(x, axes_of(axes, x.type.rank), epsilon)
    return normalization.scaled(result, gamma, beta, channel, center, scale)


@operator("nn.softmax")
def softmax(x: Term, *, axis: int) -> Term:
    """``exp(x) / sum(exp(x))`` along one axis."""
    return along("softmax", x, axis_of(axis, x.type.rank))


@operator("nn.log_softmax")
def log_softmax(x: Term, *, axis: int) -> Term:
    """``x - log(sum(exp(x)))`` along one axis, formed so that nothing overflows or vanishes."""
    return normalization.log_softmax(x, [axis_of(axis, x.type.rank)])


@operator("nn.nll_loss")
def nll_loss(
    constants: Constants,
    predictions: Term,
    targets: Term,
    weights: Term | None = None,
    *,
    reduction: str,
    ignore_index: int,
) -> Term:
    """The negative of the prediction, a logarithm, for the target, weighted by its class."""
    return weighted_loss(constants, predictions, targets, weights, reduction, ignore_index)


@operator("nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: Term, labels: Term) -> Term:
    """``-sum(labels * predictions)``, for matrices the mean over their rows."""
    if predictions.type != labels.type or predictions.type.rank not in (1, 2):
        raise ShapeError(f"shapes {predictions.shape} and {labels.shape} must be (N, C) or (C)")
    rows = predictions.shape[0] if predictions.type.rank == 2 else 1
    total = reduce("sum", mul(predictions, labels), range(predictions.type.rank), False)
    return mul(total, -1 / max(rows, 1))
