"""Makes small ONNX models and holds what is imported against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from glenside.frontends.onnx import import_model
from glenside.language import Model, evaluate

Array = np.ndarray[Any, Any]


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    opset: int = 21,
) -> onnx.ModelProto:
    """A model whose inputs have the shapes and dtypes of ``inputs``; output types stay open."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in inputs.items()
    ]
    initializers = [numpy_helper.from_array(x, name) for name, x in (constants or {}).items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "test", infos, results, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    inferred = onnx.shape_inference.infer_shapes(model)
    for result, known in zip(model.graph.output, inferred.graph.output, strict=True):
        kind = known.type.tensor_type.elem_type or TensorProto.FLOAT
        result.type.tensor_type.elem_type = kind
    return model


def run_onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(inputs))


def run_terms(model: Model, inputs: Mapping[str, Array]) -> list[Array]:
    used = {name: inputs[name] for name in model.inputs}
    return evaluate(model.roots, {**used, **model.params})


class Ask:
    """What a test asks about one model."""

    model_of = staticmethod(model_of)
    onnxruntime = staticmethod(run_onnxruntime)
    terms = staticmethod(run_terms)

    @staticmethod
    def same(
        model: onnx.ModelProto, inputs: Mapping[str, Array], rtol: float = 1e-4, atol: float = 1e-5
    ) -> Model:
        """Imports, runs and compares with onnxruntime: shapes, dtypes and values."""
        imported = import_model(model)
        wanted = run_onnxruntime(model, inputs)
        got = run_terms(imported, inputs)
        assert len(got) == len(wanted)
        for mine, other in zip(got, wanted, strict=True):
            assert mine.shape == other.shape
            assert mine.dtype == other.dtype
            np.testing.assert_allclose(mine, other, rtol=rtol, atol=atol)
        return imported

    @staticmethod
    def node(
        operator: str,
        inputs: Mapping[str, Array] | Sequence[Array],
        constants: Mapping[str, Array] | None = None,
        *,
        opset: int = 21,
        outputs: int = 1,
        operands: Sequence[str] | None = None,
        rtol: float = 1e-4,
        atol: float = 1e-5,
        **attributes: Any,
    ) -> Model:
        """One node against onnxruntime; operands are the inputs, then the constants."""
        if not isinstance(inputs, Mapping):
            inputs = {f"x{i}": x for i, x in enumerate(inputs)}
        names = list(operands) if operands else [*inputs, *(constants or {})]
        results = [f"y{i}" for i in range(outputs)]
        node = helper.make_node(operator, names, results, name="node", **attributes)
        model = model_of([node], inputs, results, constants, opset)
        return Ask.same(model, inputs, rtol, atol)


@pytest.fixture(scope="session")
def ask() -> type[Ask]:
    return Ask


@pytest.fixture
def floats() -> Callable[..., Array]:
    """Standard normal float32 arrays, the same on every run."""
    rng = np.random.default_rng(7)
    return lambda *shape: rng.standard_normal(shape).astype(np.float32)
