"""What docs/numerics.md says of numbers, statement by statement, against NumPy and onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import glenside
from glenside.language import builders as b
from glenside.language.interpreter import evaluate
from glenside.rewrites.ruleset import all_rules
from glenside.rewrites.soundness.proofs import Proved, ledger

INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]


def value(term, **arrays):
    return evaluate([term], arrays)[0]


def of_two(name, x, y):
    return b.compute(name, b.pair(b.access(x, 0), b.access(y, 0)))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around_so_that_the_laws_of_a_ring_hold_at_every_width(dtype):
    """Whatever overflows: distributing, reordering and signs give the same bits."""
    info = np.iinfo(dtype)
    some = np.array([info.min, info.min + 1, 0, 1, 2, 3, 77, info.max - 1, info.max], dtype)
    x, y, z = (each.ravel() for each in np.meshgrid(some, some, some))
    left, right, third = (b.tensor(name, x.shape, dtype) for name in "xyz")
    together = of_two("mul", of_two("sub", left, right), third)
    apart = of_two("sub", of_two("mul", left, third), of_two("mul", right, third))
    given = {"x": x, "y": y, "z": z}
    with np.errstate(over="ignore"):
        wrapped = (x - y) * z
    assert np.array_equal(value(together, **given), wrapped)
    assert np.array_equal(value(apart, **given), wrapped)
    total = b.compute("sum", b.access(left, 0), accumulate=dtype)
    assert value(total, **given) == np.add.reduce(x, dtype=dtype)
    assert value(total, x=x[::-1].copy(), y=y, z=z) == np.add.reduce(x, dtype=dtype)


def test_division_of_integers_truncates_and_is_not_distributed():
    x, y = np.array([-7, 7, 1], "int32"), np.array([2, -2, 1], "int32")
    term = of_two("div", b.tensor("x", (3,), "int32"), b.tensor("y", (3,), "int32"))
    assert np.array_equal(value(term, x=x, y=y), np.trunc(x / y).astype("int32"))
    # (1 + 1) / 2 is 1, but 1 / 2 + 1 / 2 is 0.
    assert (1 + 1) // 2 != 1 // 2 + 1 // 2


def test_a_cast_is_not_moved_across_a_sum():
    x = np.array([100, 100], "int8")
    inside = b.compute("sum", b.access(b.tensor("x", (2,), "int8"), 0), accumulate="int8")
    assert value(b.cast(inside, "int32"), x=x) == np.add.reduce(x, dtype="int8") == -56
    outside = b.compute("sum", b.access(b.tensor("x", (2,), "int8"), 0), accumulate="int32")
    assert value(outside, x=x) == np.add.reduce(x, dtype="int32") == 200


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32"])
def test_reductions_of_nothing(dtype):
    nothing, x = np.zeros((2, 0), dtype), b.tensor("x", (2, 0), dtype)
    floats = dtype.startswith("float")
    least = -np.inf if floats else np.iinfo(dtype).min
    greatest = np.inf if floats else np.iinfo(dtype).max
    for name, of_nothing in (("sum", 0), ("prod", 1), ("max", least), ("min", greatest)):
        found = value(b.compute(name, b.access(x, 1)), x=nothing)
        assert found.tolist() == [of_nothing, of_nothing], name
    assert np.sum(nothing[0]) == 0 and np.prod(nothing[0]) == 1
    assert np.max(nothing[0], initial=least) == least
    if floats:
        with np.errstate(invalid="ignore"):
            assert np.isnan(value(b.compute("mean", b.access(x, 1)), x=nothing)).all()


def test_ties_give_the_first_position():
    x = np.array([[3.0, 1.0, 3.0, 1.0]], "float32")
    term = b.access(b.tensor("x", (1, 4)), 1)
    for name, first in (("argmax", np.argmax(x)), ("argmin", np.argmin(x))):
        assert value(b.compute(name, term), x=x).tolist() == [first]


@pytest.mark.parametrize(("dtype", "least"), [("float32", -np.inf), ("int8", -128)])
def test_under_a_maximum_padding_is_the_lowest_value(dtype, least):
    x = np.array([-5, -7], dtype)
    padded = b.pad(b.tensor("x", (2,), dtype), 0, 1, 2, "lowest")
    assert value(padded, x=x).tolist() == [least, -5, -7, least, least]
    assert value(b.compute("max", b.access(padded, 0)), x=x) == x.max()


def run_in_onnxruntime(model, **inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)[0]


def model_of(op, shape, weights=None, **attributes):
    initial = [] if weights is None else [helper.make_tensor(
        "w", TensorProto.FLOAT, weights.shape, weights.ravel().tolist()
    )]  # fmt: skip
    names = ["x", *(["w"] if initial else [])]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        initial,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )  # fmt: skip


def test_a_pool_of_negative_numbers_does_not_see_its_padding():
    model = model_of("MaxPool", (1, 1, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = -np.arange(1, 10, dtype="float32").reshape(1, 1, 3, 3)
    wanted = run_in_onnxruntime(model, x=x)
    assert wanted.max() < 0
    program = glenside.optimize(model, target="cpu", check=False)
    assert np.array_equal(program(x), wanted)
    # onnxruntime pads with the least finite number, which then is the greatest of such a window.
    low = np.full_like(x, -np.inf)
    assert np.isneginf(program(low)).all()


def test_not_a_number_goes_through_sums_and_products():
    x, w = np.array([[np.nan, 1.0], [1.0, 2.0]], "float32"), np.eye(2, dtype="float32")
    term = b.compute(
        "dot", b.cart_prod(b.access(b.tensor("x", (2, 2)), 1), b.access(b.tensor("w", (2, 2)), 1))
    )
    assert np.array_equal(np.isnan(value(term, x=x, w=w)), np.isnan(x @ w.T))
    assert value(term, x=x, w=w)[1].tolist() == [1.0, 2.0]


def test_the_sign_of_zero_is_kept_by_what_only_moves_data():
    x = np.array([[0.0, -0.0], [-0.0, 0.0]], "float32")
    moved = b.slice_(b.transpose(b.tensor("x", (2, 2)), (1, 0)), 0, 0, 2)
    assert np.array_equal(np.signbit(value(moved, x=x)), np.signbit(x.T))


def test_rules_take_numbers_to_be_finite_only_where_they_say_so():
    known, told = ledger.read(), {rule.name for rule in all_rules() if rule.finite}
    found = {
        name
        for name, entry in known.items()
        if isinstance(entry.verdict, Proved)
        and any("finite" in step for step in entry.verdict.steps)
    }
    assert found <= told
    assert told >= {"hlscnn-conv2d", "winograd(2,3)"}
    # A rule that only moves data never does.
    assert not {rule.name for rule in all_rules() if rule.exact} & told


def test_a_report_names_the_rules_that_take_numbers_to_be_finite():
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((2, 2, 3, 3)).astype("float32")
    model = model_of("Conv", (1, 2, 4, 4), weights, pads=[1, 1, 1, 1])
    report = glenside.optimize(model, target="hlscnn", check=False).report
    assert report.offloads == {"hlscnn": 1}
    assert report.finite == ("hlscnn-conv2d",)
    assert "taken for granted by hlscnn-conv2d" in str(report)
    assert glenside.optimize(model, target="vta", check=False).report.finite == ()
