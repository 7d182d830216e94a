"""Long reductions to few results: several threads share the terms of each result.

Each of them adds up every so manieth term, and what they find is combined through local memory,
always in the same order. Threads lie along what is adjacent in memory: along the terms of one
result (softmax over the last axis, pooling of NCHW images) or along results (pooling of NHWC ones).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits
from glenside.codegen.kernels import KernelBuilder
from glenside.codegen.loops import (
    Expr,
    Index,
    Stmt,
    allocate,
    declare,
    get,
    put,
    sequence,
    unflatten,
)
from glenside.codegen.program.record import Kernel
from glenside.codegen.totals import Totals
from glenside.codegen.views import row_major
from glenside.language.functions import FUNCTIONS
from glenside.language.term import Term

_GROUP = 256
"""Threads of a group."""
_EACH = 4
"""Terms that a thread should have at least."""
_LONG = 32
"""Terms from which on they are shared."""
_UNROLLED = 32
"""Terms of a thread up to which they are written out."""
_ADJACENT = 32
"""Adjacent results that a group computes where threads lie along results."""


def shared_kernel(
    builder: KernelBuilder, step: Kernel, number: int, limits: DeviceLimits
) -> DeviceKernel | None:
    """The launch that computes a step of a program; None where a thread for each result does as
    well, or the step has no such reduction."""
    anchor = step.anchor
    if anchor is None or not anchor.type.size:
        return None
    if anchor["function"] != "softmax" and FUNCTIONS[anchor["function"]].kind != "reduce":
        return None
    if anchor["function"] in ("argmax", "argmin"):
        return None
    builder.at_step(number)
    nest = RowNest(builder, step, limits, anchor)
    return nest.device_kernel(f"step_{number}") if nest.team > 1 else None


class RowNest(ElementNest):
    """The kernel of one reduction: ``team`` threads a result."""

    def __init__(
        self, builder: KernelBuilder, step: Kernel, limits: DeviceLimits, anchor: Term
    ) -> None:
        super().__init__(builder, step, limits)
        self.anchor = anchor
        self.softmaxes = anchor["function"] == "softmax"
        (child,) = anchor.children
        if self.softmaxes:
            self.results: tuple[int, ...] = self.space[:-1]
            self.terms: tuple[int, ...] = (child.item[0],)
        else:
            _, self.terms, _ = self._reduced(anchor)
            self.results = self.space
        self.order = self._reduce_order(child, len(self.terms))
        self.extents = [self.terms[k] for k in self.order]
        self.term_count, self.result_count = math.prod(self.terms), math.prod(self.results)
        self.along_terms = self._along_terms(child)
        self.width, self.team = self._shape()

    def _along_terms(self, child: Term) -> bool:
        """Whether neighbouring terms are nearer in memory than those of neighbouring results."""
        view = self.lowering.access(child).view
        if view is None or not self.order:
            return True
        item = view.axes[-len(self.terms) :]
        nearest = item[self.order[-1]]
        results = view.axes[: len(self.results)]
        steps = [axis[-1][1] for axis in results if axis and axis[-1][1]]
        return not nearest or not steps or nearest[-1][1] <= min(steps)

    def _shape(self) -> tuple[int, int]:
        """Results of a group and threads of a result; 1 of these where sharing gains nothing."""
        limits = self.limits
        most = min(_GROUP, limits.threads_per_group, limits.group_size[0])
        lanes = 1 if self.along_terms else min(_ADJACENT, most, self.result_count)
        team = 1
        resident = limits.compute_units * limits.unit_threads
        while (
            self.term_count >= _LONG
            and 2 * team * lanes <= most
            and 2 * team * _EACH <= self.term_count
            and 2 * team * self.result_count <= resident
        ):
            team *= 2
        if self.along_terms:
            # Short rows share a group, of whole warps.
            while lanes * team < limits.warp and lanes < self.result_count and 2 * lanes <= most:
                lanes *= 2
        return lanes, team

    def body(self) -> Stmt:
        """The whole launch."""
        count = self.width * self.team
        groups = -(-self.result_count // self.width)
        self.grid, self.block = (groups, 1, 1), (count, 1, 1)
        return launching.launch([groups], count, self._thread)

    def _thread(self, group: Sequence[Any], thread: Any) -> Stmt:
        from tvm import tirx

        if self.along_terms:
            lane, self.member = thread // self.team, thread % self.team
            self.stride = 1
        else:
            lane, self.member = thread % self.width, thread // self.width
            self.stride = self.width
        self.place = thread
        self.first = thread - self.member * self.stride
        flat = group[0] * self.width + lane
        exact = self.result_count % self.width == 0
        self.exists = None if exact else tirx.LT(flat, self.result_count)
        # All threads come to the barriers; those without a result repeat the last one.
        index = self._result(flat if exact else tirx.min(flat, self.result_count - 1))
        return self._softmax_row(index) if self.softmaxes else self._row(index)

    def _result(self, flat: Any) -> Index:
        """The index of a result, by its place in the order of memory."""
        if self.softmaxes:
            return unflatten(flat, self.results)
        view = self.by_space or row_major(self.space)
        inner = [axis[-1][1] if axis else 0 for axis in view.axes]
        order = sorted(range(len(self.space)), key=lambda k: -inner[k])
        index: Index = [0] * len(order)
        for axis, at in zip(order, unflatten(flat, [self.space[k] for k in order]), strict=True):
            index[axis] = at
        return index

    def _each(self, body: Callable[[Index], Stmt], totals: Totals | None = None) -> Stmt:
        """``body`` for the positions of this thread's terms, which it may add to ``totals``."""
        from tvm import tirx

        def one(turn: Any) -> Stmt:
            flat = turn * self.team + self.member
            position: Index = [0] * len(self.order)
            for axis, at in zip(self.order, unflatten(flat, self.extents), strict=True):
                position[axis] = at
            return body(position)

        # Rounds that all threads take part in test nothing, so that fetches of several are under
        # way at a time.
        whole, rest = divmod(self.term_count, self.team)
        loop = launching.unrolled if whole <= _UNROLLED else launching.serial
        all_ = loop(whole, one)
        if totals is not None and whole > _UNROLLED:
            all_ = totals.loops([whole], lambda turn: one(turn[0]))
        elif totals is not None:
            all_ = totals.block(all_)
        if not rest:
            return all_
        left = launching.guarded(tirx.LT(self.member, rest), one(whole))
        return sequence([all_, left if totals is None else totals.block(left)])

    def _totals(self, dtype: str, step: str) -> Totals:
        """The total of this thread's terms."""
        turns = -(-self.term_count // self.team)
        return Totals("total", 1, dtype, step, turns, lambda work: work(0))

    def _combined(self, total: Any, step: str, dtype: str) -> list[Stmt]:
        """Statements after which every thread of a team has the team's total in ``total``."""
        from tvm import tirx

        buffer = self.local
        steps = [put(buffer, self.place, get(total, 0)), launching.barrier()]
        half = self.team // 2
        while half:
            other = get(buffer, self.place + half * self.stride)
            value = scalars.accumulate(step, get(buffer, self.place), other, dtype)
            add = put(buffer, self.place, value)
            steps += [launching.guarded(tirx.LT(self.member, half), add), launching.barrier()]
            half //= 2
        return [*steps, put(total, 0, get(buffer, self.first))]

    def _row(self, index: Index) -> Stmt:
        anchor = self.anchor
        _, inner = self._accumulator(anchor)
        step, _, element = self._reduced(anchor)
        totals = self._totals(inner, step)
        total = totals.current
        self.local = launching.shared("totals", self.width * self.team, inner)

        def add(item: Index) -> Stmt:
            def value() -> Expr:
                new = self.lowering.name(element(index, item), inner)
                return scalars.accumulate(step, get(total, 0), new, inner)

            return self.lowering.statement(value, lambda result: put(total, 0, result))

        self.give(self._finished(anchor, get(totals.final, 0)))
        return sequence(
            [
                allocate(self.local),
                *totals.start(),
                self._each(add, totals),
                *self._combined(totals.final, step, inner),
                self._by_first(self.store(index)),
            ]
        )

    def _by_first(self, body: Stmt) -> Stmt:
        from tvm import tirx

        mine = tirx.EQ(self.member, 0)
        return launching.guarded(mine if self.exists is None else tirx.all(mine, self.exists), body)

    def _softmax_row(self, index: Index) -> Stmt:
        """Three passes over the row, as one thread would make them."""
        (child,) = self.anchor.children
        dtype = scalars.wide(self.anchor.dtype)
        top = declare("top", 1, dtype, local=True)
        totals = self._totals(dtype, "sum")
        total = totals.current
        self.local = launching.shared("totals", self.width * self.team, dtype)

        def load(k: Any) -> Expr:
            value = self.lowering.scoped(lambda: self.lowering.access(child).load([*index, k]))
            return scalars.convert(value, child.dtype, dtype)

        def power(k: Any) -> Expr:
            return scalars.apply("exp", load(k) - get(top, 0), dtype)

        def find(item: Index) -> Stmt:
            return self.lowering.statement(
                lambda: scalars.maximum(
                    get(top, 0), self.lowering.name(load(item[0]), dtype), dtype
                ),
                lambda value: put(top, 0, value),
            )

        def add(item: Index) -> Stmt:
            return put(total, 0, get(total, 0) + power(item[0]))

        def result(item: Index) -> Stmt:
            value = power(item[0]) / get(totals.final, 0)
            return self.store([*index, item[0]], scalars.convert(value, dtype, self.anchor.dtype))

        return sequence(
            [
                allocate(self.local),
                allocate(top),
                *totals.start(),
                put(top, 0, scalars.const(-math.inf, dtype)),
                self._each(find),
                *self._combined(top, "max", dtype),
                launching.barrier(),
                self._each(add, totals),
                *self._combined(totals.final, "sum", dtype),
                launching.guarded(self.exists, self._each(result)),
            ]
        )
