"""Loop nests of a processor: one TIR function for every kernel of a program.

The nests are written out directly, tile by tile: full tiles and edge tiles are separate bodies, so
no inner loop tests a bound, and accumulators are local arrays that LLVM keeps in registers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.cpu import schedule
from glenside.codegen.kernel.builder import Argument, KernelBuilder, Launch
from glenside.codegen.kernel.nest import Nest
from glenside.codegen.loops import (
    Expr,
    Index,
    Stmt,
    allocate,
    declare,
    get,
    nested,
    prim_func,
    put,
    repeat,
    sequence,
    shifted,
    spread,
    unflatten,
)
from glenside.codegen.lower import write
from glenside.codegen.program.record import Cut, Fill, Kernel
from glenside.codegen.totals import Totals
from glenside.codegen.views import axis_size, row_major
from glenside.language.term import Term


class LoopBuilder(KernelBuilder):
    """Builds a program's functions for a processor."""

    def __init__(self, cut: Cut, machine: schedule.Machine) -> None:
        super().__init__(cut)
        self.machine = machine

    def fill(self, fill: Fill) -> Launch:
        """Writes the margins of a buffer."""
        buffer = self.memory.buffers[fill.buffer]
        target = declare("out", buffer.size, buffer.dtype)
        view = fill.view
        loops = [
            (axis_size(axis), axis[-1][1] if axis else 0, margin)
            for axis, margin in zip(view.axes, view.margins, strict=True)
        ]
        loops.sort(key=lambda each: -each[1])
        start = view.offset - sum(m.before * stride for _, stride, m in loops if m)
        value = scalars.const(view.fill, buffer.dtype)
        slabs = []
        for k, (size, stride, margin) in enumerate(loops):
            if margin is None:
                continue
            for low, count in ((0, margin.before), (margin.before + size, margin.after)):
                if not count:
                    continue
                extents = [
                    count if j == k else n + (m.before + m.after if m else 0)
                    for j, (n, _, m) in enumerate(loops)
                ]
                strides = [s for _, s, _ in loops]

                def blank(index: Index, strides: list[int], at: int) -> Stmt:
                    for position, step in zip(index, strides, strict=True):
                        at = at + position * step
                    return write(target, at, value, buffer.dtype)

                slab = functools.partial(blank, strides=strides, at=start + low * stride)
                slabs.append(nested(extents, slab))
        return Launch(prim_func([target], sequence(slabs)), [Argument(fill.buffer, 0, buffer.size)])


