"""Which kernels compute a step: those of a small map, of a product, of rows, or one for each
element."""

from __future__ import annotations

from glenside.codegen.gpu import fallback, linear_maps, products, rows
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect
from glenside.codegen.gpu.mapping.choose import Choose
from glenside.codegen.kernels import KernelBuilder
from glenside.codegen.program.record import Kernel


def make_kernels(
    builder: KernelBuilder,
    step: Kernel,
    number: int,
    limits: DeviceLimits,
    dialect: Dialect,
    choose: Choose | None = None,
) -> list[DeviceKernel]:
    """The launches of step ``number`` of the builder's program, in order.

    :param choose: names the mapping of products; by default the predicted best.
    :raises TargetError: the device lacks a dtype, or a limit does not admit any kernel.
    """
    mapped = linear_maps.map_kernel(builder, step, number, limits)
    if mapped is not None:
        limits.check(mapped)
        return [mapped]
    made = products.product_kernels(builder, step, number, limits, dialect, choose)
    if made is None:
        shared = rows.shared_kernel(builder, step, number, limits)
        made = [shared or fallback.element_kernel(builder, step, number, limits)]
    for kernel in made:
        limits.check(kernel)
    return made
