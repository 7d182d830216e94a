"""Normalisations as they run at inference, and the logarithm of softmax."""

from __future__ import annotations

import math

from glenside.frontends.lowering import normalization, phrases
from glenside.frontends.lowering.phrases import elementwise, reduce
from glenside.frontends.refusal import Refused
from glenside.frontends.torch.signature import Node, operator
from glenside.language import Term, builders

_TRAINING = (
    "uses and updates the statistics of the batch, as in training: call .eval() on the module"
)


@operator("_native_batch_norm_legit_no_training")
def batch_norm(
    input: Term,
    weight: Term | None,
    bias: Term | None,
    running_mean: Term,
    running_var: Term,
    eps: float,
) -> tuple[Term, None, None]:
    """``input * a + b`` with ``a`` and ``b`` computed from the parameters."""
    one = builders.constant(1, running_mean.shape, running_mean.dtype)
    zero = builders.constant(0, running_mean.shape, running_mean.dtype)
    result = normalization.batch_norm(
        input, weight if weight is not None else one, bias if bias is not None else zero,
        running_mean, running_var, 1, eps, bias is not None, weight is not None,
    )  # fmt: skip
    return result, None, None


@operator(
    "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_batch_norm",
    "_batch_norm_with_update", "_batch_norm_with_update_functional",
)  # fmt: skip
def batch_norm_in_training(
    input: Term,
    weight: Term | None,
    bias: Term | None,
    training: bool,
    eps: float,
    running_mean: Term | None = None,
    running_var: Term | None = None,
) -> tuple[Term, None, None]:
    """Mean 0 and variance 1 of each channel, where no statistics of other batches are kept."""
    if running_mean is not None or running_var is not None or not training:
        raise Refused(_TRAINING)
    axes = [axis for axis in range(input.type.rank) if axis != 1]
    result = normalization.standardised(input, axes, eps)
    return _scaled(result, weight, bias, 1), None, None


def _scaled(x: Term, weight: Term | None, bias: Term | None, axis: int) -> Term:
    if weight is not None:
        x = phrases.mul(x, phrases.unsqueeze_to(weight, axis, x.type.rank))
    return x if bias is None else phrases.add(x, phrases.unsqueeze_to(bias, axis, x.type.rank))


@operator("instance_norm")
def instance_norm(
    input: Term,
    weight: Term | None,
    bias: Term | None,
    running_mean: Term | None,
    running_var: Term | None,
    use_input_stats: bool,
    eps: float,
) -> Term:
    """Mean 0 and variance 1 of each channel of each sample, or by statistics that were kept."""
    if not use_input_stats:
        assert running_mean is not None and running_var is not None
        return batch_norm(input, weight, bias, running_mean, running_var, eps)[0]
    if running_mean is not None:
        raise Refused(_TRAINING)
    result = normalization.standardised(input, range(2, input.type.rank), eps)
    return _scaled(result, weight, bias, 1)


@operator("native_layer_norm")
def layer_norm(
    input: Term,
    normalized_shape: tuple[int, ...],
    weight: Term | None,
    bias: Term | None,
    eps: float,
) -> tuple[Term, None, None]:
    """Mean 0 and variance 1 over the last axes, then scaled and shifted along them."""
    rank = input.type.rank
    result = normalization.standardised(input, range(rank - len(normalized_shape), rank), eps)
    result = result if weight is None else phrases.mul(result, weight)
    return result if bias is None else phrases.add(result, bias), None, None


@operator("_fused_rms_norm")
def rms_norm(
    node: Node,
    input: Term,
    normalized_shape: tuple[int, ...],
    weight: Term | None,
    eps: float | None,
) -> tuple[Term, None]:
    """Divided by the root of the mean square over the last axes, then scaled along them."""
    rank = input.type.rank
    eps = (
        {"float64": 2**-52, "float16": 2**-10, "bfloat16": 2**-7}.get(input.dtype, 2**-23)
        if eps is None
        else eps
    )
    power = reduce("mean", phrases.square(input), range(rank - len(normalized_shape), rank), True)
    result = phrases.div(input, elementwise("sqrt", phrases.add(power, eps)))
    return result if weight is None else phrases.mul(result, weight), None


@operator("native_group_norm", implied=("N", "C", "HxW"))
def group_norm(
    input: Term, weight: Term | None, bias: Term | None, group: int, eps: float
) -> tuple[Term, None, None]:
    """Mean 0 and variance 1 over the channels of each group and all positions."""
    n, channels, *size = input.shape
    grouped = phrases.reshape(input, (n, group, channels // group * math.prod(size)))
    result = phrases.reshape(normalization.standardised(grouped, [2], eps), input.shape)
    return _scaled(result, weight, bias, 1), None, None


@operator("_log_softmax")
def log_softmax(node: Node, x: Term, dim: int) -> Term:
    """``x - log(sum(exp(x)))`` along one axis, formed so that nothing overflows or vanishes."""
    x = builders.cast(x, node.dtype)
    if not x.type.rank:
        return phrases.mul(x, 0)
    return normalization.log_softmax(x, [dim % x.type.rank])
