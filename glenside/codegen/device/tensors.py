"""Tensors of other packages (PyTorch, CuPy) that lie on a device, given and taken by DLPack."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from glenside.errors import InputError

if TYPE_CHECKING:
    from glenside.codegen.device.cuda import CudaDevice
    from glenside.language import AccessType

_CUDA = 2
"""DLPack's number of CUDA devices."""


def on_cuda(value: object) -> bool:
    """Whether a value is a tensor in a CUDA device's memory."""
    place = getattr(value, "__dlpack_device__", None)
    return place is not None and int(place()[0]) == _CUDA


def check(name: str, value: Any, wanted: AccessType) -> Any:
    """The tensor, if it has the shape and dtype of the input.

    :raises InputError: it has not.
    """
    dtype = str(value.dtype).rpartition(".")[2]
    if tuple(value.shape) != wanted.shape or dtype != wanted.dtype:
        raise InputError(
            f"input {name!r} must be {wanted.dtype} of shape {wanted.shape}, "
            f"got {dtype} of shape {tuple(value.shape)}"
        )
    return value.detach() if hasattr(value, "detach") else value


def handed_over(arrays: Sequence[Any], like: Any, device: CudaDevice) -> list[Any]:
    """CuPy's arrays as tensors of the package that ``like`` is of."""
    device.hand_over()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return [torch.from_dlpack(array) for array in arrays]
    return list(arrays)
