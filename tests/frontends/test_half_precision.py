"""What stays in float32 in half precision: by what is done with a value, however it is spelled.

Right values are NumPy's in float64. Each form is tried on inputs of several magnitudes, as a
float32 model asked for in half precision and as a model typed so.
"""

from collections import Counter

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from glenside.frontends import load_model
from glenside.frontends.lowering.half_precision import in_float32, widened_halves
from glenside.language import Model, evaluate
from glenside.language import builders as b
from glenside.precision import in_precision

N = helper.make_node
MAGNITUDES = (1e-3, 1.0, 300.0, 1000.0)
LAST = np.array([-1])
W = np.random.default_rng(1).standard_normal((3, 8)).astype("float32")
MASK = np.where(np.arange(24).reshape(3, 8) % 3 == 0, -1e9, 0).astype("float32")


def mean(x):
    return x.mean(-1, keepdims=True)


def total(x):
    return x.sum(-1, keepdims=True)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / total(powers)


def normal(x, epsilon):
    centred = x - mean(x)
    return centred / np.sqrt(mean(centred**2) + epsilon)


def spelled_layer_norm(square, divide, epsilon):
    nodes = [N("ReduceMean", ["x", "last"], ["m"]), N("Sub", ["x", "m"], ["c"])]
    nodes += [N("Pow", ["c", "two"], ["q"])] if square == "Pow" else [N("Mul", ["c", "c"], ["q"])]
    nodes += [N("ReduceMean", ["q", "last"], ["v"]), N("Add", ["v", "e"], ["a"])]
    nodes += [N("Sqrt", ["a"], ["s"])]
    if divide == "Div":
        nodes += [N("Div", ["c", "s"], ["y"])]
    else:
        nodes += [N("Reciprocal", ["s"], ["r"]), N("Mul", ["c", "r"], ["y"])]
    return nodes, {"e": epsilon, "two": 2.0}, lambda x: normal(x, epsilon)


FORMS = {
    f"layer norm by {square} and {divide}, epsilon {epsilon}": spelled_layer_norm(
        square, divide, epsilon
    )
    for square in ("Mul", "Pow")
    for divide in ("Div", "Reciprocal")
    for epsilon in (1e-5, 1e-12)
} | {
    "RMS by a power": (
        [
            N("Mul", ["x", "x"], ["q"]),
            N("ReduceMean", ["q", "last"], ["v"]),
            N("Add", ["v", "e"], ["w"]),
            N("Pow", ["w", "h"], ["r"]),
            N("Mul", ["x", "r"], ["y"]),
        ],
        {"e": 1e-6, "h": -0.5},
        lambda x: x / np.sqrt(mean(x * x) + 1e-6),
    ),
    "variance as a difference of squares": (
        [
            N("Mul", ["x", "x"], ["q"]),
            N("ReduceMean", ["q", "last"], ["v"]),
            N("ReduceMean", ["x", "last"], ["m"]),
            N("Mul", ["m", "m"], ["k"]),
            N("Sub", ["v", "k"], ["y"]),
        ],
        {},
        lambda x: mean(x * x) - mean(x) ** 2,
    ),
    "softmax by Exp": (
        [
            N("ReduceMax", ["x", "last"], ["m"]),
            N("Sub", ["x", "m"], ["c"]),
            N("Exp", ["c"], ["p"]),
            N("ReduceSum", ["p", "last"], ["s"]),
            N("Div", ["p", "s"], ["y"]),
        ],
        {},
        softmax,
    ),
    "sigmoid by Exp": (
        [
            N("Neg", ["x"], ["n"]),
            N("Exp", ["n"], ["p"]),
            N("Add", ["p", "one"], ["s"]),
            N("Reciprocal", ["s"], ["y"]),
        ],
        {"one": 1.0},
        lambda x: 1 / (1 + np.exp(-x)),
    ),
    "log-sum-exp": (
        [N("ReduceLogSumExp", ["x", "last"], ["y"])],
        {},
        lambda x: np.log(total(np.exp(x - x.max(-1, keepdims=True)))) + x.max(-1, keepdims=True),
    ),
    "cosine similarity": (
        [
            N("Mul", ["x", "w"], ["xw"]),
            N("ReduceSum", ["xw", "last"], ["d"]),
            N("ReduceL2", ["x", "last"], ["a"]),
            N("ReduceL2", ["w", "last"], ["c"]),
            N("Mul", ["a", "c"], ["l"]),
            N("Div", ["d", "l"], ["y"]),
        ],
        {"w": 300 * W},
        lambda x: total(x * W) / np.sqrt(total(x * x) * total(W.astype("float64") ** 2)),
    ),
    "L2 by a clip": (
        [
            N("ReduceL2", ["x", "last"], ["l"]),
            N("Clip", ["l", "e"], ["c"]),
            N("Div", ["x", "c"], ["y"]),
        ],
        {"e": 1e-12},
        lambda x: x / np.sqrt(total(x * x)),
    ),
    "squared distances by a product of matrices": (
        [
            N("Mul", ["x", "x"], ["q"]),
            N("ReduceSum", ["q", "last"], ["a"]),
            N("Transpose", ["w"], ["t"], perm=[1, 0]),
            N("MatMul", ["x", "t"], ["d"]),
            N("Mul", ["d", "two"], ["e"]),
            N("Sub", ["a", "e"], ["y"]),
        ],
        {"w": 300 * W, "two": 2.0},
        lambda x: total(x * x) - 2 * x @ (300.0 * W.astype("float64")).T,
    ),
    "the root of a mean square error": (
        [
            N("Sub", ["x", "w"], ["d"]),
            N("Mul", ["d", "d"], ["q"]),
            N("ReduceMean", ["q", "last"], ["m"]),
            N("Sqrt", ["m"], ["y"]),
        ],
        {"w": W},
        lambda x: np.sqrt(mean((x - W) ** 2)),
    ),
    "a weight divided by its length": (
        [
            N("ReduceL2", ["w", "last"], ["l"]),
            N("Div", ["w", "l"], ["v"]),
            N("Transpose", ["v"], ["t"], perm=[1, 0]),
            N("MatMul", ["x", "t"], ["y"]),
        ],
        {"w": 300 * W},
        lambda x: x @ (W / np.sqrt(total(W.astype("float64") ** 2))).T,
    ),
    "magnitudes of complex numbers": (
        [
            N("Mul", ["x", "x"], ["a"]),
            N("Mul", ["w", "w"], ["c"]),
            N("Add", ["a", "c"], ["s"]),
            N("Sqrt", ["s"], ["y"]),
        ],
        {"w": 300 * W},
        lambda x: np.hypot(x, 300.0 * W),
    ),
}
"""Nodes, constants, and what is right."""

