"""CUDA C to machine code by NVIDIA's compiler, on machines with or without a GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from glenside import disk_cache
from glenside.codegen.device.device import Code
from glenside.errors import TargetError

_OPTIONS = ("-O3", "-std=c++17", "--split-compile=0")


def find_nvcc() -> str | None:
    """Where nvcc is: on the path, or in ``CUDA_HOME`` or ``CUDA_PATH``."""
    found = shutil.which("nvcc")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if found is None and os.environ.get(variable):
            found = shutil.which("nvcc", path=str(Path(os.environ[variable]) / "bin"))
    return found


def compiled(source: str, architecture: str) -> Code:
    """CUDA C with its machine code for an architecture, ``sm_90`` say.

    :raises TargetError: as :func:`compile_cubin`.
    """
    if "wgmma." in source:  # What only this very architecture has needs its name with an "a".
        architecture = f"{architecture.removesuffix('a')}a"
    return Code(source, compile_cubin(source, architecture), architecture)


def compile_cubin(source: str, architecture: str, options: Sequence[str] = ()) -> bytes:
    """Machine code of CUDA C for an architecture, ``sm_90`` say; ``options`` are nvcc's.

    :raises TargetError: there is no nvcc, or it refuses the source; says its first complaint.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        raise TargetError(
            "nvcc is not on the path and CUDA_HOME is not set: install the CUDA toolkit, or run "
            "where CuPy is, which compiles the source itself"
        )
    told = os.stat(nvcc)
    key = disk_cache.key_of(
        [nvcc, f"{told.st_size} {told.st_mtime_ns}", architecture, *_OPTIONS, *options, source]
    )
    found = disk_cache.get("cubins", key)
    if found is not None:
        return found
    with tempfile.TemporaryDirectory(prefix="glenside-nvcc-") as folder:
        file, binary = Path(folder) / "kernels.cu", Path(folder) / "kernels.cubin"
        file.write_text(source, encoding="utf-8")
        command = [nvcc, "-cubin", f"-arch={architecture}", *_OPTIONS, *options]
        done = subprocess.run(
            [*command, "-o", str(binary), str(file)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            first = next((line for line in lines if re.search(r"error|warning", line)), "")
            said = (first or (lines or ["no message"])[-1]).replace(str(file), file.name)
            raise TargetError(f"nvcc for {architecture}: {said}")
        made = binary.read_bytes()
    disk_cache.put("cubins", key, made)
    return made
