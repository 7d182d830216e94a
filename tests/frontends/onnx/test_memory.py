"""Nodes whose values do not fit in memory are named before anything is made."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glenside
from glenside.errors import GlensideError, ModelError
from glenside.language import memory

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
N = 1 << 20


def _model(nodes, shape, constants, kind=FLOAT):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [onnx.numpy_helper.from_array(np.array(v), name) for name, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _node(operator, *inputs, output="y", **attributes):
    return helper.make_node(operator, ["x", *inputs], [output], name="wide", **attributes)


MEL = {"a": 60000, "b": 1 << 23, "c": 44100, "d": np.float32(0), "e": np.float32(20000)}
CASES = {
    "EyeLike": ([_node("EyeLike")], (N, N), {}),
    "Trilu": ([_node("Trilu")], (N, N), {}),
    "DFT": ([_node("DFT", "n", axis=1)], (1, 8, 1), {"n": 1 << 30}),
    "DFT of much": ([_node("DFT", axis=1)], (1, 1 << 30, 1), {}),
    "MelWeightMatrix": (
        [
            helper.make_node("MelWeightMatrix", list("abcde"), ["w"], name="wide"),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
        ],
        (1, (1 << 22) + 1),
        MEL,
    ),
    "Range": (
        [
            helper.make_node("Range", ["a", "b", "c"], ["r"], name="wide"),
            helper.make_node("Add", ["x", "r"], ["y"]),
        ],
        (1,),
        {"a": np.float32(0), "b": np.float32(1e12), "c": np.float32(1)},
    ),
    "OneHot": (
        [_node("OneHot", "d", "v")],
        (4,),
        {"d": 1 << 40, "v": np.zeros(2, "float32")},
        INT64,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_node_that_takes_more_than_there_is_is_named(case, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 8 << 30)
    with pytest.raises(GlensideError, match=r"node 'wide' .*(takes .* GiB are available|too many)"):
        glenside.optimize(_model(*CASES[case]))


@pytest.mark.parametrize(
    ("operator", "shape", "constants"),
    [
        ("Expand", (1,), {"s": [1 << 12, 1 << 14]}),
        ("Tile", (2, 2), {"s": [1 << 12, 1 << 12]}),
        ("Pad", (4, 4), {"s": [1 << 12, 1 << 12, 1 << 12, 1 << 12]}),
    ],
)
def test_the_memory_of_a_program_is_counted_before_it_is_compiled(
    operator, shape, constants, monkeypatch
):
    model = _model([_node(operator, *constants)], shape, constants)
    monkeypatch.setattr(memory, "available", lambda: 200 << 20)
    compiled = []

    monkeypatch.setattr("glenside.codegen.compile.Kernels", lambda *_: compiled.append(1))
    with pytest.raises(GlensideError, match=r"all that is computed takes (256|512)"):
        glenside.optimize(model, rules=[], check=False)
    assert not compiled


def test_memory_that_is_refused_is_an_error_of_ours(monkeypatch):
    def refused(*_, **__):
        raise MemoryError("Unable to allocate 4.00 GiB")

    monkeypatch.setattr("glenside.frontends.onnx.import_model", refused)
    with pytest.raises(GlensideError, match=r"^import takes more memory than there is: Unable to"):
        glenside.optimize(_model([_node("Relu")], (2,), {}))


@pytest.mark.parametrize("place", ["initializer", "attribute"])
def test_external_data_of_bytes_is_not_looked_for_in_the_current_folder(
    place, tmp_path, monkeypatch
):
    tensor = onnx.numpy_helper.from_array(np.arange(3, dtype="float32"), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    if place == "attribute":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    model = _model(nodes, (3,), {})
    if place == "initializer":
        model.graph.initializer.append(tensor)
    held = model.graph.initializer[0] if place == "initializer" else nodes[0].attribute[0].t
    if place == "attribute":
        held = model.graph.node[0].attribute[0].t
    (tmp_path / "w.bin").write_bytes(held.raw_data)
    onnx.external_data_helper.set_external_data(held, "w.bin")
    held.ClearField("raw_data")
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for where in (elsewhere, tmp_path):  # Though there it would be found.
        monkeypatch.chdir(where)
        for given in (model, model.SerializeToString()):
            with pytest.raises(ModelError, match="'w' lies in a file of its own: give the path"):
                glenside.optimize(given)
    program = glenside.optimize(tmp_path / "net.onnx", check=False)
    np.testing.assert_array_equal(program(np.ones(3, "float32")), [1, 2, 3])
