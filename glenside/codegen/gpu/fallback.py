"""One thread for every element of a kernel's result: right for every term, fast for few.

Threads follow the order in which results lie in memory. A reduction is a loop inside its thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits
from glenside.codegen.kernels import KernelBuilder, Nest
from glenside.codegen.loops import (
    Expr,
    Index,
    Stmt,
    allocate,
    declare,
    get,
    put,
    repeat,
    sequence,
    unflatten,
)
from glenside.codegen.program.record import Kernel
from glenside.codegen.totals import Totals
from glenside.codegen.views import row_major
from glenside.language.term import Term

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
            name, made.arguments, self.grid, self.block, function, writes=made.writes
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

    def _over_space(
        self, work: int, tile: int, body: Callable[[Index, int, list[tuple[int, int]]], Stmt]
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

    def softmax(self, anchor: Term) -> Stmt:
        """Three passes over each row; its powers are computed twice rather than stored."""
        (child,) = anchor.children
        length = child.item[0]
        dtype = scalars.wide(anchor.dtype)

        def load(index: Index, k: Any) -> Expr:
            value = self.lowering.scoped(lambda: self.lowering.access(child).load([*index, k]))
            return scalars.convert(value, child.dtype, dtype)

        def row(index: Index) -> Stmt:
            top = declare("top", 1, dtype, local=True)
            totals = Totals("total", 1, dtype, "sum", length, lambda work: work(0))

            def power(k: Any) -> Expr:
                return scalars.apply("exp", load(index, k) - get(top, 0), dtype)

            def result(k: Any) -> Stmt:
                value = power(k) / get(totals.final, 0)
                return self.store([*index, k], scalars.convert(value, dtype, anchor.dtype))

            find = repeat(
                length,
                lambda k: self.lowering.statement(
                    lambda: scalars.maximum(
                        get(top, 0), self.lowering.name(load(index, k), dtype), dtype
                    ),
                    lambda value: put(top, 0, value),
                ),
            )

            def add(item: Index) -> Stmt:
                total = totals.current
                return put(total, 0, get(total, 0) + power(item[0]))

            return sequence(
                [
                    allocate(top),
                    *totals.start(),
                    put(top, 0, scalars.const(-math.inf, dtype)),
                    find,
                    totals.loops([length], add),
                    repeat(length, result),
                ]
            )

        return self.rows([*self.space[:-1]], row, 0)
