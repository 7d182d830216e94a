"""Layers come back as the one operator that they are, and compute what they computed."""

import math

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from glenside.errors import GlensideError, InputError
from glenside.exporters.onnx import to_onnx
from glenside.frontends import load_model
from glenside.language import Term, builders
from glenside.language.builders import access, cart_prod, compute, pad, tensor, windows
from tests.exporters.running import assert_same, checked, operator_types
from tests.strategies import environment

RNG = np.random.default_rng(3)


def model_of(operator, inputs, weights=(), *, opset=17, **attributes):
    """One operator of float32 inputs of these shapes and of weights, as an ONNX model."""
    names = [f"x{i}" for i in range(len(inputs))]
    stored = {f"w{i}": np.abs(RNG.standard_normal(shape)) for i, shape in enumerate(weights)}
    node = helper.make_node(operator, [*names, *stored], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        operator,
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(names, inputs, strict=True)
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a.astype("float32"), name) for name, a in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def answers(model, feed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feed)


IMAGE = (2, 6, 9, 8)
LAYERS = {
    "plain": ("Conv", [IMAGE], [(4, 6, 3, 2)], {}),
    "bias": ("Conv", [IMAGE], [(4, 6, 3, 2), (4,)], {"pads": [1, 0, 2, 1]}),
    "strided": ("Conv", [IMAGE], [(4, 6, 3, 3)], {"strides": [2, 3], "dilations": [2, 1]}),
    "grouped": ("Conv", [IMAGE], [(4, 3, 3, 3), (4,)], {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ("Conv", [IMAGE], [(12, 1, 3, 3), (12,)], {"group": 6, "pads": [1] * 4}),
    "1x1": ("Conv", [IMAGE], [(4, 6, 1, 1), (4,)], {}),
    "whole image": ("Conv", [IMAGE], [(4, 6, 9, 8)], {}),
    "sequence": ("Conv", [(2, 6, 9)], [(4, 6, 3), (4,)], {"pads": [0, 2]}),
    "volume": ("Conv", [(1, 3, 5, 6, 7)], [(4, 3, 3, 2, 3)], {"strides": [1, 2, 1]}),
    "one channel": ("Conv", [(2, 1, 9, 8)], [(4, 1, 3, 3), (4,)], {}),
    "filters given": ("Conv", [IMAGE, (4, 6, 3, 3), (4,)], [], {}),
    "spread": ("ConvTranspose", [IMAGE], [(6, 4, 3, 3), (4,)], {"strides": [2, 3]}),
    "spread and padded": (
        "ConvTranspose", [IMAGE], [(6, 4, 3, 3)], {"strides": [2, 2], "pads": [1, 0, 1, 2]}
    ),
    "spread, with more at the end": (
        "ConvTranspose", [IMAGE], [(6, 4, 3, 3), (4,)],
        {"strides": [2, 3], "pads": [1, 1, 1, 1], "output_padding": [1, 2]},
    ),
    "spread with gaps": ("ConvTranspose", [IMAGE], [(6, 4, 2, 2)], {"strides": [3, 4]}),
    "spread and dilated": (
        "ConvTranspose", [IMAGE], [(6, 4, 3, 3)], {"strides": [2, 2], "dilations": [2, 1]}
    ),
    "spread sequence": ("ConvTranspose", [(2, 6, 5)], [(6, 4, 3), (4,)], {"strides": [3]}),
    "spread volume": (
        "ConvTranspose", [(1, 3, 3, 4, 2)], [(3, 2, 2, 3, 2)], {"strides": [2, 1, 2]}
    ),
    "maximum": ("MaxPool", [IMAGE], [], {"kernel_shape": [3, 2], "strides": [2, 1]}),
    "padded maximum": ("MaxPool", [IMAGE], [], {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2]}),
    "mean": ("AveragePool", [IMAGE], [], {"kernel_shape": [3, 2], "strides": [2, 1]}),
    "padded mean": ("AveragePool", [IMAGE], [], {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2]}),
    "mean of padding": (
        "AveragePool", [IMAGE], [],
        {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "count_include_pad": 1},
    ),
    "global": ("GlobalAveragePool", [IMAGE], [], {}),
    "batch": ("BatchNormalization", [IMAGE], [(6,)] * 4, {}),
    "layer": ("LayerNormalization", [(2, 3, 8)], [(8,), (8,)], {"epsilon": 1e-3}),
    "layer without bias": ("LayerNormalization", [(2, 3, 8)], [(8,)], {}),
    "layer over two axes": ("LayerNormalization", [(2, 3, 8)], [(3, 8)] * 2, {"axis": 1}),
    "dense": ("Gemm", [(3, 5)], [(4, 5), (4,)], {"transB": 1}),
    "dense, transposed": ("Gemm", [(3, 5)], [(5, 4), (4,)], {}),
    "rows": ("MatMul", [(2, 3, 5)], [(5, 4)], {}),
    "batches": ("MatMul", [(2, 7, 3, 5), (2, 7, 5, 4)], [], {}),
    "clip": ("Clip", [IMAGE], [(), ()], {}),
}  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_comes_back_as_it_was(layer):
    operator, inputs, weights, attributes = LAYERS[layer]
    model = model_of(operator, inputs, weights, **attributes)
    if operator == "Clip":
        for tensor_, bound in zip(model.graph.initializer, (-0.25, 0.5), strict=True):
            tensor_.CopyFrom(numpy_helper.from_array(np.float32(bound), tensor_.name))
    read = load_model(model)
    exported = checked(to_onnx("again", read.inputs, read.params, read.outputs))
    made = [each for each in operator_types(exported) if each != "ConstantOfShape"]
    assert made == [operator]
    feed = {
        each: RNG.standard_normal(of.shape).astype("float32") for each, of in read.inputs.items()
    }
    for got, right in zip(answers(exported, feed), answers(model, feed), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)


