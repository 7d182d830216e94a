"""Operators of onnxruntime's own domain, and weights in types that are only stored."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glenside.errors import UnsupportedOperator
from glenside.frontends.onnx import import_model
from glenside.language import evaluate

MICROSOFT = "com.microsoft"


def foreign(ask, operator, inputs, constants=None, outputs=1, operands=None, **attributes):
    names = operands or [*inputs, *(constants or {})]
    results = [f"y{i}" if i in (0, outputs - 1) else "" for i in range(outputs)]
    node = helper.make_node(operator, names, results, domain=MICROSOFT, **attributes)
    named = [each for each in results if each]
    proto = ask.model_of([node], inputs, named, constants, opset=17)
    kind = helper.np_dtype_to_tensor_dtype(next(iter(inputs.values())).dtype)
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = kind
    return proto


@pytest.mark.parametrize("operator", ["Gelu", "FastGelu", "QuickGelu"])
def test_gelu(ask, floats, operator):
    x = {"x": floats(2, 3)}
    ask.same(foreign(ask, operator, x), x, atol=1e-4)


def test_bias_gelu(ask, floats):
    x = {"x": floats(2, 3)}
    ask.same(foreign(ask, "BiasGelu", x, {"b": floats(3)}), x)


@pytest.mark.parametrize("trans", [0, 1])
def test_fused_mat_mul(ask, floats, trans):
    inputs = {"a": floats(2, 3, 4), "b": floats(2, 5, 4) if trans else floats(2, 4, 5)}
    ask.same(foreign(ask, "FusedMatMul", inputs, transB=trans, alpha=0.5), inputs)


@pytest.mark.parametrize(
    ("activation", "parameters"), [("Relu", []), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 0.5])]
)
def test_fused_conv(ask, floats, activation, parameters):
    x = {"x": floats(1, 3, 6, 6)}
    weights = {"w": floats(4, 3, 3, 3), "b": floats(4)}
    given = {"activation": activation, "pads": [1, 1, 1, 1]}
    if parameters:
        given["activation_params"] = parameters
    ask.same(foreign(ask, "FusedConv", x, weights, **given), x)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_simplified_layer_normalization_has_no_domain(ask, floats, dtype):
    """onnxruntime had it among ONNX's own operators before these had it."""
    x, g = (300 * floats(2, 3, 4)).astype(dtype), floats(4).astype(dtype)
    node = helper.make_node(
        "SimplifiedLayerNormalization", ["x", "g"], ["y", "by"], axis=-1, epsilon=1e-3
    )
    proto = ask.model_of([node], {"x": x}, ["y", "by"], {"g": g}, opset=17)
    proto.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(x.dtype)
    model = import_model(proto)
    y, by = evaluate(model.roots, {"x": x, **model.params})
    wide = x.astype("float64")
    right = 1 / np.sqrt((wide * wide).mean(axis=-1, keepdims=True) + 1e-3)
    assert (y.dtype, by.dtype) == (x.dtype, np.float32)
    np.testing.assert_allclose(by, right, rtol=1e-5)
    np.testing.assert_allclose(y, wide * right * g, rtol=1e-5 if dtype == "float32" else 2e-3)
    assert not [each for each in model.terms() if each.op == "host_op"]


def test_skip_layer_normalization(ask, floats):
    x = {"x": floats(2, 3, 4), "skip": floats(2, 3, 4)}
    given = {"g": floats(4), "b": floats(4)}
    ask.same(foreign(ask, "SkipLayerNormalization", x, given, outputs=4, epsilon=1e-5), x)


@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_qlinear_binary(ask, operator):
    rng = np.random.default_rng(0)
    x = {"x": rng.integers(0, 255, (2, 3)).astype(np.uint8)}
    constants = {
        "sx": np.float32(0.1), "zx": np.uint8(120),
        "b": rng.integers(0, 255, (2, 3)).astype(np.uint8),
        "sb": np.float32(0.05), "zb": np.uint8(100),
        "sy": np.float32(0.2), "zy": np.uint8(128),
    }  # fmt: skip
    ask.same(foreign(ask, operator, x, constants), x, atol=1)


def test_others_run_on_the_host(ask, floats):
    x = {"x": floats(2, 3)}
    model = ask.same(foreign(ask, "Inverse", {"x": floats(3, 3)}), {"x": floats(3, 3)}, rtol=1e-3)
    assert [term.op for term in model.terms()] == ["tensor", "host_op"]
    with pytest.raises(UnsupportedOperator, match="no meaning is known for this operator"):
        import_model(foreign(ask, "NoSuchThing", x))


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
def test_weights_of_four_bits_are_dequantised(ask, floats, kind):
    values = np.arange(8) - (0 if kind == TensorProto.UINT4 else 4)
    weights = helper.make_tensor("w", kind, (4, 2), values)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["real"], axis=1),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    x = {"x": floats(3, 4)}
    proto = ask.model_of(nodes, x, ["y"], {"s": np.array([0.5, 0.25], np.float32)})
    proto.graph.initializer.append(weights)
    # onnxruntime multiplies such weights with operands that it rounds to bytes.
    ask.same(proto, x, rtol=1e-2)


def test_weights_in_bfloat16_are_cast_or_computed_with(ask, floats):
    w = onnx.numpy_helper.to_array(helper.make_tensor("w", TensorProto.BFLOAT16, (3,), [1, 2, 3.5]))
    x = {"x": floats(2, 3)}
    cast = helper.make_node("Cast", ["w"], ["real"], to=TensorProto.FLOAT)
    proto = ask.model_of([cast, helper.make_node("Add", ["x", "real"], ["y"])], x, ["y"])
    proto.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    ask.same(proto, x)
    proto.graph.node[0].input[0] = "minus"
    proto.graph.node.insert(0, helper.make_node("Neg", ["w"], ["minus"]))
    model = import_model(proto)
    (got,) = evaluate(model.roots, {**x, **model.params})
    np.testing.assert_array_equal(got, x["x"] - np.float32([1, 2, 3.5]))
