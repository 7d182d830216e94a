"""Multiplying: fragments of both operands go to registers, and their products to sums there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.space import Operand
from glenside.codegen.gpu.threads.parts.boxes import Box
from glenside.codegen.gpu.threads.parts.local_memory import LocalMemory, Part
from glenside.codegen.gpu.threads.parts.operands import Operands, stored_dtype, stored_value
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


@dataclass(frozen=True)
class Fragment:
    """Runs of the streamed operand in a thread's registers: by the turns of its loops, then by the
    base's dimensions, in units of the steps that occur."""

    buffer: Any
    axes: list[int]
    turns: list[int]
    runs: list[int]
    units: list[int]


class Multiplication:
    """Adds a stage's products to the sums of a thread, ``total``."""

    def __init__(self, operands: Operands, box: Box, memory: LocalMemory, total: Any) -> None:
        self.operands, self.box, self.memory, self.total = operands, box, memory, total
        self.placement, self.lowering = operands.placement, operands.lowering
        self.product, self.tiling = self.placement.product, self.placement.tiling
        self.mapping, self.packed = self.placement.mapping, operands.packed

    def stage(self, stage: Index, number: Any) -> Stmt:
        """The products of one stage, whose operands are at the place of that number."""
        resident, streamed = self.memory.resident, self.memory.streamed
        tile = None if resident is None else resident.at(number)
        box = None if streamed is None else streamed.at(number)
        run_window = self.box.run[1]
        windows = {w for axis in self.placement.n for w in self.product.windows_of(axis)}
        outer = [k for k in self.placement.reduced if k not in windows]
        inner = [k for k in self.placement.reduced if k in windows and k != run_window]
        steps = {
            k: self.mapping.chunk[k] // self.mapping.threads[k] for k in self.placement.reduced
        }
        fragment = self._fragment()
        rows = launching.registers("row", self._resident_sums, stored_dtype(self.product.resident))

        def at(axis: int, step: Any) -> Any:
            count = self.mapping.threads[axis]
            return step * count + self.placement.thread_at[axis] if count > 1 else step

        def within(places: dict[int, Any]) -> Stmt:
            load = self._load_fragment(fragment, places, stage, box)

            def innermost(window: Any) -> Stmt:
                here = dict(places)
                if run_window is not None:
                    here[run_window] = window
                return sequence(
                    [
                        self._load_rows(rows, here, stage, tile),
                        self._accumulate(fragment, rows, window),
                    ]
                )

            if run_window is None:
                return sequence([load, innermost(0)])
            return sequence([load, launching.unrolled(steps[run_window], innermost)])

        def windowed(places: dict[int, Any]) -> Stmt:
            return launching.unrolled_nest(
                [steps[k] for k in inner],
                lambda index: within(
                    {**places, **{k: at(k, i) for k, i in zip(inner, index, strict=True)}}
                ),
                most=16,
            )

        nest = launching.serial_nest(
            [steps[k] for k in outer],
            lambda index: windowed({k: at(k, i) for k, i in zip(outer, index, strict=True)}),
        )
        return sequence([allocate(fragment.buffer), allocate(rows), nest])

    @property
    def _resident_sums(self) -> int:
        return math.prod(
            self.mapping.registers[k] for k in [*self.product.of("batch"), *self.placement.m]
        )

    def _fragment(self) -> Fragment:
        """What of the streamed operand a thread holds at a time."""
        streamed, mapping = self.product.streamed, self.mapping
        window = self.box.run[1]
        own = [*self.product.of("batch"), *self.placement.n]
        turns = [self.placement.turns(k) for k in own]
        runs, units = [], []
        for d in range(len(streamed.shape)):
            moves = [(streamed.steps[k][d], mapping.vector[k]) for k in own]
            if window is not None:
                moves.append((streamed.steps[window][d], mapping.chunk[window]))
            moves = [(step, count) for step, count in moves if step and count > 1]
            unit = math.gcd(*(step for step, _ in moves)) if moves else 1
            units.append(unit)
            runs.append(1 + sum(step * (count - 1) for step, count in moves) // unit)
        buffer = launching.registers(
            "run", math.prod(turns) * math.prod(runs), stored_dtype(streamed)
        )
        return Fragment(buffer, own, turns, runs, units)

    def _load_fragment(
        self, fragment: Fragment, places: dict[int, Any], stage: Index, box: Part | None
    ) -> Stmt:
        """The streamed operand's elements for one reduced position, or a window's."""
        streamed = self.product.streamed
        sizes = [*fragment.turns, *fragment.runs]
        window = self.box.run[1]

        def load(index: Index) -> Stmt:
            turns, runs = index[: len(fragment.axes)], index[len(fragment.axes) :]
            flat: Any = 0
            for size, at in zip(sizes, index, strict=True):
                flat = flat * size + at
            offset: list[Any] = [run * unit for run, unit in zip(runs, fragment.units, strict=True)]
            moving = {k: self.placement.in_tile(k, turn, 0) for k, turn in
                      zip(fragment.axes, turns, strict=True)}  # fmt: skip
            moving |= {k: at for k, at in places.items() if k != window}
            for axis, at in moving.items():
                for d, step in enumerate(streamed.steps[axis]):
                    if step:
                        offset[d] = offset[d] + at * step
            if box is not None:
                address: Any = 0
                for d, at in enumerate(offset):
                    if self.tiling.extents[d] > 1:
                        address = address + at * self.box.pitch[d]
                return put(fragment.buffer, flat, box.get(address))
            start = self.box.start(self.placement, stage)
            place = [a + b for a, b in zip(start, offset, strict=True)]
            tests = self.box.tests(self.placement, place, offset, stage)
            return self.lowering.statement(
                lambda: self.operands.element(streamed, place, tests),
                lambda value: put(fragment.buffer, flat, stored_value(value, streamed)),
            )

        return launching.unrolled_nest(sizes, load)

    def _load_rows(
        self, rows: Any, places: dict[int, Any], stage: Index, tile: Part | None
    ) -> Stmt:
        """The resident operand's elements for one reduced position."""
        tiling, mapping = self.tiling, self.mapping
        own = [*self.product.of("batch"), *self.placement.m]
        sizes = [n for k in own for n in (self.placement.turns(k), mapping.vector[k])]
        wide = mapping.vector[own[-1]] if own else 1
        flat_k: Any = 0
        for axis in self.placement.reduced:
            flat_k = flat_k * tiling.tile[axis] + places[axis]

        def load(index: Index, lane: Any) -> Stmt:
            full = [*index, lane] if own else []
            at: Any = flat_k
            where = {}
            target: Any = 0
            for number, axis in enumerate(own):
                turn, vector = full[2 * number], full[2 * number + 1]
                where[axis] = self.placement.in_tile(axis, turn, vector)
                at = at * tiling.tile[axis] + where[axis]
                target = target * self.placement.turns(axis) + turn
                target = target * mapping.vector[axis] + vector
            if tile is not None:
                return put(rows, target, tile.get(at))
            if self.packed is not None:
                return put(rows, target, get(self.packed.buffer, self.packed.start(stage) + at))
            where |= places
            return self.lowering.statement(
                lambda: self.operands.at_positions(self.product.resident, where, stage),
                lambda value: put(rows, target, stored_value(value, self.product.resident)),
            )

        if not own:
            return load([], 0)
        if tile is None and self.packed is None:
            return launching.unrolled_nest(sizes, lambda index: load(index[:-1], index[-1]))
        return launching.unrolled_nest(
            sizes[:-1], lambda index: vectorised(wide, lambda lane: load(index, lane))
        )

    def _accumulate(self, fragment: Fragment, rows: Any, window: Any) -> Stmt:
        """Adds the products of a fragment and of rows, at one position of the window."""
        mapping, streamed = self.mapping, self.product.streamed
        run_window = self.box.run[1]
        sizes = [
            n for k in self.placement.results for n in (self.placement.turns(k), mapping.vector[k])
        ]
        resident_own = [*self.product.of("batch"), *self.placement.m]

        def value(buffer: Any, at: Any, operand: Operand) -> Expr:
            held = scalars.loaded(get(buffer, at), operand.dtype)
            result = scalars.convert(held, operand.dtype, self.product.dtype)
            return scalars.convert(result, self.product.dtype, self.product.accumulate)

        def one(index: Index) -> Stmt:
            turn = {k: index[2 * i] for i, k in enumerate(self.placement.results)}
            lane = {k: index[2 * i + 1] for i, k in enumerate(self.placement.results)}
            row = self.placement.register_at(resident_own, turn, lane)
            at: Any = 0
            for axis, count in zip(fragment.axes, fragment.turns, strict=True):
                at = at * count + turn[axis]
            for d, (run, unit) in enumerate(zip(fragment.runs, fragment.units, strict=True)):
                place: Any = 0
                for axis in fragment.axes:
                    if streamed.steps[axis][d] and mapping.vector[axis] > 1:
                        place = place + lane[axis] * (streamed.steps[axis][d] // unit)
                if run_window is not None and streamed.steps[run_window][d] and run > 1:
                    place = place + window * (streamed.steps[run_window][d] // unit)
                at = at * run + place
            flat = self.placement.sum_at(turn, lane)
            product = value(rows, row, self.product.resident) * value(fragment.buffer, at, streamed)
            return put(self.total, flat, get(self.total, flat) + product)

        return launching.unrolled_nest(sizes, one)
