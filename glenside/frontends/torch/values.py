"""PyTorch's values as ours: dtypes, arrays that share their memory, plain arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.errors import ModelError
from glenside.frontends.refusal import Refused
from glenside.language import DTYPES, AccessType
from glenside.language.shape import BFLOAT16

Array = np.ndarray[Any, Any]


def dtype_name(dtype: Any) -> str:
    """``float32`` for ``torch.float32``.

    :raises Refused: there is no such dtype here.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise Refused(f"dtype {name} is not supported; {', '.join(DTYPES)} are")
    return name


def type_of(value: Any) -> AccessType | None:
    """Shape and dtype of a tensor; None for what is none.

    :raises Refused: its dtype has no meaning here, or its lengths are not fixed.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        return None
    if not all(isinstance(length, int) for length in value.shape):
        raise Refused(f"shape {tuple(value.shape)} depends on the data; shapes are fixed here")
    return AccessType(tuple(value.shape), (), dtype_name(value.dtype))


def as_array(tensor: Any, name: str) -> Array:
    """A tensor as an array: in the same memory where that is the processor's.

    :raises ModelError: it is not dense, holds nothing, or is of an unsupported dtype.
    """
    import torch

    held = tensor.detach()
    if held.layout != torch.strided or held.is_quantized:
        kind = "quantised" if held.is_quantized else str(held.layout).removeprefix("torch.")
        raise ModelError(f"tensor {name!r} is {kind}; dense tensors are supported")
    if held.device.type == "meta":
        raise ModelError(f"tensor {name!r} is on the device meta and holds nothing: load it first")
    try:
        dtype_name(held.dtype)
    except Refused as problem:
        raise ModelError(f"tensor {name!r}: {problem}") from None
    held = held.cpu().resolve_neg()
    if held.dtype == torch.bfloat16:
        return np.asarray(held.view(torch.int16).numpy().view(BFLOAT16))
    return np.asarray(held.numpy())


def as_tensor(array: Any) -> Any:
    """An array as a tensor in the same memory."""
    import torch

    if isinstance(array, torch.Tensor):
        return array
    array = np.asarray(array)
    if not array.flags.writeable or any(step < 0 for step in array.strides):
        array = array.copy()
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def plain(value: Any) -> Any:
    """An argument of the graph that is no node: dtypes by name, lists as tuples."""
    import torch

    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, torch.device | torch.layout | torch.memory_format):
        return str(value)
    return value
