"""What a user reads when a model cannot be imported: one clear line each."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glenside.errors import ModelError, UnsupportedOperator
from glenside.frontends.onnx import import_model

SQUEEZENET = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
BUGS = Path(__file__).parent / "bugs"


def fails(*args, **kwargs):
    with pytest.raises(ModelError) as caught:
        import_model(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_missing_file():
    assert "cannot read nowhere.onnx: No such file" in fails("nowhere.onnx")


def test_directory(tmp_path):
    assert "cannot read" in fails(tmp_path)


def test_not_onnx(tmp_path):
    path = tmp_path / "notes.onnx"
    path.write_text("these are not weights")
    assert f"{path} is not an ONNX model" in fails(path)


def test_empty(tmp_path):
    path = tmp_path / "empty.onnx"
    path.touch()
    assert "is empty" in fails(path)


def test_external_data_beside_the_model(tmp_path, ask, floats):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x, w = {"x": floats(2, 64)}, floats(64, 64)
    proto = ask.model_of([node], x, ["y"], {"w": w})
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    np.testing.assert_array_equal(import_model(path).params["w"], w)
    (tmp_path / "weights.bin").unlink()
    assert "its external data" in fails(path)


def test_every_truncation_is_an_error():
    data = SQUEEZENET.read_bytes()
    for length in range(1, len(data), 997):
        assert fails(data[:length])


def test_a_dynamic_shape_is_asked_for():
    message = fails(BUGS / "dynamic_batch_conv.onnx")
    assert "shapes={'X': (N, 3, 8, 8)}" in message


def test_a_shape_settles_the_symbols_of_the_others(ask):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])
    node = helper.make_node("Add", ["x", "y"], ["z"])
    result = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    proto = helper.make_model(helper.make_graph([node], "g", [x, y], [result]))
    model = import_model(proto, shapes={"x": (5, 3)})
    assert model.inputs["y"].shape == (5, 3)
    said = fails(proto, shapes={"x": (5, 3), "y": (4, 3)})
    assert "the model says (N, 3), and N is 5 by input 'x'" in said
    assert "the model says (N, 3)" in fails(proto, shapes={"x": (5, 4)})
    assert "'w', the inputs are 'x', 'y'" in fails(proto, shapes={"w": (1,)})
    assert "whole numbers" in fails(proto, shapes={"x": (-1, 3)})


def one_node(operator, shapes, opset=17, **attributes):
    names = [f"x{i}" for i in range(len(shapes))]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    node = helper.make_node(operator, names, ["y"], name="n1", **attributes)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", infos, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


CONV = [(1, 1, 6, 6), (1, 1, 3, 3)]


@pytest.mark.parametrize(
    ("proto", "says"),
    [
        (one_node("Conv", CONV, pads=[-1] * 4), "'n1' (Conv): attribute pads"),
        (one_node("Conv", CONV, pads=[1, 1]), "pads needs 4 entries"),
        (one_node("Conv", CONV, strides=[0, 1]), "strides must be at least 1"),
        (one_node("Conv", CONV, auto_pad="SAME"), "auto_pad is 'SAME'"),
        (one_node("Conv", [(1, 1, 6, 6), (1, 2, 3, 3)]), "group 1 does not divide"),
        (one_node("Conv", [(1, 1, 2, 2), (1, 1, 3, 3)]), "the window reaches over (3, 3)"),
        (one_node("MaxPool", [(1, 1, 6, 6)], kernel_shape=[3]), "kernel_shape needs 2 entries"),
        (one_node("MatMul", [(2, 3), (4, 5)]), "shapes (2, 3) and (4, 5) do not multiply"),
        (one_node("Add", [(2, 3), (4, 5)]), "do not broadcast"),
        (one_node("Softmax", [(2, 3)], axis=2), "axis 2 is not an axis"),
        (one_node("Concat", [(2, 3), (3, 3)], axis=1), "only axis 1 may differ"),
        (one_node("Transpose", [(2, 3)], perm=[0, 0]), "not a permutation"),
        (one_node("Reshape", [(2, 3)], opset=4, shape=[6]), "opset 4 is not supported: versions 6"),
        (one_node("Relu", [(2, 3)], opset=999), "opset 999 is not supported"),
        (one_node("Relu", [(2, 3)], slope=1.0), "slope"),
        (one_node("Softmax", [(2, 3)], axis=1.0), "axis"),
    ],
)  # fmt: skip
def test_a_wrong_model_is_named(proto, says):
    assert says in fails(proto)


def test_every_unsupported_node_is_listed():
    with pytest.raises(UnsupportedOperator) as caught:
        import_model(BUGS / "two_unsupported.onnx")
    assert len(caught.value.nodes) == 2
    for node in caught.value.nodes:
        assert node.node and node.reason and "opset" in node.operator
        assert str(node) in str(caught.value)


def test_what_must_be_constant_names_the_input_it_depends_on():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, (1,))
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    proto = helper.make_model(helper.make_graph([node], "g", [x, shape], [result]))
    assert "shape must be constant, but depends on 'shape'" in fails(proto)
    model = import_model(proto, params={"shape": np.array([6])})
    assert list(model.inputs) == ["x"]
    assert model.outputs["y"].shape == (6,)


def test_values_that_wait_for_each_other():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Add", ["a", "y"], ["b"]),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    message = fails(helper.make_model(helper.make_graph(nodes, "g", [x], [result])))
    assert message == "node 'y' (Neg) waits for its own result: the graph has a cycle"


def test_unknown_operators_and_known_ones_that_cannot_be_read_are_in_one_error() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"], name="nonzero"),
        helper.make_node("Frobnicate", ["x"], ["y"], name="frob"),
        helper.make_node("RandomNormalLike", ["x"], ["z"], name="random"),
    ]
    outputs = [
        helper.make_tensor_value_info("i", TensorProto.INT64, None),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("z", TensorProto.FLOAT, None),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    with pytest.raises(UnsupportedOperator) as caught:
        import_model(model)
    assert [each.node for each in caught.value.nodes] == ["nonzero", "frob", "random"]
