"""An LSTM layer is one call, whatever wrote its steps down and however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from glenside.errors import ShapeError
from glenside.extraction import extract
from glenside.frontends import load_model
from glenside.frontends.relay import import_relay
from glenside.hw_targets import find_target
from glenside.hw_targets.numerics import adaptivfloat
from glenside.language import Model, builders, evaluate, find_unit, topological_order
from glenside.report import count_units
from glenside.rewrites import StopReason, saturate

Array = np.ndarray[Any, Any]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def reference(x: Array, h: Array, c: Array, w: Array, r: Array, b: Array, order: str) -> Array:
    """The hidden states (T, N, H) and the last cell state, by the equations."""
    states = []
    for step in x:
        gates = np.split(step @ w.T + h @ r.T + b, 4, axis=1)
        i, f, g, o = (gates[order.index(k)] for k in "ifgo")
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack([*states, c])


def calls(model: Model, arrays: dict[str, Array]) -> tuple[dict[str, int], list[Array]]:
    """The calls of the program for FlexASR, which has no product left, and its results."""
    target = find_target("flexasr")
    explored = saturate(model.roots, target.rules())
    assert explored.stop_reason is StopReason.SATURATED
    terms = extract(explored.egraph, target.cost_model(), original=model.roots).terms
    order = topological_order(terms)
    assert not any(t.op == "compute" and t["function"] in ("dot", "tanh") for t in order)
    return {use.unit: use.calls for use in count_units(order)}, evaluate(terms, arrays)


def onnx_layer(
    steps: int, rows: int, depth: int, size: int, *, bias: bool, initial: bool, layers: int = 1,
    direction: str = "forward", dtype: str = "float32",
) -> tuple[Model, dict[str, Array]]:  # fmt: skip
    rng = np.random.default_rng(steps)
    directions = 2 if direction == "bidirectional" else 1
    nodes, parameters, x = [], {}, "x"
    for k in range(layers):
        width = depth if k == 0 else directions * size
        parameters[f"W{k}"] = rng.normal(0, 0.5, (directions, 4 * size, width))
        parameters[f"R{k}"] = rng.normal(0, 0.5, (directions, 4 * size, size))
        if bias:
            parameters[f"B{k}"] = rng.normal(0, 0.5, (directions, 8 * size))
        inputs = [x, f"W{k}", f"R{k}", f"B{k}" * bias, "", *["h0", "c0"] * initial]
        outputs = [f"Y{k}", f"H{k}", f"C{k}"]
        nodes.append(
            helper.make_node("LSTM", inputs, outputs, hidden_size=size, direction=direction)
        )
        parameters[f"shape{k}"] = np.array([steps, rows, directions * size])
        nodes.append(helper.make_node("Transpose", [f"Y{k}"], [f"T{k}"], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", [f"T{k}", f"shape{k}"], [f"y{k}"]))
        x = f"y{k}"
    arrays = {"x": rng.normal(0, 1, (steps, rows, depth)).astype(dtype)}
    if initial:
        for name in ("h0", "c0"):
            arrays[name] = rng.normal(0, 1, (directions, rows, size)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def info(name: str, shape: Sequence[int]) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    outputs = [
        info(x, [steps, rows, directions * size]),
        info(f"C{layers - 1}", [directions, rows, size]),
    ]
    held = [
        numpy_helper.from_array(a if a.dtype == int else a.astype(dtype), name)
        for name, a in parameters.items()
    ]
    graph = helper.make_graph(
        nodes, "layer", [info(name, a.shape) for name, a in arrays.items()], outputs, held
    )
    opsets = [helper.make_opsetid("", 17)]
    model = load_model(helper.make_model(graph, opset_imports=opsets))
    return model, {**model.params, **arrays}


@pytest.mark.parametrize(
    ("steps", "rows", "depth", "size", "bias", "initial"),
    [
        (1, 1, 3, 4, True, True),
        (2, 1, 4, 4, False, False),
        (5, 3, 2, 5, True, True),
        (35, 2, 3, 4, True, False),
    ],
)
def test_an_onnx_layer(
    steps: int, rows: int, depth: int, size: int, bias: bool, initial: bool
) -> None:
    model, arrays = onnx_layer(steps, rows, depth, size, bias=bias, initial=initial)
    found, (every, last) = calls(model, arrays)
    assert found == {"flex-lstm": 1}
    state = [arrays[k][0] if initial else np.zeros((rows, size)) for k in ("h0", "c0")]
    weights = [arrays[k][0] for k in ("W0", "R0")]
    both = arrays["B0"][0].reshape(2, -1).sum(axis=0) if bias else np.zeros(4 * size)
    want = reference(arrays["x"], *state, *weights, both, "iofg")
    np.testing.assert_allclose(every, want[:-1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last[0], want[-1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_layer_typed_in_half_precision(steps: int, initial: bool) -> None:
    model, arrays = onnx_layer(steps, 2, 3, 4, bias=True, initial=initial, dtype="float16")
    found, (every, last) = calls(model, arrays)
    assert found == {"flex-lstm": 1}
    assert every.dtype == last.dtype == np.float16
    full = {name: array.astype("float64") for name, array in arrays.items()}
    state = [full[k][0] if initial else np.zeros((2, 4)) for k in ("h0", "c0")]
    weights = [full[k][0] for k in ("W0", "R0")]
    want = reference(full["x"], *state, *weights, full["B0"][0].reshape(2, -1).sum(axis=0), "iofg")
    np.testing.assert_allclose(every, want[:-1], rtol=1e-2, atol=5e-3)
    np.testing.assert_allclose(last[0], want[-1], rtol=1e-2, atol=5e-3)


def cells(
    steps: int, rows: int, *, state: str, bias: bool, dtype: str = "float32"
) -> tuple[onnx.ModelProto, Array, Array]:
    """Cells of size 4 as exporters unroll them, from a state that the model holds.

    Also an input, and what the cells make of it.
    """
    rng = np.random.default_rng(3)

    def draw(*shape: int) -> Array:
        return rng.normal(0, 0.5, shape).astype(dtype)

    held = {"wi": draw(16, 3), "wh": draw(16, 4), "bi": draw(16), "bh": draw(16)}
    first = draw(2, rows, 4) if state == "learnt" else np.zeros((2, rows, 4), dtype)
    nodes = []
    if state == "made":
        held["size"] = np.array([rows, 4])
        zero = numpy_helper.from_array(np.zeros(1, dtype))
        nodes += [
            helper.make_node("ConstantOfShape", ["size"], [name], value=zero)
            for name in ("h0", "c0")
        ]
    else:
        held |= {"h0": first[0], "c0": first[1]}
    for t in range(steps):
        held[f"t{t}"] = np.int64(t)
        nodes += [
            helper.make_node("Gather", ["x", f"t{t}"], [f"x{t}"]),
            helper.make_node("Gemm", [f"x{t}", "wi", *["bi"] * bias], [f"a{t}"], transB=1),
            helper.make_node("Gemm", [f"h{t}", "wh", *["bh"] * bias], [f"b{t}"], transB=1),
            helper.make_node("Add", [f"a{t}", f"b{t}"], [f"s{t}"]),
            helper.make_node(
                "Split", [f"s{t}"], [f"{k}{t}" for k in "ifgo"], axis=1, num_outputs=4
            ),
            *(helper.make_node("Sigmoid", [f"{k}{t}"], [f"{k}s{t}"]) for k in "ifo"),
            helper.make_node("Tanh", [f"g{t}"], [f"gs{t}"]),
            helper.make_node("Mul", [f"fs{t}", f"c{t}"], [f"p{t}"]),
            helper.make_node("Mul", [f"is{t}", f"gs{t}"], [f"q{t}"]),
            helper.make_node("Add", [f"p{t}", f"q{t}"], [f"c{t + 1}"]),
            helper.make_node("Tanh", [f"c{t + 1}"], [f"k{t}"]),
            helper.make_node("Mul", [f"os{t}", f"k{t}"], [f"h{t + 1}"]),
        ]
    nodes.append(helper.make_node("Concat", [f"h{t + 1}" for t in range(steps)], ["y"], axis=0))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "cells",
        [helper.make_tensor_value_info("x", kind, (steps, rows, 3))],
        [helper.make_tensor_value_info("y", kind, (steps * rows, 4))],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    x = rng.normal(0, 1, (steps, rows, 3)).astype(dtype)
    both = bias * (held["bi"] + held["bh"])
    want = reference(x, *first, held["wi"], held["wh"], both, "ifgo")[:-1]
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets), x, want.reshape(steps * rows, 4)


@pytest.mark.parametrize(
    ("state", "rows", "bias", "dtype"),
    [
        ("zero", 1, True, "float32"),
        ("zero", 3, False, "float32"),
        ("learnt", 2, True, "float32"),
        ("made", 1, True, "float32"),
        ("zero", 1, True, "float16"),
    ],
)
def test_cells_from_a_state_that_the_model_holds(
    state: str, rows: int, bias: bool, dtype: str
) -> None:
    """The product of the first state is no constant apart from the layer."""
    proto, x, want = cells(3, rows, state=state, bias=bias, dtype=dtype)
    model = load_model(proto)
    found, (every,) = calls(model, {**model.params, "x": x})
    assert found == {"flex-lstm": 1}
    loose = 1e-5 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(every, want, rtol=loose, atol=loose)


@pytest.mark.parametrize(
    ("direction", "layers", "count"),
    [("reverse", 1, 1), ("bidirectional", 1, 2), ("forward", 3, 3), ("bidirectional", 2, 4)],
)
def test_one_call_for_each_layer_and_direction(direction: str, layers: int, count: int) -> None:
    model, arrays = onnx_layer(
        4, 2, 3, 3, bias=True, initial=False, layers=layers, direction=direction
    )
    found, results = calls(model, arrays)
    assert found == {"flex-lstm": count}
    for got, right in zip(results, evaluate(model.roots, arrays), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-6)


def relay_layer(steps: int, depth: int, size: int, *, together: bool, rows: int = 1) -> str:
    """Unrolled as PyTorch exports it: gates i, f, g, o, split; two biases or none."""
    gates = 4 * size
    lines, stack = [], []
    for t in range(steps):
        h, c = (f"%h{t - 1}", f"%c{t - 1}") if t else ("%h", "%c")
        lines.append(f"%x{t} = take(%x, {t}i64, axis=0);")
        if together:
            lines += [
                f"%in{t} = concatenate((%x{t}, {h}), axis=1);",
                f"%d{t} = nn.dense(%in{t}, %both, units=None);",
                f"%e{t} = add(%d{t}, %b1);",
                f"%g{t} = add(%e{t}, %b2);",
            ]
        else:
            lines += [
                f"%d{t} = nn.dense(%x{t}, %w, units=None);",
                f"%e{t} = nn.bias_add(%d{t}, %b1);",
                f"%f{t} = nn.dense({h}, %r, units=None);",
                f"%j{t} = nn.bias_add(%f{t}, %b2);",
                f"%g{t} = add(%j{t}, %e{t});",
            ]
        lines += [
            f"%s{t} = split(%g{t}, indices_or_sections=4, axis=1);",
            f"%i{t} = sigmoid(%s{t}.0);",
            f"%k{t} = sigmoid(%s{t}.1);",
            f"%u{t} = tanh(%s{t}.2);",
            f"%o{t} = sigmoid(%s{t}.3);",
            f"%p{t} = multiply({c}, %k{t});",
            f"%q{t} = multiply(%i{t}, %u{t});",
            f"%c{t} = add(%q{t}, %p{t});",
            f"%v{t} = tanh(%c{t});",
            f"%h{t} = multiply(%o{t}, %v{t});",
        ]
        stack.append(f"%h{t}")
    parameters = {
        "x": (steps, rows, depth), "h": (rows, size), "c": (rows, size), "w": (gates, depth),
        "r": (gates, size), "b1": (gates,), "b2": (gates,),
    }  # fmt: skip
    typed = ", ".join(
        f"%{name}: Tensor[({', '.join(map(str, shape))}{',' * (len(shape) == 1)}), float32]"
        for name, shape in parameters.items()
    )
    joined = "%both = concatenate((%w, %r), axis=1);" if together else ""
    stacked = f"%y = stack(({', '.join(stack)},), axis=0);"
    body = "\n  ".join([joined, *lines, stacked, f"(%y, %c{steps - 1})"])
    return f'#[version = "0.0.5"]\ndef @main({typed}) {{\n  {body}\n}}\n'


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (2, 3), (6, 1)])
def test_relay_steps(steps: int, rows: int, together: bool) -> None:
    model = import_relay(relay_layer(steps, 3, 4, together=together, rows=rows))
    rng = np.random.default_rng(0)
    arrays = {t["name"]: rng.normal(0, 0.7, t.shape).astype("float32") for t in model.leaves()}
    found, (every, last) = calls(model, arrays)
    assert found == {"flex-lstm": 1}
    x, h, c, w, r = (arrays[k] for k in ("x", "h", "c", "w", "r"))
    want = reference(x, h, c, w, r, arrays["b1"] + arrays["b2"], "ifgo")
    np.testing.assert_allclose(every, want[:-1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last, want[-1], rtol=1e-4, atol=1e-6)


def operands(steps: int, rows: int, depth: int, size: int) -> list[Array]:
    rng = np.random.default_rng(1)
    shapes = [
        (steps, rows, depth), (rows, size), (rows, size), (4, size, depth), (4, size, size),
        (4, size),
    ]  # fmt: skip
    widths = (1.0, 1.0, 1.0, *[size**-0.5] * 3)
    return [
        adaptivfloat(rng.normal(0, width, shape).astype("float32"))
        for shape, width in zip(shapes, widths, strict=True)
    ]


def test_the_error_in_the_units_own_numbers_is_of_the_published_size() -> None:
    """Huang et al.: 1.21 % (0.19)."""
    arrays = operands(10, 2, 32, 32)
    got = find_unit("flex-lstm-af").simulate((), arrays)[0]
    x, h, c, w, r, b = arrays
    want = reference(x, h, c, w.reshape(-1, 32), r.reshape(-1, 32), b.reshape(-1), "ifgo")[:-1]
    assert 0.005 < np.linalg.norm(got - want) / np.linalg.norm(want) < 0.025


@pytest.mark.parametrize("wrong", range(6))
def test_operands_that_do_not_fit_are_refused(wrong: int) -> None:
    arrays = operands(2, 3, 4, 5)
    shapes = [a.shape if i != wrong else (*a.shape[:-1], 7) for i, a in enumerate(arrays)]
    terms = [builders.tensor(f"t{i}", shape) for i, shape in enumerate(shapes)]
    with pytest.raises(ShapeError, match=r"flex-lstm takes x \(\(T N K\) \(\)\)"):
        builders.call("flex-lstm", (), *terms)
