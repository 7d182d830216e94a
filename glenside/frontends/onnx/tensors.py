"""Tensors that a model file holds, as NumPy arrays."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from glenside.errors import ModelError
from glenside.frontends.onnx.node import dtype_name
from glenside.language import memory

Array = np.ndarray[Any, Any]

NARROW: dict[int, str] = {
    onnx.TensorProto.INT4: "int8",
    onnx.TensorProto.UINT4: "uint8",
    onnx.TensorProto.INT2: "int8",
    onnx.TensorProto.UINT2: "uint8",
    onnx.TensorProto.FLOAT8E4M3FN: "float32",
    onnx.TensorProto.FLOAT8E4M3FNUZ: "float32",
    onnx.TensorProto.FLOAT8E5M2: "float32",
    onnx.TensorProto.FLOAT8E5M2FNUZ: "float32",
    onnx.TensorProto.FLOAT4E2M1: "float32",
}
"""Types in which numbers are stored, and the dtype that holds their values exactly."""

WIDENING = ("Cast", "DequantizeLinear")
"""Operators that turn stored values into numbers to compute with."""

STORING = ("QuantizeLinear",)
"""Operators that give values of such types, and take a zero point of one."""


def narrow_name(element_type: int) -> str:
    """What ONNX calls an element type."""
    return str(onnx.TensorProto.DataType.Name(element_type)).lower()


def narrowed(values: Array, kind: str, saturate: bool) -> Array:
    """Numbers rounded to a float of 8 or 4 bits, in the dtype that holds these exactly.

    :param saturate: what is beyond the largest number becomes that, not NaN or infinite.
    """
    element = onnx.TensorProto.DataType.Value(kind.upper())
    stored = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
    if saturate:
        largest = float(ml_dtypes.finfo(stored).max)
        values = np.clip(values, -largest, largest)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(stored).astype(NARROW[element])


def to_array(tensor: onnx.TensorProto, name: str) -> Array:
    """The values of a tensor in the file, those of narrow types widened.

    :raises Refused: its element type is not supported.
    :raises ModelError: it is malformed.
    """
    held = NARROW.get(int(tensor.data_type)) or dtype_name(tensor.data_type)
    if any(length < 0 for length in tensor.dims):
        raise ModelError(f"constant {name!r}: its shape {tuple(tensor.dims)} has negative lengths")
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor)).astype(held, copy=False)
    except Exception as problem:
        # onnx raises what it likes for a malformed tensor.
        raise ModelError(f"constant {name!r}: {problem}") from None


def dense(sparse: onnx.SparseTensorProto, name: str) -> Array:
    """The dense form of a sparse tensor; raises as :func:`to_array`."""
    values = to_array(sparse.values, name)
    indices = to_array(sparse.indices, name)
    if indices.dtype.kind not in "iu" or (indices < 0).any():
        raise ModelError(f"constant {name!r}: its indices must be numbers from 0")
    size = math.prod(map(float, sparse.dims))
    memory.require(size * values.itemsize, f"constant {name!r}: its dense form")
    try:
        result = np.zeros(tuple(sparse.dims), values.dtype)
        if indices.ndim == 1:
            result.reshape(-1)[indices] = values
        else:
            result[tuple(indices.T)] = values
    except (IndexError, ValueError, MemoryError) as problem:
        raise ModelError(f"constant {name!r}: {problem}") from None
    return result
