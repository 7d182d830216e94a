"""TVM, loaded with no more than kernels take, and the threads that saved programs bring."""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from glenside import disk_cache
from glenside.codegen.cpu.threads import LIBRARY, Threads, tvm_threads
from glenside.codegen.linking import compile_c
from glenside.errors import TargetError
from glenside.needs import COMPILER

_LATE = "tvm.relax"
_SOURCE = Path(__file__).with_name("threads.c")


class _Late(importlib.abc.MetaPathFinder):
    """Has a module of TVM loaded when something of it is first asked for: TVM imports Relax, a
    third of its loading time, which kernels never use."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _LATE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def load_tvm() -> Threads:
    """Loads TVM once; returns what its runtime shares loops by.

    :raises TargetError: it is not installed.
    """
    threads = tvm_threads()  # First: it reads its thread settings once.
    if threads is None:
        raise TargetError(f"programs are compiled with TVM: {COMPILER}")
    if "tvm" not in sys.modules:
        late = _Late()
        sys.meta_path.insert(0, late)
        try:
            import tvm  # noqa: F401
        finally:
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(late)
    return threads


def write_threads(folder: Path) -> None:
    """Writes the library by which a saved program shares its loops where TVM is not installed; none
    where there is no C compiler: loops are run by one thread there."""
    made = _threads_library()
    if made is not None:
        (folder / LIBRARY).write_bytes(made)


@functools.cache
def _threads_library() -> bytes | None:
    key = disk_cache.key_of([_SOURCE.read_bytes(), sys.platform])
    found = disk_cache.get("threads", key)
    if found is None:
        with tempfile.TemporaryDirectory(prefix="glenside-") as work:
            path = Path(work) / LIBRARY
            try:
                compile_c(_SOURCE, path)
            except (TargetError, OSError):
                return None
            found = path.read_bytes()
        disk_cache.put("threads", key, found)
    return found
