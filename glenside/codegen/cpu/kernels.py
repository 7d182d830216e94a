"""The compiled kernels of a program: loaded to be called, and as the library that is saved."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glenside.codegen.cpu.library import KernelLibrary
from glenside.codegen.cpu.objects import Piece, Progress, build, compile_pieces
from glenside.codegen.cpu.threads import Threads
from glenside.codegen.linking import link_objects
from glenside.codegen.plan import stored_dtype
from glenside.errors import TargetError
from glenside.interrupt import in_background

Array = np.ndarray[Any, Any]


class Kernels:
    """Kernels compiled in this process.

    Where no linker makes a library of them, LLVM's own loader does; they are linked to be saved.

    :param module: TVM's IRModule of them, ``kernel_0`` and so on; there is at least one.
    :param cpu: the processor, as LLVM calls it.
    """

    def __init__(
        self, module: Any, cpu: str, threads: Threads, progress: Progress | None = None
    ) -> None:
        self._module, self._cpu = module, cpu
        self._made: list[Piece] | None = None
        self._library: bytes | None = None
        self._loaded: KernelLibrary | _Jit
        try:
            self._made = compile_pieces(module, cpu, progress)
            with tempfile.TemporaryDirectory(prefix="glenside-") as folder:
                path = Path(folder) / "kernels.so"
                self._link(path)
                self._library = path.read_bytes()
                self._loaded = KernelLibrary(path, threads)
        except (TargetError, OSError):  # No linker, or no room for what it makes.
            self._loaded = _Jit(in_background(build, module, cpu))

    @property
    def _pieces(self) -> list[Piece]:
        if self._made is None:
            self._made = compile_pieces(self._module, self._cpu)
        return self._made

    def _link(self, path: Path) -> None:
        link_objects([each.object for each in self._pieces], path)

    def bind(self, name: str, arrays: Sequence[Array]) -> Callable[[], object]:
        """A call of a kernel with these arrays, which are contiguous vectors."""
        return self._loaded.bind(name, arrays)

    @property
    def source(self) -> str:
        """LLVM's text of them."""
        return "\n".join(each.text for each in self._pieces)

    def save(self, path: Path) -> None:
        """Writes the library.

        :raises TargetError: there is no linker, or it fails.
        :raises OSError: the disk is full.
        """
        if self._library is None:
            self._link(path)
        else:
            path.write_bytes(self._library)


class _Jit:
    """Kernels in the memory of LLVM's own loader."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def bind(self, name: str, arrays: Sequence[Array]) -> Callable[[], object]:
        import tvm_ffi

        function = self._module[name]
        tensors = [tvm_ffi.from_dlpack(a.view(stored_dtype(a.dtype.name))) for a in arrays]
        return lambda: function(*tensors)
