"""Networks that the GPU benchmarks share: light models and Relay text, in any dtype and batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _torch import BUILT
from _weights import draw, is_drawn
from optimize import light_models

from glenside.frontends import load_model
from glenside.language import AccessType, Model, Term, builders, map_terms, rebuild

MOBILENET = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""MobileNet v2's blocks: expansion, channels, repetitions, first stride."""


def network(name: str, batch: int = 1) -> Model:
    """A light model by its name (``squeezenet``), ``mobilenet_v2`` or a file; weights are drawn
    anew."""
    paths = {path.stem.removeprefix("light_"): path for path in light_models()}
    if name in paths:
        import onnx

        model = load_model(_batched(onnx.load(paths[name]), batch))
    elif name == "mobilenet_v2":
        model = load_model(_mobilenet(batch))
    elif name in BUILT:
        model = _from_torch(name)
    else:
        if batch != 1:
            raise SystemExit(f"{name}: files are not made in other batches than 1")
        model = load_model(name)
    types = {n: (a.shape, a.dtype.name) for n, a in model.params.items()}
    kept = {n: a for n, a in model.params.items() if not is_drawn(*types[n])}
    named = Path(name).name.replace(".", "_")
    if name not in BUILT:
        model = _logits(model)
    return replace(model, params=draw(types, kept), name=named)


def _from_torch(name: str) -> Model:
    """A network that PyTorch has, without its weights' values."""
    import torch
    from _torch import network as of_torch

    return load_model(of_torch(name).eval(), example_inputs=(torch.zeros(*BUILT[name]),))


def _mobilenet(batch: int) -> Any:
    """MobileNet v2 at 224 x 224 with 1,000 classes (Sandler et al. 2018, table 2), as ONNX."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, *shape: int) -> str:
        array = np.broadcast_to(np.float32(1), shape)
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    for bound, value in (("low", 0), ("high", 6)):
        constants.append(numpy_helper.from_array(np.array(value, np.float32), bound))

    def layer(x: str, c: int, k: int, size: int, stride: int, groups: int, relu: bool) -> str:
        n = str(len(nodes))
        weights = constant(f"w{n}", k, c // groups, size, size)
        pad = [size // 2] * 4
        nodes.append(helper.make_node("Conv", [x, weights], [f"c{n}"], group=groups, pads=pad,
                                      kernel_shape=[size] * 2, strides=[stride] * 2))  # fmt: skip
        moments = [constant(f"{part}{n}", k) for part in ("scale", "shift", "mean", "variance")]
        nodes.append(helper.make_node("BatchNormalization", [f"c{n}", *moments], [f"b{n}"]))
        if relu:
            nodes.append(helper.make_node("Clip", [f"b{n}", "low", "high"], [f"r{n}"]))
        return f"r{n}" if relu else f"b{n}"

    x, c = layer("x", 3, 32, 3, 2, 1, True), 32
    for expand, k, repeats, first in MOBILENET:
        for number in range(repeats):
            stride = first if number == 0 else 1
            wide = c * expand
            y = layer(x, c, wide, 1, 1, 1, True) if expand > 1 else x
            y = layer(y, wide, wide, 3, stride, wide, True)
            y = layer(y, wide, k, 1, 1, 1, False)
            if stride == 1 and c == k:
                nodes.append(helper.make_node("Add", [x, y], [f"s{len(nodes)}"]))
                y = nodes[-1].output[0]
            x, c = y, k
    x = layer(x, c, 1280, 1, 1, 1, True)
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["pooled"]))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"]))
    dense = [constant("dense", 1000, 1280), constant("bias", 1000)]
    nodes.append(helper.make_node("Gemm", ["flat", *dense], ["y"], transB=1))
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 224, 224])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 1000])
    graph = helper.make_graph(nodes, "mobilenet_v2", [image], [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def _logits(model: Model) -> Model:
    """Without a softmax at the end, as PyTorch has its networks; a softmax of random logits is all
    but one-hot, and would hide errors."""
    last = {}
    for root in model.roots:
        term = root
        while term.op in ("reshape", "flatten", "access", "squeeze", "unsqueeze"):
            term = term.children[0]
        if term.op == "compute" and term["function"] == "softmax":
            last[term] = True

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        return children[0] if term in last else rebuild(term, children)

    new = map_terms(model.roots, change)
    return replace(model, outputs={n: new[t] for n, t in model.outputs.items()}, names={})


def _batched(proto: Any, batch: int) -> Any:
    """The same graph for another batch: inputs, and reshapes that name the batch."""
    from onnx import numpy_helper

    constants = {each.name for each in proto.graph.initializer}
    for each in proto.graph.input:
        if each.name not in constants:
            each.type.tensor_type.shape.dim[0].dim_value = batch
    shapes = {node.input[1] for node in proto.graph.node if node.op_type == "Reshape"}
    for each in proto.graph.initializer:
        if each.name in shapes:
            shape = numpy_helper.to_array(each).copy()
            if shape.size and shape[0] == 1:
                shape[0] = batch
                each.CopyFrom(numpy_helper.from_array(shape, each.name))
    del proto.graph.value_info[:]
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    return proto


def retyped(model: Model, dtype: str) -> Model:
    """The same network with float32 replaced by ``dtype`` throughout."""

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        if term.dtype == "float32" and term.op == "tensor":
            return builders.tensor(term["name"], term.shape, dtype)
        if term.dtype == "float32" and term.op == "constant":
            return builders.constant(term["value"], term.shape, dtype)
        if term.op == "cast" and term["dtype"] == "float32":
            return builders.cast(children[0], dtype)
        return rebuild(term, children)

    new = map_terms(model.roots, change)
    outputs = {name: new[term] for name, term in model.outputs.items()}
    inputs = {
        name: AccessType(t.outer, t.item, dtype if t.dtype == "float32" else t.dtype)
        for name, t in model.inputs.items()
    }
    params = {
        name: array.astype(dtype) if array.dtype == np.float32 else array
        for name, array in model.params.items()
    }
    return replace(model, inputs=inputs, outputs=outputs, params=params, names={})
