"""Normalisations by statistics, and the logarithm of softmax."""

from __future__ import annotations

from collections.abc import Sequence

from glenside.errors import ShapeError
from glenside.frontends.lowering.axes import axis_of, check_vector
from glenside.frontends.lowering.phrases import (
    add,
    div,
    elementwise,
    mul,
    reduce,
    reshape,
    square,
    sub,
    unsqueeze_to,
)
from glenside.language import Term


def batch_norm(
    x: Term,
    gamma: Term,
    beta: Term,
    moving_mean: Term,
    moving_var: Term,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Term:
    """``x * a + b`` with ``a`` and ``b`` computed from the parameters, one each for a channel."""
    rank = x.type.rank
    axis = axis_of(axis, rank)
    vectors = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    for name, vector in vectors.items():
        check_vector(name, vector, x, axis)
    deviation = elementwise("sqrt", add(moving_var, epsilon))
    factor = div(gamma, deviation) if scale else elementwise("recip", deviation)
    shift = mul(moving_mean, factor)
    offset = sub(beta, shift) if center else elementwise("neg", shift)
    return add(mul(x, unsqueeze_to(factor, axis, rank)), unsqueeze_to(offset, axis, rank))


def standardised(x: Term, axes: Sequence[int], epsilon: float) -> Term:
    """Mean 0 and variance 1 over ``axes``."""
    centred = sub(x, reduce("mean", x, axes, True))
    variance = reduce("mean", square(centred), axes, True)
    return div(centred, elementwise("sqrt", add(variance, epsilon)))


def scaled(x: Term, gamma: Term, beta: Term, axis: int, center: bool, scale: bool) -> Term:
    """``x * gamma + beta`` along one axis; ``scale`` and ``center`` say which of both happens."""
    x = mul(x, unsqueeze_to(gamma, axis, x.type.rank)) if scale else x
    return add(x, unsqueeze_to(beta, axis, x.type.rank)) if center else x


def group_norm(
    x: Term,
    gamma: Term,
    beta: Term,
    groups: int,
    channel: int,
    axes: Sequence[int],
    epsilon: float,
    center: bool,
    scale: bool,
) -> Term:
    """Mean 0 and variance 1 over ``axes`` and the channels of each group together, then scaled."""
    check_vector("gamma", gamma, x, channel)
    check_vector("beta", beta, x, channel)
    length = x.shape[channel]
    if groups < 1 or length % groups:
        raise ShapeError(f"num_groups {groups} does not divide {length} channels")
    grouped = reshape(x, (*x.shape[:channel], groups, length // groups, *x.shape[channel + 1 :]))
    over = [axis + (axis > channel) for axis in axes]
    result = reshape(standardised(grouped, [channel + 1, *over], epsilon), x.shape)
    return scaled(result, gamma, beta, channel, center, scale)


def log_softmax(x: Term, axes: Sequence[int]) -> Term:
    """``x - log(sum(exp(x)))`` over ``axes``, formed so that nothing overflows or vanishes."""
    centred = sub(x, reduce("max", x, axes, True))
    return sub(centred, elementwise("log", reduce("sum", elementwise("exp", centred), axes, True)))
