"""Launches that may begin while the one before them ends, through the CUDA driver.

CuPy's launches have no attributes. Programmatic stream serialization (CUDA C++ programming guide,
"Programmatic Dependent Launch") is one: the groups of a kernel take their places while the kernel
before it still runs, and wait there by themselves. Captured into a graph, it stays with the graph.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

_SERIALIZATION = 6
"""The driver's number of the attribute."""
_ATTRIBUTE_WORDS = 8
"""Of 8 bytes each, for the value of any attribute."""


class _Attribute(ctypes.Structure):
    _fields_ = [
        ("number", ctypes.c_uint),
        ("unused", ctypes.c_uint),
        ("value", ctypes.c_int * (2 * _ATTRIBUTE_WORDS)),
    ]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("local_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


class Driver:
    """The function of CUDA's driver that launches with attributes."""

    def __init__(self) -> None:
        """Raises :class:`OSError` or :class:`AttributeError` where the driver has none."""
        self._launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
        self._launch.restype = ctypes.c_int

    def launch(
        self,
        function: int,
        grid: Sequence[int],
        block: Sequence[int],
        local_bytes: int,
        addresses: Sequence[int],
        stream: int,
    ) -> None:
        """Launches ``function`` on ``addresses``, early.

        :param function: the driver's handle, of a kernel that waits for those before it.
        :raises RuntimeError: the driver refuses; says its error's number.
        """
        values = [ctypes.c_uint64(each) for each in addresses]
        pointers = (ctypes.c_void_p * max(len(values), 1))(
            *(ctypes.cast(ctypes.byref(each), ctypes.c_void_p) for each in values)
        )
        attribute = _Attribute(_SERIALIZATION)
        attribute.value[0] = 1
        launch = _Launch(
            (ctypes.c_uint * 3)(*grid),
            (ctypes.c_uint * 3)(*block),
            local_bytes,
            stream,
            ctypes.pointer(attribute),
            1,
        )
        error = self._launch(ctypes.byref(launch), ctypes.c_void_p(function), pointers, None)
        if error:
            raise RuntimeError(f"the CUDA driver's error {error} at a launch")
