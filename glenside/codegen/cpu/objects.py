"""Kernels as machine code: TIR functions to objects, several at a time, kept on disk.

An object is found again by the hash of what it is made of: the functions, the processor, and the
versions of what compiles them.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from glenside import disk_cache
from glenside.codegen.cpu.threads import available_threads
from glenside.codegen.linking import full
from glenside.interrupt import in_background

Progress = Callable[[str, int, int], None]

_PIECE = 8
"""Kernels that are compiled at a time; Ctrl-C and limits are looked at in between."""
_PASSES = (
    "s_tir.StmtSimplify",
    "tirx.FlattenBuffer",
    "tirx.BF16ComputeLegalize",
    "tirx.NarrowDataType 32",
    "s_tir.LoopPartition",
    "tirx.VectorizeLoop 1",
    "tirx.StorageRewrite",
    "s_tir.HoistIfThenElse",
    "tirx.UnrollLoop",
    "s_tir.RenormalizeSplitPattern",
    "tirx.StmtSimplify",
    "tirx.RemoveNoOp",
    "s_tir.RewriteUnsafeSelect",
    "tirx.AnnotateEntryFunc",
    "tirx.MakePackedAPI",
    "tirx.BF16StorageLegalize",
    "tirx.LowerTVMBuiltin",
    "tirx.LowerIntrin",
    # What a kernel is given is held against its signature when a program is made or loaded.
    "tirx.SkipAssert",
)
"""TVM's default pipeline for a processor, in its order, but for passes over what our kernels do not
have: blocks, threads of a device, shared memory. Nor is there ``CommonSubexprElim``, which can use
a common subexpression before it defines it; LLVM shares them anyway."""
_SIZE = 8
"""Bytes in an entry of the cache that tell the size of its object."""


@dataclass(frozen=True)
class Piece:
    """Some kernels of a program, compiled."""

    object: bytes
    packed_text: bytes
    """LLVM's text of them, compressed."""

    @property
    def text(self) -> str:
        """LLVM's text of them."""
        return zlib.decompress(self.packed_text).decode()

    def to_bytes(self) -> bytes:
        """As the cache keeps it."""
        return len(self.object).to_bytes(_SIZE, "little") + self.object + self.packed_text

    @staticmethod
    def from_bytes(data: bytes) -> Piece:
        """What :meth:`to_bytes` made of one."""
        end = _SIZE + int.from_bytes(data[:_SIZE], "little")
        return Piece(data[_SIZE:end], data[end:])


def compile_pieces(module: Any, cpu: str, progress: Progress | None = None) -> list[Piece]:
    """The module's kernels, compiled or found on disk.

    :param module: TVM's IRModule of them.
    :param cpu: the processor, as LLVM calls it.
    :raises OSError: there is no room on the disk.
    """
    names = [each.name_hint for each in module.get_global_vars()]
    names.sort(key=lambda name: int(name.rpartition("_")[2]))
    parts = [names[first : first + _PIECE] for first in range(0, len(names), _PIECE)]
    made: list[Piece] = []
    # One part waits for nobody but itself: the main thread looks at Ctrl-C meanwhile.
    pool = ThreadPoolExecutor(min(available_threads(), len(parts)), "glenside kernels")
    try:
        waiting = [pool.submit(_piece, part_of(module, part), cpu) for part in parts]
        for number, each in enumerate(waiting):
            if progress:
                progress("compile", number * _PIECE, len(names))
            made.append(in_background(each.result))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return made


def part_of(module: Any, names: Sequence[str]) -> Any:
    """The module's functions of these names, as a module."""
    import tvm

    return tvm.IRModule({name: module[name] for name in names})


def build(part: Any, cpu: str) -> Any:
    """TVM's runtime module of an IRModule, not yet machine code."""
    import tvm

    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu})
    lowered = tvm.tirx.transform.BindTarget(target.with_host(target))(part)
    for each in _PASSES:
        lowered = _pass(each)(lowered)
    return tvm.get_global_func("target.build.llvm")(lowered, target)


@functools.cache
def _pass(said: str) -> Any:
    import tvm

    name, *options = said.split()
    dialect, _, name = name.partition(".")
    return tvm.get_global_func(f"{dialect}.transform.{name}")(*map(int, options))


def _piece(part: Any, cpu: str) -> Piece:
    import tvm

    key = disk_cache.key_of([*_compiler(), cpu, str(tvm.ir.save_json(part))])
    found = disk_cache.get("kernels", key)
    if found is not None:
        return Piece.from_bytes(found)
    built = build(part, cpu)
    text = _without_addresses(str(built.inspect_source("ll")))
    with _room(len(text)) as folder:
        path = folder / "kernels.o"
        built.write_to_file(str(path), "o")
        made = Piece(path.read_bytes(), zlib.compress(text.encode(), 1))
    disk_cache.put("kernels", key, made.to_bytes())
    return made


@functools.cache
def _compiler() -> tuple[str, ...]:
    """What the code of the same functions depends on beside the processor."""
    packages = (f"{name} {version(name)}" for name in ("apache-tvm", "apache-tvm-ffi"))
    return (*packages, *_PASSES)


@contextmanager
def _room(size: int) -> Iterator[Path]:
    """A new folder, removed behind, with that much room: where LLVM cannot write an object it ends
    the process. An object takes less than the text of its code."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    if shutil.disk_usage(where).free < size:
        where = Path(tempfile.gettempdir())
    if shutil.disk_usage(where).free < size:
        raise full(where)
    with tempfile.TemporaryDirectory(prefix="glenside-", dir=where) as folder:
        yield Path(folder)


def _without_addresses(source: str) -> str:
    """TVM names alias classes by the addresses of buffers, which differ from run to run."""
    numbers: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        return f'"buffer{numbers.setdefault(match[1], len(numbers))}'

    return re.sub(r'"(0x[0-9a-f]+)', numbered, source)
