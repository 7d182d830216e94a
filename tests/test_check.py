"""What the check of a program finds beside wrong outputs."""

import json
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from egglog import eq, rule, union, vars_
from onnx import helper, numpy_helper

import glenside
from glenside import check as checking
from glenside.check.inner_values import compare_inner, unexplained
from glenside.check.inputs import drawn_inputs
from glenside.deadline import Deadline, within
from glenside.errors import CheckFailed, NotOptimised
from glenside.frontends import load_model, model_of_terms
from glenside.language import Model, Term, builders, evaluate, random_inputs, topological_order
from glenside.language.term import rebuild
from glenside.report import Report
from glenside.rewrites import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access

X = builders.tensor("x", (4, 16))
W = builders.tensor("w", (3, 16))


def saturated(function: str = "exp", last: str = "softmax") -> Model:
    """The first score is far ahead of the others whatever the input: one answer for all."""
    made = builders.elementwise(function, X)
    scores = builders.compute("dot", builders.cart_prod(builders.access(made, 1), rows(W)))
    result = scores
    if last == "softmax":
        result = builders.compute("softmax", builders.access(scores, 1))
    else:
        result = builders.elementwise(last, scores)
    weights = np.zeros((3, 16), "float32")
    weights[0] = 1e4
    outputs = {"y": builders.outer_only(result)}
    names = {made: "positive", scores: "scores"}
    return Model("saturated", {"x": X.type}, {"w": weights}, outputs, names)


def rows(x: Term) -> Term:
    return builders.access(x, 1)


@rewrite_rule("wrong-exp", exact=True)
def wrong_exp():
    """exp(x) is not |x|."""
    x, whole = vars_("x whole", Access)
    yield rule(eq(whole).to(x.compute("exp", NO_DTYPE))).then(
        union(whole).with_(x.compute("abs", NO_DTYPE))
    )


@dataclass(frozen=True)
class NoExp:
    name = "no exp"

    def node_cost(self, op, attributes, result, operands):
        return (1e6 if attributes.get("function") == "exp" else 1.0,)


@pytest.mark.parametrize("last", ["softmax", "tanh"])
def test_a_wrong_rewrite_behind_a_saturated_function_is_found(last):
    model = saturated(last=last)
    given = {**model.params, **random_inputs(model.inputs, 0)}
    (right,), (wrong,) = (evaluate(saturated(f, last).roots, given) for f in ("exp", "abs"))
    np.testing.assert_allclose(right, wrong, atol=1e-3)  # The output shows nothing.
    options = {"rules": [RuleSet("wrong", (wrong_exp(),))], "cost_model": NoExp()}
    program = glenside.optimize(model, "cpu", check=False, **options)
    assert "abs" in program.text
    said = r"value 'positive' of saturated .* rewrite is unsound"
    with pytest.warns(NotOptimised, match=f"as it was imported: CheckFailed: {said}"):
        imported = glenside.optimize(model, "cpu", **options)
    assert "abs" not in imported.text and "rewrite is unsound" in imported.report.failure
    np.testing.assert_allclose(imported(**random_inputs(model.inputs, 0)), right, rtol=1e-5)


def test_compiled_code_that_is_wrong_before_a_saturated_softmax_is_found(monkeypatch):
    model = saturated()
    program = glenside.optimize(model, "cpu")
    traced = program.trace

    def wrong(inputs):
        values = traced(inputs)
        return {t: v * 2 if t.op == "compute" and t["function"] == "dot" else v
                for t, v in values.items()}  # fmt: skip

    monkeypatch.setattr(program, "trace", wrong)
    with pytest.raises(CheckFailed, match=r"of saturated .*compiled code is wrong"):
        checking.check(program, model)


