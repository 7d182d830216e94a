"""The second kernel of a split reduction: adds up partial sums, then does what follows the product.

Partial sums lie by split, batch and streamed rows, resident rows innermost. A group brings a tile
of rows by columns together, reading along columns and writing along whichever of the two the
result has innermost, by way of local memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.kernel.builder import Argument, KernelBuilder
from glenside.codegen.loops import (
    Index,
    Stmt,
    all_of,
    allocate,
    declare,
    get,
    put,
    sequence,
    unflatten,
    vectorised,
)
from glenside.codegen.program.record import Kernel

if TYPE_CHECKING:
    from glenside.codegen.gpu.threads.tiling import Tiling
    from glenside.codegen.gpu.warps.tiling import Parts

_ROWS, _COLUMNS, _WIDTH = 16, 32, 4
_UNROLLED = 32
"""Splits up to which all loads of a sum are under way at once."""


class PartialSums(ElementNest):
    """Adds up what the groups of a split reduction left in scratch memory."""

    def __init__(
        self,
        builder: KernelBuilder,
        step: Kernel,
        limits: DeviceLimits,
        tiling: Tiling | Parts,
        scratch: Argument,
    ) -> None:
        super().__init__(builder, step, limits)
        assert step.anchor is not None
        self.anchor = step.anchor
        self.tiling, self.product = tiling, tiling.space
        self.inner = scalars.wide(self.anchor.dtype)
        self.partial = declare("partial", scratch.extent, self.inner)
        self.parameters.append(self.partial)
        self.arguments.append(scratch)
        self.row_axes = self.product.of("batch", "n")
        self.column_axes = self.product.of("m")
        self.row_sizes = [self.product.axes[k].size for k in self.row_axes]
        self.padded = [tiling.groups[k] * tiling.tile[k] for k in self.column_axes]

    @functools.cached_property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a group."""
        columns = min(_COLUMNS, -(-math.prod(self.padded) // _WIDTH) * _WIDTH)
        return max(1, _ROWS * _COLUMNS // columns), columns

    def body(self) -> Stmt:
        row_count, column_count = math.prod(self.row_sizes), math.prod(self.padded)
        rows, columns = self.tile
        width = math.gcd(column_count, _WIDTH)
        count = rows * columns // width
        if count > self.limits.threads_per_group:
            rows = max(1, self.limits.threads_per_group * width // columns)
            count = rows * columns // width
        self.grid = (-(-row_count // rows), -(-column_count // columns), 1)
        self.block = (count, 1, 1)

        def group(at: Sequence[Any], thread: Any) -> Stmt:
            buffer = launching.shared("tile", columns * (rows + 1), self.inner)
            total = launching.registers("total", width, self.inner)
            quads = columns // width
            row, column = thread // quads, thread % quads * width
            first = (at[0] * rows + row, at[1] * columns + column)
            zero = scalars.const(0, self.inner)

            def lanes(body: Any) -> Stmt:
                return vectorised(width, body)

            def add(split: Any) -> Stmt:
                start = (split * row_count + first[0]) * column_count + first[1]
                return lanes(
                    lambda lane: put(
                        total, lane, get(total, lane) + get(self.partial, start + lane)
                    )
                )

            splits = self.tiling.split
            loop = launching.unrolled if splits <= _UNROLLED else launching.serial
            bring = launching.guarded(
                self._inside(first, (row_count, column_count), (rows, columns)),
                loop(splits, add),
            )
            keep = launching.unrolled(
                width,
                lambda lane: put(buffer, (column + lane) * (rows + 1) + row, get(total, lane)),
            )
            steps = [
                allocate(buffer),
                allocate(total),
                lanes(lambda lane: put(total, lane, zero)),
                bring,
                keep,
                launching.barrier(),
            ]

            def place(turn: Any) -> tuple[Index, Any, Any]:
                return self._result(at, turn * count + thread, buffer, rows, columns)

            if not self.stores_late:
                return sequence(
                    [*steps, launching.unrolled(width, lambda k: self._store_one(*place(k)))]
                )
            values = launching.registers("values", width, self.tail.dtype)

            def compute(turn: Any) -> Stmt:
                index, value, guard = place(turn)
                self._give(value)
                made = self.compute(index, lambda made: put(values, turn, made))
                return launching.guarded(guard, made)

            def store(turn: Any) -> Stmt:
                index, _, guard = place(turn)
                return launching.guarded(guard, self.store(index, get(values, turn)))

            end = [launching.unrolled(width, compute), launching.unrolled(width, store)]
            return sequence([*steps, allocate(values), *end])

        return launching.launch(self.grid[:2], count, group)

    def _inside(
        self, place: Sequence[Any], sizes: Sequence[int], tiles: Sequence[int]
    ) -> Any | None:
        from tvm import tirx

        tests = [
            tirx.LT(at, size)
            for at, size, tile in zip(place, sizes, tiles, strict=True)
            if size % tile
        ]
        return all_of(tests)

    def _give(self, value: Any) -> None:
        self.give(scalars.convert(value, self.inner, self.anchor.dtype))

    def _store_one(self, index: Index, value: Any, guard: Any) -> Stmt:
        self._give(value)
        return launching.guarded(guard, self.store(index))

    def _result(
        self, at: Sequence[Any], flat: Any, buffer: Any, rows: int, columns: int
    ) -> tuple[Index, Any, Any]:
        """A result of a group by its number: its index, its sum and whether it is there."""
        from tvm import tirx

        if self._columns_fast:
            row, column = flat // columns, flat % columns
        else:
            row, column = flat % rows, flat // rows
        place = (at[0] * rows + row, at[1] * columns + column)
        tests = []
        if math.prod(self.row_sizes) % rows:
            tests.append(tirx.LT(place[0], math.prod(self.row_sizes)))
        index: Index = [0] * len(self.space)
        for axes, sizes, position in (
            (self.row_axes, self.row_sizes, place[0]),
            (self.column_axes, self.padded, place[1]),
        ):
            for axis, digit in zip(axes, unflatten(position, sizes), strict=True):
                each = self.product.axes[axis]
                index[each.axis] = index[each.axis] + digit * each.weight
                if axes is self.column_axes and (
                    each.size != self.tiling.groups[axis] * self.tiling.tile[axis]
                    or math.prod(self.padded) % columns
                ):
                    tests.append(tirx.LT(digit, each.size))
        if math.prod(self.padded) % columns:
            tests.append(tirx.LT(place[1], math.prod(self.padded)))
        value = get(buffer, column * (rows + 1) + row)
        return index, value, all_of(tests)

    @functools.cached_property
    def _columns_fast(self) -> bool:
        """Whether the result has the resident operand's rows innermost."""
        steps = self.product.out_steps
        if steps is None or not self.column_axes:
            return False
        moving = [k for k in (*self.row_axes, *self.column_axes) if self.product.axes[k].size > 1]
        nearest = min(moving, key=lambda k: steps[k] or 1 << 62, default=-1)
        return nearest in self.column_axes
