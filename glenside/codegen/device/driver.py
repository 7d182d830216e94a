"""Launches through the CUDA driver, for what CuPy's cannot say: tensor maps, and early launches.

Programmatic stream serialization (CUDA C++ programming guide, "Programmatic Dependent Launch") lets
the groups of a kernel take their places while the kernel before it still runs, and wait there by
themselves. Captured into a graph, it stays with the graph.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from glenside.codegen.plan import Entry, TensorMap
from glenside.errors import TargetError

_SERIALIZATION = 6
"""The driver's number of the attribute."""
_ATTRIBUTE_WORDS = 8
"""Of 8 bytes each, for the value of any attribute."""
_BYTES = 128
"""Of a tensor map, which lies at a multiple of 64."""
_TYPES = {"float16": 6, "float32": 7, "bfloat16": 9}
_SWAPPED = {32: 1, 64: 2, 128: 3}
_PROMOTED = 3
"""To 256 bytes: how much the shared cache fetches at a time."""


class _Attribute(ctypes.Structure):
    _fields_ = [
        ("number", ctypes.c_uint),
        ("unused", ctypes.c_uint),
        ("value", ctypes.c_int * (2 * _ATTRIBUTE_WORDS)),
    ]


class _Configuration(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("local_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


@functools.cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        raise TargetError(f"there is no CUDA driver: {problem}") from problem


def _call(name: str, *values: Any) -> int:
    try:
        function = getattr(_driver(), name)
    except AttributeError as problem:
        raise TargetError(f"the CUDA driver has no {name}: {problem}") from problem
    return int(function(*values))


class DriverLaunch:
    """One kernel with its pointers and the maps of tensors behind them; calling launches it."""

    def __init__(
        self,
        function: int,
        entry: Entry,
        pointers: Sequence[int],
        stream: int,
        *,
        early: bool = False,
    ) -> None:
        """Writes the maps, which hold the tensors' addresses.

        :param function: the driver's handle, as ``stream`` is.
        :param early: while the kernel before it runs, for which it waits by itself.
        :raises TargetError: the driver refuses a map.
        """
        self._held: list[Any] = [ctypes.c_uint64(each) for each in pointers]
        for described in entry.maps:
            self._held.append(_encoded(described, pointers[described.argument]))
        places = [ctypes.addressof(each) for each in self._held]
        self._function = ctypes.c_void_p(function)
        self._parameters = (ctypes.c_void_p * max(len(places), 1))(*places)
        self._attribute = _Attribute(_SERIALIZATION)
        self._attribute.value[0] = 1
        self._configuration = _Configuration(
            (ctypes.c_uint * 3)(*entry.grid),
            (ctypes.c_uint * 3)(*entry.block),
            entry.local_bytes,
            stream,
            ctypes.pointer(self._attribute),
            int(early),
        )

    def __call__(self) -> None:
        """Launches; :raises TargetError: the driver does not."""
        where = ctypes.byref(self._configuration)
        code = _call("cuLaunchKernelEx", where, self._function, self._parameters, None)
        if code:
            raise TargetError(f"the CUDA driver does not launch a kernel: error {code}")


def _encoded(described: TensorMap, pointer: int) -> Any:
    raw = (ctypes.c_uint8 * (_BYTES + 64))()
    shift = -ctypes.addressof(raw) % 64
    made = (ctypes.c_uint8 * _BYTES).from_buffer(raw, shift)
    rank = len(described.sizes)
    code = _call(
        "cuTensorMapEncodeTiled",
        ctypes.c_void_p(ctypes.addressof(made)),
        _TYPES[described.dtype],
        ctypes.c_uint32(rank),
        ctypes.c_void_p(pointer + described.offset),
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
