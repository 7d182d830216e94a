"""What of Glenside is installed here, what devices and compilers there are, and what is missing for
which target."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from glenside.errors import GlensideError

PACKAGES = ("numpy", "egglog", "apache-tvm", "onnx", "ortools")
"""What every installation has."""

EXTRAS = {
    "host": ("onnxruntime", "ONNX operators without an access-pattern meaning"),
    "torch": ("torch", "PyTorch's modules and torch.compile"),
    "rules": ("hypothesis", "rewrite rules on random programs"),
    "prove": ("z3-solver", "rewrite rules proved for all sizes"),
    "explore": ("altair", "charts and the notebook widget"),
}
"""By extra: the distribution that it is for, and what for."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    part: str
    """``package``, ``extra``, ``tool`` or ``target``."""
    name: str
    found: bool
    told: str
    """Its version or place; where it is missing, what it is for and what would bring it."""


def examine() -> list[Finding]:
    """Looks at this machine. Nothing is compiled or run."""
    return [*_packages(), *_extras(), *_tools(), *_targets()]


def as_json(findings: list[Finding]) -> dict[str, Any]:
    """The findings and the machine as plain data."""
    return {"machine": machine(), "findings": [asdict(each) for each in findings]}


def machine() -> str:
    """The machine in a line."""
    return (
        f"Glenside {metadata.version('glenside')}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, {len(os.sched_getaffinity(0))} cores"
    )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        version = _version(name)
        yield Finding("package", name, version is not None, version or "pip install glenside")


def _extras() -> Iterator[Finding]:
    for extra, (distribution, purpose) in EXTRAS.items():
        version = _version(distribution)
        missing = f"for {purpose}: pip install 'glenside[{extra}]'"
        told = f"{distribution} {version}" if version else missing
        yield Finding("extra", extra, version is not None, told)


def _tools() -> Iterator[Finding]:
    yield _tried("tool", "linker", _linker)
    yield _tried("tool", "nvcc", _nvcc)


def _linker() -> str:
    from glenside.codegen.linking import find_linker

    return " ".join(find_linker())


def _nvcc() -> str:
    from glenside.codegen.device.nvcc import find_nvcc

    found = find_nvcc()
    if found is None:
        raise GlensideError("for cuda:ARCHITECTURE: install NVIDIA's CUDA toolkit")
    return str(found)


def _targets() -> Iterator[Finding]:
    yield _tried("target", "cpu", lambda: platform.processor() or platform.machine())
    yield _tried("target", "opencl", _opencl)
    yield _tried("target", "cuda", _cuda)


def _opencl() -> str:
    from glenside.codegen.device.opencl import find_device

    return str(find_device().name).strip()


def _cuda() -> str:
    from glenside.codegen.device.cuda import CudaDevice

    return CudaDevice().name


def _tried(part: str, name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(part, name, True, look())
    except GlensideError as problem:
        return Finding(part, name, False, str(problem))
