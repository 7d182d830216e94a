"""Whole models: parameters, names, local functions, host operators, opsets, limits."""

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import glenside
from glenside.errors import GlensideError, InputError
from glenside.exporters.onnx import graph, to_onnx
from glenside.exporters.onnx.host import newest_opset
from glenside.frontends.onnx import import_model
from glenside.language import AccessType, Term, Unit, builders, evaluate, register_unit
from glenside.language.builders import access, compute, tensor
from tests.exporters.running import assert_close, assert_same, checked, export, operator_types, run
from tests.models import onnxruntime_answers, small_network
from tests.strategies import environment

X = tensor("x", (4, 6))
X_TYPE = {"x": X.type}


def opset(model: onnx.ModelProto, domain: str = "") -> int:
    return int(next(each.version for each in model.opset_import if each.domain == domain))


def initializers(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


# --- parameters and names -----------------------------------------------------------------------


def test_parameters_are_initializers_under_their_names() -> None:
    w = np.arange(24, dtype="float32").reshape(4, 6)
    total = builders.elementwise("add", X, tensor("w", (4, 6)))
    model = checked(to_onnx("p", X_TYPE, {"w": w, "unused": w}, {"y": total}))
    assert [each.name for each in model.graph.input] == ["x"]
    assert list(initializers(model)) == ["w"]
    np.testing.assert_array_equal(initializers(model)["w"], w)
    assert_close(run(model, {"x": w})[0], 2 * w)


@pytest.mark.parametrize(
    "array",
    [
        np.broadcast_to(np.float32(0.5), (1000, 1000)),
        np.broadcast_to(np.arange(1000, dtype="float32"), (1000, 1000)),
        np.broadcast_to(np.arange(1000, dtype="float32")[:, np.newaxis], (1000, 1000)),
    ],
)
def test_broadcast_parameters_are_stored_small(array: np.ndarray) -> None:
    w = tensor("w", (1000, 1000))
    row = tensor("row", (1000,))
    total = compute("dot", builders.cart_prod(access(w, 1), access(builders.unsqueeze(row, 0), 1)))
    inputs = {"row": row.type}
    model = checked(to_onnx("p", inputs, {"w": array}, {"y": total}))
    assert model.ByteSize() < 10_000
    assert "w" in {name for node in model.graph.node for name in node.output}
    (got,) = run(model, {"row": np.ones(1000, "float32")})
    np.testing.assert_allclose(got[:, 0], array.sum(axis=1), rtol=1e-5)
    whole = run(checked(to_onnx("p", {}, {"w": array}, {"y": w})), {})[0]
    np.testing.assert_array_equal(whole, array)


def test_constants_are_stored_small() -> None:
    model = export(builders.constant(7, (1000, 1000), "int8"))
    assert model.ByteSize() < 1000
    assert (run(model, {})[0] == 7).all()


def test_values_have_the_names_they_are_given() -> None:
    relu = builders.elementwise("relu", X)
    squeezed = builders.reshape(relu, (24,))
    total = compute("sum", access(squeezed, 0))
    names = {relu: "the relu", squeezed: "flat", total: "y", X: "not for inputs"}
    model = checked(to_onnx("p", X_TYPE, {}, {"y": total}, names))
    outputs = [list(node.output) for node in model.graph.node]
    assert outputs == [["the relu"], ["flat"], ["y"]]
    assert [node.name for node in model.graph.node] == ["the relu", "flat", "y"]


def test_names_that_clash_are_made_unique() -> None:
    relu, neg = builders.elementwise("relu", X), builders.elementwise("neg", X)
    names = {relu: "x", neg: "x"}
    model = checked(to_onnx("p", X_TYPE, {}, {"a": relu, "b": relu, "c": X, "d": neg}, names))
    value = np.linspace(-1, 1, 24, dtype="float32").reshape(4, 6)
    a, b, c, d = run(model, {"x": value})
    np.testing.assert_array_equal(a, np.maximum(value, 0))
    np.testing.assert_array_equal(b, a)
    np.testing.assert_array_equal(c, value)
    np.testing.assert_array_equal(d, -value)


def test_outputs_may_be_parameters_or_constants() -> None:
    w = np.arange(3, dtype="int64")
    outputs = {"w2": tensor("w", (3,), "int64"), "one": builders.constant(1, (2,), "int8")}
    model = checked(to_onnx("p", {}, {"w": w}, outputs))
    np.testing.assert_array_equal(run(model, {})[0], w)
    np.testing.assert_array_equal(run(model, {})[1], [1, 1])


def test_an_output_may_be_an_input_or_have_the_name_of_one() -> None:
    x = np.arange(24, dtype="float32").reshape(4, 6)
    negative = builders.elementwise("neg", X)
    outputs = {"x": access(X, 1), "again": X, "tall": builders.reshape(X, (6, 4))}
    model = checked(to_onnx("p", X_TYPE, {}, outputs))
    assert [each.name for each in model.graph.output] == ["x", "again", "tall"]
    for got, right in zip(run(model, {"x": x}), (x, x, x.reshape(6, 4)), strict=True):
        assert_close(got, right)
    # One name, two values: the output gives way, also to an output that is called as it would be.
    model = checked(to_onnx("p", X_TYPE, {}, {"x": negative, "x_1": X}))
    assert [each.name for each in model.graph.output] == ["x_2", "x_1"]
    for got, right in zip(run(model, {"x": x}), (-x, x), strict=True):
        assert_close(got, right)


def test_a_model_that_hands_an_input_through_comes_back() -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[4,6] x) => (float[4,6] x, float[4,6] y) { y = Neg(x) }""")
    program = glenside.optimize(proto)
    model = checked(program.to_onnx())
    assert [each.name for each in model.graph.output] == ["x", "y"]
    x = np.arange(24, dtype="float32").reshape(4, 6)
    for got, right in zip(run(model, {"x": x}), onnxruntime_answers(proto, x=x), strict=True):
        assert_close(got, right)


def test_what_does_not_fit_is_an_error() -> None:
    with pytest.raises(InputError, match="'x' is neither an input nor a parameter"):
        to_onnx("p", {}, {}, {"y": X})
    with pytest.raises(InputError, match=r"'x' is float32 of shape \(4, 6\), got float64"):
        to_onnx("p", {}, {"x": np.zeros((4, 6))}, {"y": X})


def test_more_than_two_gigabytes_is_an_error() -> None:
    # Overlapping rows: 2.4 GB to look at, nearly nothing to hold.
    rows = np.lib.stride_tricks.as_strided(np.zeros(40_000, "float32"), (30_000, 20_000), (4, 4))
    term = compute("max", access(tensor("w", rows.shape), 1))
    with pytest.raises(GlensideError, match=r"'w' take 2\.2 GiB: an ONNX file holds less than 2"):
        to_onnx("p", {}, {"w": rows}, {"y": term})


def test_limit_counts_all_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "LARGEST_FILE", 150)
    a, b = tensor("a", (24,)), tensor("b", (24,))
    params = {"a": np.zeros(24, "float32"), "b": np.ones(24, "float32")}
    with pytest.raises(GlensideError, match="parameters up to 'b'"):
        to_onnx("p", {}, params, {"y": builders.elementwise("add", a, b)})


# --- accelerators -------------------------------------------------------------------------------


def test_invocations_call_local_functions() -> None:
    w = tensor("w", (6, 3))
    calls = [
        builders.call("systolic-array", (6, 3), access(tensor(n, (4, 6)), 1), access(w, 0))
        for n in ("x", "z")
    ]
    other = builders.call("systolic-array", (6, 3), access(tensor("v", (6,)), 0), access(w, 0))
    model = assert_same([*calls, other], environment([*calls, other]))
    assert [f.name for f in model.functions] == ["systolic_array_6x3", "systolic_array_6x3_1"]
    assert [(n.domain, n.op_type) for n in model.graph.node] == [
        ("glenside", "systolic_array_6x3"),
        ("glenside", "systolic_array_6x3"),
        ("glenside", "systolic_array_6x3_1"),
    ]
    assert "Gemm" in [node.op_type for node in model.functions[0].node]
    assert "(compute dot (cart-prod" in model.functions[0].doc_string
    assert opset(model, "glenside") == 1


@pytest.mark.parametrize("accumulate", [None, "int32", "float32"])
def test_blocked_products_call_local_functions(accumulate: str | None) -> None:
    a, b = access(tensor("a", (2, 5, 7), "int8"), 2), access(tensor("b", (2, 3, 7), "int8"), 2)
    term = builders.blocked("systolic-array", (4, 4), a, b, 1, accumulate)
    model = assert_same([term], environment([term]))
    assert [n.op_type for n in model.graph.node] == ["systolic_array_4x4_blocked"]


def test_a_unit_may_use_another_and_host_operators() -> None:
    def meaning(parameters: tuple[int, ...], operands: tuple[Term, ...]) -> Term:
        x, w = operands
        product = builders.call("systolic-array", parameters, x, w)
        return builders.host_op("Celu", [product], product.shape, version=12)

    register_unit(Unit("test-celu-array", meaning))
    x, w = access(X, 1), access(tensor("w", (6, 3)), 0)
    term = builders.call("test-celu-array", (6, 3), x, w)
    model = assert_same([term], environment([term]))
    assert sorted(f.name for f in model.functions) == [
        "systolic_array_6x3",
        "test_celu_array_6x3",
    ]


def test_network_on_a_systolic_array() -> None:
    source = small_network()
    program = glenside.optimize(source, target="systolic-array:4x4")
    imported = import_model(source)
    model = checked(
        to_onnx(
            program.name,
            program.inputs,
            imported.params,
            dict(zip(program.output_names, program.terms, strict=True)),
            imported.names,
        )
    )
    assert model.functions and program.report.offloads
    image = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")
    (right,) = onnxruntime_answers(source, image=image)
    np.testing.assert_allclose(run(model, {"image": image})[0], right, rtol=1e-4, atol=1e-5)


# --- host operators -----------------------------------------------------------------------------


def host(operator: str, version: int, *operands: Term, **options: Any) -> Term:
    shape = options.pop("shape", operands[0].shape)
    return builders.host_op(operator, operands, shape, version=version, **options)


def test_host_operators_become_what_they_are() -> None:
    term = host("Celu", 12, X, attributes='{"alpha": 2.0}')
    assert operator_types(assert_same([term], environment([term]))) == ["Celu"]


def test_the_opset_is_the_newest_in_which_host_operators_mean_the_same() -> None:
    assert opset(export(host("Identity", newest_opset(), X))) == newest_opset()
    # Softsign was defined anew in opset 22, TopK in 24.
    assert opset(export(host("Softsign", 17, X))) == 21
    k = tensor("k", (1,), "int64")
    assert opset(export(host("TopK", 11, X, k, shape=(4, 2)))) == 23
    assert opset(export(host("Softsign", 17, X), host("TopK", 11, X, k, shape=(4, 2)))) == 21


def test_host_operators_of_other_opsets_are_converted() -> None:
    # Softmax meant all axes from 1 on, until opset 13.
    x = tensor("x", (2, 3, 4))
    old = host("Softmax", 11, x)
    env = environment([old])
    model = export(old, host("Celu", 12, x))
    assert opset(model) == newest_opset()
    for got, right in zip(run(model, env), evaluate([old, host("Celu", 12, x)], env), strict=True):
        assert_close(got, right)


def test_a_host_operator_that_no_opset_has_is_an_error() -> None:
    with pytest.raises(GlensideError, match="host operator Nonsense of opset 17 cannot be said"):
        export(host("Nonsense", 17, X))


def test_outputs_of_one_host_operator_are_one_node() -> None:
    k = tensor("index-below-3-k", (1,), "int64")
    values = host("TopK", 11, X, k, shape=(4, 2))
    places = host("TopK", 11, X, k, shape=(4, 2), dtype="int64", output=1)
    env = environment([X]) | {"index-below-3-k": np.array([2])}
    model = export(places, values)
    assert operator_types(model) == ["TopK"]
    for got, right in zip(run(model, env), evaluate([places, values], env), strict=True):
        assert_close(got, right)
    assert operator_types(export(places)) == ["TopK"]
    assert_close(run(export(places), env)[0], evaluate([places], env)[0])


def test_host_operators_of_other_domains() -> None:
    term = host("QuickGelu", 1, X, domain="com.microsoft", attributes='{"alpha": 1.0}')
    model = assert_same([term], environment([term]))
    assert opset(model, "com.microsoft") == 1


def test_newest_opset_is_known_to_both() -> None:
    assert 18 < newest_opset() <= onnx.defs.onnx_opset_version()
    assert opset(export(X)) == newest_opset()


def test_import_of_an_export_is_the_same_program() -> None:
    model = import_model(small_network())
    again = import_model(
        to_onnx(model.name, model.inputs, model.params, model.outputs, model.names)
    )
    env = environment([tensor("image", (1, 4, 9, 7))])
    got = evaluate(again.roots, again.params | env)
    assert_close(got[0], evaluate(model.roots, model.params | env)[0])
    assert again.inputs == {"image": AccessType((1, 4, 9, 7), (), "float32")}