def convolution(x: Term, swapped: bool = False) -> Term:
    looks = builders.squeeze(windows(access(x, 1), (3, 2, 2), (1, 1, 1)), 1)
    filters = access(tensor("w", (4, 3, 2, 2), x.dtype), 1)
    return compute("dot", cart_prod(looks, filters) if swapped else cart_prod(filters, looks))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_convolution_may_have_its_operands_either_way_round(swapped, dtype):
    term = convolution(tensor("x", (2, 3, 5, 6), dtype), swapped)
    model = assert_same([term], environment([term]))
    assert operator_types(model).count("Conv") == 1


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "uint8"])
def test_a_convolution_that_runtimes_lack_is_a_product(dtype):
    term = convolution(tensor("x", (2, 3, 5, 6), dtype))
    model = assert_same([term], environment([term]))
    assert "Conv" not in operator_types(model)


def test_channels_may_come_last():
    x = tensor("x", (2, 5, 6, 3))
    looks = windows(access(x, 1), (2, 2, 3), (1, 1, 1))
    term = compute("dot", cart_prod(access(tensor("w", (4, 2, 2, 3)), 1), looks))
    model = assert_same([term], environment([term]))
    assert operator_types(model).count("Conv") == 1


def test_padding_that_others_read_as_well_is_written():
    padded = pad(pad(tensor("x", (2, 3, 4, 5)), 2, 1, 1), 3, 1, 0)
    terms = [convolution(padded), compute("neg", padded)]
    model = assert_same(terms, environment(terms))
    assert sorted(operator_types(model)) == ["Conv", "Neg", "Pad", "Transpose"]


def test_padding_by_another_number_is_no_padding_of_the_layer():
    padded = pad(tensor("x", (2, 3, 4, 5)), 2, 1, 1, -1.0)
    largest = compute("max", windows(access(padded, 2), (2, 2), (1, 1)))
    for term in (convolution(padded), largest):
        model = assert_same([term], environment([term]))
        assert operator_types(model)[0] == "Pad"


def test_what_others_read_before_its_bias_is_kept():
    product = convolution(tensor("x", (2, 3, 5, 6)))
    image = access(builders.transpose(product, (1, 0, 2, 3)), 0)
    vector = builders.reshape(tensor("b", (4,)), (1, 4, 1, 1), ())
    spread = builders.broadcast(vector, image.shape)
    biased = compute("add", builders.pair(image, access(spread, 0)))
    assert_same([biased], environment([biased]))
    model = assert_same([biased, product], environment([biased, product]))
    assert "Add" in operator_types(model)


def test_pads_of_pads_are_one():
    term = pad(pad(pad(tensor("x", (3, 4)), 0, 1, 2), 1, 3, 0), 0, 1, 1)
    assert operator_types(assert_same([term], environment([term]))) == ["Pad"]
    other = pad(pad(tensor("x", (3, 4)), 0, 1, 2, -0.0), 1, 3, 0, 0.0)
    model = assert_same([other], environment([other]))
    assert operator_types(model) == ["Pad", "Pad"]
    (y,) = answers(model, {"x": np.ones((3, 4), np.float32)})
    assert np.signbit(y).sum() == 3 * 4


def fold(function: str, a: Term, b: Term) -> Term:
    return access(compute(function, builders.pair(access(a, 0), access(b, 0))), a.type.rank)


