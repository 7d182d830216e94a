"""Normalisations and softmax, as they run at inference."""

from __future__ import annotations

from glenside.errors import ShapeError
from glenside.frontends.onnx.phrases import (
    add,
    along,
    div,
    elementwise,
    mul,
    reduce,
    square,
    sub,
    unsqueeze_to,
)
from glenside.frontends.relay.operators.common import axis_of
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import Term, builders


def _check_vectors(x: Term, axis: int, **vectors: Term) -> None:
    for name, vector in vectors.items():
        if vector.shape != (x.shape[axis],):
            raise ShapeError(
                f"{name} of shape {vector.shape} does not fit axis {axis} of shape {x.shape}"
            )


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
    axis = axis_of(axis, x.type.rank)
    _check_vectors(x, axis, gamma=gamma, beta=beta, moving_mean=moving_mean, moving_var=moving_var)
    deviation = elementwise("sqrt", add(moving_var, epsilon))
    factor = div(gamma, deviation) if scale else elementwise("recip", deviation)
    shift = mul(moving_mean, factor)
    offset = sub(beta, shift) if center else elementwise("neg", shift)
    rank = x.type.rank
    scaled = mul(x, unsqueeze_to(factor, axis, rank))
    return add(scaled, unsqueeze_to(offset, axis, rank)), moving_mean, moving_var


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
    rank = x.type.rank
    axis = axis_of(axis, rank)
    _check_vectors(x, axis, gamma=gamma, beta=beta)
    centred = sub(x, reduce("mean", x, [axis], True))
    variance = reduce("mean", square(centred), [axis], True)
    result = div(centred, elementwise("sqrt", add(variance, epsilon)))
    result = mul(result, unsqueeze_to(gamma, axis, rank)) if scale else result
    return add(result, unsqueeze_to(beta, axis, rank)) if center else result


@operator("nn.softmax")
def softmax(x: Term, *, axis: int = -1) -> Term:
    """``exp(x) / sum(exp(x))`` along one axis."""
    return along("softmax", x, axis_of(axis, x.type.rank))


@operator("nn.log_softmax")
def log_softmax(x: Term, *, axis: int = -1) -> Term:
    """``x - log(sum(exp(x)))`` along one axis, formed so that nothing overflows or vanishes."""
    axes = [axis_of(axis, x.type.rank)]
    centred = sub(x, reduce("max", x, axes, True))
    return sub(centred, elementwise("log", reduce("sum", elementwise("exp", centred), axes, True)))


@operator("nn.dropout")
def dropout(x: Term, *, rate: float = 0.5) -> Value:
    """Nothing is dropped at inference, whatever the rate: ``x`` and a mask of ones."""
    del rate
    return x, builders.constant(1, x.shape, x.dtype)


@operator("nn.bias_add")
def bias_add(x: Term, bias: Term, *, axis: int = 1) -> Term:
    """A vector added along one axis."""
    axis = axis_of(axis, x.type.rank)
    _check_vectors(x, axis, bias=bias)
    return add(x, unsqueeze_to(bias, axis, x.type.rank))
