"""Storing: a thread's sums become results, or partial sums in scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.threads.parts.placing import Placement
from glenside.codegen.loops import Expr, Index, Stmt, get, put, sequence, vectorised


class Store:
    """Takes a thread's sums, ``total``, to results by way of ``nest``, or to the scratch memory
    ``partial`` where there is one."""

    def __init__(
        self, nest: ElementNest, placement: Placement, total: Any, partial: Any = None
    ) -> None:
        self.nest, self.placement, self.total, self.partial = nest, placement, total, partial
        self.product, self.mapping = placement.product, placement.mapping
        self.tiling = placement.tiling

    def sums(self) -> Stmt:
        """Stores what a thread has summed up."""
        return self._store_results() if self.partial is None else self._store_partial()

    def _store_results(self) -> Stmt:
        """A thread's results, to where they lie."""
        wide = self._wide_store()

        def over(body: Callable[[dict[int, Any], Any], Stmt]) -> Stmt:
            def one(turn: dict[int, Any], lane: dict[int, Any]) -> Stmt:
                places = self.placement.positions(turn, lane)
                made = body(places, self.placement.sum_at(turn, lane))
                if wide is not None:
                    return made
                return launching.guarded(self.placement.tests(places), made)

            return self.over_sums(wide, one)

        def compute(places: dict[int, Any], at: Any) -> Stmt:
            value = get(self.total, at)
            return self.compute_one(places, value, lambda made: put(self.total, at, made))

        def store(places: dict[int, Any], at: Any) -> Stmt:
            return self.nest.store(self.index(places), get(self.total, at))

        self.nest.lowering.vectorised = wide is not None
        if self.nest.stores_late and self.nest.tail.dtype == self.product.accumulate:
            made = sequence([over(compute), over(store)])
        else:
            made = over(lambda places, at: self.store_one(places, get(self.total, at)))
        self.nest.lowering.vectorised = False
        return made

    def _wide_store(self) -> int | None:
        """The loop along which results are stored as vectors, if memory allows it."""
        steps = self.product.out_steps
        if steps is None or self.nest.by_space is None:
            return None
        if not self.nest.lowering.vectorisable(self.nest.tail) or self.nest.tail.dtype != "float32":
            return None
        for axis in self.placement.results:
            vector = self.mapping.vector[axis]
            if steps[axis] != 1 or vector % 2:
                continue
            vector = 4 if vector % 4 == 0 else 2
            others = [
                step
                for other, step in enumerate(steps)
                if other != axis and self.product.axes[other].role != "k"
                and self.product.axes[other].size > 1
            ]  # fmt: skip
            aligned = all(step % vector == 0 for step in others)
            aligned = aligned and self.nest.by_space.offset % vector == 0
            if aligned and self.product.axes[axis].size % vector == 0:
                return axis
        return None

    def _store_partial(self) -> Stmt:
        """A thread's sums, to scratch memory."""
        m = self.placement.m
        wide = m[-1] if m and self.mapping.vector[m[-1]] > 1 else None

        def one(turn: dict[int, Any], lane: dict[int, Any]) -> Stmt:
            places = self.placement.positions(turn, lane)
            store = self.store_one(places, get(self.total, self.placement.sum_at(turn, lane)))
            if wide is not None:
                return store
            return launching.guarded(self.placement.tests(places, m), store)

        return self.over_sums(wide, one, m)

    def over_sums(
        self,
        wide: int | None,
        body: Callable[[dict[int, Any], dict[int, Any]], Stmt],
        padded: Sequence[int] = (),
    ) -> Stmt:
        """Loops over a thread's sums, the lanes of loop ``wide`` innermost and as a vector."""
        others = [(k, n) for k in self.placement.results for n in (0, 1) if not (k == wide and n)]
        sizes = [self.mapping.vector[k] if n else self.placement.turns(k) for k, n in others]

        def one(index: Index) -> Stmt:
            turn: dict[int, Any] = {}
            lane: dict[int, Any] = {}
            for (axis, lanes), at in zip(others, index[: len(others)], strict=True):
                (lane if lanes else turn)[axis] = at
            if wide is None:
                return body(turn, lane)
            first = {**lane, wide: index[-1] * width}
            guard = self.placement.positions(turn, first)
            vector = vectorised(
                width,
                lambda at: body(turn, {**lane, wide: index[-1] * width + at}),
            )
            return launching.guarded(self.placement.tests(guard, padded), vector)

        if wide is None:
            return launching.unrolled_nest(sizes, one)
        width = next(w for w in (4, 2, 1) if self.mapping.vector[wide] % w == 0)
        return launching.unrolled_nest([*sizes, self.mapping.vector[wide] // width], one)

    def store_one(self, places: dict[int, Any], value: Expr) -> Stmt:
        """One result, to where it lies or to scratch memory."""
        if self.partial is not None:
            return put(self.partial, self._partial_at(places), value)
        self.nest.give(scalars.convert(value, self.product.accumulate, self.product.dtype))
        return self.nest.store(self.index(places))

    def compute_one(
        self, places: dict[int, Any], value: Expr, finish: Callable[[Expr], Stmt]
    ) -> Stmt:
        """``finish`` with what one result becomes."""
        self.nest.give(scalars.convert(value, self.product.accumulate, self.product.dtype))
        return self.nest.compute(self.index(places), finish)

    def index(self, places: dict[int, Any]) -> Index:
        """A loop index by the places along the product's loops."""
        index: Index = [0] * len(self.nest.space)
        for axis, place in places.items():
            each = self.product.axes[axis]
            index[each.axis] = index[each.axis] + place * each.weight
        return index

    def _partial_at(self, places: dict[int, Any]) -> Any:
        """Partial sums lie by split, batch and streamed rows; resident rows, padded to whole tiles,
        are innermost."""
        flat: Any = 0
        for axis in self.placement.reduced:
            flat = flat * self.mapping.split[axis] + self.placement.split_at[axis]
        for axis in [*self.product.of("batch"), *self.placement.n]:
            flat = flat * self.product.axes[axis].size + places[axis]
        for axis in self.placement.m:
            flat = flat * (self.tiling.groups[axis] * self.tiling.tile[axis]) + places[axis]
        return flat
