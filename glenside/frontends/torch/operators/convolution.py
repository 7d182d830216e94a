"""Convolutions and their transposes, in one to three dimensions."""

from __future__ import annotations

from glenside.frontends.lowering import phrases
from glenside.frontends.lowering.tvm_convolution import CONVOLUTIONS, TRANSPOSED
from glenside.frontends.refusal import Refused
from glenside.frontends.torch.signature import Node, operator
from glenside.language import Term, builders

_SUFFIX = {3: "1d", 4: "2d", 5: "3d"}


@operator("convolution")
def convolution(
    node: Node,
    input: Term,
    weight: Term,
    bias: Term | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    transposed: bool,
    output_padding: tuple[int, ...],
    groups: int,
) -> Term:
    """Every filter with every window, or the gradient of that."""
    suffix = _SUFFIX.get(weight.type.rank)
    if suffix is None:
        raise Refused(f"{weight.type.rank - 2} spatial axes are not supported; 1 to 3 are")
    single = input.type.rank == weight.type.rank - 1
    x = builders.unsqueeze(input, 0) if single else input
    if transposed:
        result = TRANSPOSED[f"nn.conv{suffix}_transpose"](
            node.constants,
            x,
            weight,
            strides=stride,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
        )
    else:
        result = CONVOLUTIONS[f"nn.conv{suffix}"](
            x, weight, strides=stride, padding=padding, dilation=dilation, groups=groups
        )
    if bias is not None:
        result = phrases.add(result, phrases.unsqueeze_to(bias, 1, result.type.rank))
    return builders.squeeze(result, 0) if single else result
