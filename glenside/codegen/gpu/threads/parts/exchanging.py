"""Exchanging: threads hand their sums to each other through local memory before results are
stored."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from glenside.codegen.gpu import launching
from glenside.codegen.gpu.threads.parts.local_memory import Part, skewed
from glenside.codegen.gpu.threads.parts.storing import Store
from glenside.codegen.loops import Expr, Stmt, all_of, allocate, get, put, sequence, unflatten

_TOGETHER = 16
"""Results that a thread computes before it stores the first of them."""


class Exchange:
    """Sums of a group's threads go through the part ``exchanged`` of local memory to ``store``."""

    def __init__(self, store: Store, exchanged: Part) -> None:
        self.store, self.exchanged = store, exchanged
        self.placement, self.product = store.placement, store.product
        self.tiling, self.mapping = store.tiling, store.mapping
        self.partial_sums = store.partial is not None

    def statements(self) -> list[Stmt]:
        """Adds up the sums of threads that share results, and stores in the order of memory.

        Every thread leaves its sums in local memory, by the place of their results in the tile.
        """
        from tvm import tirx

        tiling, mapping = self.tiling, self.mapping
        exchanged = self.exchanged
        shared = tiling.reduced_in_group
        order = self._result_order()
        sizes = [tiling.tile[k] for k in order]
        whole = math.prod(sizes)
        member: Any = 0
        for axis in self.placement.reduced:
            member = member * mapping.threads[axis] + self.placement.thread_at[axis]

        def keep(turn: dict[int, Any], lane: dict[int, Any]) -> Stmt:
            flat: Any = member
            for axis, size in zip(order, sizes, strict=True):
                flat = flat * size + self.placement.in_tile(axis, turn[axis], lane[axis])
            value = get(self.store.total, self.placement.sum_at(turn, lane))
            return exchanged.put(skewed(flat), value)

        def place(turn: Any) -> tuple[Any, dict[int, Any], Expr | None]:
            flat = turn * self.placement.count + self.placement.thread
            inside = dict(zip(order, unflatten(flat, sizes), strict=True))
            places = {axis: self.placement.tile_at[axis] + place for axis, place in inside.items()}
            tests = [tirx.LT(flat, whole)] if whole % self.placement.count else []
            found = self.placement.tests(places, self.placement.m if self.partial_sums else ())
            tests += [found] if found is not None else []
            return flat, places, all_of(tests)

        def result(turn: Any, finish: Callable[[dict[int, Any], Expr], Stmt]) -> Stmt:
            flat, places, guard = place(turn)
            # All are fetched before they are added, so that the fetches are under way together.
            terms = launching.registers("terms", shared, self.product.accumulate)
            fetch = [put(terms, k, exchanged.get(skewed(flat + k * whole))) for k in range(shared)]
            total = functools.reduce(
                lambda one, k: one + get(terms, k), range(1, shared), get(terms, 0)
            )
            steps = [allocate(terms), *fetch, put(terms, 0, total)]
            return launching.guarded(guard, sequence([*steps, finish(places, get(terms, 0))]))

        def results(first: Any, count: int) -> Stmt:
            """So many of a thread's results, computed before the first is stored."""
            values = launching.registers("values", count, self.store.nest.tail.dtype)

            def store(at: Any) -> Stmt:
                _, places, guard = place(first + at)
                index = self.store.index(places)
                return launching.guarded(guard, self.store.nest.store(index, get(values, at)))

            def compute(at: Any) -> Stmt:
                return result(
                    first + at,
                    lambda places, value: self.store.compute_one(
                        places, value, lambda made: put(values, at, made)
                    ),
                )

            steps = [launching.unrolled(count, compute), launching.unrolled(count, store)]
            return sequence([allocate(values), *steps])

        turns = -(-whole // self.placement.count)
        if self.partial_sums or not self.store.nest.stores_late:
            made = [launching.unrolled(turns, lambda turn: result(turn, self.store.store_one))]
        else:
            made = []
            full, rest = divmod(turns, _TOGETHER)
            if full:
                made.append(
                    launching.unrolled(full, lambda turn: results(turn * _TOGETHER, _TOGETHER))
                )
            if rest:
                made.append(results(full * _TOGETHER, rest))
        steps = [launching.barrier()] if any(mapping.staged) and tiling.one_dtype else []
        steps += [self.store.over_sums(None, keep), launching.barrier()]
        return [*steps, *made]

    def _result_order(self) -> list[int]:
        """Loops over results as the results lie, the nearest last."""
        steps = self.product.out_steps
        if self.partial_sums:
            return [*self.product.of("batch"), *self.placement.n, *self.placement.m]
        if steps is None:
            return list(self.placement.results)
        return sorted(self.placement.results, key=lambda k: (-(steps[k] or 1 << 62), k))
