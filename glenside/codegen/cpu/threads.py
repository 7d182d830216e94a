"""Who shares the loops of kernels among threads: TVM's runtime where it is installed, the library
that saved programs bring (``threads.c``), or nobody.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

LIBRARY = "threads.so"
"""In the folder of a saved program."""

_Launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_Part = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_Allocate = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_int, ctypes.c_int
)
_Free = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


def available_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """The functions that kernels call, by name, and how many threads share a loop.

    :param functions: by their names in TVM's runtime; ctypes' functions, loaded or made.
    :param set_count: sets that number; None where there is one thread whatever is asked for.
    """

    def __init__(
        self, functions: Mapping[str, Any], set_count: Callable[[int], object] | None = None
    ) -> None:
        self._functions = dict(functions)
        self._set_count = set_count
        self._count: int | None = None

    def address(self, name: str) -> int | None:
        """Where a function is."""
        return ctypes.cast(self._functions[name], ctypes.c_void_p).value

    def use(self, count: int) -> None:
        """That many threads share a loop from now on."""
        if count != self._count and self._set_count is not None:
            self._set_count(count)
            self._count = count


class OwnThreads(Threads):
    """Those of ``threads.c``."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        functions = {name: getattr(library, name) for name in _NAMES}
        super().__init__(functions, library.glenside_threads)


class TvmThreads(Threads):
    """Those of TVM's runtime."""

    def __init__(self, library: Path) -> None:
        import tvm_ffi

        # Threads stay where the system puts them: pinning would also bind the caller's thread.
        os.environ.setdefault("TVM_BIND_THREADS", "0")
        os.environ.setdefault("TVM_NUM_THREADS", str(available_threads()))
        loaded = ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
        configure = tvm_ffi.get_global_func("runtime.config_threadpool")
        functions = {name: getattr(loaded, name) for name in _NAMES}
        super().__init__(functions, lambda count: configure(1, count))


_NAMES = ("TVMBackendParallelLaunch", "TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace")


class _Group(ctypes.Structure):
    _fields_ = (("sync", ctypes.c_void_p), ("tasks", ctypes.c_int32))


def _launch(part: int, data: int | None, tasks: int) -> int:
    return int(_Part(part)(0, ctypes.addressof(_ALONE), data))


_ALONE = _Group(None, 1)
_held: dict[int, Any] = {}
"""Memory of kernels by its address."""


def _allocate(kind: int, device: int, size: int, code: int, bits: int) -> int:
    memory = ctypes.create_string_buffer(size + 64)
    start = -(-ctypes.addressof(memory) // 64) * 64
    _held[start] = memory
    return start


def _free(kind: int, device: int, memory: int) -> int:
    del _held[memory]
    return 0


@functools.cache
def one_thread() -> Threads:
    """No other thread: the caller runs whole loops."""
    made = (_Launch(_launch), _Allocate(_allocate), _Free(_free))
    return Threads(dict(zip(_NAMES, made, strict=True)))


@functools.cache
def tvm_threads() -> Threads | None:
    """TVM's runtime; None where it is not installed."""
    if importlib.util.find_spec("tvm_ffi") is None:
        return None
    found = importlib.util.find_spec("tvm")
    where = list(found.submodule_search_locations or []) if found else []
    paths = [Path(each) / "lib" / "libtvm_runtime.so" for each in where]
    path = next((each for each in paths if each.is_file()), None)
    return None if path is None else TvmThreads(path)


_own: OwnThreads | None = None


def threads_of(program: Path) -> Threads:
    """Who shares the loops of the program saved in this folder. One library serves them all."""
    global _own
    path = program / LIBRARY
    if _own is None and path.is_file():
        _own = OwnThreads(path)
    return _own or tvm_threads() or one_thread()
