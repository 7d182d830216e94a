"""Kernels of products (``dot``) with staged tiles, mapped by constraints."""

from __future__ import annotations

from glenside.hw_targets.codegen.gpu.interface import Choose, DeviceKernel, DeviceLimits, Dialect
from glenside.hw_targets.codegen.kernels import KernelBuilder
from glenside.hw_targets.codegen.partition import Kernel


def product_kernels(
    builder: KernelBuilder,
    step: Kernel,
    number: int,
    limits: DeviceLimits,
    dialect: Dialect,
    choose: Choose | None,
) -> list[DeviceKernel] | None:
    """The kernels of a product; None for what is no product."""
    return None
