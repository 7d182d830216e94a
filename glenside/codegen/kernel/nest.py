"""The parameters of one kernel and what it does at each element, loops and threads aside."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.kernel.builder import Argument, KernelBuilder, Launch
from glenside.codegen.loops import (
    Expr,
    Index,
    Stmt,
    all_of,
    allocate,
    declare,
    get,
    prim_func,
    put,
    repeat,
    sequence,
    shifted,
    vectorised,
)
from glenside.codegen.lower import Lowering, write
from glenside.codegen.program.record import Kernel
from glenside.codegen.storage import Stored
from glenside.codegen.totals import Totals
from glenside.codegen.views import axis_size, compose_inverse, split_atoms, strides_of
from glenside.language.shape import FLOATS, Shape
from glenside.language.term import Term


class Nest(ABC):
    """The parameters and the body of one function; how it goes through its elements, each kind of
    device says."""

    def __init__(self, builder: KernelBuilder, kernel: Kernel) -> None:
        self.builder, self.kernel = builder, kernel
        self.tail = kernel.tail
        self.target: Stored = kernel.into or builder.memory.stored[kernel.tail]
        self._buffers: dict[Term, Any] = {}
        self.parameters: list[Any] = []
        self.arguments: list[Argument] = []
        computed = {kernel.anchor} if kernel.into else {kernel.anchor, kernel.tail}
        self.lowering = Lowering(
            lambda term: None if term in computed else builder.view(term),
            builder.cut.constants,
            self._read_buffer,
        )
        self._given: Expr = None
        if kernel.anchor is not None:
            self.lowering.give(kernel.anchor, lambda index: self._given)
        self.lowering.vectorised = self.lowering.vectorisable(kernel.tail)
        if kernel.anchor is not None:
            self.lowering.vectorised &= all(
                self.lowering.vectorisable(each) for each in kernel.anchor.children
            )
        space = kernel.anchor.shape if kernel.anchor is not None else kernel.tail.shape
        self.space = space
        self.edges = kernel.edges
        # Where the result lies, by the index of the anchor.
        self.by_space = (
            None if self.edges else compose_inverse(kernel.over, space, self.target.view)
        )
        self.out = declare("out", self.target.extent, self.tail.dtype)

    def _read_buffer(self, term: Term) -> Any:
        if term not in self._buffers:
            stored = self.builder.memory.stored[term]
            buffer = declare(f"in{len(self.parameters)}", stored.extent, term.dtype)
            self._buffers[term] = buffer
            self.parameters.append(buffer)
            self.arguments.append(Argument(stored.buffer, stored.base, stored.extent))
        return self._buffers[term]

    def body(self) -> Stmt:
        """All that computes the kernel."""
        anchor = self.kernel.anchor
        if anchor is None:
            return self.elementwise()
        if anchor["function"] in ("argmax", "argmin"):
            return self.arg_extreme(anchor)
        return self.reduction(anchor)

    def finish(self, body: Stmt) -> Launch:
        """The function with this body; the result is its last parameter."""
        arguments = [
            *self.arguments,
            Argument(self.target.buffer, self.target.base, self.target.extent),
        ]
        function = prim_func([*self.parameters, self.out], body)
        return Launch(function, arguments, self.tail)

    def vector(self, width: int, body: Callable[[Any], Stmt]) -> Stmt:
        """A loop over lanes."""
        if self.lowering.vectorised:
            return vectorised(width, body)
        return repeat(width, body)

    def vectors(self, widths: Sequence[tuple[int, int]], body: Callable[[int, Any], Stmt]) -> Stmt:
        """Vector loops for ``(start, width)`` each; ``body(start, lane)``."""
        return sequence([self.vector(w, functools.partial(body, at)) for at, w in widths])

    # --- results ------------------------------------------------------------------------------

    def tail_index(self, index: Sequence[Any]) -> Index:
        """The index of the tail at a loop index."""
        result: Index = []
        bounds = strides_of(self.space)
        for axis in self.kernel.over.axes:
            atoms = split_atoms(axis, bounds)
            total: Any = 0
            weight = axis_size(axis)
            for size, stride in atoms if atoms is not None else axis:
                weight //= size
                digit = self._digit(index, bounds, size, stride, exact=atoms is not None)
                total = total + (digit * weight if weight > 1 else digit)
            result.append(total)
        return result

    def _digit(
        self, index: Sequence[Any], bounds: Sequence[int], size: int, stride: int, exact: bool
    ) -> Any:
        if not exact:
            flat: Any = 0
            for position, low in zip(index, bounds, strict=True):
                flat = flat + position * low
            return (flat // stride) % size
        owner = next(
            k for k, low in enumerate(bounds) if low <= stride < low * max(self.space[k], 1)
        )
        inner = stride // bounds[owner]
        position = index[owner]
        if inner > 1:
            position = position // inner
        return position % size if inner * size < self.space[owner] else position

    def inside(self, index: Sequence[Any]) -> Expr | None:
        """Whether the tail has an element at a loop index; None where it always does."""
        from tvm import tirx

        place = self.tail_index(index) if self.edges else ()
        return all_of([tirx.LT(place[axis], self.tail.shape[axis]) for axis in self.edges])

    def store(self, index: Sequence[Any], value: Expr | None = None) -> Stmt:
        """Stores the tail's element at a loop index, if it has one there."""
        from tvm import tirx

        made, guard = self.store_inside(index, value), self.inside(index)
        return made if guard is None else tirx.IfThenElse(guard, made, None)

    def store_inside(self, index: Sequence[Any], value: Expr | None = None) -> Stmt:
        """Stores the tail's element at a loop index, which it has."""
        place = self.tail_index(index)
        if self.by_space is not None:
            address = self.by_space.address(index)
        else:
            address = self.target.view.address(place)

        def compute() -> Expr:
            return self.lowering.access(self.tail).load(place) if value is None else value

        return self.lowering.statement(
            compute, lambda result: write(self.out, address, result, self.tail.dtype)
        )

    @property
    def stores_late(self) -> bool:
        """Whether a thread computes all its results before it stores the first.

        What follows the anchor may read memory, and the compiler cannot know that no store changes
        it: after each store the next reads would wait for the memory anew.
        """
        return self.tail.dtype in ("float32", "float16")

    def compute(self, index: Sequence[Any], finish: Callable[[Expr], Stmt]) -> Stmt:
        """``finish`` with the tail's element at a loop index, if it has one there."""
        from tvm import tirx

        made, guard = self.compute_inside(index, finish), self.inside(index)
        return made if guard is None else tirx.IfThenElse(guard, made, None)

    def compute_inside(self, index: Sequence[Any], finish: Callable[[Expr], Stmt]) -> Stmt:
        """``finish`` with the tail's element at a loop index, which it has."""
        place = self.tail_index(index)
        made: Stmt = self.lowering.statement(
            lambda: self.lowering.access(self.tail).load(place), finish
        )
        return made

    def give(self, value: Expr) -> None:
        """The anchor's element is ``value`` from now on."""
        self._given = value

    # --- loops --------------------------------------------------------------------------------

    @abstractmethod
    def over_space(
        self, work: int, dtype: str, body: Callable[[Index, int, list[tuple[int, int]]], Stmt]
    ) -> Stmt:
        """Goes through the space. ``body(index, axis, pieces)`` treats a run along an axis, or
        where that is -1, one element.

        :param work: how much there is to do, for what is not worth to be shared.
        :param dtype: what is computed with.
        """

    @abstractmethod
    def rows(self, extents: Sequence[int], body: Callable[[Index], Stmt], work: int) -> Stmt:
        """Goes through the leading axes of the space."""

    def elementwise(self) -> Stmt:
        """A kernel without a reduction."""

        def body(index: Index, axis: int, widths: list[tuple[int, int]]) -> Stmt:
            return self.vectors(
                widths, lambda at, lane: self.store(shifted(index, axis, at + lane))
            )

        return self.over_space(self.tail.type.size, self.tail.dtype, body)

    def reduction(self, anchor: Term) -> Stmt:
        """A reduction, each result in a run by its own loop."""
        (child,) = anchor.children
        _, inner = self._accumulator(anchor)
        step, extents, element = self._reduced(anchor)
        count = math.prod(extents)
        order = self._reduce_order(child, len(extents))
        work = anchor.type.size * max(count, 1) // 4

        def body(index: Index, axis: int, widths: list[tuple[int, int]]) -> Stmt:
            size = sum(width for _, width in widths)

            def lanes_of(work: Callable[[Any], Stmt]) -> Stmt:
                return self.vectors(widths, lambda at, lane: work(at + lane))

            totals = Totals("total", size, inner, step, count, lanes_of)
            total = totals.current

            def add(item: Index) -> Stmt:
                placed: Index = [None] * len(extents)
                for k, position in zip(order, item, strict=True):
                    placed[k] = position

                def one(at: int, lane: Any) -> Stmt:
                    where = shifted(index, axis, at + lane)

                    def value() -> Expr:
                        new = self.lowering.name(element(where, placed), inner)
                        return scalars.accumulate(step, get(total, at + lane), new, inner)

                    return self.lowering.statement(
                        value, lambda result: put(total, at + lane, result)
                    )

                return self.vectors(widths, one)

            def done(at: int, lane: Any) -> Stmt:
                self.give(self._finished(anchor, get(totals.final, at + lane)))
                return self.store(shifted(index, axis, at + lane))

            loops = [totals.loops([extents[k] for k in order], add)] if count else []
            return sequence([*totals.start(), *loops, self.vectors(widths, done)])

        return self.over_space(work, inner, body)

    def _reduced(self, anchor: Term) -> tuple[str, Shape, Callable[[Index, Index], Expr]]:
        """How totals are added to, the loops of a reduction, and the terms of the result at an
        index by their position in those loops."""
        (child,) = anchor.children
        name = anchor["function"]
        dtype, inner = self._accumulator(anchor)
        tuple_axis = child.item[0] if name == "dot" else 0

        def element(index: Index, item: Index) -> Expr:
            def value(position: Index) -> Expr:
                loaded = self.lowering.value(child, position)
                return scalars.convert(scalars.convert(loaded, child.dtype, dtype), dtype, inner)

            if name != "dot":
                return value([*index, *item])
            if not tuple_axis:
                return scalars.const(1, inner)  # A product of nothing.
            result = value([*index, 0, *item])
            for k in range(1, tuple_axis):
                result = result * value([*index, k, *item])
            return result

        step = {"dot": "sum", "mean": "sum"}.get(name, name)
        return step, child.item[1:] if name == "dot" else child.item, element

    def _finished(self, anchor: Term, total: Expr) -> Expr:
        """A reduction's result, given its total."""
        _, inner = self._accumulator(anchor)
        if anchor["function"] == "mean":
            total = scalars.mean(total, math.prod(anchor.children[0].item), inner)
        return scalars.convert(total, inner, anchor.dtype)

    def _accumulator(self, anchor: Term) -> tuple[str, str]:
        """The dtype of a reduction's terms, and the one its total is kept in."""
        if anchor.dtype == "bool":
            return "uint8", "uint8"
        return anchor.dtype, scalars.wide(anchor.dtype)

    def _reduce_order(self, child: Term, count: int) -> list[int]:
        """Item axes with the largest stride outermost, where the operand is a view."""
        view = self.lowering.access(child).view
        axes = list(range(count))
        if view is not None:
            item = view.axes[-count:] if count else ()
            inner = [axis[-1][1] if axis else 0 for axis in item]
            axes.sort(key=lambda k: -inner[k])
        return axes

    def arg_extreme(self, anchor: Term) -> Stmt:
        """Position of the first extreme element; a NaN counts as extreme."""
        from tvm import tirx

        (child,) = anchor.children
        greater = anchor["function"] == "argmax"
        length = child.item[0]
        dtype = "uint8" if child.dtype == "bool" else scalars.value_dtype(child.dtype)

        def load(index: Index, k: Any) -> Expr:
            value = self.lowering.scoped(lambda: self.lowering.access(child).load([*index, k]))
            return scalars.convert(value, child.dtype, dtype)

        def one(index: Index) -> Stmt:
            best = declare("best", 1, dtype, local=True)
            place = declare("place", 1, "int32", local=True)
            here = tirx.Var("here", dtype)

            def test(k: Any) -> Stmt:
                known = get(best, 0)
                better = tirx.GT(here, known) if greater else tirx.LT(here, known)
                if dtype in FLOATS:
                    fresh = tirx.And(
                        scalars.is_nan(here, dtype), tirx.Not(scalars.is_nan(known, dtype))
                    )
                    better = tirx.Or(
                        fresh, tirx.And(better, tirx.Not(scalars.is_nan(known, dtype)))
                    )
                k = tirx.const(k, "int32") if isinstance(k, int) else k
                update = tirx.IfThenElse(
                    better, sequence([put(best, 0, here), put(place, 0, k)]), None
                )
                return sequence([tirx.Bind(here, load(index, k)), update])

            search = repeat(length, test)
            end = self.store(index, get(place, 0).astype("int64"))
            return sequence(
                [
                    allocate(best),
                    allocate(place),
                    put(best, 0, load(index, 0)),
                    put(place, 0, tirx.const(0, "int32")),
                    search,
                    end,
                ]
            )

        return self.rows(list(self.space), one, anchor.type.size * length)
