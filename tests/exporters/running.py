"""Runs an exported program in onnxruntime and holds it against the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime

from glenside.exporters.onnx import to_onnx
from glenside.language import Term, evaluate, topological_order
from glenside.language.shape import BFLOAT16, FLOATS

TOLERANCE = {"float16": 1e-2, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-12}


def export(*terms: Term, names: Mapping[Term, str] | None = None) -> onnx.ModelProto:
    """The terms as a checked model with all tensors as inputs and outputs y0, y1, ..."""
    leaves = {t["name"]: t.type for t in topological_order(terms) if t.op == "tensor"}
    outputs = {f"y{i}": term for i, term in enumerate(terms)}
    return checked(to_onnx("program", leaves, {}, outputs, names))


def checked(model: onnx.ModelProto) -> onnx.ModelProto:
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model: onnx.ModelProto, env: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs; bfloat16, which onnxruntime's Python does not know, goes by way of float32."""
    asked, model, given = model, wide_ends(model), {}
    for value in model.graph.input:
        array = env[value.name.removeprefix("wide_")]
        given[value.name] = array.astype("float32") if array.dtype == BFLOAT16 else array
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results = session.run(None, given)
    dtypes = [value.type.tensor_type.elem_type for value in asked.graph.output]
    return [
        result.astype(BFLOAT16) if dtype == onnx.TensorProto.BFLOAT16 else result
        for dtype, result in zip(dtypes, results, strict=True)
    ]


def wide_ends(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float32 for its inputs and outputs of bfloat16, cast at once."""
    half, full = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph, before, after = result.graph, [], []
    for value in [v for v in graph.input if v.type.tensor_type.elem_type == half]:
        before.append(onnx.helper.make_node("Cast", [f"wide_{value.name}"], [value.name], to=half))
        value.name, value.type.tensor_type.elem_type = f"wide_{value.name}", full
    for value in [v for v in graph.output if v.type.tensor_type.elem_type == half]:
        after.append(onnx.helper.make_node("Cast", [value.name], [f"wide_{value.name}"], to=full))
        value.name, value.type.tensor_type.elem_type = f"wide_{value.name}", full
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return result


def assert_same(terms: Sequence[Term], env: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """Exports, runs and compares; gives the model."""
    model = export(*terms)
    for got, right in zip(run(model, env), evaluate(terms, env), strict=True):
        assert_close(got, right)
    return model


def assert_close(got: np.ndarray, right: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (right.dtype, right.shape)
    if right.dtype.name not in FLOATS:
        np.testing.assert_array_equal(got, right)
        return
    tolerance = TOLERANCE[right.dtype.name]
    np.testing.assert_allclose(
        got.astype("float64"), right.astype("float64"), rtol=tolerance, atol=tolerance
    )


def operator_types(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]
