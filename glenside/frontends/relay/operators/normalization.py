"""Normalisations and softmax, as they run at inference."""

from __future__ import annotations

from glenside.frontends.lowering import normalization
from glenside.frontends.lowering.axes import axis_of, check_vector
from glenside.frontends.lowering.phrases import add, along, unsqueeze_to
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import Term, builders


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


@operator("nn.softmax")
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
