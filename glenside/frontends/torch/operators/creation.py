"""Operators that fill tensors."""

from __future__ import annotations

import numpy as np

from glenside.frontends.lowering.phrases import spread
from glenside.frontends.torch.promotion import as_tensor
from glenside.frontends.torch.signature import Node, Number, operator
from glenside.language import Term, builders, memory


@operator("full", "full_like", "fill", implied=("x", "size", "dtype"))
def full(node: Node, fill_value: Number | None = None, value: Number | None = None) -> Term:
    """A shape filled with one number."""
    given = fill_value if fill_value is not None else value
    assert given is not None
    return spread(as_tensor(given, node.dtype), node.shape)


@operator(
    "zeros", "zeros_like", "empty", "empty_like", "empty_strided", "empty_permuted",
    "new_zeros", "new_empty",
    implied=("x", "size", "stride", "physical_layout", "dtype"),
)  # fmt: skip
def zeros(node: Node) -> Term:
    """Zeros; also what PyTorch leaves undefined."""
    return builders.constant(0, node.shape, node.dtype)


@operator("ones", "ones_like", "new_ones", implied=("x", "size", "dtype"))
def ones(node: Node) -> Term:
    """Ones."""
    return builders.constant(1, node.shape, node.dtype)


@operator("scalar_tensor", implied=("dtype",))
def scalar_tensor(node: Node, s: float) -> Term:
    """A number as a tensor without axes."""
    return as_tensor(s, node.dtype)


@operator("arange", implied=("dtype",))
def arange(node: Node, start: float, end: float, step: float = 1) -> Term:
    """``start``, ``start + step``, ... before ``end``."""
    memory.require(abs((end - start) / (step or 1)) * 16, "arange: the range")
    (length,) = node.shape
    # PyTorch multiplies in the wide type of the dtype; NumPy would add up.
    wide = np.float64 if node.dtype.startswith(("float", "bfloat")) else np.int64
    numbers = wide(start) + np.arange(length).astype(wide) * wide(step)
    return node.parameter(numbers.astype(node.dtype), "range")


@operator("eye", implied=("n", "m", "dtype"))
def eye(node: Node) -> Term:
    """Ones on a diagonal."""
    node.make_room(node.shape, "the matrix")
    rows, columns = node.shape
    return node.parameter(np.eye(rows, columns, dtype=node.dtype), "eye")
