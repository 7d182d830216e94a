"""Operators that make values out of nothing, or out of what is known while importing."""

from __future__ import annotations

import numpy as np
import onnx

from glenside.frontends.onnx.node import Array, Node, dtype_name, operator
from glenside.frontends.onnx.tensors import dense, to_array

VASTEST = 2**40
"""Elements of the largest constant that is accepted: it takes no memory, but means some."""


@operator("Constant")
def _constant(node: Node) -> Array:
    attributes, name = node.attributes, node.name
    if "value" in attributes:
        tensor = attributes.tensor("value")
        assert tensor is not None
        return to_array(tensor, name)
    if "sparse_value" in attributes:
        sparse = attributes.sparse("sparse_value")
        assert sparse is not None
        return dense(sparse, name)
    if "value_float" in attributes:
        return np.array(attributes.real("value_float"), np.float32)
    if "value_int" in attributes:
        return np.array(attributes.integer("value_int"), np.int64)
    if "value_floats" in attributes:
        return np.array(attributes.reals("value_floats"), np.float32)
    if "value_ints" in attributes:
        return np.array(attributes.integers("value_ints"), np.int64)
    node.refuse("only constants of numbers are supported")


@operator("ConstantOfShape")
def _constant_of_shape(node: Node) -> Array:
    shape = node.ints(0, "shape")
    if min(shape, default=0) < 0 or np.prod(np.array(shape, float)) > VASTEST:
        raise node.error(f"shape {shape} is not one of an array")
    tensor = node.attributes.tensor("value")
    value = np.zeros(1, np.float32) if tensor is None else to_array(tensor, node.name)
    if value.size != 1:
        raise node.error(f"attribute value must hold one number, got shape {value.shape}")
    # One number seen everywhere: the weights of a test model take no memory.
    return np.broadcast_to(value.reshape(()), shape)


@operator("Range")
def _range(node: Node) -> Array:
    start, limit, delta = (
        node.array(i, what) for i, what in enumerate(("start", "limit", "delta"))
    )
    if start.size != 1 or limit.size != 1 or delta.size != 1 or not delta.item():
        raise node.error("start, limit and delta must be single numbers, delta not zero")
    count = (limit.item() - start.item()) / delta.item()
    node.check_size(count, "the range")
    steps = np.arange(max(int(np.ceil(count)), 0))
    return (start.item() + steps * delta.item()).astype(start.dtype)


@operator("EyeLike")
def _eye_like(node: Node) -> Array:
    x = node[0]
    if x.type.rank != 2:
        raise node.error(f"takes a matrix, got shape {x.shape}")
    k = node.attributes.integer("k", 0)
    node.make_room(x.shape, "the matrix")
    dtype = x.dtype
    if "dtype" in node.attributes:
        dtype = dtype_name(node.attributes.integer("dtype"))
    return np.eye(x.shape[0], x.shape[1], k).astype(dtype)


@operator("BlackmanWindow", "HammingWindow", "HannWindow")
def _window(node: Node) -> Array:
    size = node.number(0, "size")
    periodic = node.attributes.flag("periodic", True)
    default = onnx.TensorProto.FLOAT
    dtype = dtype_name(node.attributes.integer("output_datatype", default))
    node.check_size(abs(size), "size")
    turn = 2 * np.pi * np.arange(size) / max(size if periodic else size - 1, 1)
    if node.operator == "BlackmanWindow":
        values = 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn)
    elif node.operator == "HammingWindow":
        values = 25 / 46 - 21 / 46 * np.cos(turn)
    else:
        values = 0.5 - 0.5 * np.cos(turn)
    return values.astype(dtype)