MASKED = {
    "a mask added": (
        [N("Add", ["x", "m"], ["t"]), N("Softmax", ["t"], ["y"])],
        {"m": MASK},
        lambda x: softmax(x + MASK),
    ),
    "all masked": (
        [N("Add", ["x", "m"], ["t"]), N("Softmax", ["t"], ["y"])],
        {"m": np.full((3, 8), -3e38, "float32")},
        lambda x: softmax(0 * x),
    ),
    "a loss of logarithms": (
        [
            N("Softmax", ["x"], ["p"]),
            N("Add", ["p", "e"], ["q"]),
            N("Log", ["q"], ["l"]),
            N("ReduceSum", ["l", "last"], ["y"]),
        ],
        {"e": 1e-9},
        lambda x: total(np.log(softmax(x) + 1e-9)),
    ),
}
"""Likewise, with numbers that only a float32 model can hold."""


def model(nodes, constants, dtype):
    """``x0`` times the identity is ``x``: what is computed in halves, not an input."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    arrays = {name: np.asarray(value, dtype) for name, value in constants.items()}
    arrays["eye"] = np.eye(8).astype(dtype)
    graph = helper.make_graph(
        [N("MatMul", ["x0", "eye"], ["x"]), *nodes],
        "g",
        [helper.make_tensor_value_info("x0", element, [3, 8])],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(a, name) for name, a in [*arrays.items(), ("last", LAST)]],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return load_model(onnx.ModelProto.FromString(made.SerializeToString()))


def check(made, half, right):
    eps = float(ml_dtypes.finfo(half).eps)
    rng = np.random.default_rng(0)
    dtype = made.inputs["x0"].dtype
    for magnitude in MAGNITUDES:
        x = (rng.standard_normal((3, 8)) * magnitude).astype(half).astype("float64")
        (got,) = evaluate(made.roots, {**made.params, "x0": x.astype(dtype)})
        assert np.isfinite(got.astype("float64")).all() or magnitude > 100
        expected = right(x)
        # What rounding the operands once makes of it.
        moved = right(x * (1 + rng.uniform(-1, 1, x.shape) * eps))
        room = 4 * np.abs(moved - expected).max() + 4 * eps * np.abs(expected)
        fits = np.abs(expected) < float(ml_dtypes.finfo(dtype).max)
        assert (np.abs(got.astype("float64") - expected) <= room + 6e-8)[fits].all(), magnitude


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("form", [*FORMS, *MASKED])
def test_a_float32_model_in_half_precision(form, half):
    nodes, constants, right = (FORMS | MASKED)[form]
    with np.errstate(over="ignore"):
        check(in_precision(model(nodes, constants, "float32"), half), half, right)


@pytest.mark.parametrize("form", [name for name in FORMS if "1e-12" not in name])
def test_a_model_typed_in_half_precision(form):
    nodes, constants, right = FORMS[form]
    if "e" in constants and constants["e"] < 1e-7:
        constants = constants | {"e": 0.0}  # The file cannot hold it, and x is not 0.
    with np.errstate(over="ignore"):
        check(model(nodes, constants, "float16"), "float16", right)


def computed(made):
    """How often each function is computed in each dtype of operands."""
    return Counter((t["function"], t.children[0].dtype) for t in made.terms() if t.op == "compute")


def test_products_and_what_lies_between_layers_stay_in_halves():
    nodes, constants, _ = spelled_layer_norm("Pow", "Div", 1e-12)
    nodes = [
        *nodes[:-1],
        N("Div", ["c", "s"], ["n"]),
        N("Mul", ["n", "w"], ["g"]),
        N("Add", ["g", "x"], ["r"]),
        N("Relu", ["r"], ["o"]),
        N("MatMul", ["o", "eye"], ["y"]),
    ]
    made = in_precision(model(nodes, constants | {"w": W}, "float32"), "float16")
    wide = {"sub", "pow", "add", "sqrt", "div", "mean"}
    found = computed(made)
    assert {name for name, dtype in found if dtype == "float32"} == wide
    assert found["dot", "float16"] == 2 and found["mul", "float16"] == 1
    assert found["add", "float16"] == found["relu", "float16"] == 1
    assert found["mean", "float16"] == 1, "of what came in, added up in float32"


def test_gates_do_not_make_a_network_float32():
    """``x * sigmoid(x)`` is within the range of x: a squeeze-and-excite block stays in halves."""
    nodes = [
        N("Sigmoid", ["x"], ["s"]),
        N("Mul", ["x", "s"], ["a"]),
        N("ReduceMean", ["a", "last"], ["m"]),
        N("Sigmoid", ["m"], ["g"]),
        N("Mul", ["a", "g"], ["b"]),
        N("Add", ["b", "x"], ["c"]),
        N("MatMul", ["c", "eye"], ["y"]),
    ]
    found = computed(in_precision(model(nodes, {}, "float32"), "float16"))
    assert not any(found[name, "float32"] for name in ("mul", "add", "dot"))


def test_a_model_without_halves_or_their_troubles_is_left_alone():
    x, w = b.tensor("x", (2, 3), "float16"), b.tensor("w", (4, 3), "float16")
    dot = b.compute("dot", b.cart_prod(b.access(x, 1), b.access(w, 1)))
    made = Model("m", {"x": x.type, "w": w.type}, {}, {"y": b.elementwise("relu", dot)})
    assert widened_halves(made).roots == made.roots
    (full,) = in_float32(made).roots
    assert {term.dtype for term in in_float32(made).terms()} == {"float32"}
    assert full.shape == (2, 4)


def test_an_element_of_a_local_response_of_zeros_is_zero():
    """Not 0 / 0, where there is no bias."""
    graph = helper.make_graph(
        [N("LRN", ["x"], ["y"], size=1, alpha=1.0, beta=0.5, bias=0.0)],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT16, [1, 4, 1])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT16, None)],
    )
    made = load_model(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    )
    x = np.array([300, 0, -300, 75], "float16").reshape(1, 4, 1)
    (got,) = evaluate(made.roots, {"x": x})
    np.testing.assert_array_equal(got.ravel(), np.float16([1, 0, -1, 1]))


def test_a_mean_of_several_tensors_whose_sum_is_beyond_the_range():
    x = np.array([[60000, -60000, 2]], "float16")
    tensor = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT16, x.shape)
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT16, x.shape)
    graph = helper.make_graph([N("Mean", ["x", "x", "x"], ["y"])], "mean", [tensor], [result])
    model = load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))
    (y,) = evaluate(model.roots, {"x": x})
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, x)
