"""Kernels as a shared library, by whatever on this machine can link one."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from glenside.errors import TargetError

COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")
LINKERS = ("ld", "ld.lld", "ld.gold", "ld.mold")
"""What links without a compiler: kernels need nothing of its libraries."""


def find_linker() -> list[str]:
    """The command that makes a shared library of objects: ``$CXX`` or ``$CC`` where that is there,
    else a linker on the path, else a compiler.

    :raises TargetError: there is none; says what was looked for.
    """
    for variable in ("CXX", "CC"):
        command = shlex.split(os.environ.get(variable, ""))
        if command and shutil.which(command[0]):
            return [*command, "-shared", "-fPIC"]
    for name in (*LINKERS, *COMPILERS):  # A bare linker takes a tenth of a compiler's time.
        found = shutil.which(name)
        if found:
            return [found, "-shared", "-fPIC"] if name in COMPILERS else [found, "-shared"]
    raise TargetError(
        "saving compiled kernels needs a C compiler or a linker, and none is on the path: install "
        f"one of {', '.join((*COMPILERS, *LINKERS))}, or name one in $CXX"
    )


def link_objects(objects: Sequence[bytes], path: Path) -> None:
    """Writes objects as the shared library ``path``.

    What is written on the way lies beside it, and is removed.

    :raises TargetError: there is no linker, or it fails.
    :raises OSError: the disk is full.
    """
    command = find_linker()
    with tempfile.TemporaryDirectory(prefix="linking-", dir=path.parent) as work:
        names = [f"{number}.o" for number in range(len(objects))]
        for name, each in zip(names, objects, strict=True):
            (Path(work) / name).write_bytes(each)
        _run([*command, "-o", str(path.resolve()), *names], work, path, "link the kernels")


def compile_c(source: Path, path: Path) -> None:
    """Writes a file of C, with threads, as the shared library ``path``.

    :raises TargetError: there is no C compiler, or it fails.
    :raises OSError: the disk is full.
    """
    compiler = next((each for each in ("cc", "gcc", "clang") if shutil.which(each)), None)
    if compiler is None:
        raise TargetError("there is no C compiler on the path: install one of cc, gcc, clang")
    command = [compiler, "-std=gnu11", "-O2", "-shared", "-fPIC", "-pthread", "-o", str(path)]
    with tempfile.TemporaryDirectory(prefix="compiling-", dir=path.parent) as work:
        _run([*command, str(source)], work, path, f"compile {source.name}")


def _run(command: Sequence[str], work: str, path: Path, what: str) -> None:
    """Runs what makes ``path`` in the folder ``work``, which also gets its temporary files."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=work,
        env={**os.environ, "TMPDIR": work},
    )
    if done.returncode:
        if os.strerror(errno.ENOSPC) in done.stdout + done.stderr:
            raise full(path)
        said = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
        first = next((line for line in said if "error" in line), said[0])
        raise TargetError(f"{command[0]} does not {what}: {first}")


def full(path: Path) -> OSError:
    """The error of a disk without room."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
