"""Kernels of small constant maps (:mod:`~glenside.codegen.small_maps`): all rows of an
item in one thread.

A thread reads one item into registers and computes every row of it, with the matrix written out in
the code: zeros are left out, ones not multiplied by, and factors act along one axis after the
other. Neighbouring threads compute neighbouring items, in the order in which results lie in memory.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits
from glenside.codegen.kernel.builder import KernelBuilder
from glenside.codegen.loops import (
    Expr,
    Index,
    Stmt,
    allocate,
    get,
    put,
    sequence,
    vectorised,
)
from glenside.codegen.program.record import Kernel
from glenside.codegen.small_maps import SmallMap, small_map

Array = np.ndarray[Any, Any]


def map_kernel(
    builder: KernelBuilder, step: Kernel, number: int, limits: DeviceLimits
) -> DeviceKernel | None:
    """The launch of a step that is such a map, the one of that number; None for other steps."""
    found = small_map(step.anchor, builder.cut.weights)
    if found is None:
        return None
    builder.at_step(number)
    return LinearMapNest(builder, step, limits, found).device_kernel(f"step_{number}")


class LinearMapNest(ElementNest):
    """A thread for every item."""

    def __init__(
        self, builder: KernelBuilder, step: Kernel, limits: DeviceLimits, found: SmallMap
    ) -> None:
        super().__init__(builder, step, limits)
        assert step.anchor is not None
        self.anchor, self.map = step.anchor, found
        self.inner = scalars.wide(step.anchor.dtype)
        count, rank = len(found.rows), len(self.space)
        places = list(range(rank))
        self.row_axes = places[:count] if found.first else places[rank - count :]
        self.free_axes = places[count:] if found.first else places[: rank - count]

    def body(self) -> Stmt:
        """Threads in the order of the results."""
        steps = self.strides or [0] * len(self.space)
        order = sorted(self.free_axes, key=lambda axis: -steps[axis])

        def item(position: Index) -> Stmt:
            from tvm import tirx

            free: Index = [0] * len(self.space)
            bound = []
            for axis, at in zip(order, position, strict=True):
                if not isinstance(at, int):
                    variable = tirx.Var("at", "int32")
                    bound.append(tirx.Bind(variable, at))
                    at = variable
                free[axis] = at
            return sequence([*bound, *self._item(free)])

        return self.spread([self.space[axis] for axis in order], item)

    # --- computing ----------------------------------------------------------------------------

    def _item(self, free: Index) -> list[Stmt]:
        """What one thread does: values of the item, then along one axis after the other."""
        found = self.map
        position = [free[axis] for axis in self.free_axes]
        whole = len(found.factors) == 1
        shape = [factor.shape[1] for factor in found.factors]
        rounds = [list(shape)]
        for axis, factor in enumerate(found.factors):
            rounds.append([*rounds[-1][:axis], factor.shape[0], *rounds[-1][axis + 1 :]])
        cells = [
            launching.registers(f"v{k}", math.prod(each), self.inner)
            for k, each in enumerate(rounds)
        ]
        body = [allocate(each) for each in cells]

        def load(taps: Sequence[int]) -> Stmt:
            flat = int(np.ravel_multi_index(tuple(taps), shape))
            item = list(np.unravel_index(flat, found.taps)) if whole else list(taps)

            def value() -> Expr:
                index = [*position, *map(int, item)]
                loaded = self.lowering.value(found.operand, index)
                loaded = scalars.convert(loaded, found.operand.dtype, self.anchor.dtype)
                return scalars.convert(loaded, self.anchor.dtype, self.inner)

            return self.lowering.statement(value, lambda result: put(cells[0], flat, result))

        # What a first product needs is read right before it.
        first = found.factors[0]
        for others in itertools.product(*map(range, shape[1:])):
            body += [load((tap, *others)) for tap in range(first.shape[1])]
            body += self._along(0, first, cells, rounds, ((), others))
        for axis, factor in enumerate(found.factors[1:], 1):
            before = itertools.product(*map(range, rounds[axis][:axis]))
            after = list(itertools.product(*map(range, rounds[axis][axis + 1 :])))
            for place in itertools.product(before, after):
                body += self._along(axis, factor, cells, rounds, place)
        return [*body, *self._results(free, cells[-1])]

    def _along(
        self,
        axis: int,
        factor: Array,
        cells: Sequence[Any],
        rounds: Sequence[Sequence[int]],
        place: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> list[Stmt]:
        """One matrix times one vector, at a place along the axes before and after."""
        before, after = place

        def at(number: int, position: int) -> int:
            index = (*before, position, *after)
            return int(np.ravel_multi_index(index, tuple(rounds[number])))

        made = []
        for row, weights in enumerate(factor):
            total: Expr = None
            for tap in _ones_first(weights):
                value, weight = get(cells[axis], at(axis, tap)), float(weights[tap])
                if abs(weight) != 1:
                    value = value * scalars.const(abs(weight), self.inner)
                if total is None:
                    total = value if weight > 0 else scalars.const(0, self.inner) - value
                else:
                    total = total + value if weight > 0 else total - value
            if total is None:
                total = scalars.const(0, self.inner)
            made.append(put(cells[axis + 1], at(axis + 1, row), total))
        return made

    # --- results ------------------------------------------------------------------------------

    def _results(self, free: Index, cell: Any) -> list[Stmt]:
        rows = self.map.rows
        width = self.width
        computed, stored = [], []
        late = self.stores_late and self.tail.dtype == self.inner
        for flat in range(0, math.prod(rows), width):
            digits = np.unravel_index(flat, rows)
            index = list(free)
            for axis, digit in zip(self.row_axes, digits, strict=True):
                index[axis] = int(digit)

            def place(lane: Any, index: Index = index, flat: int = flat) -> tuple[Index, Any]:
                at = list(index)
                last = self.row_axes[-1]
                at[last] = at[last] + lane
                return at, flat + lane if not isinstance(lane, int) else flat + int(lane)

            def compute(lane: Any, place: Any = place) -> Stmt:
                at, here = place(lane)
                value = get(cell, here)
                self.give(scalars.convert(value, self.inner, self.anchor.dtype))
                if not late:
                    return self.store_inside(at)
                return self.compute_inside(at, lambda made: put(cell, here, made))

            def store(lane: Any, place: Any = place) -> Stmt:
                at, here = place(lane)
                return self.store_inside(at, get(cell, here))

            guard = self.inside(index)
            self.lowering.vectorised = width > 1
            computed.append(launching.guarded(guard, vectorised(width, compute)))
            if late:
                stored.append(launching.guarded(guard, vectorised(width, store)))
            self.lowering.vectorised = False
        return computed + stored

    @functools.cached_property
    def strides(self) -> list[int] | None:
        """How far apart results are in memory along each axis; None where that varies."""
        start: Index = [0] * len(self.space)
        zero = self._address(start)
        steps = []
        for axis, size in enumerate(self.space):
            if size == 1:
                steps.append(0)
                continue
            steps.append(self._address([*start[:axis], 1, *start[axis + 1 :]]) - zero)
            end = self._address([*start[:axis], size - 1, *start[axis + 1 :]])
            if end - zero != steps[-1] * (size - 1):
                return None
        return steps

    def _address(self, index: Index) -> int:
        return int(self.target.view.address(self.tail_index(index)))

    @functools.cached_property
    def width(self) -> int:
        """Neighbouring results that a thread stores at once."""
        tail = self.tail
        if not self.lowering.vectorisable(tail) or tail.dtype != "float32":
            return 1
        if self.inner != "float32" or self.strides is None or not self.row_axes:
            return 1
        last = self.row_axes[-1]
        if self.strides[last] != 1:
            return 1
        others = [
            step for axis, step in enumerate(self.strides) if axis != last and step
        ]  # fmt: skip
        edges = [tail.shape[axis] for axis in self.edges]
        start = self._address([0] * len(self.space))
        for width in (4, 2):
            if all(n % width == 0 for n in (*others, *edges, start, self.space[last])):
                return width
        return 1


def _ones_first(weights: Array) -> list[int]:
    """The taps that count; positive ones that need no multiplication before the others."""
    taps = [tap for tap, weight in enumerate(weights) if weight]
    return sorted(taps, key=lambda tap: (weights[tap] != 1, weights[tap] < 0))
