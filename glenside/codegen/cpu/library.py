"""Kernels of a shared library, called by their address: all it takes is ``ctypes``.

TVM's compiled functions take an array of tagged values, here pointers to DLPack's tensors, and call
what shares their loops among threads through pointers in the library that its loader sets.
"""

from __future__ import annotations

import _ctypes
import ctypes
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glenside.codegen.cpu.threads import Threads
from glenside.codegen.plan import stored_dtype

Array = np.ndarray[Any, Any]

PREFIX = "__tvm_ffi_"
"""Before the name of a function in its library."""
_TENSOR = 7
"""The tag of a pointer to a tensor."""
_CPU = 1
_KINDS = {"i": 0, "u": 1, "f": 2}
"""DLPack's numbers of kinds of elements; bools and bfloat16 are given as their bits."""
_SET = ("TVMBackendParallelLaunch", "TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace")


class _Tensor(ctypes.Structure):
    """DLPack's ``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Value(ctypes.Structure):
    """TVM FFI's ``TVMFFIAny``."""

    _fields_ = (
        ("tag", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("pointer", ctypes.c_void_p),
    )


class KernelLibrary:
    """A loaded library of kernels, which is unloaded with this object and what it bound.

    Loading it runs code of it.

    :param threads: what shares loops among threads.
    """

    def __init__(self, path: Path, threads: Threads) -> None:
        self._library = ctypes.CDLL(str(path))
        self._threads = threads
        handle = self._library._handle  # noqa: SLF001  (ctypes has no other way to unload one.)
        weakref.finalize(self, _ctypes.dlclose, handle).atexit = False
        for name in _SET:
            try:
                pointer = ctypes.c_void_p.in_dll(self._library, f"__{name}")
            except ValueError:
                continue  # Its kernels do not call it.
            pointer.value = threads.address(name)

    def bind(self, name: str, arrays: Sequence[Array]) -> Callable[[], None]:
        """A call of a kernel with these arrays, which are contiguous vectors.

        :raises ValueError: the library has no such kernel.
        """
        try:
            function = getattr(self._library, PREFIX + name)
        except AttributeError as problem:
            raise ValueError(f"its library has no kernel {name!r}") from problem
        tensors = [_tensor(each) for each in arrays]
        values = (_Value * len(tensors))(
            *(_Value(_TENSOR, 0, ctypes.addressof(each)) for each in tensors)
        )
        result = _Value()
        # What is called holds all that it points to, and the library.
        held = self, arrays, tensors
        function.argtypes = None
        arguments = (None, ctypes.byref(values), len(tensors), ctypes.byref(result))

        def call(held: object = held) -> None:
            if function(*arguments):
                raise RuntimeError(f"the kernel {name} failed")

        return call


def _tensor(array: Array) -> _Tensor:
    stored = array.view(stored_dtype(array.dtype.name))
    shape = (ctypes.c_int64 * 1)(stored.size)
    dtype = stored.dtype
    made = _Tensor(
        stored.ctypes.data, _CPU, 0, 1, _KINDS[dtype.kind], dtype.itemsize * 8, 1, shape, None, 0
    )
    return made
