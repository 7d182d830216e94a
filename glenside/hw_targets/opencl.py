"""OpenCL devices as targets: C source for any OpenCL 1.2 driver, run through pyopencl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glenside.hw_targets.gpu import GpuTarget
from glenside.hw_targets.target import TargetKind

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import DeviceLimits, Dialect


class OpenCLTarget(GpuTarget):
    """The machine's OpenCL device, or a named one to compile for."""

    dialect: Dialect = "opencl"

    def read_limits(self) -> DeviceLimits:
        """From the driver."""
        from glenside.codegen.device.limits import opencl_limits

        return opencl_limits()


DECLARED = (
    TargetKind(
        "opencl",
        "an OpenCL device (GPU, or PoCL on the processor); "
        "opencl:mali-g72 compiles for a named one",
        OpenCLTarget,
    ),
)
