"""One thread for every element of a kernel's result: right for every term, fast for few.

Threads follow the order in which results lie in memory. A reduction is a loop inside its thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen.gpu import launching
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits
from glenside.codegen.kernel.builder import KernelBuilder
from glenside.codegen.kernel.nest import Nest
from glenside.codegen.loops import (
    Index,
    Stmt,
    unflatten,
)
from glenside.codegen.program.record import Kernel
from glenside.codegen.views import row_major

_GROUP = 128
"""Threads of a group, where nothing speaks for another number."""


def element_kernel(
    builder: KernelBuilder, step: Kernel, number: int, limits: DeviceLimits
) -> DeviceKernel:
    """The launch that computes a step of a program, the one of that number."""
    builder.at_step(number)
    return ElementNest(builder, step, limits).device_kernel(f"step_{number}")


class ElementNest(Nest):
    """A nest whose outer loops are the threads of a launch."""

    predicted: float | None = None
    """Seconds that its mapping is predicted to take, if it has one."""

    def __init__(self, builder: KernelBuilder, step: Kernel, limits: DeviceLimits) -> None:
        super().__init__(builder, step)
        self.limits = limits
        self.lowering.vectorised = False  # Every thread computes scalars.
        self.grid, self.block = (1, 1, 1), (1, 1, 1)

    def device_kernel(self, name: str) -> DeviceKernel:
        """The whole launch."""
        made = self.finish(self.body())
        function = made.function.with_attr("global_symbol", name)
        return DeviceKernel(
            name,
            made.arguments,
            self.grid,
            self.block,
            function,
            writes=made.writes,
            predicted=self.predicted,
        )

    def spread(self, extents: Sequence[int], body: Callable[[Index], Stmt]) -> Stmt:
        """A thread for each position; what does not fill the last group is masked."""
        from tvm import tirx

        size = math.prod(extents)
        most = min(self.limits.threads_per_group, self.limits.group_size[0], _GROUP)
        count = min(most, -(-size // self.limits.warp) * self.limits.warp)
        groups = -(-size // count)
        self.grid, self.block = (groups, 1, 1), (count, 1, 1)

        def thread(group: Sequence[Any], position: Any) -> Stmt:
            flat = group[0] * count + position
            inside = body(unflatten(flat, extents))
            guard = None if groups * count == size else tirx.LT(flat, size)
            return launching.guarded(guard, inside)

        return launching.launch([groups], count, thread)

    def over_space(
        self, work: int, dtype: str, body: Callable[[Index, int, list[tuple[int, int]]], Stmt]
    ) -> Stmt:
        view = self.by_space or row_major(self.space)
        inner = [axis[-1][1] if axis else 0 for axis in view.axes]
        order = sorted(range(len(self.space)), key=lambda k: -inner[k])

        def element(position: Index) -> Stmt:
            index: Index = [0] * len(order)
            for axis, at in zip(order, position, strict=True):
                index[axis] = at
            return body(index, -1, [(0, 1)])

        return self.spread([self.space[axis] for axis in order], element)

    def rows(self, extents: Sequence[int], body: Callable[[Index], Stmt], work: int) -> Stmt:
        return self.spread(extents, body)
