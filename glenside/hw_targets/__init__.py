"""What a program runs on: targets, accelerator units and code generation.

Importing this package registers the targets and units that ship with it.
"""

from glenside.hw_targets import (
    amx,
    cpu,
    cuda,
    flexasr,
    hlscnn,
    opencl,
    systolic_array,
    systolic_convolution,
    tensor_core,
    timing,
    vta,
)
from glenside.hw_targets.accelerator import Accelerator
from glenside.hw_targets.expansion import expand
from glenside.hw_targets.target import Target, find_target, register_target, targets

__all__ = [
    "Accelerator",
    "Target",
    "amx",
    "cpu",
    "cuda",
    "expand",
    "find_target",
    "flexasr",
    "hlscnn",
    "opencl",
    "register_target",
    "systolic_array",
    "systolic_convolution",
    "targets",
    "tensor_core",
    "timing",
    "vta",
]
