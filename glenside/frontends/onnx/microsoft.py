"""Operators of the domain ``com.microsoft``, which onnxruntime's own tools put into models."""

from __future__ import annotations

import math

from glenside.frontends.lowering.convolution import correlate
from glenside.frontends.lowering.phrases import (
    add,
    div,
    elementwise,
    like,
    matmul,
    maximum,
    minimum,
    mul,
    reduce,
    reshape,
    select,
    sub,
    swap_last,
    unsqueeze_to,
)
from glenside.frontends.onnx.activations import hard_sigmoid
from glenside.frontends.onnx.convolution import check_filters
from glenside.frontends.onnx.linear import check_product
from glenside.frontends.onnx.node import Node, operator
from glenside.frontends.onnx.normalization import reciprocal_deviation
from glenside.frontends.onnx.quantization import saturate
from glenside.frontends.onnx.spatial import read_window, spatial_size
from glenside.language import Term, builders
from glenside.language.shape import HALVES

DOMAIN = "com.microsoft"


@operator("Gelu", "BiasGelu", domain=DOMAIN)
def _gelu(node: Node) -> Term:
    x = add(node[0], node[1]) if node.operator == "BiasGelu" else node[0]
    return mul(mul(x, 0.5), add(elementwise("erf", mul(x, math.sqrt(0.5))), 1))


@operator("FastGelu", domain=DOMAIN)
def _fast_gelu(node: Node) -> Term:
    x = node[0] if node.get(1) is None else add(node[0], node[1])
    inner = mul(add(x, mul(mul(mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
    return mul(mul(x, 0.5), add(elementwise("tanh", inner), 1))


@operator("QuickGelu", domain=DOMAIN)
def _quick_gelu(node: Node) -> Term:
    x, alpha = node[0], node.attributes.real("alpha", 1.702)
    return mul(x, elementwise("sigmoid", mul(x, alpha)))


@operator("FusedMatMul", domain=DOMAIN)
def _fused_mat_mul(node: Node) -> Term:
    a, b = node[0], node[1]
    alpha = node.attributes.real("alpha", 1.0)
    if node.attributes.flag("transBatchA") or node.attributes.flag("transBatchB"):
        node.refuse("transBatchA and transBatchB are not supported")
    # onnxruntime leaves vectors as they are.
    if node.attributes.flag("transA") and a.type.rank > 1:
        a = swap_last(a)
    if node.attributes.flag("transB") and b.type.rank > 1:
        b = swap_last(b)
    check_product(node, a, b)
    product = matmul(a, b)
    return product if alpha == 1.0 else mul(product, alpha)


@operator("FusedConv", domain=DOMAIN)
def _fused_conv(node: Node) -> Term:
    x, w, bias = node[0], node[1], node.get(2)
    groups = node.attributes.integer("group", 1)
    check_filters(node, x, w, groups)
    result = correlate(x, w, read_window(node, spatial_size(node, x), w.shape[2:]), groups)
    if bias is not None:
        result = add(result, unsqueeze_to(bias, 1, x.type.rank))
    if node.get(3) is not None:
        result = add(result, node[3])
    parameters = node.attributes.reals("activation_params") or []
    match node.attributes.text("activation", ""), parameters:
        case "", _:
            return result
        case ("Relu" | "Tanh" | "Sigmoid") as name, _:
            return elementwise(name.lower(), result)
        case "LeakyRelu", [alpha]:
            return select(elementwise("less", result, like(result, 0)), mul(result, alpha), result)
        case "Clip", [low, high]:
            return minimum(maximum(result, low), high)
        case "HardSigmoid", [alpha, beta]:
            return hard_sigmoid(result, alpha, beta)
    node.refuse("its activation is not supported")


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=DOMAIN)
def _skip_layer_normalization(node: Node) -> list[Term | None]:
    simplified = node.operator == "SkipSimplifiedLayerNormalization"
    beta, bias = (None, node.get(3)) if simplified else (node.get(3), node.get(4))
    total = add(node[0], node[1])
    if bias is not None:
        total = add(total, bias)
    epsilon = node.attributes.real("epsilon", 1e-12)
    axes = [total.type.rank - 1]
    wide = builders.cast(total, "float32") if total.dtype in HALVES else total
    centred = wide if simplified else sub(wide, reduce("mean", wide, axes, True))
    normal = mul(centred, reciprocal_deviation(centred, axes, epsilon))
    result = mul(builders.cast(normal, total.dtype), node[2])
    return [result if beta is None else add(result, beta), None, None, total]


def _real(node: Node, position: int) -> Term:
    """The float that a quantised operand stands for; scale and zero point follow it."""
    values = builders.cast(node[position], "int32")
    if node.get(position + 2) is not None:
        values = sub(values, reshape(builders.cast(node.scalar(position + 2), "int32"), ()))
    return mul(builders.cast(values, "float32"), reshape(node.scalar(position + 1), ()))


def _quantised(node: Node, x: Term, position: int, dtype: str) -> Term:
    """A float quantised by the scale and zero point at ``position`` and after it."""
    zero_point = None
    if node.get(position + 1) is not None:
        zero_point = reshape(node.scalar(position + 1), ())
    return saturate(div(x, reshape(node.scalar(position), ())), zero_point, dtype)


@operator("QLinearAdd", "QLinearMul", domain=DOMAIN)
def _qlinear_binary(node: Node) -> Term:
    function = "add" if node.operator == "QLinearAdd" else "mul"
    result = elementwise(function, _real(node, 0), _real(node, 3))
    return _quantised(node, result, 6, node[0].dtype)


@operator("QLinearSigmoid", "QLinearLeakyRelu", domain=DOMAIN)
def _qlinear_unary(node: Node) -> Term:
    x = _real(node, 0)
    if node.operator == "QLinearSigmoid":
        result = elementwise("sigmoid", x)
    else:
        slope = node.attributes.real("alpha", 0.01)
        result = select(elementwise("less", x, like(x, 0)), mul(x, slope), x)
    return _quantised(node, result, 3, node[0].dtype)


@operator("QLinearGlobalAveragePool", domain=DOMAIN)
def _qlinear_global_average_pool(node: Node) -> Term:
    rank = node[0].type.rank
    last = node.attributes.flag("channels_last")
    axes = range(1, rank - 1) if last else range(2, rank)
    return _quantised(node, reduce("mean", _real(node, 0), axes, True), 3, node[0].dtype)