class LoopNest(Nest):
    """A kernel whose loops run along vectors and are shared among threads."""

    builder: LoopBuilder

    def __init__(self, builder: LoopBuilder, kernel: Kernel) -> None:
        super().__init__(builder, kernel)
        self.machine = builder.machine

    def body(self) -> Stmt:
        """The loops that compute the kernel."""
        anchor = self.kernel.anchor
        if anchor is not None and anchor["function"] == "softmax":
            return self.softmax(anchor)
        return super().body()

    def lanes(self, dtype: str) -> int:
        """Lanes of a vector loop; scalar loops are long, for LLVM to vectorise."""
        return self.machine.lanes(dtype) if self.lowering.vectorised else 64

    def run(self, length: int, dtype: str, body: Callable[[Any], Stmt]) -> Stmt:
        """A loop of any length, vectorised."""
        lanes = self.lanes(dtype)
        full, rest = divmod(length, lanes)
        parts = []
        if full:
            parts.append(
                repeat(full, lambda t: self.vector(lanes, lambda lane: body(t * lanes + lane)))
            )
        if rest:
            edge = schedule.pieces(rest, lanes)
            parts.append(self.vectors(edge, lambda at, lane: body(full * lanes + at + lane)))
        return sequence(parts)

    def rows(self, extents: Sequence[int], body: Callable[[Index], Stmt], work: int) -> Stmt:
        """Loops over the leading axes of the space."""
        return shared(extents, body) if schedule.is_parallel(work) else nested(extents, body)

    def _axes(self) -> tuple[list[int], int | None]:
        """The space's axes of length above 1, outermost first, and the one vectors run along."""
        view = self.by_space or row_major(self.space)
        inner = [axis[-1][1] if axis else 0 for axis in view.axes]
        axes = [k for k, n in enumerate(self.space) if n > 1]
        axes.sort(key=lambda k: -inner[k])
        return (axes[:-1], axes[-1]) if axes else ([], None)

    def over_space(
        self, work: int, dtype: str, body: Callable[[Index, int, list[tuple[int, int]]], Stmt]
    ) -> Stmt:
        """Loops over the space. ``body(index, axis, pieces)`` treats a run along the last axis."""
        outer, inner = self._axes()
        lanes, tile = self.lanes(self.tail.dtype), 4 * self.lanes(dtype)
        base: Index = [0] * len(self.space)
        if inner is None:
            return body(base, -1, [(0, 1)])
        length = self.space[inner]
        full, rest = length // tile, length % tile

        def runs(index: Index) -> list[Stmt]:
            parts = []
            if full:
                whole = schedule.pieces(tile, lanes)
                if full == 1:
                    parts.append(body(index, inner, whole))
                else:
                    parts.append(
                        repeat(full, lambda t: body(shifted(index, inner, t * tile), inner, whole))
                    )
            if rest:
                edge = schedule.pieces(rest, lanes)
                parts.append(body(shifted(index, inner, full * tile), inner, edge))
            return parts

        extents = [self.space[k] for k in outer]
        parallel = schedule.is_parallel(work)
        if parallel and math.prod(extents) < 4 and full >= 4:
            # One long axis: its tiles are shared among the threads.
            def along(index: Index) -> Stmt:
                whole = schedule.pieces(tile, lanes)
                main = repeat(
                    full,
                    lambda t: body(shifted(index, inner, t * tile), inner, whole),
                    parallel=True,
                )
                if not rest:
                    return main
                edge = schedule.pieces(rest, lanes)
                return sequence([main, body(shifted(index, inner, full * tile), inner, edge)])

            return nested(extents, lambda i: along(spread(base, outer, i)))
        loops = shared if parallel else nested
        return loops(extents, lambda i: sequence(runs(spread(base, outer, i))))

    def softmax(self, anchor: Term) -> Stmt:
        """Softmax of the items, each shifted by its maximum."""
        (child,) = anchor.children
        length = child.item[0]
        dtype = scalars.wide(anchor.dtype)
        outer = list(range(len(self.space) - 1))
        extents = [self.space[k] for k in outer]

        def load(index: Index, k: Any) -> Expr:
            return scalars.convert(
                self.lowering.access(child).load([*index, k]), child.dtype, dtype
            )

        def row(index: Index) -> Stmt:
            scalar = declare("state", 1, dtype, local=True)
            totals = Totals("total", 1, dtype, "sum", length, lambda work: work(0))
            powers = declare("powers", length, dtype, local=True, scope="global")
            lowest = scalars.const(-math.inf, dtype)
            find = repeat(
                length,
                lambda k: self.lowering.statement(
                    lambda: scalars.maximum(
                        get(scalar, 0), self.lowering.name(load(index, k), dtype), dtype
                    ),
                    lambda value: put(scalar, 0, value),
                ),
            )
            raise_ = self.run(
                length,
                dtype,
                lambda k: self.lowering.statement(
                    lambda: scalars.apply("exp", load(index, k) - get(scalar, 0), dtype),
                    lambda value: put(powers, k, value),
                ),
            )

            def add(item: Index) -> Stmt:
                total = totals.current
                return put(total, 0, get(total, 0) + get(powers, item[0]))

            write_ = self.run(
                length,
                dtype,
                lambda k: self.store(
                    [*index, k],
                    scalars.convert(get(powers, k) / get(totals.final, 0), dtype, anchor.dtype),
                ),
            )
            return sequence(
                [
                    allocate(scalar),
                    allocate(powers),
                    put(scalar, 0, lowest),
                    *totals.start(),
                    find,
                    raise_,
                    totals.loops([length], add),
                    write_,
                ]
            )

        return self.rows(extents, row, 8 * anchor.type.size)


def shared(extents: Sequence[int], body: Callable[[Index], Stmt]) -> Stmt:
    """Nested loops, of which enough outer ones are fused to occupy all threads."""
    if not extents:
        return body([])
    count = schedule.parallel_prefix(extents)
    return fused(
        extents[:count],
        lambda first: nested(extents[count:], lambda rest: body([*first, *rest])),
    )


def fused(extents: Sequence[int], body: Callable[[Index], Stmt]) -> Stmt:
    """Loops over a fused index, split up inside; threads get equal runs of it."""
    from tvm import tirx

    total = math.prod(extents)
    if total == 1:
        return body([0] * len(extents))
    variable = tirx.Var("f", "int32")
    return tirx.For(variable, 0, total, tirx.ForKind.PARALLEL, body(unflatten(variable, extents)))
