"""Operators that onnxruntime runs: operands and results left out, shapes that nobody infers."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glenside
from glenside.errors import UnsupportedOperator
from glenside.frontends.onnx import import_model
from tests.models import onnxruntime_answers

MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(19)


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


def microsoft(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs, outputs, domain=MICROSOFT, **attributes)


QKV = {"q": floats(1, 3, 32), "k": floats(1, 3, 16), "v": floats(1, 3, 16)}
LENGTHS = {"sl": np.array([2], "int32"), "tl": np.array(3, "int32")}
PAST = floats(1, 2, 4, 8)
GROUPED = {"num_heads": 4, "kv_num_heads": 2}
ROWS, OTHERS = floats(3, 3), floats(4, 3)

CASES = {
    "optional operands in the middle are left out": (
        [microsoft("MultiHeadAttention", ["q", "k", "v", "", "", "ab"], ["y"], num_heads=2)],
        {"q": floats(1, 3, 8), "k": floats(1, 3, 8), "v": floats(1, 3, 8)},
        {"ab": floats(1, 2, 3, 3)},
        ["y"],
    ),
    "operands of several types after a gap": (
        [microsoft("MatMulNBits", ["x", "w", "s", "", "", "bi"], ["y"], K=32, N=5, bits=4,
                   block_size=16)],
        {"x": floats(2, 32)},
        {"w": RNG.integers(0, 256, (5, 2, 8)).astype("uint8"), "s": np.abs(floats(10)),
         "bi": floats(5)},
        ["y"],
    ),
    "results that come only together": (
        [microsoft("GroupQueryAttention", ["q", "k", "v", "", "", "sl", "tl"], ["y", "pk", "pv"],
                   **GROUPED)],
        QKV,
        LENGTHS,
        ["y", "pk", "pv"],
    ),
    "results that come only together, one of them used": (
        [microsoft("GroupQueryAttention", ["q", "k", "v", "", "", "sl", "tl"], ["y", "pk", "pv"],
                   **GROUPED)],
        QKV,
        LENGTHS,
        ["pv"],
    ),
    "results whose shapes follow from values": (
        [microsoft("GroupQueryAttention", ["q", "k", "v", "a", "b", "sl", "tl"], ["y", "pk", "pv"],
                   **GROUPED)],
        {"q": floats(1, 1, 32), "k": floats(1, 1, 16), "v": floats(1, 1, 16), "a": PAST, "b": PAST},
        {"sl": np.array([4], "int32"), "tl": np.array(5, "int32")},
        ["y", "pk", "pv"],
    ),
    "a shape that onnxruntime does not infer": (
        [microsoft("CDist", ["x", "z"], ["d"], metric="euclidean"),
         helper.make_node("Relu", ["d"], ["y"])],
        {"x": ROWS, "z": OTHERS},
        {},
        ["y"],
    ),
    "an operator of onnxruntime's in ONNX's own domain": (
        [helper.make_node("SimplifiedLayerNormalization", ["x", "g"], ["y"], axis=-1,
                          epsilon=1e-3)],
        {"x": ROWS},
        {"g": np.ones(3, "float32")},
        ["y"],
    ),
    "two operators, one behind the other": (
        [microsoft("Inverse", ["x"], ["a"]), microsoft("CDist", ["a", "z"], ["y"])],
        {"x": ROWS, "z": OTHERS},
        {},
        ["y"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_programs_and_exports_agree_with_onnxruntime(ask, case):
    nodes, inputs, constants, outputs = CASES[case]
    proto = ask.model_of(nodes, inputs, outputs, constants, opset=18)
    expected = onnxruntime_answers(proto, **inputs)
    program = glenside.optimize(proto, "cpu")
    for got, right in zip(program.run(inputs), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-3, atol=1e-4)
    exported = program.to_onnx()
    if all(onnx.defs.has(node.op_type, node.domain) for node in nodes if not node.domain):
        onnx.checker.check_model(exported)
    assert "@" not in str(exported.graph.node)
    for got, right in zip(onnxruntime_answers(exported, **inputs), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-3, atol=1e-4)


def test_the_distances_are_right(ask):
    nodes, inputs, _, outputs = CASES["a shape that onnxruntime does not infer"]
    program = glenside.optimize(ask.model_of(nodes, inputs, outputs, opset=18), "cpu")
    distances = np.sqrt(((ROWS[:, None] - OTHERS[None]) ** 2).sum(-1))
    np.testing.assert_allclose(program(inputs), distances, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("opset", [1, 3])
def test_trees_whose_types_onnx_does_not_infer(opset):
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml",
        post_transform="NONE", classlabels_int64s=[0, 1], nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        nodes_hitrates=[1.0, 1.0, 1.0], nodes_missing_value_tracks_true=[0, 0, 0],
        class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[1, 1],
        class_weights=[0.25, 0.75],
    )  # fmt: skip
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])
    found = helper.make_tensor_value_info("p", TensorProto.FLOAT, [3, 2])
    opsets = [helper.make_opsetid("", 9), helper.make_opsetid("ai.onnx.ml", opset)]
    proto = helper.make_model(
        helper.make_graph([node], "g", [given], [found]), opset_imports=opsets, ir_version=4
    )
    x = np.array([[0.2, 1, 1, 1], [0.9, 0, 0, 0], [0.5, 0, 0, 0]], "float32")
    right = np.array([[0, 0.25], [0, 0.75], [0, 0.25]], "float32")
    np.testing.assert_array_equal(glenside.optimize(proto, "cpu")(x), right)


def test_a_shape_that_depends_on_values_is_refused(ask):
    node = microsoft("Unique", ["x"], ["y", "i", "c"])
    proto = ask.model_of([node], {"x": floats(4)}, ["y"], opset=18)
    with pytest.raises(UnsupportedOperator, match="depends on its operands' values"):
        import_model(proto)


def test_an_operator_that_nobody_has(ask):
    proto = ask.model_of([helper.make_node("Nonsense", ["x"], ["y"])], {"x": floats(2)}, ["y"])
    with pytest.raises(UnsupportedOperator, match="no meaning is known for this operator"):
        import_model(proto)
