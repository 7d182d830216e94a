"""Normalisations and softmax, as they run at inference."""

from __future__ import annotations

from collections.abc import Sequence

from glenside.errors import ShapeError
from glenside.frontends.onnx.phrases import (
    add,
    along,
    div,
    elementwise,
    mul,
    reduce,
    reshape,
    square,
    sub,
    unsqueeze_to,
)
from glenside.frontends.relax.operators.common import check_vector
from glenside.frontends.relax.signature import operator
from glenside.frontends.relay.operators.common import axes_of, axis_of
from glenside.frontends.relay.signature import Ints, Refused
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
    rank = x.type.rank
    axis = axis_of(axis, rank)
    for name, vector in (("gamma", gamma), ("beta", beta), ("moving_mean", moving_mean),
                         ("moving_var", moving_var)):  # fmt: skip
        check_vector(name, vector, x, axis)
    deviation = elementwise("sqrt", add(moving_var, epsilon))
    factor = div(gamma, deviation) if scale else elementwise("recip", deviation)
    shift = mul(moving_mean, factor)
    offset = sub(beta, shift) if center else elementwise("neg", shift)
    scaled = mul(x, unsqueeze_to(factor, axis, rank))
    return add(scaled, unsqueeze_to(offset, axis, rank)), moving_mean, moving_var


def _standardised(x: Term, axes: Sequence[int], epsilon: float) -> Term:
    """Mean 0 and variance 1 over ``axes``."""
    centred = sub(x, reduce("mean", x, axes, True))
    variance = reduce("mean", square(centred), axes, True)
    return div(centred, elementwise("sqrt", add(variance, epsilon)))


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
    result = _standardised(x, over, epsilon)
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
    check_vector("gamma", gamma, x, channel)
    check_vector("beta", beta, x, channel)
    length = x.shape[channel]
    if num_groups < 1 or length % num_groups:
        raise ShapeError(f"num_groups {num_groups} does not divide {length} channels")
    grouped = reshape(
        x, (*x.shape[:channel], num_groups, length // num_groups, *x.shape[channel + 1 :])
    )
    over = [axis + (axis > channel) for axis in axes_of(axes, rank) if axis != channel]
    result = reshape(_standardised(grouped, [channel + 1, *over], epsilon), x.shape)
    return _scaled(result, gamma, beta, channel, center, scale)


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
    result = _standardised(x, axes_of(axes, x.type.rank), epsilon)
    return _scaled(result, gamma, beta, channel, center, scale)


def _scaled(x: Term, gamma: Term, beta: Term, axis: int, center: bool, scale: bool) -> Term:
    x = mul(x, unsqueeze_to(gamma, axis, x.type.rank)) if scale else x
    return add(x, unsqueeze_to(beta, axis, x.type.rank)) if center else x


@operator("nn.softmax")
def softmax(x: Term, *, axis: int) -> Term:
    """``exp(x) / sum(exp(x))`` along one axis."""
    return along("softmax", x, axis_of(axis, x.type.rank))


@operator("nn.log_softmax")
def log_softmax(x: Term, *, axis: int) -> Term:
    """``x - log(sum(exp(x)))`` along one axis, formed so that nothing overflows or vanishes."""
    axes = [axis_of(axis, x.type.rank)]
    centred = sub(x, reduce("max", x, axes, True))
    return sub(centred, elementwise("log", reduce("sum", elementwise("exp", centred), axes, True)))