def standardised(x: Term, factor: float) -> Term:
    """g * (x - mean) / sqrt(factor * var + 1e-5), along the last axis."""
    last = x.type.rank - 1
    narrow = (*x.shape[:-1], 1)

    def mean(a: Term) -> Term:
        return builders.unsqueeze(compute("mean", access(a, last)), last)

    centred = fold("sub", x, builders.broadcast(mean(x), x.shape))
    variance = mean(fold("mul", centred, centred))
    if factor != 1:
        variance = fold("mul", variance, builders.constant(factor, narrow))
    raised = fold("add", variance, builders.constant(1e-5, narrow))
    deviation = builders.broadcast(compute("sqrt", access(raised, 0)), x.shape)
    weights = builders.reshape(tensor("g", x.shape[-1:]), (1,) * last + x.shape[-1:], ())
    return fold("mul", fold("div", centred, deviation), builders.broadcast(weights, x.shape))


def test_a_norm_is_recognised_by_its_arithmetic_alone():
    x = tensor("x", (2, 3, 8))
    term = standardised(x, 1.0)
    assert operator_types(assert_same([term], environment([term]))) == ["LayerNormalization"]
    other = standardised(x, 0.5)
    model = assert_same([other], environment([other]))
    assert "LayerNormalization" not in operator_types(model)


def test_a_network_keeps_its_operators():
    from tests.models import LIGHT

    model = onnx.load(LIGHT / "light_squeezenet.onnx")
    read = load_model(model)
    exported = to_onnx("again", read.inputs, read.params, read.outputs)
    for operator in ("Conv", "Relu", "MaxPool", "Concat"):
        count = operator_types(model).count(operator)
        assert operator_types(exported).count(operator) == count > 0
    assert "Add" not in operator_types(exported)
    assert len(exported.graph.node) <= math.floor(1.3 * len(model.graph.node))


# --- opsets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [13, 15, 16, 17, 18, 21])
@pytest.mark.parametrize("layer", ["layer", "bias", "batch", "padded mean", "spread", "dense"])
def test_a_program_is_written_in_the_opset_asked_for(layer, opset):
    operator, inputs, weights, attributes = LAYERS[layer]
    model = model_of(operator, inputs, weights, **attributes)
    read = load_model(model)
    exported = checked(to_onnx("again", read.inputs, read.params, read.outputs, opset=opset))
    assert [(each.domain, each.version) for each in exported.opset_import] == [("", opset)]
    feed = {
        each: RNG.standard_normal(of.shape).astype("float32") for each, of in read.inputs.items()
    }
    for got, right in zip(answers(exported, feed), answers(model, feed), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", ["max", "min", "mean", "prod", "sum"])
@pytest.mark.parametrize("opset", [13, 17, 18])
def test_reductions_take_their_axes_as_the_opset_has_them(function, opset):
    term = compute(function, access(tensor("x", (2, 3, 4)), 1))
    exported = to_onnx("r", {"x": term.children[0].type}, {}, {"y": term}, opset=opset)
    x = RNG.standard_normal((2, 3, 4)).astype("float32")
    (got,) = answers(checked(exported), {"x": x})
    np.testing.assert_allclose(got, getattr(np, function)(x, axis=(1, 2)), rtol=1e-5)


def test_what_an_opset_lacks_is_one_error():
    x = tensor("x", (4,), "int32")
    term = compute("bit_and", builders.pair(access(x, 0), access(tensor("z", (4,), "int32"), 0)))
    inputs = {"x": x.type, "z": x.type}
    with pytest.raises(
        GlensideError, match=r"opset 17 has no BitwiseAnd .*: it came with opset 18"
    ):
        to_onnx("bits", inputs, {}, {"y": term}, opset=17)
    assert operator_types(to_onnx("bits", inputs, {}, {"y": term}, opset=18)) == ["BitwiseAnd"]


@pytest.mark.parametrize("opset", [12, 1000, True, "17", 17.0])
def test_what_is_no_opset_is_told(opset):
    x = tensor("x", (4,))
    with pytest.raises(InputError, match=r"^opset is a number from 13 to \d+, got "):
        to_onnx("x", {"x": x.type}, {}, {"y": x}, opset=opset)


def test_gelu_keeps_its_numbers():
    """Runtimes find Gelu where x is divided by a number, not by an array of it."""
    x = tensor("x", (3, 64))
    half = fold("div", x, builders.constant(math.sqrt(2), x.shape))
    erf = access(compute("erf", access(half, 0)), 0)
    term = fold("mul", x, fold("add", erf, builders.constant(1.0, x.shape)))
    model = assert_same([term], environment([term]))
    assert sorted(operator_types(model)) == ["Add", "Div", "Erf", "Mul"]
