"""Activations that are made of simpler functions."""

from __future__ import annotations

import math

from glenside.frontends.lowering.phrases import (
    add,
    div,
    elementwise,
    like,
    maximum,
    minimum,
    mul,
    select,
    sub,
    unsqueeze_to,
)
from glenside.frontends.onnx.node import Node, operator
from glenside.language import Term, builders
from glenside.language.shape import FLOATS


def _below_zero(x: Term) -> Term:
    return elementwise("less", x, like(x, 0))


@operator("LeakyRelu")
def _leaky_relu(node: Node) -> Term:
    x = node[0]
    return select(_below_zero(x), mul(x, node.attributes.real("alpha", 0.01)), x)


@operator("PRelu")
def _prelu(node: Node) -> Term:
    x, slope = node[0], node.scalar(1)
    if node.opset < 7 and slope.type.rank == 1:
        slope = unsqueeze_to(slope, 1, x.type.rank)
    return select(_below_zero(x), mul(x, slope), x)


def _elu(x: Term, alpha: float) -> Term:
    # Only negative numbers reach the power, which else might overflow.
    power = elementwise("exp", minimum(x, 0))
    return select(_below_zero(x), mul(sub(power, 1), alpha), x)


@operator("Elu")
def _elu_node(node: Node) -> Term:
    return _elu(node[0], node.attributes.real("alpha", 1.0))


@operator("Selu")
def _selu(node: Node) -> Term:
    alpha = node.attributes.real("alpha", 1.67326319217681884765625)
    gamma = node.attributes.real("gamma", 1.05070102214813232421875)
    return mul(_elu(node[0], alpha), gamma)


@operator("Celu")
def _celu(node: Node) -> Term:
    x, alpha = node[0], node.attributes.real("alpha", 1.0)
    power = sub(elementwise("exp", div(minimum(x, 0), alpha)), 1)
    return add(maximum(x, 0), minimum(mul(power, alpha), 0))


@operator("HardSigmoid")
def _hard_sigmoid(node: Node) -> Term:
    alpha, beta = node.attributes.real("alpha", 0.2), node.attributes.real("beta", 0.5)
    return hard_sigmoid(node[0], alpha, beta)


def hard_sigmoid(x: Term, alpha: float, beta: float) -> Term:
    """``clip(alpha x + beta, 0, 1)``."""
    return minimum(maximum(add(mul(x, alpha), beta), 0), 1)


@operator("HardSwish")
def _hard_swish(node: Node) -> Term:
    return mul(node[0], hard_sigmoid(node[0], 1 / 6, 0.5))


def softplus(x: Term) -> Term:
    """``log(1 + exp(x))``, without overflow."""
    power = elementwise("exp", elementwise("neg", elementwise("abs", x)))
    return add(elementwise("log", add(power, 1)), maximum(x, 0))


@operator("Softplus")
def _softplus(node: Node) -> Term:
    return softplus(node[0])


@operator("Softsign")
def _softsign(node: Node) -> Term:
    return div(node[0], add(elementwise("abs", node[0]), 1))


@operator("ThresholdedRelu")
def _thresholded_relu(node: Node) -> Term:
    x = node[0]
    alpha = like(x, node.attributes.real("alpha", 1.0))
    return select(elementwise("greater", x, alpha), x, 0)


@operator("Gelu")
def _gelu(node: Node) -> Term:
    x = node[0]
    if node.attributes.choice("approximate", "none", "tanh") == "tanh":
        cube = mul(mul(x, x), x)
        inner = mul(add(x, mul(cube, 0.044715)), math.sqrt(2 / math.pi))
        share = elementwise("tanh", inner)
    else:
        share = elementwise("erf", mul(x, math.sqrt(0.5)))
    return mul(mul(x, 0.5), add(share, 1))


@operator("Mish")
def _mish(node: Node) -> Term:
    return mul(node[0], elementwise("tanh", softplus(node[0])))


@operator("Swish")
def _swish(node: Node) -> Term:
    x, alpha = node[0], node.attributes.real("alpha", 1.0)
    return mul(x, elementwise("sigmoid", x if alpha == 1.0 else mul(x, alpha)))


@operator("Shrink")
def _shrink(node: Node) -> Term:
    x = node[0]
    bias = node.attributes.real("bias", 0.0)
    edge = node.attributes.real("lambd", 0.5)
    wide = x if x.dtype in FLOATS else builders.cast(x, "float64")
    low = elementwise("less", wide, like(wide, -edge))
    high = elementwise("greater", wide, like(wide, edge))
    result = select(low, add(wide, bias), select(high, sub(wide, bias), 0))
    return builders.cast(result, x.dtype)
