"""Functions, branches and loops: what makes one node of several, or several of one."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glenside.errors import ModelError, UnsupportedOperator
from glenside.frontends.onnx import import_model

FLOAT = TensorProto.FLOAT


def info(name, shape=(), kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_with(nodes, functions, inputs, outputs, opset=21):
    graph = helper.make_graph(nodes, "main", inputs, outputs)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, functions=functions, opset_imports=opsets)
    model.ir_version = 10
    return model


def function(name, inputs, outputs, nodes, attributes=(), defaults=()):
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    return helper.make_function(
        "mine", name, inputs, outputs, nodes, opsets, list(attributes), list(defaults)
    )


def leaky(name):
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    reference = onnx.AttributeProto(name="alpha", ref_attr_name="slope")
    reference.type = onnx.AttributeProto.FLOAT
    node.attribute.append(reference)
    return function(name, ["a"], ["b"], [node], defaults=[helper.make_attribute("slope", 0.25)])


@pytest.mark.parametrize("given", [{}, {"slope": 0.5}])
def test_local_functions_with_attributes_and_defaults(ask, floats, given):
    twice = function(
        "Twice",
        ["a"],
        ["d"],
        [
            helper.make_node("Leaky", ["a"], ["c"], domain="mine", **given),
            helper.make_node("Add", ["c", "a"], ["d"]),
        ],
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["t"], domain="mine", name="first"),
        helper.make_node("Twice", ["t"], ["y"], domain="mine", name="second"),
    ]
    proto = model_with(nodes, [leaky("Leaky"), twice], [info("x", (2, 3))], [info("y", (2, 3))])
    model = ask.same(proto, {"x": floats(2, 3)})
    assert {"first/Twice/c", "t", "y"} & set(model.names.values()) >= {"t", "y"}
    assert any(name.startswith("first/") for name in model.names.values())


def test_functions_that_call_themselves_end():
    again = function(
        "Again", ["a"], ["b"], [helper.make_node("Again", ["a"], ["b"], domain="mine")]
    )
    node = helper.make_node("Again", ["x"], ["y"], domain="mine")
    proto = model_with([node], [again], [info("x", (2,))], [info("y", (2,))])
    with pytest.raises(ModelError, match="deep"):
        import_model(proto)


def test_a_function_of_unknown_operators_is_refused_by_name():
    odd = function("Odd", ["a"], ["b"], [helper.make_node("Strange", ["a"], ["b"], domain="far")])
    node = helper.make_node("Odd", ["x"], ["y"], domain="mine")
    proto = model_with([node], [odd], [info("x", (2,))], [info("y", (2,))])
    with pytest.raises(UnsupportedOperator, match="Strange"):
        import_model(proto)


def branches():
    then = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["t"])], "then", [], [info("t", (2, 3))]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["e"])], "else", [], [info("e", (2, 3))]
    )
    return {"then_branch": then, "else_branch": other}


@pytest.mark.parametrize("truth", [False, True])
def test_if_with_a_constant_condition_is_its_branch(ask, floats, truth):
    node = helper.make_node("If", ["c"], ["y"], **branches())
    x = {"x": floats(2, 3)}
    proto = ask.model_of([node], x, ["y"], {"c": np.array(truth)})
    model = ask.same(proto, x)
    functions = [term["function"] for term in model.terms() if term.op == "compute"]
    assert functions == ["relu" if truth else "neg"]


@pytest.mark.parametrize("truth", [False, True])
def test_if_decided_at_run_time_computes_both(ask, floats, truth):
    node = helper.make_node("If", ["c"], ["y"], **branches())
    inputs = {"x": floats(2, 3), "c": np.array(truth)}
    model = ask.same(ask.model_of([node], inputs, ["y"]), inputs)
    assert any(term.op == "where" for term in model.terms())


def test_loops_are_unrolled(ask, floats):
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Mul", ["v", "x"], ["w"]),
            helper.make_node("Neg", ["w"], ["out"]),
        ],
        "body",
        [info("i", (), TensorProto.INT64), info("go", (), TensorProto.BOOL), info("v", (2, 3))],
        [info("on", (), TensorProto.BOOL), info("w", (2, 3)), info("out", (2, 3))],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["last", "all"], body=body)
    x = {"x": floats(2, 3)}
    ask.same(ask.model_of([node], x, ["last", "all"], {"n": np.array(3, np.int64)}), x)


@pytest.mark.parametrize("backwards", [0, 1])
def test_scans_are_unrolled(ask, floats, backwards):
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "e"], ["t"]),
            helper.make_node("Relu", ["t"], ["out"]),
        ],
        "body",
        [info("s", (3,)), info("e", (3,))],
        [info("t", (3,)), info("out", (3,))],
    )
    node = helper.make_node(
        "Scan", ["s0", "x"], ["last", "all"], body=body, num_scan_inputs=1,
        scan_input_directions=[backwards], scan_output_axes=[1],
    )  # fmt: skip
    inputs = {"s0": floats(3), "x": floats(4, 3)}
    ask.same(ask.model_of([node], inputs, ["last", "all"]), inputs)


def test_sequences_inside_a_model(ask, floats):
    nodes = [
        helper.make_node("SplitToSequence", ["x", "two"], ["parts"], axis=0),
        helper.make_node("SequenceAt", ["parts", "last"], ["b"]),
        helper.make_node("SequenceInsert", ["parts", "b"], ["more"]),
        helper.make_node("ConcatFromSequence", ["more"], ["y"], axis=1),
    ]
    constants = {"two": np.array(2, np.int64), "last": np.array(-1, np.int64)}
    x = {"x": floats(4, 3)}
    ask.same(ask.model_of(nodes, x, ["y"], constants), x)
