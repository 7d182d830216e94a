"""Valid ONNX models to start from: small networks, reported bugs, ONNX's tests of single nodes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

from tests.models import small_network, two_outputs

BUGS = Path(__file__).parents[1] / "frontends/onnx/bugs"
PLAIN = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13)
SETTLING = ("axes", "axis", "shape", "split", "k", "depth", "sizes", "scales", "repeats", "pads")
"""What test authors call operands that have to be constant."""
LARGEST = 64 * 2**10
"""Bytes of a model; larger ones only slow things down."""

TEXTS = {
    "mlp": """
        <ir_version: 8, opset_import: ["": 17]>
        mlp (float[2,3] x) => (float[2,4] y)
        <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[4] b = {1,-1,2,-2}>
        { h = MatMul(x, w)  s = Add(h, b)  r = Relu(s)  y = Softmax <axis = 1> (r) }""",
    "view": """
        <ir_version: 8, opset_import: ["": 17]>
        view (float[N,3,4] x) => (float[N,12] y)
        <int64 zero = {0}, int64[1] front = {0}, int64[1] rest = {-1}>
        { s = Shape(x)  n = Gather <axis = 0> (s, zero)  u = Unsqueeze(n, front)
          c = Concat <axis = 0> (u, rest)  y = Reshape(x, c) }""",
    "branch": """
        <ir_version: 8, opset_import: ["": 17]>
        branch (float[2,3] x) => (float[2,3] y) <bool c = {1}>
        { y = If (c) <
            then_branch = t () => (float[2,3] a) { a = Neg(x) },
            else_branch = e () => (float[2,3] b) { k = Relu(x) b = Exp(k) }> }""",
    "loop": """
        <ir_version: 8, opset_import: ["": 17]>
        loop (float[2] x) => (float[2] y, float[3,2] all) <int64 n = {3}, bool c = {1}>
        { y, all = Loop (n, c, x) <
            body = b (int64 i, bool go, float[2] v) => (bool more, float[2] w, float[2] scan)
              { more = Identity(go)  w = Add(v, v)  scan = Neg(w) }> }""",
    "function": """
        <ir_version: 8, opset_import: ["": 17, "mine": 1]>
        function (float[2,3] x) => (float[2,3] y)
        { h = mine.twice <by = 2.0> (x)  y = mine.twice <by = 0.5> (h) }
        <opset_import: ["": 17], domain: "mine">
        twice <by> (a) => (b)
        { k = Constant <value_float: float = @by> ()  b = Mul(a, k) }""",
    "quantised": """
        <ir_version: 8, opset_import: ["": 17]>
        quantised (float[2,3] x) => (float[2,4] y)
        <float s = {0.5}, uint8 z = {3}, int8[3,4] w = {1,2,-3,4,5,-6,7,8,-9,10,11,-12},
         int8 wz = {0}>
        { q = QuantizeLinear(x, s, z)  p = MatMulInteger(q, w, z, wz)
          f = Cast <to = 1> (p)  y = Mul(f, s) }""",
    "attention": """
        <ir_version: 8, opset_import: ["": 17]>
        attention (float[1,4,6] x, bool[1,1,4,4] mask) => (float[1,4,6] y)
        <int64[4] heads = {1,4,2,3}, int64[3] whole = {0,0,-1}, float low = {-1000}>
        { r = Reshape(x, heads)  q = Transpose <perm = [0,2,1,3]> (r)
          k = Transpose <perm = [0,2,3,1]> (r)  s = MatMul(q, k)  m = Where(mask, s, low)
          p = Softmax <axis = -1> (m)  o = MatMul(p, q)
          t = Transpose <perm = [0,2,1,3]> (o)  y = Reshape(t, whole) }""",
    "images": """
        <ir_version: 8, opset_import: ["": 17]>
        images (float[1,2,6,5] x) => (float[1,2,4,6] y)
        <int64[8] p = {0,0,1,0,0,0,1,1}, int64[4] to = {1,2,4,6}, float[0] none = {}>
        { a = Pad <mode = "reflect"> (x, p)
          m = MaxPool <kernel_shape = [3,2], strides = [2,1], ceil_mode = 1> (a)
          y = Resize <mode = "linear"> (m, , , to) }""",
    "integers": """
        <ir_version: 8, opset_import: ["": 17]>
        integers (int32[4] a, int32[4] b, int64[2] at) => (int64[2] y, int32[2,4] z)
        <int64[1] ax = {0}>
        { s = Sub(a, b)  d = Mul(s, a)  c = Cast <to = 7> (d)  g = Gather <axis = 0> (c, at)
          zero = Constant <value_int = 0> ()  y = CumSum(g, zero)
          u = Unsqueeze(a, ax)  v = Unsqueeze(d, ax)  z = Concat <axis = 0> (u, v) }""",
}  # fmt: skip


@functools.cache
def corpus() -> dict[str, list[tuple[str, bytes]]]:
    """Names and serialised models in an order that is the same everywhere, in three groups.

    ``networks`` have several nodes; ``nodes`` are ONNX's tests of single operators; ``odd`` are
    those of them that lack a constant, or hold strings, sequences and the like, which mostly are
    refused.
    """
    groups: dict[str, list[tuple[str, bytes]]] = {"networks": [], "nodes": [], "odd": []}
    groups["networks"] += [*_networks(), *_bugs()]
    for name, proto in _nodes():
        groups["nodes" if _plain(proto) else "odd"].append((name, proto.SerializeToString()))
    return {
        name: [(origin, data) for origin, data in group if len(data) <= LARGEST]
        for name, group in groups.items()
    }


def _plain(proto: onnx.ModelProto) -> bool:
    """Whether all that goes in and out are tensors of usual numbers."""
    infos = (*proto.graph.input, *proto.graph.output)
    held = {each.name for each in proto.graph.initializer}
    known = {each.name for each in infos} & held
    return all(x.type.tensor_type.elem_type in PLAIN for x in infos) and (
        bool(known) or not any(x.name in SETTLING for x in proto.graph.input)
    )


def _networks() -> Iterator[tuple[str, bytes]]:
    yield "small_network", small_network().SerializeToString()
    yield "small_network_of_any_batch", small_network("n").SerializeToString()
    yield "two_outputs", two_outputs().SerializeToString()
    for name, text in TEXTS.items():
        yield name, parser.parse_model(text).SerializeToString()


def _bugs() -> Iterator[tuple[str, bytes]]:
    for path in sorted(BUGS.glob("*.onnx")):
        yield path.stem, path.read_bytes()


def _nodes() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Every test of a node twice: as it is, and with what looks like shapes and axes constant."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # The suite computes its inputs and answers here, overflows among them.
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for case in sorted(cases, key=lambda each: each.name):
        inputs = case.data_sets[0][0]
        held = _with_constants(case.model, inputs)
        yield case.name, held
        if len(held.graph.initializer) != len(case.model.graph.initializer):
            yield f"{case.name}, open", case.model


def _with_constants(proto: onnx.ModelProto, inputs: list[Any]) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for info, x in zip(proto.graph.input, inputs, strict=False):
        if isinstance(x, np.ndarray) and x.dtype.kind in "iub" and x.ndim <= 1 and x.size < 20:
            copy.graph.initializer.append(numpy_helper.from_array(x, info.name))
    return copy
