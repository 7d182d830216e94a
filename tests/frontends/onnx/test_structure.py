"""Functions, branches and loops: what makes one node of several, or several of one."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glenside.errors import InputError, ModelError, UnsupportedOperator
from glenside.frontends.onnx import import_model
from glenside.language import evaluate

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


def overloads():
    body = [helper.make_opsetid("", 21)]
    return [
        helper.make_function("mine", "f", ["a"], ["b"], [node], body, overload=overload)
        for overload, node in (
            ("", helper.make_node("Exp", ["a"], ["b"])),
            ("up", helper.make_node("Relu", ["a"], ["b"])),
            ("down", helper.make_node("Neg", ["a"], ["b"])),
        )
    ]


@pytest.mark.parametrize("overload", ["", "up", "down"])
def test_functions_are_told_apart_by_overload(ask, floats, overload):
    node = helper.make_node("f", ["x"], ["y"], domain="mine", overload=overload)
    proto = model_with([node], overloads(), [info("x", (2, 3))], [info("y", (2, 3))])
    ask.same(proto, {"x": floats(2, 3)})


def test_an_overload_that_no_function_has_is_refused():
    node = helper.make_node("f", ["x"], ["y"], domain="mine", overload="sideways")
    proto = model_with([node], overloads(), [info("x", (2,))], [info("y", (2,))])
    with pytest.raises(UnsupportedOperator, match="'y'"):
        import_model(proto)
    proto = model_with([node], overloads()[1:2] * 2, [info("x", (2,))], [info("y", (2,))])
    with pytest.raises(ModelError, match="overload 'up' is defined more than once"):
        import_model(proto)


@pytest.mark.parametrize("operands", [["x", "", "one"], ["x", "one"], ["x", "one", ""], ["x"]])
def test_functions_are_called_without_optional_operands(ask, floats, operands):
    body = helper.make_node("Clip", ["a", "low", "high"], ["b"])
    clip = function("Clipped", ["a", "low", "high"], ["b"], [body])
    call = helper.make_node("Clipped", operands, ["y"], domain="mine")
    one = helper.make_node("Constant", [], ["one"], value_float=0.5)
    proto = model_with([one, call], [clip], [info("x", (2, 3))], [info("y", (2, 3))])
    ask.same(proto, {"x": floats(2, 3)})


def test_a_convolution_in_a_function_has_no_bias(ask, floats):
    body = helper.make_node("Conv", ["a", "w", "c"], ["b"])
    proto = model_with(
        [helper.make_node("Convolved", ["x", "f"], ["y"], domain="mine")],
        [function("Convolved", ["a", "w", "c"], ["b"], [body])],
        [info("x", (1, 2, 4, 4)), info("f", (3, 2, 2, 2))],
        [info("y", (1, 3, 3, 3))],
    )
    ask.same(proto, {"x": floats(1, 2, 4, 4), "f": floats(3, 2, 2, 2)})


def test_what_nobody_uses_is_not_read(ask, floats):
    nodes = [
        helper.make_node("Cast", ["x"], ["text"], to=TensorProto.STRING),
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Strange", ["text"], ["odd"], domain="mine"),
        helper.make_node("MaxPool", ["x"], ["y", "unused"], kernel_shape=[2]),
    ]
    proto = model_with(nodes, [], [info("x", (1, 2, 4))], [info("y", (1, 2, 3))])
    x = floats(1, 2, 4)
    model = import_model(proto)
    (got,) = ask.terms(model, {"x": x})
    np.testing.assert_array_equal(got, np.maximum(x[..., :-1], x[..., 1:]))
    assert sum(model.operators.values()) == 1


def test_nodes_are_sorted(ask, floats):
    double = helper.make_graph(
        [helper.make_node("Add", ["late", "late"], ["d"])], "t", [], [info("d", (2, 3))]
    )
    none = helper.make_graph(
        [helper.make_node("Sub", ["x", "late"], ["e"])], "e", [], [info("e", (2, 3))]
    )
    nodes = [
        helper.make_node("Neg", ["chosen"], ["y"]),
        helper.make_node("If", ["c"], ["chosen"], then_branch=double, else_branch=none),
        helper.make_node("Exp", ["x"], ["late"]),
    ]
    inputs = [info("x", (2, 3)), info("c", (), TensorProto.BOOL)]
    proto = model_with(nodes, [], inputs, [info("y", (2, 3))])
    ask.same(proto, {"x": floats(2, 3), "c": np.array(True)})


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


def rated(then, other):
    """A model that looks at another number of samples for each rate."""

    def branch(name, weights):
        node = helper.make_node("MatMul", ["x", weights], [name])
        return helper.make_graph([node], name, [], [info(name, None)])

    nodes = [
        helper.make_node("Equal", ["rate", "eight"], ["c"]),
        helper.make_node(
            "If", ["c"], ["y"], then_branch=branch("t", then), else_branch=branch("e", other)
        ),
    ]
    inputs = [info("x", (2, 4)), info("rate", (), TensorProto.INT64)]
    model = model_with(nodes, [], inputs, [info("y", (2, 3))])
    rng = np.random.default_rng(0)
    for name, rows in (("four", 4), ("five", 5)):
        weights = rng.standard_normal((rows, 3)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weights, name))
    model.graph.initializer.append(numpy_helper.from_array(np.int64(8), "eight"))
    return model


@pytest.mark.parametrize(
    ("then", "other", "right", "bad"), [("four", "five", 8, 4), ("five", "four", 4, 8)]
)
def test_a_branch_that_does_not_fit_is_not_taken(ask, floats, then, other, right, bad):
    model = rated(then, other)
    weights = next(numpy_helper.to_array(w) for w in model.graph.initializer if w.name == "four")
    imported = import_model(model)
    x = floats(2, 4)
    (got,) = ask.terms(imported, {"x": x, "rate": np.array(right)})
    np.testing.assert_allclose(got, x @ weights, rtol=1e-5)
    (asked,) = imported.requirements
    asked.check({"rate": np.array(right)})
    with pytest.raises(InputError, match=r"input 'rate': node 'y' \(If\) cannot take its"):
        asked.check({"rate": np.array(bad)})


def test_no_branch_that_fits_is_an_error():
    with pytest.raises(ModelError, match="neither branch fits"):
        import_model(rated("five", "five"))


def test_an_unknown_operator_in_the_branch_that_is_not_taken(ask, floats):
    odd = helper.make_graph(
        [helper.make_node("Strange", ["x"], ["o"], domain="mine")], "o", [], [info("o", (2,))]
    )
    good = helper.make_graph([helper.make_node("Neg", ["x"], ["g"])], "g", [], [info("g", (2,))])
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(False))),
        helper.make_node("If", ["c"], ["y"], then_branch=odd, else_branch=good),
    ]
    proto = model_with(nodes, [], [info("x", (2,))], [info("y", (2,))])
    (got,) = ask.terms(import_model(proto), {"x": np.float32([1, -2])})
    np.testing.assert_array_equal(got, np.float32([-1, 2]))


def test_a_function_of_every_tensor_of_a_sequence(ask, floats):
    body = helper.make_graph(
        [helper.make_node("Add", ["e", "k"], ["a"]), helper.make_node("Neg", ["e"], ["n"])],
        "body",
        [info("e", None), info("k", None)],
        [info("a", None), info("n", None)],
    )
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "z"], ["s"]),
        helper.make_node("SequenceMap", ["s", "x"], ["sums", "negated"], body=body),
        helper.make_node("ConcatFromSequence", ["sums"], ["y"], axis=0),
        helper.make_node("ConcatFromSequence", ["negated"], ["w"], axis=1),
    ]
    inputs = [info("x", (2, 3)), info("z", (2, 3))]
    proto = model_with(nodes, [], inputs, [info("y", None), info("w", None)])
    ask.same(proto, {"x": floats(2, 3), "z": floats(2, 3)})


def test_an_optional_that_holds_a_tensor(ask, floats):
    nodes = [
        helper.make_node("Optional", ["x"], ["o"]),
        helper.make_node("OptionalGetElement", ["o"], ["y"]),
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
    ]
    outputs = [info("y", (2, 3)), info("has", (), TensorProto.BOOL)]
    ask.same(model_with(nodes, [], [info("x", (2, 3))], outputs), {"x": floats(2, 3)})


def test_an_output_that_is_listed_twice(ask, floats):
    node = helper.make_node("Relu", ["x"], ["y"])
    twice = [info("y", (2,)), info("y", (2,))]
    model = ask.same(model_with([node], [], [info("x", (2,))], twice), {"x": floats(2)})
    assert list(model.outputs) == ["y", "y_1"]


def test_inputs_with_defaults(ask, floats):
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = model_with([node], [], [info("x", (3,)), info("w", (3,))], [info("y", (3,))])
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1, 2, 3]), "w"))
    x, other = floats(3), np.float32([5, 6, 7])
    assert list(ask.same(model, {"x": x}).inputs) == ["x"]
    (got,) = ask.terms(import_model(model, params={"w": other}), {"x": x})
    np.testing.assert_array_equal(got, x + other)
    opened = import_model(model, shapes={"w": (3,)})
    assert list(opened.inputs) == ["x", "w"]
    (got,) = ask.terms(opened, {"x": x, "w": other})
    np.testing.assert_array_equal(got, x + other)


@pytest.mark.parametrize("dims", [[None, None], ["?", "?"], ["", ""], ["unk__1", "unk__1"]])
def test_lengths_without_a_name_are_not_one(dims):
    nodes = [
        helper.make_node("ReduceSum", ["a"], ["s"], keepdims=0),
        helper.make_node("ReduceSum", ["b"], ["t"], keepdims=0),
        helper.make_node("Add", ["s", "t"], ["y"]),
    ]
    proto = model_with(nodes, [], [info("a", dims), info("b", [2, *dims])], [info("y")])
    model = import_model(proto, shapes={"a": (1, 7), "b": (2, 3, 4)})
    assert model.inputs["a"].shape == (1, 7)
    assert model.inputs["b"].shape == (2, 3, 4)
    with pytest.raises(ModelError, match=r"shapes=\{'b': \(2, d1, d2\)\}"):
        import_model(proto, shapes={"a": (1, 7)})


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2])
def test_activations_of_few_bits(kind):
    low, high = {"INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1)}[
        TensorProto.DataType.Name(kind)
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    proto = model_with(nodes, [], [info("x", (6,))], [info("y", (6,))], opset=25)
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "s"))
    proto.graph.initializer.append(helper.make_tensor("z", kind, [], [1]))
    x = np.float32([-9, -0.75, -0.25, 0.3, 0.75, 99])
    model = import_model(proto)
    (got,) = evaluate(model.roots, {"x": x, **model.params})
    right = (np.clip(np.rint(x / 0.5) + 1, low, high) - 1) * 0.5
    np.testing.assert_array_equal(got, right.astype(np.float32))
    proto.graph.output.append(info("q", (6,), kind))
    with pytest.raises(ModelError, match="output 'q' is of element type"):
        import_model(proto)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2])
def test_weights_are_quantised_to_narrow_floats(kind):
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Mul", ["x", "d"], ["y"]),
    ]
    proto = model_with(nodes, [], [info("x", (3,))], [info("y", (3,))])
    weights = np.float32([0.3, -1.05, 1e9])
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "s"))
    proto.graph.initializer.append(helper.make_tensor("z", kind, [], [0.0]))
    model = import_model(proto)
    (got,) = evaluate(model.roots, {"x": np.ones(3, np.float32), **model.params})
    # 0.6 and -2.1 to 3 and 2 bits behind the point; the largest number each.
    right = {
        TensorProto.FLOAT8E4M3FN: [0.625, -2.0, 448],
        TensorProto.FLOAT8E5M2: [0.625, -2.0, 57344],
    }
    np.testing.assert_array_equal(got, 0.5 * np.float32(right[kind]))
