"""ONNX models that are quantised already, on units that multiply 8-bit integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import glenside
from glenside.language import topological_order
from tests.models import onnxruntime_answers

NODE = helper.make_node
Arrays = dict[str, np.ndarray]


def model(nodes: list[Any], inputs: Arrays, output: tuple[str, str], constants: Arrays) -> Any:
    def element(array: Any) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(array))

    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info(n, element(a.dtype), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(output[0], element(output[1]), None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    result.ir_version = 9
    return result


def integers(rng: Any, dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def qlinear_conv(dtypes: str, zeros: tuple[int, int], groups: int = 1, rows: bool = False) -> Any:
    rng = np.random.default_rng(0)
    first, second = dtypes.split()
    filters = (6,) if rows else ()
    constants = {
        "sx": np.float32(0.02),
        "zx": np.array(zeros[0], first),
        "w": integers(rng, second, 6, 4 // groups, 3, 2),
        "sw": rng.uniform(0.005, 0.02, filters).astype("float32"),
        "zw": np.full(filters, zeros[1], second),
        "sy": np.float32(0.3),
        "zy": np.array(3, first),
        "b": rng.integers(-999, 999, 6).astype("int32"),
    }
    inputs = {"x": integers(rng, first, 2, 4, 7, 6)}
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
    node = NODE("QLinearConv", names, ["y"], group=groups, pads=[1, 0, 2, 1], strides=[2, 1])
    return model([node], inputs, ("y", first), constants), inputs


def products(operator: str, dtypes: str, zeros: tuple[int, int]) -> Any:
    rng = np.random.default_rng(0)
    first, second = dtypes.split()
    constants = {"zx": np.array(zeros[0], first), "zw": np.array(zeros[1], second)}
    constants["w"] = integers(rng, second, 30, 17)
    names = ["x", "w", "zx", "zw"]
    if operator == "QLinearMatMul":
        constants |= {s: np.float32(v) for s, v in {"sx": 0.02, "sw": 0.01, "sy": 0.3}.items()}
        constants["zy"] = np.array(3, first)
        names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
    elif operator == "ConvInteger":
        constants["w"] = integers(rng, second, 5, 4, 3, 3)
    shape = (1, 4, 6, 6) if operator == "ConvInteger" else (2, 5, 30)
    inputs = {"x": integers(rng, first, *shape)}
    padding = {"pads": [1, 1, 1, 1]} if operator == "ConvInteger" else {}
    result = first if operator == "QLinearMatMul" else "int32"
    return model(
        [NODE(operator, names, ["y"], **padding)], inputs, ("y", result), constants
    ), inputs


def dynamic() -> Any:
    """The zero point is only known when the model runs."""
    rng = np.random.default_rng(0)
    constants = {"w": integers(rng, "uint8", 5, 4, 3, 3), "zw": np.array(100, "uint8")}
    inputs = {"x": rng.standard_normal((1, 4, 6, 6)).astype("float32")}
    nodes = [
        NODE("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        NODE("ConvInteger", ["q", "w", "z", "zw"], ["y"], pads=[1, 1, 1, 1]),
    ]
    return model(nodes, inputs, ("y", "int32"), constants), inputs


INTEGER = {
    "QLinearConv": qlinear_conv("uint8 int8", (128, 0)),
    "QLinearConv, unsigned, a scale a row": qlinear_conv("uint8 uint8", (7, 200), rows=True),
    "QLinearConv, signed": qlinear_conv("int8 int8", (-3, 0)),
    "QLinearConv, grouped": qlinear_conv("uint8 int8", (77, 0), 2, rows=True),
    "QLinearMatMul": products("QLinearMatMul", "uint8 int8", (100, 0)),
    "QLinearMatMul, signed": products("QLinearMatMul", "int8 int8", (5, -4)),
    "MatMulInteger": products("MatMulInteger", "uint8 uint8", (7, 100)),
    "ConvInteger": products("ConvInteger", "uint8 uint8", (9, 100)),
    "DynamicQuantizeLinear": dynamic(),
}


@pytest.mark.parametrize("target", ["vta:int8", "amx"])
@pytest.mark.parametrize("name", INTEGER)
def test_integer_operators_give_the_bits_of_onnxruntime(name: str, target: str) -> None:
    proto, inputs = INTEGER[name]
    program = glenside.optimize(proto, target)
    assert program.report.offloads == {target.partition(":")[0]: 1}
    assert program.report.max_rel_error == 0
    (expected,) = onnxruntime_answers(proto, **inputs)
    assert np.ptp(expected.astype("int64")) > 10
    np.testing.assert_array_equal(program(**inputs), expected)


def test_units_of_signed_and_of_all_bytes_are_used_together() -> None:
    proto, inputs = INTEGER["QLinearConv, unsigned, a scale a row"]
    program = glenside.optimize(proto, "vta:int8+amx")
    assert sum(program.report.offloads.values()) == 1
    np.testing.assert_array_equal(program(**inputs), onnxruntime_answers(proto, **inputs)[0])


def with_scales(operator: str, groups: int = 1) -> tuple[Any, Arrays, Arrays]:
    """DequantizeLinear around an operator of floats; weights have a scale for each output."""
    rng = np.random.default_rng(1)
    conv, outputs = operator == "Conv", 8
    c = {
        "sx": np.float32(0.02),
        "zx": np.uint8(77),
        "w": integers(rng, "int8", *((outputs, 4 // groups, 3, 3) if conv else (30, outputs))),
        "sw": rng.uniform(0.005, 0.02, outputs).astype("float32"),
        "zw": np.zeros(outputs, "int8"),
        "b": rng.integers(-999, 999, outputs).astype("int32"),
        "sy": np.float32(0.3),
        "zy": np.uint8(100),
    }
    c["sb"] = c["sx"] * c["sw"]
    c["zb"] = np.zeros(outputs, "int32")
    inputs = {"q": integers(rng, "uint8", *((1, 4, 30, 30) if conv else (400, 30)))}
    operands = ["dx", "dw"] if operator == "MatMul" else ["dx", "dw", "db"]
    nodes = [
        NODE("DequantizeLinear", ["q", "sx", "zx"], ["dx"]),
        NODE("DequantizeLinear", ["w", "sw", "zw"], ["dw"], axis=0 if conv else 1),
        NODE("DequantizeLinear", ["b", "sb", "zb"], ["db"], axis=0),
        NODE(operator, operands, ["c"], **({"group": groups} if conv else {})),
        NODE("QuantizeLinear", ["c", "sy", "zy"], ["y"]),
    ]
    return model(nodes, inputs, ("y", "uint8"), c), inputs, c


@pytest.mark.parametrize(
    ("operator", "groups"), [("Conv", 1), ("Conv", 2), ("Gemm", 1), ("MatMul", 1)]
)
def test_operators_between_scales_are_stated_in_integers(operator: str, groups: int) -> None:
    proto, inputs, c = with_scales(operator, groups)
    program = glenside.optimize(proto, "vta:int8")
    assert program.report.offloads == {"vta": 1}
    # A unit's sums are whole, so they are the exact ones: what is rounded is only their scaling.
    q = inputs["q"].astype("int64") - 77
    w = c["w"].astype("int64")
    if operator == "Conv":
        looks = np.lib.stride_tricks.sliding_window_view(q, (3, 3), (2, 3))
        parts = [
            np.einsum("nchwij,ocij->nohw", x, f)
            for x, f in zip(np.split(looks, groups, 1), np.split(w, groups, 0), strict=True)
        ]
        sums, spread = np.concatenate(parts, 1), (-1, 1, 1)
    else:
        sums, spread = q @ w, (-1,)
    biased = sums + (0 if operator == "MatMul" else c["b"].reshape(spread))
    exact = biased * (c["sx"].astype("float64") * c["sw"]).reshape(spread) / c["sy"]
    want = np.clip(np.rint(exact) + 100, 0, 255)
    got = program(**inputs).astype("int64")
    # A tie of exact numbers may be none of those in single precision.
    near_tie = np.abs(exact - np.floor(exact) - 0.5) < 1e-4
    np.testing.assert_array_equal(got[~near_tie], want[~near_tie])
    (expected,) = onnxruntime_answers(proto, **inputs)
    assert np.abs(got - expected).max() <= 1


def test_what_dequantises_stays_in_the_program_and_costs_nothing_on_a_cpu() -> None:
    proto, inputs, _ = with_scales("Conv")
    program = glenside.optimize(proto, "cpu")
    (expected,) = onnxruntime_answers(proto, **inputs)
    assert np.abs(program(**inputs).astype("int64") - expected).max() <= 1
    order = topological_order(program.terms)
    assert any(term.op == "tensor" and term.dtype == "int8" for term in order)


def test_constants_that_shapes_need_are_known_when_dequantised() -> None:
    """Two sizes, from integers with a scale."""
    nodes = [
        NODE("DequantizeLinear", ["s", "one"], ["real"]),
        NODE("Cast", ["real"], ["shape"], to=onnx.TensorProto.INT64),
        NODE("Reshape", ["x", "shape"], ["y"]),
    ]
    inputs = {"x": np.arange(6, dtype="float32")}
    constants = {"s": np.array([2, 3], "int8"), "one": np.float32(1)}
    proto = model(nodes, inputs, ("y", "float32"), constants)
    assert glenside.optimize(proto, "cpu")(**inputs).shape == (2, 3)