def test_compiled_code_that_is_a_little_wrong_where_the_output_hides_it_is_found(monkeypatch):
    """By 2 %, and not where nothing but the values before it are off."""
    x = builders.tensor("x", (4, 8))
    first = builders.compute("dot", builders.cart_prod(rows(x), rows(builders.tensor("w", (6, 8)))))
    second = builders.compute("dot", builders.cart_prod(rows(first), rows(first)))
    shares = builders.compute("softmax", rows(builders.elementwise("mul", second, second)))
    model = model_of_terms({"y": builders.elementwise("sign", shares)}, {})
    program = glenside.optimize(model, "cpu", check=False)
    traced = program.trace

    def wrong(inputs):
        values = traced(inputs)
        off = next(t for t in values if t.op == "compute" and t["function"] == "dot")
        assert len(values) > 1
        return values | {off: values[off] + np.float32(0.02) * np.abs(values[off]).max()}

    assert checking.check(program, model).unchecked is None
    monkeypatch.setattr(program, "trace", wrong)
    with pytest.raises(CheckFailed, match=r"differs from NumPy by .* do not show: what computes"):
        checking.check(program, model)


@pytest.mark.parametrize("wrong", ["first", "second"])
def test_a_simulator_that_is_a_little_wrong_where_the_output_hides_it_is_found(wrong):
    weights = {name: np.random.default_rng(k).standard_normal((8, 8)).astype("float32")
               for k, name in enumerate(("first", "second"))}  # fmt: skip

    def simulate(sizes, x, w):
        y = x @ w.T
        y[0, 0] += 0.02 * np.abs(y).max() if w[0, 0] == weights[wrong][0, 0] else 0
        return y

    name = f"a-little-wrong-{wrong}"
    glenside.Accelerator(
        name,
        operands={"x": "((M) (K))", "w": "((N) (K))"},
        computes="(compute dot (cart-prod ?x ?w))",
        simulate=simulate,
    )
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["one"]),
        helper.make_node("MatMul", ["one", "second"], ["two"]),
        helper.make_node("Mul", ["two", "zero"], ["none"]),
        helper.make_node("Sigmoid", ["none"], ["y"]),
    ]
    model = onnx_model(
        nodes, {"x": np.zeros((4, 8), "float32")}, {**weights, "zero": np.float32(0)}
    )
    value = {"first": "one", "second": "two"}[wrong]
    with pytest.raises(CheckFailed, match=rf"value '{value}' .* do not show: .*<call {name} "):
        glenside.optimize(model, name)


def test_what_is_all_rounding_is_not_blamed():
    x = builders.tensor("x", (4, 15))
    mean, total = (builders.compute(name, rows(x)) for name in ("mean", "sum"))
    spread = [
        builders.broadcast(builders.unsqueeze(builders.access(m, 0), 1), (4, 15))
        for m in (mean, builders.elementwise("mul", total, builders.constant(1 / 15, (4,))))
    ]
    centred, same = (builders.elementwise("sub", x, s) for s in spread)
    wrong = builders.elementwise("add", x, spread[1])
    values = np.full((4, 15), 0.1, "float32") * (1 + np.arange(4, dtype="float32")[:, None])
    model = Model("centred", {"x": x.type}, {}, {"y": centred}, {centred: "centred"})
    for other, blamed in ((same, 0), (wrong, 1)):
        found = compare_inner(
            model,
            {centred: other},
            {other: other},
            [other],
            {"x": values},
            {},
            lambda _: 1e-3,
            lambda _: 1e-3,
        )
        assert len(found.suspects) == 1
        assert len(unexplained(found.suspects, {"x": values})) == blamed


# --- inputs ---------------------------------------------------------------------------------------


