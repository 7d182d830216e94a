"""Kernels of products of plain matrices (:mod:`~glenside.codegen.gpu.matrices.mapping`).

While a group multiplies one stage in local memory, its threads hold the next in registers on its
way there, so that there is one barrier a stage. The constant operand lies packed in the order in
which groups read it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.interface import DeviceLimits, Dialect
from glenside.codegen.gpu.matrices.mapping import MatrixMapping
from glenside.codegen.gpu.matrices.tiling import as_matrices
from glenside.codegen.gpu.space import ProductSpace
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
from glenside.codegen.storage import Origin, repeated
from glenside.codegen.text import dialects

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Rows:
    """How the constant operand is packed: by batch, tile of rows and stage; rows innermost."""

    sizes: tuple[int, int, int]
    """Batches, rows, reduced steps."""
    rows: int
    depth: int

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and reduced steps, in whole tiles and stages."""
        _, rows, steps = self.sizes
        return -(-rows // self.rows) * self.rows, -(-steps // self.depth) * self.depth

    def apply(self, array: Array) -> Array:
        """The packed elements."""
        batches, rows, steps = self.sizes
        whole = array.reshape(self.sizes)
        more = self.padded[0] - rows, self.padded[1] - steps
        whole = np.pad(whole, ((0, 0), (0, more[0]), (0, more[1])))
        cut = whole.reshape(batches, -1, self.rows, self.padded[1] // self.depth, self.depth)
        return np.ascontiguousarray(cut.transpose(0, 1, 3, 4, 2)).reshape(-1)


class MatrixNest(ElementNest):
    """The kernel of one product by one mapping."""

    def __init__(
        self,
        builder: KernelBuilder,
        step: Kernel,
        limits: DeviceLimits,
        space: ProductSpace,
        mapping: MatrixMapping,
        dialect: Dialect = "opencl",
    ) -> None:
        super().__init__(builder, step, limits)
        self.dialect = dialect
        shape = as_matrices(space)
        assert shape is not None
        self.product, self.mapping, self.shape = space, mapping, shape
        self.predicted = mapping.predicted or None
        self.tiles = -(-shape.rows // mapping.rows), -(-shape.width // mapping.columns)
        self.stages = -(-shape.depth // mapping.depth)
        self.packed = declare(launching.PACKED, self._pack(), "float32")

    def body(self) -> Stmt:
        """The whole launch."""
        outer = math.prod(self.product.axes[loop].size for loop, _ in self.shape.outer)
        self.grid = (outer * math.prod(self.tiles), 1, 1)
        self.block = (self.mapping.threads, 1, 1)
        return launching.launch(self.grid[:1], self.mapping.threads, self._group)

    def _pack(self) -> int:
        """Adds the packed operand to the arguments; returns its elements."""
        base, shape = self.product.resident.base, self.shape
        sizes = shape.batches, shape.rows, shape.depth
        recipe = Rows(sizes, self.mapping.rows, self.mapping.depth)
        array = self.builder.cut.weights[base]
        key = (id(array), recipe)
        origin = Origin(base, repeated(array), recipe.apply)
        known = self.builder.packed(key, "float32", lambda: (recipe.apply(array), origin))
        size = self.builder.memory.buffers[known].size
        self.arguments.append(Argument(known, 0, size))
        return size

    # --- places -------------------------------------------------------------------------------

    def _group(self, group: Sequence[Any], thread: Any) -> Stmt:
        mapping, shape = self.mapping, self.shape
        self.parameters.append(self.packed)
        sizes = [self.product.axes[loop].size for loop, _ in shape.outer]
        digits = unflatten(group[0], [*sizes, *self.tiles])
        self.outer_at, (row_tile, column_tile) = digits[:-2], digits[-2:]
        self.row_start = row_tile * mapping.rows
        self.column_start = column_tile * mapping.columns
        across, along = mapping.places
        self.thread = thread
        # Neighbours lie in two rows of threads: local memory then serves half of a warp's wide
        # loads at once, since every second one is the same.
        pair = math.gcd(across, 2)
        places = unflatten(thread, [mapping.parts, across // pair, along, pair])
        self.part, self.right = places[0], places[2]
        self.down = places[1] * pair + places[3]
        # Where the group's operands begin.
        batch: Any = 0
        source: Any = shape.offset
        for (loop, stride), at in zip(shape.outer, self.outer_at, strict=True):
            if self.product.axes[loop].role == "batch":
                batch = batch * self.product.axes[loop].size + at
            source = source + at * stride
        run = self.stages * mapping.depth * mapping.rows
        self.rows_from = (batch * self.tiles[0] + row_tile) * run
        self.columns_from = source + self.column_start
        down, left = mapping.tile
        self.sums = launching.registers("total", down * left, "float32")
        self.row_values = launching.registers("row", down, "float32")
        self.column_values = launching.registers("run", left, "float32")
        # Two buffers rather than halves of one, so that no barrier is put between using one and
        # filling the other.
        half = mapping.depth * (mapping.rows + mapping.columns)
        self.local = [launching.shared(f"stage{k}", half, "float32") for k in range(2)]
        self.shared_sums = launching.shared("shared_sums", mapping.exchanged_elements, "float32")
        coming = [self._rounds(*each) for each in (self._row_units, self._column_units)]
        self.coming_rows = launching.registers("coming_rows", coming[0], "float32")
        self.coming_columns = launching.registers("coming", coming[1], "float32")
        zero = scalars.const(0, "float32")
        buffers = [
            self.sums, self.row_values, self.column_values, self.coming_rows, self.coming_columns,
            *self.local[: min(self.stages, 2)],
        ]  # fmt: skip
        if mapping.parts > 1:
            buffers.append(self.shared_sums)

        def stage(number: Any, half: int, last: bool = False) -> list[Stmt]:
            if last:
                return [self._multiply(half)]
            return [
                self._fetch_columns(number + 1),
                self._fetch_rows(number + 1),
                self._multiply(half),
                self._keep(1 - half),
                launching.barrier(),
            ]

        def two(pair: Any) -> Stmt:
            return sequence([*stage(pair * 2, 0), *stage(pair * 2 + 1, 1)])

        body = [allocate(each) for each in buffers]
        body.append(launching.unrolled(down * left, lambda k: put(self.sums, k, zero)))
        # What is constant need not be waited for.
        wait = [launching.call(dialects.AFTER_EARLIER)] if self.dialect == "cuda" else []
        body += [self._fetch_rows(0), *wait, self._fetch_columns(0)]
        body += [self._keep(0), launching.barrier()]
        pairs = (self.stages - 1) // 2
        if pairs:
            body.append(launching.serial(pairs, two))
        for number in range(2 * pairs, self.stages):
            body += stage(number, number % 2, number == self.stages - 1)
        if mapping.parts > 1:
            return sequence([*body, self._add_up()])
        return sequence([*body, self._store()])

    # --- fetching -----------------------------------------------------------------------------

    @functools.cached_property
    def _row_units(self) -> tuple[int, int]:
        """How many pieces a stage of the packed operand is read in, and how long they are."""
        return self.mapping.depth * self.mapping.rows // 4, 4

    @functools.cached_property
    def _column_units(self) -> tuple[int, int]:
        """The same for the other operand."""
        shape, mapping = self.shape, self.mapping
        apart = [shape.offset, shape.step, mapping.columns]
        apart += [stride for _, stride in shape.outer]
        # What is read beyond the last column has to lie before the next row.
        width = next(
            w
            for w in (4, 2, 1)
            if all(n % w == 0 for n in apart) and -(-shape.width // w) * w <= shape.step
        )
        return mapping.depth * mapping.columns // width, width

    def _rounds(self, units: int, width: int) -> int:
        """Elements that a thread holds of a stage."""
        return -(-units // self.mapping.threads) * width

    def _share(self, units: int, body: Callable[[Any, int], Stmt]) -> Stmt:
        """``body(piece, turn)`` for what a thread takes of so many pieces."""
        from tvm import tirx

        count = self.mapping.threads
        made = []
        for turn in range(-(-units // count)):
            at = turn * count + self.thread
            guard = None if (turn + 1) * count <= units else tirx.LT(at, units)
            made.append(launching.guarded(guard, body(at, turn)))
        return sequence(made)

    def _fetch_rows(self, stage: Any) -> Stmt:
        """Reads a stage of the packed operand into registers."""
        start = self.rows_from + stage * (self.mapping.depth * self.mapping.rows)

        def row(at: Any, turn: int) -> Stmt:
            return vectorised(
                4,
                lambda lane: put(
                    self.coming_rows, turn * 4 + lane, get(self.packed, start + at * 4 + lane)
                ),
            )

        return self._share(self._row_units[0], row)

    def _fetch_columns(self, stage: Any) -> Stmt:
        """Reads a stage of the other operand; columns that do not exist are zeros."""
        from tvm import tirx

        mapping, shape = self.mapping, self.shape
        units, width = self._column_units
        source = self.lowering.access(self.product.streamed.memory.term).buffer  # type: ignore[union-attr]
        across = mapping.columns // width
        ragged = shape.width % mapping.columns
        uneven = shape.depth % mapping.depth

        def column(at: Any, turn: int) -> Stmt:
            step, place = unflatten(at, [mapping.depth, across])
            place = place * width
            step = stage * mapping.depth + step
            address = self.columns_from + step * shape.step + place
            made = vectorised(
                width,
                lambda lane: put(
                    self.coming_columns, turn * width + lane, get(source, address + lane)
                ),
            )
            tests = []
            if ragged:
                tests.append(tirx.LT(self.column_start + place, shape.width))
            if uneven:
                tests.append(tirx.LT(step, shape.depth))
            guard = all_of(tests)
            if guard is None:
                return made
            zero = scalars.const(0, "float32")
            blank = [put(self.coming_columns, turn * width + k, zero) for k in range(width)]
            return tirx.IfThenElse(guard, made, sequence(blank))

        return self._share(units, column)

    def _keep(self, half: int) -> Stmt:
        """Writes what was read to one of the two stages in local memory."""
        mapping, local = self.mapping, self.local[half]
        beside = mapping.depth * mapping.rows
        units, width = self._column_units

        def row(at: Any, turn: int) -> Stmt:
            return vectorised(
                4,
                lambda lane: put(local, at * 4 + lane, get(self.coming_rows, turn * 4 + lane)),
            )

        def column(at: Any, turn: int) -> Stmt:
            return vectorised(
                width,
                lambda lane: put(
                    local,
                    beside + at * width + lane,
                    get(self.coming_columns, turn * width + lane),
                ),
            )

        return sequence([self._share(units, column), self._share(self._row_units[0], row)])

    # --- multiplying --------------------------------------------------------------------------

    @functools.cached_property
    def _vectors(self) -> tuple[int, int]:
        """Neighbouring rows and columns of a thread."""
        down, left = self.mapping.tile
        return 4 if down % 4 == 0 else 1, 4 if left % 4 == 0 else 1

    def _place(self, side: int, number: int) -> Any:
        """Where a thread's row or column of a number is in its tile, the first of a vector."""
        vector = self._vectors[side]
        at = (self.down, self.right)[side]
        return at * vector + number // vector * (self.mapping.places[side] * vector)

    def _multiply(self, half: int) -> Stmt:
        mapping, local = self.mapping, self.local[half]
        down, left = mapping.tile
        beside = mapping.depth * mapping.rows
        steps = mapping.depth // mapping.parts

        def read(side: int, values: Any, start: Any) -> list[Stmt]:
            vector = self._vectors[side]
            return [
                vectorised(
                    vector,
                    lambda lane, n=number: put(  # type: ignore[misc]
                        values, n + lane, get(local, start + self._place(side, n) + lane)
                    ),
                )
                for number in range(0, mapping.tile[side], vector)
            ]

        def one(step: Any) -> Stmt:
            at = self.part * steps + step
            body = read(0, self.row_values, at * mapping.rows)
            body += read(1, self.column_values, beside + at * mapping.columns)

            def add(index: Index) -> Stmt:
                where = index[0] * left + index[1]
                product = get(self.row_values, index[0]) * get(self.column_values, index[1])
                return put(self.sums, where, get(self.sums, where) + product)

            body.append(launching.unrolled_nest([down, left], add))
            return sequence(body)

        return launching.unrolled(steps, one)

    # --- storing ------------------------------------------------------------------------------

    def _add_up(self) -> Stmt:
        """Sums of the threads that share reduced steps, by way of local memory."""
        from tvm import tirx

        mapping = self.mapping
        down, left = mapping.tile
        count = mapping.threads // mapping.parts
        place = self.thread % count

        def at(part: Any, number: Any) -> Any:
            return (part * (down * left) + number) * count + place

        give = launching.unrolled(
            down * left,
            lambda k: put(self.shared_sums, at(self.part - 1, k), get(self.sums, k)),
        )
        take = launching.unrolled(
            down * left,
            lambda k: put(
                self.sums,
                k,
                functools.reduce(
                    lambda total, part: total + get(self.shared_sums, at(part, k)),
                    range(mapping.parts - 1),
                    get(self.sums, k),
                ),
            ),
        )
        others = launching.guarded(tirx.GT(self.part, 0), give)
        first = launching.guarded(tirx.EQ(self.part, 0), sequence([take, self._store()]))
        return sequence([others, launching.barrier(), first])

    def _store(self) -> Stmt:
        from tvm import tirx

        mapping, shape = self.mapping, self.shape
        down, left = mapping.tile
        width = self._store_width
        late = self.stores_late and self.tail.dtype == "float32"
        computed: list[Stmt] = []
        made: list[Stmt] = []
        for row in range(down):
            vector = self._vectors[0]
            below = self.row_start + self._place(0, row - row % vector) + row % vector
            computes, stores = [], []
            for column in range(0, left, width):
                vector = self._vectors[1]
                first = self.column_start + self._place(1, column - column % vector)
                first = first + column % vector

                def compute(
                    lane: Any,
                    below: Any = below,
                    first: Any = first,
                    number: int = row * left + column,
                ) -> Any:
                    self.give(get(self.sums, number + lane))
                    index = self._index(below, first + lane)
                    if not late:
                        return self.store_inside(index)
                    return self.compute_inside(index, lambda v: put(self.sums, number + lane, v))

                def store(
                    lane: Any,
                    below: Any = below,
                    first: Any = first,
                    number: int = row * left + column,
                ) -> Any:
                    index = self._index(below, first + lane)
                    return self.store_inside(index, get(self.sums, number + lane))

                guard = None
                if shape.width % mapping.columns:
                    guard = tirx.LT(first, shape.width)
                self.lowering.vectorised = width > 1
                computes.append(launching.guarded(guard, vectorised(width, compute)))
                if late:
                    stores.append(launching.guarded(guard, vectorised(width, store)))
                self.lowering.vectorised = False
            guard = None
            if shape.rows % mapping.rows:
                guard = tirx.LT(below, shape.rows)
            for steps, into in ((computes, computed), (stores, made)):
                if steps:
                    into.append(launching.guarded(guard, sequence(steps)))
        return sequence([*computed, *made])

    def _index(self, row: Any, column: Any) -> Index:
        """The result's index, by the anchor's axes."""
        axes = self.product.axes
        index: Index = [0] * len(self.space)
        places = [(loop, at) for (loop, _), at in zip(self.shape.outer, self.outer_at, strict=True)]
        for loops, flat in ((self.product.of("m"), row), (self.shape.columns, column)):
            digits = unflatten(flat, [axes[loop].size for loop in loops])
            places += zip(loops, digits, strict=True)
        for loop, at in places:
            index[axes[loop].axis] = index[axes[loop].axis] + at * axes[loop].weight
        return index

    @functools.cached_property
    def _store_width(self) -> int:
        """Neighbouring columns that are stored at once."""
        steps, vector = self.product.out_steps, self._vectors[1]
        if steps is None or self.by_space is None or vector == 1:
            return 1
        if not self.lowering.vectorisable(self.tail) or self.tail.dtype != "float32":
            return 1
        # The columns have to follow each other in the result as well.
        reach = 1
        for loop in reversed(self.shape.columns):
            if steps[loop] != reach:
                return 1
            reach *= self.product.axes[loop].size
        others = [
            step
            for loop, step in enumerate(steps)
            if loop not in self.shape.columns and self.product.axes[loop].size > 1
            and self.product.axes[loop].role != "k"
        ]  # fmt: skip
        sizes = [*others, reach, self.by_space.offset]
        if len(self.shape.columns) > 1:
            # A vector must not go over the end of the innermost loop.
            sizes.append(self.product.axes[self.shape.columns[-1]].size)
        return next(w for w in (4, 2, 1) if vector % w == 0 and all(n % w == 0 for n in sizes))
