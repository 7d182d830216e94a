"""Runs an exported program in onnxruntime and holds it against the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime

from glenside.exporters.onnx import to_onnx
from glenside.language import Term, evaluate, topological_order
from glenside.language.shape import FLOATS

TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}


def export(*terms: Term, names: Mapping[Term, str] | None = None) -> onnx.ModelProto:
    """The terms as a checked model with all tensors as inputs and outputs y0, y1, ..."""
    leaves = {t["name"]: t.type for t in topological_order(terms) if t.op == "tensor"}
    outputs = {f"y{i}": term for i, term in enumerate(terms)}
    return checked(to_onnx("program", leaves, {}, outputs, names))


def checked(model: onnx.ModelProto) -> onnx.ModelProto:
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model: onnx.ModelProto, env: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, {i.name: env[i.name] for i in session.get_inputs()}))


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