def onnx_model(nodes, inputs, constants=None):
    def element(array):
        return helper.np_dtype_to_tensor_dtype(np.dtype(array.dtype))

    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(n, element(a), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def shown(report):
    """The table without its lines."""
    return " ".join(str(report).replace("│", " ").split())


N = helper.make_node
ROWS = np.arange(12, dtype="float32").reshape(3, 4)

INDEXED = {
    "GatherElements": (
        [N("GatherElements", ["x", "i"], ["y"], axis=0)],
        {"x": ROWS, "i": np.array([[0, 1, 2, 0]])},
        {},
        [[0, 5, 10, 3]],
    ),
    "GatherND": (
        [N("GatherND", ["x", "i"], ["y"])],
        {"x": ROWS, "i": np.array([[2, 3], [0, 1]])},
        {},
        [11, 1],
    ),
    "labels": (
        [N("NegativeLogLikelihoodLoss", ["x", "i"], ["y"], reduction="none")],
        {"x": ROWS, "i": np.array([3, 0, 1])},
        {},
        [-3, -4, -9],
    ),
    "lengths": (
        [N("ReverseSequence", ["x", "i"], ["y"], batch_axis=0, time_axis=1)],
        {"x": ROWS, "i": np.array([4, 1, 2])},
        {},
        [[3, 2, 1, 0], [4, 5, 6, 7], [9, 8, 10, 11]],
    ),
    "a number added": (
        [N("Add", ["i", "two"], ["j"]), N("Gather", ["t", "j"], ["y"])],
        {"i": np.array([0])},
        {"two": np.int64(2), "t": ROWS},
        [[8, 9, 10, 11]],
    ),
    "a large number taken off": (
        [N("Sub", ["i", "most"], ["j"]), N("Gather", ["t", "j"], ["y"])],
        {"i": np.array([1001])},
        {"most": np.int64(1000), "t": ROWS},
        [[4, 5, 6, 7]],
    ),
}
"""Models that take few of all integers: nodes, inputs, constants and what is right."""


@pytest.mark.parametrize("case", INDEXED)
def test_integers_are_drawn_such_that_the_model_takes_them(case):
    nodes, inputs, constants, right = INDEXED[case]
    program = glenside.optimize(onnx_model(nodes, inputs, constants), "cpu")
    assert program.report.unchecked is None and program.report.max_rel_error == 0
    np.testing.assert_array_equal(program(**inputs), np.float32(right))


def test_where_no_inputs_are_found_the_report_says_so_and_the_program_is_given():
    # Only what lies around -12345 and 777 at once would do, by way of a square.
    i, table = builders.tensor("i", (2,), "int64"), builders.tensor("t", (3,))
    square = builders.elementwise("mul", i, i)
    far = builders.elementwise("sub", square, builders.constant(77**2, (), "int64"))
    gathered = builders.gather(table, far, 0)
    model = Model("far", {"i": i.type}, {"t": np.float32([1, 2, 4])}, {"y": gathered})
    program = glenside.optimize(model, "cpu")
    assert program.report.max_rel_error is None
    assert "no inputs were found that the model takes: gather: an index" in program.report.unchecked
    assert "not made: no inputs" in shown(program.report)
    np.testing.assert_array_equal(program(np.array([77, -77])), np.float32([1, 1]))


def test_drawn_indices_differ_where_they_may():
    nodes, _, constants, _ = INDEXED["a large number taken off"]
    model = load_model(onnx_model(nodes, {"i": np.zeros(50, "int64")}, constants))
    drawn = next(drawn_inputs(model))["i"]
    assert set(drawn) >= {1000, 1001, 1002}
    assert (drawn == next(drawn_inputs(model))["i"]).all()


# --- steps of rounding ----------------------------------------------------------------------------


def quantised(seed):
    """A float product, quantised by its own extremes, and an integer product of that."""
    rng = np.random.default_rng(seed)
    constants = {
        "w": (rng.standard_normal((64, 64)) / 8).astype("float32"),
        "k": rng.integers(-127, 128, (64, 64)).astype("int8"),
        "ks": np.float32(0.01),
    }
    nodes = [
        N("MatMul", ["x", "w"], ["c"]),
        N("DynamicQuantizeLinear", ["c"], ["q", "s", "z"]),
        N("MatMulInteger", ["q", "k", "z"], ["i"]),
        N("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
        N("Mul", ["s", "ks"], ["t"]),
        N("Mul", ["f", "t"], ["y"]),
    ]
    return onnx_model(nodes, {"x": np.zeros((40, 64), "float32")}, constants)


def flip(program, params, by):
    """``program`` whose compiled code is ``by`` off at one of its quantised values."""
    traced = program.trace
    (quantiser,) = (
        t
        for t in traced(random_inputs(program.inputs))
        if t.dtype == "int32" and t.shape == (40, 64)
    )

    def values(inputs):
        held = dict(traced(inputs))
        changed = held[quantiser].copy()
        changed[3, 7] += by
        order = topological_order(program.terms)
        given = {"x": inputs["x"], "changed": changed} | params
        fed = {}
        for term in order:
            fed[term] = rebuild(term, [fed[c] for c in term.children])
            if term is quantiser:
                fed[term] = builders.leaf("changed", term.type)
        wanted = list(held)
        computed = evaluate([*(fed[t] for t in wanted), fed[program.terms[0]]], given)
        return dict(zip(wanted, computed, strict=False)), computed[-1]

    program.run = lambda inputs: [values(inputs)[1]]
    program.trace = lambda inputs: values(inputs)[0]


def test_a_step_of_the_models_own_quantiser_is_allowed_and_counted():
    proto = quantised(0)
    program, model = glenside.optimize(proto, "cpu"), load_model(proto)
    flip(program, model.params, 1)
    outcome = checking.check(program, model)
    assert outcome.steps >= 1 and 1e-4 < outcome.error < 0.05
    report = program.report.checked(outcome, program.report.seconds)
    assert f"{outcome.steps} elements rounded the other way" in shown(report)


@pytest.mark.parametrize("by", [20, 100])
def test_more_than_a_step_is_not(by):
    proto = quantised(0)
    program, model = glenside.optimize(proto, "cpu"), load_model(proto)
    flip(program, model.params, by)
    with pytest.raises(CheckFailed, match="compute sub"):
        checking.check(program, model)


@pytest.mark.parametrize("seed", range(4))
def test_quantised_models_are_not_refused(seed):
    report = glenside.optimize(quantised(seed), "cpu").report
    assert report.max_rel_error is not None and report.max_rel_error < 0.05


# --- half precision, time -------------------------------------------------------------------------


def test_the_report_tells_what_half_precision_costs_and_where_it_overflows():
    x, w = builders.tensor("x", (4, 16)), builders.tensor("w", (3, 16))
    product = builders.compute("dot", builders.cart_prod(rows(x), rows(w)))
    model = Model("m", {"x": x.type}, {"w": np.ones((3, 16), "float32")}, {"y": product})
    cost = glenside.optimize(model, "cpu", precision="float16").report.precision_loss
    assert list(cost) == ["0.001", "1", "1000"]
    assert all(0 < error < 2e-3 for error in cost.values())
    big = Model("m", {"x": x.type}, {"w": np.full((3, 16), 1e3, "float32")}, {"y": product})
    report = glenside.optimize(big, "cpu", precision="float16").report
    assert report.precision_loss["1"] < 2e-3 and report.precision_loss["1000"] is None
    assert "inputs of 1000: overflows" in shown(report)
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert glenside.optimize(big, "cpu").report.precision_loss is None


def test_a_model_typed_in_halves_is_held_against_float32_too():
    x = builders.tensor("x", (4, 16), "float16")
    model = Model("m", {"x": x.type}, {}, {"y": builders.elementwise("exp", x)})
    cost = glenside.optimize(model, "cpu").report.precision_loss
    assert 0 < cost["1"] < 1e-3


def test_time_that_is_up_ends_the_check_but_not_the_program():
    model = saturated()
    program = glenside.optimize(model, "cpu", check=False)
    with within(Deadline(0)):
        outcome = checking.check(program, model)
    assert outcome.error is None and outcome.unchecked == "the time was over"
    report = glenside.optimize(model, "cpu").report
    assert report.seconds.check > 0 and report.to_json()["seconds"]["check"] > 0
