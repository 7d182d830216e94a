"""Calls of the CUDA driver that CuPy does not offer: tensor maps, and kernels that take them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from glenside.errors import TargetError
from glenside.hw_targets.codegen.launch import Entry, TensorMap

_BYTES = 128
"""Of a tensor map, which lies at a multiple of 64."""
_TYPES = {"float16": 6, "float32": 7, "bfloat16": 9}
_SWAPPED = {32: 1, 64: 2, 128: 3}
_PROMOTED = 3
"""To 256 bytes: how much the shared cache fetches at a time."""


@functools.cache
def _driver() -> Any:
    try:
        library = ctypes.CDLL("libcuda.so.1")
        encode = library.cuTensorMapEncodeTiled
        launch = library.cuLaunchKernel
    except (OSError, AttributeError) as problem:
        raise TargetError(f"the CUDA driver has no tensor maps: {problem}") from problem
    pointer, word = ctypes.c_void_p, ctypes.c_uint32
    encode.argtypes = [pointer, word, word, *[pointer] * 5, *[word] * 4]
    launch.argtypes = [pointer, *[word] * 7, pointer, pointer, pointer]
    return library


class MappedLaunch:
    """One kernel with its pointers and the maps of tensors behind them; calling launches it."""

    def __init__(self, function: int, entry: Entry, pointers: Sequence[int], stream: int) -> None:
        """Writes the maps, which hold the tensors' addresses.

        :param function: the driver's handle, as ``stream`` is.
        :raises TargetError: the driver refuses a map.
        """
        self._held: list[Any] = [ctypes.c_uint64(each) for each in pointers]
        for described in entry.maps:
            self._held.append(_encoded(described, pointers[described.argument]))
        places = [ctypes.addressof(each) for each in self._held]
        self._parameters = (ctypes.c_void_p * len(places))(*places)
        self._numbers = (function, *entry.grid, *entry.block, entry.local_bytes, stream)

    def __call__(self) -> None:
        """Launches; :raises TargetError: the driver does not."""
        code = _driver().cuLaunchKernel(*self._numbers, self._parameters, None)
        if code:
            raise TargetError(f"the CUDA driver does not launch a kernel: error {code}")


def _encoded(described: TensorMap, pointer: int) -> Any:
    raw = (ctypes.c_uint8 * (_BYTES + 64))()
    shift = -ctypes.addressof(raw) % 64
    made = (ctypes.c_uint8 * _BYTES).from_buffer(raw, shift)
    rank = len(described.sizes)
    code = _driver().cuTensorMapEncodeTiled(
        ctypes.addressof(made),
        _TYPES[described.dtype],
        rank,
        pointer + described.offset,
        (ctypes.c_uint64 * rank)(*described.sizes),
        (ctypes.c_uint64 * max(rank - 1, 1))(*described.strides),
        (ctypes.c_uint32 * rank)(*described.box),
        (ctypes.c_uint32 * rank)(*described.steps),
        0,
        _SWAPPED[described.line],
        _PROMOTED,
        0,
    )
    if code:
        raise TargetError(f"the CUDA driver refuses a map of a tensor, error {code}: {described}")
    return made
