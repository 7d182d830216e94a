"""BERT's encoder as ONNX, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

WORDS, POSITIONS, KINDS = 30522, 512, 2


def bert_base(
    path: Path, layers: int = 12, width: int = 768, heads: int = 12, tokens: int = 128
) -> Path:
    """Writes the encoder of Devlin et al. 2019 as exporters write it (opset 17, erf by itself)."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(array: Any) -> str:
        name = f"c{len(constants)}"
        constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(*shape: int) -> str:
        return constant((rng.standard_normal(shape, np.float32) * 0.02).astype(np.float32))

    def node(operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def norm(x: str) -> str:
        scale, shift = constant(np.ones(width, np.float32)), constant(np.zeros(width, np.float32))
        return node("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-12)

    def dense(x: str, n: int, k: int) -> str:
        return node("Add", weight(k), node("MatMul", x, weight(n, k)))

    def split(x: str, order: list[int]) -> str:
        shape = constant(np.array([1, tokens, heads, width // heads]))
        return node("Transpose", node("Reshape", x, shape), perm=order)

    x = node("Gather", weight(WORDS, width), "tokens")
    x = node("Add", x, weight(tokens, width))
    x = norm(node("Add", x, weight(1, width)))
    for _ in range(layers):
        q, v = (split(dense(x, width, width), [0, 2, 1, 3]) for _ in range(2))
        k = split(dense(x, width, width), [0, 2, 3, 1])
        scores = node("Div", node("MatMul", q, k), constant(np.float32((width // heads) ** 0.5)))
        mixed = node("MatMul", node("Softmax", scores, axis=-1), v)
        mixed = node("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = node("Reshape", mixed, constant(np.array([1, tokens, width])))
        x = norm(node("Add", dense(mixed, width, width), x))
        y = dense(x, width, 4 * width)
        erf = node("Erf", node("Div", y, constant(np.float32(2**0.5))))
        gelu = node("Mul", y, node("Add", erf, constant(np.float32(1))))
        gelu = node("Mul", gelu, constant(np.float32(0.5)))
        x = norm(node("Add", dense(gelu, 4 * width, width), x))
    nodes.append(helper.make_node("Identity", [x], ["states"]))
    graph = helper.make_graph(
        nodes,
        "bert",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, tokens])],
        [helper.make_tensor_value_info("states", TensorProto.FLOAT, [1, tokens, width])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)
    return path
