"""CUDA devices as targets: compiled by nvcc, with or without a GPU, and run through CuPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from glenside.errors import TargetError
from glenside.hw_targets.gpu import GpuTarget
from glenside.hw_targets.target import TargetKind

if TYPE_CHECKING:
    from glenside.codegen.device.device import Code
    from glenside.codegen.gpu.interface import DeviceLimits, Dialect


class CudaTarget(GpuTarget):
    """The machine's GPU, or an architecture to compile for."""

    dialect: Dialect = "cuda"

    def read_limits(self) -> DeviceLimits:
        """From the driver."""
        from glenside.codegen.device.limits import cuda_limits

        try:
            return cuda_limits()
        except TargetError as problem:
            raise TargetError(
                f"{problem}; to compile for a GPU elsewhere, name its architecture, as cuda:sm_90"
            ) from problem

    def admitted(self, limits: DeviceLimits) -> DeviceLimits:
        """Without nvcc no matrix units: CuPy compiles for what all devices of a generation have."""
        from glenside.codegen.device.nvcc import find_nvcc

        return limits if find_nvcc() is not None else replace(limits, tensor_peak={})

    def builder(self) -> Callable[[str], Code]:
        """nvcc where it is installed; else the source is left to the GPU's machine (NVRTC)."""
        from glenside.codegen.device.device import Code
        from glenside.codegen.device.nvcc import compiled, find_nvcc

        architecture = self.limits.architecture
        if find_nvcc() is None:
            return Code
        return lambda source: compiled(source, architecture)


DECLARED = (
    TargetKind(
        "cuda",
        "an NVIDIA GPU, through nvcc and CuPy; cuda:sm_90 for one elsewhere, cuda:tf32 rounds",
        CudaTarget,
    ),
)
