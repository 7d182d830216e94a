"""What a program runs on: targets, accelerator units and code generation.

Importing this package registers the targets and units that ship with it.
"""

from glenside.hw_targets import (
    cpu,
    cuda,
    flexasr,
    hlscnn,
    opencl,
    systolic_array,
    systolic_convolution,
    tensor_core,
    vta,
)
from glenside.hw_targets.accelerator import Accelerator
from glenside.hw_targets.target import Target, find_target, register_target, targets

__all__ = [
    "Accelerator",
    "Target",
    "cpu",
    "cuda",
    "find_target",
    "flexasr",
    "hlscnn",
    "opencl",
    "register_target",
    "systolic_array",
    "systolic_convolution",
    "targets",
    "tensor_core",
    "vta",
]
