"""Normalisations and softmax, as they run at inference."""

from __future__ import annotations

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
    maximum,
    mul,
    power,
    reduce,
    square,
    to_end,
    transpose,
    unsqueeze_to,
)
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import Term, builders
from glenside.language.builders import access, compute


@operator("nn.batch_norm")
def batch_norm(
    x: Term,
    gamma: Term,
    beta: Term,
    moving_mean: Term,
    moving_var: Term,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Value:
    """``x * a + b`` with ``a`` and ``b`` computed from the parameters; the statistics pass on."""
    result = normalization.batch_norm(
        x, gamma, beta, moving_mean, moving_var, axis, epsilon, center, scale
    )
    return result, moving_mean, moving_var


@operator("nn.layer_norm")
def layer_norm(
    x: Term,
    gamma: Term,
    beta: Term,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Term:
    """Mean 0 and variance 1 along one axis, then scaled and shifted along it."""
    axis = axis_of(axis, x.type.rank)
    check_vector("gamma", gamma, x, axis)
    check_vector("beta", beta, x, axis)
    result = normalization.standardised(x, [axis], epsilon)
    return normalization.scaled(result, gamma, beta, axis, center, scale)


@operator("nn.softmax", "nn.fast_softmax")
def softmax(x: Term, *, axis: int = -1) -> Term:
    """``exp(x) / sum(exp(x))`` along one axis."""
    return along("softmax", x, axis_of(axis, x.type.rank))


@operator("nn.log_softmax")
def log_softmax(x: Term, *, axis: int = -1) -> Term:
    """``x - log(sum(exp(x)))`` along one axis, formed so that nothing overflows or vanishes."""
    return normalization.log_softmax(x, [axis_of(axis, x.type.rank)])


@operator("nn.dropout")
def dropout(x: Term, *, rate: float = 0.5) -> Value:
    """Nothing is dropped at inference, whatever the rate: ``x`` and a mask of ones."""
    del rate
    return x, builders.constant(1, x.shape, x.dtype)


@operator("nn.bias_add")
def bias_add(x: Term, bias: Term, *, axis: int = 1) -> Term:
    """A vector added along one axis."""
    axis = axis_of(axis, x.type.rank)
    check_vector("bias", bias, x, axis)
    return add(x, unsqueeze_to(bias, axis, x.type.rank))


@operator("nn.instance_norm")
def instance_norm(
    x: Term,
    gamma: Term,
    beta: Term,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Term:
    """Mean 0 and variance 1 of each channel of each image, then scaled and shifted."""
    axis = axis_of(axis, x.type.rank)
    check_vector("gamma", gamma, x, axis)
    check_vector("beta", beta, x, axis)
    over = [each for each in range(1, x.type.rank) if each != axis]
    result = normalization.standardised(x, over, epsilon)
    return normalization.scaled(result, gamma, beta, axis, center, scale)


@operator("nn.group_norm")
def group_norm(
    x: Term,
    gamma: Term,
    beta: Term,
    *,
    num_groups: int = 0,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Term:
    """Mean 0 and variance 1 over the channels of each group and all positions together."""
    axis = axis_of(axis, x.type.rank)
    over = [each for each in range(1, x.type.rank) if each != axis]
    return normalization.group_norm(x, gamma, beta, num_groups, axis, over, epsilon, center, scale)


@operator("nn.lrn")
def lrn(
    x: Term,
    *,
    size: int = 5,
    axis: int = 1,
    bias: float = 2.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
) -> Term:
    """Divided by a power of the squares of the neighbours along an axis."""
    axis = axis_of(axis, x.type.rank)
    if size < 1 or size % 2 == 0:
        raise ShapeError(f"size {size} must be odd")
    squares = builders.pad(square(x), axis, size // 2, size // 2)
    moved, inverse = to_end(squares, [axis])
    looks = builders.windows(access(moved, x.type.rank - 1), (size,), (1,))
    total = transpose(compute("sum", looks), inverse)
    return div(x, power(add(mul(total, alpha / size), bias), beta))


@operator("nn.l2_normalize")
def l2_normalize(x: Term, *, eps: float, axis: Ints | int | None = None) -> Term:
    """Divided by the root of the sum of squares over some axes, that sum at least ``eps``."""
    axes = (axis,) if isinstance(axis, int) else axis
    over = axes_of(axes or range(x.type.rank), x.type.rank)
    total = maximum(reduce("sum", square(x), over, True), eps)
    return div(x, elementwise("sqrt", total))


@operator("nn.nll_loss")
def nll_loss(
    constants: Constants,
    predictions: Term,
    targets: Term,
    weights: Term,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Term:
    """The negative of the prediction, a logarithm, for the target, weighted by its class."""
    return weighted_loss(constants, predictions, targets, weights, reduction, ignore_index)
