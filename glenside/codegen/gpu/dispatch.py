"""Which kernels compute a step of a program."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

from glenside.codegen.gpu import linear_maps
from glenside.codegen.gpu.fallback import ElementNest, element_kernel
from glenside.codegen.gpu.interface import Choose, DeviceKernel, DeviceLimits, Dialect
from glenside.codegen.gpu.mapping.choose import InfeasibleMapping, best_of, chosen_mapping
from glenside.codegen.gpu.mapping.kind import Work
from glenside.codegen.gpu.mapping.kinds import ROWS, THREADS, kind_of
from glenside.codegen.gpu.rows.kernel import RowNest
from glenside.codegen.gpu.rows.mapping import RowMapping
from glenside.codegen.gpu.rows.space import RowSpace
from glenside.codegen.gpu.space import ProductSpace, product_space
from glenside.codegen.gpu.streamed.kernel import StreamedNest
from glenside.codegen.gpu.streamed.problem import problem_of
from glenside.codegen.gpu.streamed.time import best, best_on_units
from glenside.codegen.gpu.streamed.warps import WarpStreamNest
from glenside.codegen.gpu.tensor.printer import Unprintable
from glenside.codegen.kernel.builder import KernelBuilder
from glenside.codegen.program.record import Kernel
from glenside.codegen.program.rows import reduces_rows
from glenside.codegen.small_maps import small_map
from glenside.errors import TargetError

_LONG = 32
"""Elements of a single reduction from which on threads share them."""


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
    made = _streamed_kernels(builder, step, number, limits, dialect)
    if made is None:
        made = _product_kernels(builder, step, number, limits, dialect, choose)
    if made is None:
        work = row_work(builder, step, number, limits, dialect)
        if work is not None:
            made = _row_kernels(work)
        else:
            made = [element_kernel(builder, step, number, limits)]
    for kernel in made:
        limits.check(kernel)
    return made


def _streamed_kernels(
    builder: KernelBuilder, step: Kernel, number: int, limits: DeviceLimits, dialect: Dialect
) -> list[DeviceKernel] | None:
    """The kernel of a product that is computed with the rows it multiplies."""
    if step.anchor is None or step.anchor not in builder.cut.streamed:
        return None
    builder.at_step(number)
    streamed, name = builder.cut.streamed[step.anchor], f"step_{number}"
    problem = problem_of(streamed)
    if dialect == "cuda" and (on_units := best_on_units(problem, limits)) is not None:
        with contextlib.suppress(Unprintable):
            return [WarpStreamNest(builder, step, limits, streamed, on_units).device_kernel(name)]
    mapping = best(problem, limits)
    if mapping is None:
        raise TargetError(f"{limits.name} has no room for rows of {problem}")
    nest = StreamedNest(builder, step, limits, streamed, mapping)
    return [replace(nest.device_kernel(name), predicted=mapping.predicted)]


def _product_kernels(
    builder: KernelBuilder,
    step: Kernel,
    number: int,
    limits: DeviceLimits,
    dialect: Dialect,
    choose: Choose | None,
) -> list[DeviceKernel] | None:
    """The kernels of a product; None for what is no product, or cannot be mapped."""
    if step.anchor is None:
        return None
    builder.at_step(number)
    space = space_of(builder, step, limits)
    if space is None:
        return None
    work = Work(builder, step, space, f"step_{number}", limits, dialect)
    try:
        mapping = chosen_mapping(space, limits, choose)
        try:
            return kind_of(mapping).kernels(work, mapping)
        except Unprintable:
            (mapping,) = best_of(THREADS, space, limits, 1)
    except InfeasibleMapping:
        return None
    return THREADS.kernels(work, mapping)


def plain_kernel(
    builder: KernelBuilder, step: Kernel, number: int, limits: DeviceLimits, dialect: Dialect
) -> DeviceKernel:
    """The launch of a step by threads that share nothing."""
    if not _needs_rows(step):
        return element_kernel(builder, step, number, limits)
    builder.at_step(number)
    nest = RowNest(builder, step, limits, dialect)
    return nest.mapped(f"step_{number}", RowMapping(1, min(limits.warp, limits.threads_per_group)))


def _needs_rows(step: Kernel) -> bool:
    """Whether a thread for each result would go through a whole row for each."""
    anchor = step.anchor
    return step.rows is not None or (anchor is not None and anchor["function"] == "softmax")


def row_work(
    builder: KernelBuilder, step: Kernel, number: int, limits: DeviceLimits, dialect: Dialect
) -> Work[RowSpace] | None:
    """What reductions over rows there are in a step; None where there are none whose elements
    several threads should share."""
    builder.at_step(number)
    if not _needs_rows(step):
        if step.anchor is None or not step.anchor.type.size or not reduces_rows(step.anchor):
            return None
        if math.prod(step.anchor.children[0].item) < _LONG:
            return None
    nest = RowNest(builder, step, limits, dialect)
    return Work(builder, step, nest.row_space, f"step_{number}", limits, dialect)


def _row_kernels(work: Work[RowSpace]) -> list[DeviceKernel]:
    found = best_of(ROWS, work.space, work.limits, 1)
    mapping = found[0] if found else RowMapping(1, work.limits.warp)
    return ROWS.kernels(work, mapping)


def space_of(builder: KernelBuilder, step: Kernel, limits: DeviceLimits) -> ProductSpace | None:
    """The space of a step of the builder's program, None where it is no product, a small map that
    is written out, or a product that is computed with the rows it multiplies."""
    if step.anchor is None or small_map(step.anchor, builder.cut.weights) is not None:
        return None
    if step.anchor in builder.cut.streamed:
        return None
    nest = ElementNest(builder, step, limits)
    return product_space(
        step.anchor,
        nest.lowering.access,
        nest.lowering.is_leaf,
        lambda term: term in builder.cut.weights,
        nest.by_space,
        step.tail,
    )
