"""Kernels of reductions over rows: several threads share the elements of each row.

Each of them combines every so manieth element, and what they find is combined in turn, from thread
to thread or through local memory, always in the same order. Threads lie along what is adjacent in
memory: along a row (softmax over the last axis, pooling of NCHW images) or along rows (pooling of
NHWC ones). One reduction comes after the other; what follows the last goes through the row once
more, or gives one number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect
from glenside.codegen.gpu.rows.mapping import RowMapping
from glenside.codegen.gpu.rows.space import RowSpace, rows_of, worth_holding
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
from glenside.codegen.program.record import Kernel
from glenside.codegen.totals import Totals
from glenside.codegen.views import View, regroup
from glenside.language.term import Term

_UNROLLED = 32
"""Elements of a thread up to which they are written out."""
_SHUFFLED = ("float32", "float64", "int32", "int64")
"""Dtypes that CUDA hands from thread to thread."""
_ALL_LANES = 0xFFFFFFFF


class RowNest(ElementNest):
    """The kernel of a step that reduces rows: of several reductions, or of its anchor alone."""

    def __init__(
        self, builder: KernelBuilder, step: Kernel, limits: DeviceLimits, dialect: Dialect
    ) -> None:
        super().__init__(builder, step, limits)
        self.dialect = dialect
        self.shape = rows_of(step)
        self.result = step.anchor or step.tail
        self.chain = self.shape.chain
        self.whole = _moves_along(self.shape.positions[self.result], self.shape.item)
        leaves = builder.cut.leaves
        known = builder.cut.constants
        held = worth_holding(step, self.shape, leaves)
        self.holdable = [each for each in held if each not in known]
        self.mapping = RowMapping(1, limits.warp)
        rows, item = self._digit_orders()
        self.row_digits, self.item_digits = rows, item

    # --- the space --------------------------------------------------------------------------------

    @functools.cached_property
    def row_space(self) -> RowSpace:
        """What the mapping depends on."""
        cut = self.builder.cut
        region = cut.leaves.region(self.tail)
        size = self.shape.rows * self.shape.length
        read = [t for t in region if t in cut.leaves and t is not self.tail and t.type.size >= size]
        if self.kernel.anchor is not None:
            read = [t for t in read if t is not self.kernel.anchor]
        totals = [self._accumulator(each)[1] for each in self.chain]
        return RowSpace(
            rows=self.shape.rows,
            length=self.shape.length,
            reductions=tuple(each["function"] for each in self.chain),
            whole=self.whole,
            read_bytes=max(1, sum(scalars.itemsize(each.dtype) for each in read)),
            written_bytes=scalars.itemsize(self.tail.dtype) * self.tail.type.size,
            held=tuple(each.dtype for each in self.holdable),
            along=self.along,
            total=max(totals, key=scalars.itemsize),
            shuffles=self.dialect == "cuda" and all(each in _SHUFFLED for each in totals),
        )

    def _digit_orders(self) -> tuple[list[int], list[int]]:
        """Digits of rows and along a row, in the order of memory."""
        shape = self.shape
        source = self._strides(self.lowering.access(shape.source).view, shape.source)
        # A single reduction's results are stored in order; what reads a row, reads it in order.
        stored = self._strides(self.by_space or self.target.view, self.result)
        of_rows = stored if self.kernel.anchor is not None and stored else source or stored
        of_item = source or stored
        outer = [k for k in range(len(shape.digits)) if k not in shape.item]
        order = [
            sorted(digits, key=lambda digit: -steps.get(digit, 0))
            for digits, steps in ((outer, of_rows), (sorted(shape.item), of_item))
        ]
        nearest = [of_item[k] for k in order[1] if of_item.get(k)]
        steps = [(source or stored)[k] for k in outer if (source or stored).get(k)]
        self.along = not nearest or not steps or nearest[-1] <= min(steps)
        return order[0], order[1]

    def _strides(self, view: View | None, term: Term) -> dict[int, int]:
        """How far apart in memory what differs in one digit lies; nothing where that varies."""
        steps: dict[int, int] = {}
        if view is None:
            return steps
        for axis, digits in zip(view.axes, self.shape.positions[term], strict=True):
            parts = regroup(axis, tuple(self.shape.digits[digit] for digit in digits))
            if parts is None:
                return {}
            for digit, part in zip(digits, parts, strict=True):
                steps[digit] = part[-1][1] if part else 0
        return steps

    def _index(self, term: Term) -> Index:
        """The index of a value at the present element of the present row."""
        index: Index = []
        for digits in self.shape.positions[term]:
            position: Any = 0
            for digit in digits:
                size, value = self.shape.digits[digit], self.at[digit]
                first = isinstance(position, int) and position == 0
                position = value if first else position * size + value
            index.append(position)
        return index

    # --- the launch -------------------------------------------------------------------------------

    def mapped(self, name: str, mapping: RowMapping) -> DeviceKernel:
        """The launch by a mapping."""
        self.mapping, self.predicted = mapping, mapping.predicted or None
        return self.device_kernel(name)

    def body(self) -> Stmt:
        """The whole launch."""
        count = self.mapping.threads
        groups = -(-self.shape.rows // self.mapping.rows)
        self.grid, self.block = (groups, 1, 1), (count, 1, 1)
        return launching.launch([groups], count, self._thread)

    def _thread(self, group: Sequence[Any], thread: Any) -> Stmt:
        from tvm import tirx

        team, rows = self.mapping.team, self.mapping.rows
        if self.along:
            lane, self.member = thread // team, thread % team
            self.stride = 1
        else:
            lane, self.member = thread % rows, thread // rows
            self.stride = rows
        if team == 1:
            self.member = 0
        self.place, self.first = thread, thread - self.member * self.stride
        flat = group[0] * rows + lane
        exact = self.shape.rows % rows == 0
        self.exists = None if exact else tirx.LT(flat, self.shape.rows)
        # All threads come to the barriers; those without a row repeat the last one.
        flat = flat if exact else tirx.min(flat, self.shape.rows - 1)
        sizes = [self.shape.digits[digit] for digit in self.row_digits]
        self.at = dict(zip(self.row_digits, unflatten(flat, sizes), strict=True))
        self.local: dict[str, Any] = {}
        made = self._held() if self.mapping.held else []
        for term in self.chain:
            made += self._softmax(term) if term["function"] == "softmax" else self._reduce(term)
        made.append(self._stored())
        return sequence([*map(allocate, self.local.values()), *made])

    def _each(self, body: Callable[[Any], Stmt], totals: Totals | None = None) -> Stmt:
        """``body`` at each of this thread's elements, given their number; it may add to
        ``totals``."""
        from tvm import tirx

        team, sizes = self.mapping.team, [self.shape.digits[k] for k in self.item_digits]

        def one(turn: Any) -> Stmt:
            flat = turn * team + self.member
            self.at |= zip(self.item_digits, unflatten(flat, sizes), strict=True)
            return body(turn)

        # Rounds that all threads take part in test nothing, so that fetches of several are under
        # way at a time.
        whole, rest = divmod(self.shape.length, team)
        parts = []
        if whole > _UNROLLED and totals is not None:
            parts.append(totals.loops([whole], lambda turn: one(turn[0])))
        elif whole:
            loop = launching.unrolled if whole <= _UNROLLED else launching.serial
            all_ = loop(whole, one)
            parts.append(all_ if totals is None else totals.block(all_))
        if rest:
            left = launching.guarded(tirx.LT(self.member, rest), one(whole))
            parts.append(left if totals is None else totals.block(left))
        return sequence(parts)

    def _held(self) -> list[Stmt]:
        """Statements that bring what is read more than once into registers."""
        turns = -(-self.shape.length // self.mapping.team)
        cells = []
        for k, term in enumerate(self.holdable):
            cells.append(launching.registers(f"h{k}", turns, scalars.value_dtype(term.dtype)))

        def into(term: Term, cell: Any, turn: Any) -> Stmt:
            made: Stmt = self.lowering.statement(
                lambda: self.lowering.value(term, self._index(term)),
                lambda value: put(cell, turn, value),
            )
            return made

        pairs = [*zip(self.holdable, cells, strict=True)]
        brought = self._each(lambda turn: sequence([into(*pair, turn) for pair in pairs]))
        for term, cell in pairs:
            self.lowering.give(term, functools.partial(self._kept, cell))
        return [*map(allocate, cells), brought]

    def _kept(self, cell: Any, index: Index) -> Expr:
        """What a cell holds of the present element."""
        return get(cell, self.turn)

    # --- reductions -------------------------------------------------------------------------------

    def _totals(self, dtype: str, step: str) -> Totals:
        """The total of this thread's elements."""
        turns = -(-self.shape.length // self.mapping.team)
        return Totals("total", 1, dtype, step, turns, lambda work: work(0))

    def _reduce(self, term: Term) -> list[Stmt]:
        """Statements after which a reduction's value is known."""
        (child,) = term.children
        _, inner = self._accumulator(term)
        step, _, element = self._reduced(term)
        totals = self._totals(inner, step)
        split = child.type.split

        def value() -> Expr:
            index = self._index(child)
            return self.lowering.name(element(index[:split], index[split:]), inner)

        made = self._gone_through(totals, step, inner, value)
        self.lowering.give(term, lambda index: self._finished(term, get(totals.final, 0)))
        return made

    def _softmax(self, term: Term) -> list[Stmt]:
        """Two passes: the greatest, then the total of powers."""
        (child,) = term.children
        dtype = scalars.wide(term.dtype)
        top = Totals("top", 1, dtype, "max", 1, lambda work: work(0))
        totals = self._totals(dtype, "sum")

        def load(index: Index) -> Expr:
            return scalars.convert(self.lowering.value(child, index), child.dtype, dtype)

        def power(index: Index) -> Expr:
            return scalars.apply("exp", load(index) - get(top.final, 0), dtype)

        made = self._gone_through(
            top, "max", dtype, lambda: self.lowering.name(load(self._index(child)), dtype)
        )
        made += self._gone_through(totals, "sum", dtype, lambda: power(self._index(child)))
        self.lowering.give(
            term,
            lambda index: scalars.convert(power(index) / get(totals.final, 0), dtype, term.dtype),
        )
        return made

    def _gone_through(
        self, totals: Totals, step: str, dtype: str, value: Callable[[], Expr]
    ) -> list[Stmt]:
        """Statements after which all threads of a row have its total of the values."""
        total = totals.current

        def add(turn: Any) -> Stmt:
            self.turn = turn
            return self.lowering.statement(
                lambda: scalars.accumulate(step, get(total, 0), value(), dtype),
                lambda result: put(total, 0, result),
            )

        return [
            *totals.start(),
            self._each(add, totals),
            *self._combined(totals.final, step, dtype),
        ]

    def _stored(self) -> Stmt:
        """What follows the last reduction."""
        from tvm import tirx

        if self.whole:

            def store(turn: Any) -> Stmt:
                self.turn = turn
                return self.store(self._index(self.result))

            return launching.guarded(self.exists, self._each(store))
        tests = [] if self.exists is None else [self.exists]
        if self.mapping.team > 1:
            tests.append(tirx.EQ(self.member, 0))
        return launching.guarded(all_of(tests), self.store(self._index(self.result)))

    # --- combining --------------------------------------------------------------------------------

    def _combined(self, total: Any, step: str, dtype: str) -> list[Stmt]:
        """Statements after which every thread of a row has the row's total in ``total``."""
        if self.mapping.team == 1:
            return []
        return (self._shuffled if self.mapping.shuffled else self._exchanged)(total, step, dtype)

    def _room(self, dtype: str, size: int) -> tuple[Any, list[Stmt]]:
        """Local memory for so many totals, and what has to happen before it is written again."""
        if dtype in self.local:
            return self.local[dtype], [launching.barrier()]
        self.local[dtype] = launching.shared(f"totals_{dtype}", size, dtype)
        return self.local[dtype], []

    def _exchanged(self, total: Any, step: str, dtype: str) -> list[Stmt]:
        """Through local memory, by halves."""
        from tvm import tirx

        buffer, steps = self._room(dtype, self.mapping.threads)
        steps += [put(buffer, self.place, get(total, 0)), launching.barrier()]
        half = self.mapping.team // 2
        while half:
            other = get(buffer, self.place + half * self.stride)
            value = scalars.accumulate(step, get(buffer, self.place), other, dtype)
            add = put(buffer, self.place, value)
            steps += [launching.guarded(tirx.LT(self.member, half), add), launching.barrier()]
            half //= 2
        return [*steps, put(total, 0, get(buffer, self.first))]

    def _shuffled(self, total: Any, step: str, dtype: str) -> list[Stmt]:
        """From thread to thread of a warp, then through local memory from warp to warp."""
        from tvm import tirx

        warp, team = self.limits.warp, self.mapping.team
        mask = tirx.const(_ALL_LANES, "uint32")
        # All threads of a warp come to where values are handed on, whatever is done with them.
        other = launching.registers("other", 1, dtype)
        steps = [allocate(other)]
        half = min(warp, team) // 2
        while half:
            handed = tirx.call_pure_extern(
                dtype, launching.SHUFFLE, mask, get(total, 0), tirx.const(half, "int32")
            )
            value = scalars.accumulate(step, get(total, 0), get(other, 0), dtype)
            steps += [put(other, 0, handed), put(total, 0, value)]
            half //= 2
        if team <= warp:
            return steps
        count = team // warp
        buffer, before = self._room(dtype, self.mapping.threads // warp)
        mine = put(buffer, self.place // warp, get(total, 0))
        steps += [*before, launching.guarded(tirx.EQ(self.place % warp, 0), mine)]
        steps.append(launching.barrier())
        first = self.first // warp
        steps.append(put(total, 0, get(buffer, first)))
        for k in range(1, count):
            value = scalars.accumulate(step, get(total, 0), get(buffer, first + k), dtype)
            steps.append(put(total, 0, value))
        return steps


def _moves_along(position: Sequence[Sequence[int]], item: frozenset[int]) -> bool:
    """Whether a value has an element for each of a row."""
    along = {digit for axis in position for digit in axis}
    return bool(item) and item <= along
