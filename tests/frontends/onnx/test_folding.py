"""What is computed while importing, and what is not."""

import logging

import numpy as np
from onnx import helper

from glenside.frontends.onnx import import_model

I64 = np.int64


def held(model):
    """Bytes that the parameters take."""
    return sum(
        np.prod([n for n, s in zip(a.shape, a.strides, strict=True) if s]) * a.itemsize
        for a in model.params.values()
    )


def test_constants_fold_under_the_names_of_their_values(ask, floats):
    nodes = [
        helper.make_node("Mul", ["w", "two"], ["doubled"]),
        helper.make_node("Add", ["x", "doubled"], ["y"]),
    ]
    w = floats(3)
    constants = {"w": w, "two": np.float32(2)}
    x = {"x": floats(2, 3)}
    model = ask.same(ask.model_of(nodes, x, ["y"], constants), x)
    assert list(model.params) == ["doubled"]
    np.testing.assert_array_equal(model.params["doubled"], 2 * w)


def test_single_numbers_are_constants(ask, floats):
    x = {"x": floats(2, 3)}
    node = helper.make_node("Mul", ["x", "c"], ["y"])
    model = ask.same(ask.model_of([node], x, ["y"], {"c": np.array([0.5], np.float32)}), x)
    assert not model.params
    assert any(term.op == "constant" for term in model.terms())


def test_a_small_file_does_not_become_gigabytes(ask, floats, caplog):
    nodes = [
        helper.make_node("Expand", ["c", "big"], ["wide"]),
        helper.make_node("Exp", ["wide"], ["powers"]),
        helper.make_node("Mul", ["powers", "wide"], ["product"]),
        helper.make_node("ReduceSum", ["product", "axes"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    constants = {
        "c": floats(1, 64),
        "big": np.array([2**30, 64], I64),  # 256 GiB
        "axes": np.array([0], I64),
    }
    x = {"x": floats(64)}
    with caplog.at_level(logging.INFO):
        model = import_model(ask.model_of(nodes, x, ["y"], constants))
    assert held(model) <= 256
    assert "wide" in caplog.text


def test_the_limit_is_the_users(ask, floats):
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    add = helper.make_node("Add", ["x", "c"], ["y"])
    x = {"x": floats(300, 300)}
    constants = {"a": floats(300, 1), "b": floats(1, 300)}
    proto = ask.model_of([node, add], x, ["y"], constants)
    assert list(import_model(proto).params) == ["c"]
    assert list(import_model(proto, fold_limit=1000).params) == ["a", "b"]


def test_constant_of_shape_takes_no_memory(ask, floats):
    value = helper.make_tensor("v", 1, [1], [0.5])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], value=value),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    x = {"x": floats(2, 2**15)}
    shape = {"shape": np.array([2**15, 2**15], I64)}
    model = import_model(ask.model_of(nodes, x, ["y"], shape))
    assert model.params["w"].shape == (2**15, 2**15)
    assert held(model) == 4


def test_indices_that_are_computed_fold(ask, floats):
    """The positions PyTorch exports for a slice with runtime arithmetic on shapes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["n"]),
        helper.make_node("Div", ["n", "two"], ["half"]),
        helper.make_node("Cast", ["half"], ["half64"], to=7),
        helper.make_node("Unsqueeze", ["half64", "zero"], ["end"]),
        helper.make_node("Slice", ["x", "zero", "end", "axis"], ["y"]),
    ]
    constants = {
        "one": np.array(1, I64),
        "two": np.array(2, I64),
        "zero": np.array([0], I64),
        "axis": np.array([1], I64),
    }
    x = {"x": floats(2, 9)}
    model = ask.same(ask.model_of(nodes, x, ["y"], constants), x)
    assert [term.op for term in model.terms()] == ["tensor", "slice"]
    assert model.roots[0].shape == (2, 4)
