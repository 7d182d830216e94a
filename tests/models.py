"""Small ONNX models that several tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""The real networks that the onnx package ships."""


def small_network(batch: int | str = 1) -> onnx.ModelProto:
    """Conv (2 groups), Relu, pool, Gemm: image (batch, 4, 9, 7) -> scores (batch, 5)."""
    rng = np.random.default_rng(7)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype("float32"), name)

    graph = helper.make_graph(
        [
            helper.make_node(
                "Conv", ["image", "w", "b"], ["conv"], name="conv", group=2,
                strides=[2, 1], pads=[1, 0, 0, 2],
            ),
            helper.make_node("Relu", ["conv"], ["relu"], name="relu"),
            helper.make_node("GlobalAveragePool", ["relu"], ["pooled"], name="pool"),
            helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"),
            helper.make_node("Gemm", ["flat", "v", "c"], ["scores"], name="gemm", transB=1),
        ],
        "small_network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 4, 9, 7])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 5])],
        [weight("w", 6, 2, 3, 3), weight("b", 6), weight("v", 5, 6), weight("c", 5)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


def two_outputs() -> onnx.ModelProto:
    """total = a + b, product = a * b, for a (2, 3) and b (3)."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["a", "b"], ["total"]),
            helper.make_node("Mul", ["a", "b"], ["product"]),
        ],
        "two_outputs",
        [
            helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("total", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("product", TensorProto.FLOAT, [2, 3]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


def onnxruntime_answers(model: onnx.ModelProto, **inputs: np.ndarray) -> list[np.ndarray]:
    """What onnxruntime computes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, inputs))
