"""The kernel of a streamed product, for any device.

A group keeps its rows of the first product's left operand in local memory and goes through blocks
of columns. Of each block it computes the scores, what follows them elementwise, powers against the
greatest so far, and adds to what it has, taken against the new reference: rules
``rebase-power``, ``factor-out-of-sum`` and ``factor-out-of-product`` of ``rewrites.rules.cascade``.
A row that has seen nothing but -inf keeps zeros; one that ends so is 0 / 0, as its softmax is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.streamed.mapping import StreamedMapping
from glenside.codegen.gpu.streamed.problem import problem_of
from glenside.codegen.kernel.builder import KernelBuilder
from glenside.codegen.loops import (
    Expr,
    Index,
    Stmt,
    all_of,
    allocate,
    get,
    put,
    sequence,
    unflatten,
)
from glenside.codegen.program.record import Kernel, Streamed
from glenside.language.term import Term


class StreamedNest(ElementNest):
    """The kernel of one product by one mapping."""

    def __init__(
        self,
        builder: KernelBuilder,
        step: Kernel,
        limits: DeviceLimits,
        streamed: Streamed,
        mapping: StreamedMapping,
    ) -> None:
        super().__init__(builder, step, limits)
        self.streamed, self.mapping = streamed, mapping
        self.problem = problem_of(streamed)
        self.inner = self.problem.inner
        self._score: Expr = None
        self.lowering.give(streamed.scores, lambda index: self._score)

    def body(self) -> Stmt:
        problem, mapping = self.problem, self.mapping
        grid = -(-problem.rows // mapping.rows), problem.batches
        self.grid, self.block = (grid[0], grid[1], 1), (mapping.threads, 1, 1)
        sizes = mapping.elements(problem)
        self.local = {n: launching.shared(n, size, self.inner) for n, size in sizes.items()}
        return launching.launch(grid, mapping.threads, self._group)

    def _group(self, at: Sequence[Any], thread: Any) -> Stmt:
        problem, mapping = self.problem, self.mapping
        self.thread, self.batch = thread, at[1]
        self.first = at[0] * mapping.rows
        self.x, self.y = thread % mapping.across, thread // mapping.across
        # Of a row's threads each has the columns that lie a team apart.
        self.team = mapping.threads // mapping.rows
        self.row, self.member = thread // self.team, thread % self.team
        self.ends = -(-problem.width // mapping.across)
        inner = self.inner
        self.sums = launching.registers("sums", mapping.each * self.ends, inner)
        self.top = launching.registers("top", 1, inner)
        self.total = launching.registers("total", 1, inner)
        self.step = launching.registers("step", 1, inner)
        zero, lowest = scalars.const(0, inner), scalars.const(-math.inf, inner)
        blocks = -(-problem.columns // mapping.block)
        return sequence(
            [
                *map(allocate, self.local.values()),
                *map(allocate, (self.sums, self.top, self.total, self.step)),
                launching.unrolled(mapping.each * self.ends, lambda k: put(self.sums, k, zero)),
                put(self.top, 0, lowest),
                put(self.total, 0, zero),
                self._stage_rows(),
                launching.serial(blocks, self._block),
                put(self.local["parts"], thread, get(self.total, 0)),
                launching.barrier(),
                self._results(),
            ]
        )

    # --- what is read -----------------------------------------------------------------------------

    def _staged(self, count: int, one: Callable[[Any], Stmt]) -> Stmt:
        """``one`` for so many elements, by all threads."""
        from tvm import tirx

        threads = self.mapping.threads

        def turn(number: Any) -> Stmt:
            flat = number * threads + self.thread
            guard = tirx.LT(flat, count) if count % threads else None
            return launching.guarded(guard, one(flat))

        return launching.serial(-(-count // threads), turn)

    def _read(self, term: Term, index: Index, into: Any, at: Any) -> Stmt:
        def value() -> Expr:
            return scalars.convert(self.lowering.access(term).load(index), term.dtype, self.inner)

        return self.lowering.statement(value, lambda made: put(into, at, made))

    def _stage_rows(self) -> Stmt:
        own = self.streamed.scores.children[0]
        (a, _), shared = own.children, own["batch"]
        depth = self.problem.depth
        heads = self.problem.batches // self.problem.groups
        # Batches that share their columns are rows of the first product.
        group, head = (self.batch // heads, self.batch % heads) if heads > 1 else (self.batch, 0)

        def one(flat: Any) -> Stmt:
            row = self._within(self.first + flat // depth, self.problem.rows, self.mapping.rows)
            place = row + head * self.problem.rows if heads > 1 else row
            index = [
                *unflatten(group, a.outer[:shared]),
                *unflatten(place, a.outer[shared:]),
                *unflatten(flat % depth, a.item),
            ]
            return self._read(a, index, self.local["rows"], flat)

        return self._staged(self.mapping.rows * depth, one)

    def _within(self, position: Any, size: int, tile: int) -> Any:
        """A position of an axis, the last one for those beyond it: they are not stored."""
        from tvm import tirx

        return tirx.min(position, size - 1) if size % tile else position

    def _stage_block(self, start: Any) -> Stmt:
        own, pairs = self.streamed.scores.children[0], self.streamed.product.children[0]
        (_, b), shared = own.children, own["batch"]
        (first, second), batch = pairs.children, pairs["batch"]
        problem, mapping = self.problem, self.mapping
        heads = problem.batches // problem.groups
        group = self.batch // heads if heads > 1 else self.batch

        def column(flat: Any) -> Stmt:
            k, d = flat // problem.depth, flat % problem.depth
            place = self._within(start + k, problem.columns, mapping.block)
            index = [
                *unflatten(group, b.outer[:shared]),
                *unflatten(place, b.outer[shared:]),
                *unflatten(d, b.item),
            ]
            at = k * mapping.pitch(problem.depth) + d
            return self._read(b, index, self.local["columns"], at)

        def value(flat: Any) -> Stmt:
            k, e = flat // problem.width, flat % problem.width
            place = self._within(start + k, problem.columns, mapping.block)
            index = [
                *unflatten(self.batch, first.outer[:batch]),
                *unflatten(e, second.outer[batch:]),
                place,
            ]
            return self._read(second, index, self.local["values"], flat)

        return sequence(
            [
                self._staged(mapping.block * problem.depth, column),
                self._staged(mapping.block * problem.width, value),
            ]
        )

    # --- a block ----------------------------------------------------------------------------------

    def _block(self, number: Any) -> Stmt:
        start = number * self.mapping.block
        return sequence(
            [
                launching.barrier(),
                self._stage_block(start),
                launching.barrier(),
                self._scores(start),
                launching.barrier(),
                self._greatest(),
                launching.barrier(),
                self._powers(),
                launching.barrier(),
                self._add(),
            ]
        )

    def _scores(self, start: Any) -> Stmt:
        """The block of rows, in local memory; nothing lies beyond the last column."""
        from tvm import tirx

        mapping, problem = self.mapping, self.problem
        each, along, inner = mapping.each, mapping.along, self.inner
        made = launching.registers("made", each * along, inner)
        left = launching.registers("left", each, inner)
        right = launching.registers("right", along, inner)
        pitch = mapping.pitch(problem.depth)

        def deeper(d: Any) -> Stmt:
            rows, columns = self.local["rows"], self.local["columns"]
            return sequence(
                [
                    launching.unrolled(
                        each,
                        lambda i: put(
                            left, i,
                            get(rows, (self.y + i * mapping.down) * problem.depth + d),
                        ),
                    ),
                    launching.unrolled(
                        along,
                        lambda j: put(
                            right, j, get(columns, (self.x + j * mapping.across) * pitch + d)
                        ),
                    ),
                    launching.unrolled_nest(
                        [each, along],
                        lambda ij: put(
                            made, ij[0] * along + ij[1],
                            get(made, ij[0] * along + ij[1])
                            + get(left, ij[0]) * get(right, ij[1]),
                        ),
                    ),
                ]
            )  # fmt: skip

        (x,) = self.streamed.softmax.children
        scores = self.streamed.scores

        def finished(ij: Index) -> Stmt:
            row, column = self.y + ij[0] * mapping.down, self.x + ij[1] * mapping.across
            place = self._within(self.first + row, problem.rows, mapping.rows)
            flat = self.batch * problem.rows + place
            at = row * mapping.pitch(mapping.block) + column
            target = self.local["scores"]

            def value() -> Expr:
                value = get(made, ij[0] * along + ij[1])
                self._score = self.lowering.name(
                    scalars.convert(value, inner, scores.dtype), scores.dtype
                )
                index = [*unflatten(flat, x.outer), start + column]
                found = self.lowering.access(x).load(index)
                return scalars.convert(found, x.dtype, inner)

            store = self.lowering.statement(value, lambda found: put(target, at, found))
            if not problem.columns % mapping.block:
                return store
            lowest = put(target, at, scalars.const(-math.inf, inner))
            return tirx.IfThenElse(tirx.LT(start + column, problem.columns), store, lowest)

        zero = scalars.const(0, inner)
        return sequence(
            [
                *map(allocate, (made, left, right)),
                launching.unrolled(each * along, lambda k: put(made, k, zero)),
                launching.serial(problem.depth, deeper),
                launching.unrolled_nest([each, along], finished),
            ]
        )

    def _mine(self, turn: Any) -> Any:
        """Where the columns of this thread's row lie."""
        pitch = self.mapping.pitch(self.mapping.block)
        return self.row * pitch + turn * self.team + self.member

    def _greatest(self) -> Stmt:
        parts, scores = self.local["parts"], self.local["scores"]
        lowest = scalars.const(-math.inf, self.inner)

        def find(turn: Any) -> Stmt:
            value = scalars.maximum(get(self.step, 0), get(scores, self._mine(turn)), self.inner)
            return put(self.step, 0, value)

        return sequence(
            [
                put(self.step, 0, lowest),
                launching.unrolled(self.mapping.block // self.team, find),
                put(parts, self.thread, get(self.step, 0)),
            ]
        )

    def _powers(self) -> Stmt:
        """The powers of this thread's columns against the greatest so far, and what all before is
        multiplied with."""
        from tvm import tirx

        inner, parts, scores = self.inner, self.local["parts"], self.local["scores"]
        lowest, zero = scalars.const(-math.inf, inner), scalars.const(0, inner)
        reference = launching.registers("reference", 1, inner)
        first = self.row * self.team

        def join(k: Any) -> Stmt:
            value = scalars.maximum(get(reference, 0), get(parts, first + k), inner)
            return put(reference, 0, value)

        def against(value: Expr) -> Expr:
            return scalars.apply("exp", value - get(self.step, 0), inner)

        def power(turn: Any) -> Stmt:
            at = self._mine(turn)
            return sequence(
                [
                    put(scores, at, against(get(scores, at))),
                    put(self.total, 0, get(self.total, 0) + get(scores, at)),
                ]
            )

        nothing = tirx.EQ(get(reference, 0), lowest)
        return sequence(
            [
                allocate(reference),
                put(reference, 0, get(self.top, 0)),
                launching.unrolled(self.team, join),
                # Where all is -inf so far, against zero: no differences of infinities.
                put(self.step, 0, tirx.Select(nothing, zero, get(reference, 0))),
                put(self.top, 0, against(get(self.top, 0))),
                put(self.total, 0, get(self.total, 0) * get(self.top, 0)),
                launching.guarded(
                    tirx.EQ(self.member, 0),
                    put(self.local["factors"], self.row, get(self.top, 0)),
                ),
                put(self.top, 0, get(reference, 0)),
                launching.unrolled(self.mapping.block // self.team, power),
            ]
        )

    def _column(self, j: Any) -> Any:
        return self.x + j * self.mapping.across

    def _add(self) -> Stmt:
        mapping, problem, inner = self.mapping, self.problem, self.inner
        each, ends = mapping.each, self.ends
        left = launching.registers("factor", each, inner)
        right = launching.registers("value", ends, inner)
        pitch = mapping.pitch(mapping.block)

        def row(i: Any) -> Any:
            return self.y + i * mapping.down

        def scaled(ij: Index) -> Stmt:
            at = ij[0] * ends + ij[1]
            factor = get(self.local["factors"], row(ij[0]))
            return put(self.sums, at, get(self.sums, at) * factor)

        def bring(k: Any) -> Callable[[Any], Stmt]:
            def one(j: Any) -> Stmt:
                column = self._within(self._column(j), problem.width, mapping.across)
                return put(right, j, get(self.local["values"], k * problem.width + column))

            return one

        def along(k: Any) -> Stmt:
            return sequence(
                [
                    launching.unrolled(
                        each, lambda i: put(left, i, get(self.local["scores"], row(i) * pitch + k))
                    ),
                    launching.unrolled(ends, bring(k)),
                    launching.unrolled_nest(
                        [each, ends],
                        lambda ij: put(
                            self.sums,
                            ij[0] * ends + ij[1],
                            get(self.sums, ij[0] * ends + ij[1])
                            + get(left, ij[0]) * get(right, ij[1]),
                        ),
                    ),
                ]
            )

        return sequence(
            [
                *map(allocate, (left, right)),
                launching.unrolled_nest([each, ends], scaled),
                launching.serial(mapping.block, along),
            ]
        )

    # --- results ----------------------------------------------------------------------------------

    def _results(self) -> Stmt:
        from tvm import tirx

        mapping, problem, inner = self.mapping, self.problem, self.inner
        pairs = self.streamed.product.children[0]
        (first, second), batch = pairs.children, pairs["batch"]
        totals = launching.registers("totals", mapping.each, inner)
        zero = scalars.const(0, inner)

        def join(ik: Index) -> Stmt:
            row = self.y + ik[0] * mapping.down
            part = get(self.local["parts"], row * self.team + ik[1])
            return put(totals, ik[0], get(totals, ik[0]) + part)

        def one(ij: Index) -> Stmt:
            row = self.first + self.y + ij[0] * mapping.down
            column = self._column(ij[1])
            value = get(self.sums, ij[0] * self.ends + ij[1]) / get(totals, ij[0])
            self.give(scalars.convert(value, inner, self.streamed.product.dtype))
            index = [
                *unflatten(self.batch, first.outer[:batch]),
                *unflatten(row, first.outer[batch:]),
                *unflatten(column, second.outer[batch:]),
            ]
            tests = []
            if problem.rows % mapping.rows:
                tests.append(tirx.LT(row, problem.rows))
            if problem.width % mapping.across:
                tests.append(tirx.LT(column, problem.width))
            return launching.guarded(all_of(tests), self.store(index))

        return sequence(
            [
                allocate(totals),
                launching.unrolled(mapping.each, lambda i: put(totals, i, zero)),
                launching.unrolled_nest([mapping.each, self.team], join),
                launching.unrolled_nest([mapping.each, self.ends], one),
            ]
        )
