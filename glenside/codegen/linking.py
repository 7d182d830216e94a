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
from typing import Any

from glenside.errors import TargetError

COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")
LINKERS = ("ld", "ld.lld", "ld.gold", "ld.mold")
"""What links without a compiler: kernels need nothing of its libraries."""


def find_linker() -> list[str]:
    """The command that makes a shared library of objects: ``$CXX`` or ``$CC`` where that is there,
    else a compiler on the path, else a bare linker.

    :raises TargetError: there is none; says what was looked for.
    """
    for variable in ("CXX", "CC"):
        command = shlex.split(os.environ.get(variable, ""))
        if command and shutil.which(command[0]):
            return [*command, "-shared", "-fPIC"]
    for name in (*COMPILERS, *LINKERS):
        found = shutil.which(name)
        if found:
            return [found, "-shared", "-fPIC"] if name in COMPILERS else [found, "-shared"]
    raise TargetError(
        "saving compiled kernels needs a C compiler or a linker, and none is on the path: install "
        f"one of {', '.join((*COMPILERS, *LINKERS))}, or name one in $CXX"
    )


def link_library(library: Any, path: Path) -> None:
    """Writes what TVM compiled as the shared library ``path``.

    What is written on the way lies beside it, and is removed.

    :raises TargetError: there is no linker, or it fails.
    :raises OSError: the disk is full.
    """
    command = find_linker()
    # Where LLVM cannot write an object it ends the process, so room is looked for before. Object
    # and library together take half of what the text of their code does.
    if shutil.disk_usage(path.parent).free < len(library.mod.inspect_source("ll")):
        raise _full(path)
    with tempfile.TemporaryDirectory(prefix="linking-", dir=path.parent) as work:

        def link(output: str, objects: Sequence[str], **_: Any) -> None:
            done = subprocess.run(
                [*command, "-o", output, *objects],
                capture_output=True,
                text=True,
                errors="replace",
                env={**os.environ, "TMPDIR": work},
            )
            if done.returncode:
                if os.strerror(errno.ENOSPC) in done.stdout + done.stderr:
                    raise _full(path)
                said = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
                first = next((line for line in said if "error" in line), said[0])
                raise TargetError(f"{command[0]} does not link the kernels: {first}")

        library.export_library(str(path), fcompile=link, workspace_dir=work)


def _full(path: Path) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
