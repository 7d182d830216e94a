"""Placing: which group and thread of a launch stands where along a product's loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen.gpu import launching
from glenside.codegen.gpu.space import Role
from glenside.codegen.gpu.threads.tiling import Tiling
from glenside.codegen.loops import Expr, Stmt, all_of, unflatten


class Placement:
    """Where a group and one of its threads stand along every loop.

    ``m``, ``n``, ``results`` and ``reduced`` number the loops of these kinds. Along each loop there
    are the position of the group among groups (``group_at``, along reduced ones ``split_at``) and
    of the thread in its group (``thread_at``), and the first position of the group's tile
    (``tile_at``).
    """

    def __init__(self, tiling: Tiling, group: Sequence[Any], thread: Any) -> None:
        self.tiling, self.product, self.mapping = tiling, tiling.space, tiling.mapping
        self.thread, self.count = thread, tiling.threads
        space, mapping = self.product, self.mapping
        self.m, self.n = space.of("m"), space.of("n")
        self.results = space.of("batch", "m", "n")
        self.reduced = space.of("k")
        axes = range(len(space.axes))
        self.group_at: list[Any] = [0] * len(space.axes)
        sides: tuple[tuple[Role, ...], ...] = (("batch", "n"), ("m",))
        for position, roles in zip(group[:2], sides, strict=True):
            own = space.of(*roles)
            for axis, at in zip(
                own, unflatten(position, [tiling.groups[k] for k in own]), strict=True
            ):
                self.group_at[axis] = at
        self.split_at: list[Any] = [0] * len(space.axes)
        for axis, at in zip(
            self.reduced,
            unflatten(group[2], [mapping.split[k] for k in self.reduced]),
            strict=True,
        ):
            self.split_at[axis] = at
        order = [*self.reduced, *space.of("batch")]
        order += [*self.n, *self.m] if mapping.resident_fast else [*self.m, *self.n]
        digits = unflatten(thread, [mapping.threads[k] for k in order])
        self.thread_at: list[Any] = [0] * len(space.axes)
        for axis, at in zip(order, digits, strict=True):
            self.thread_at[axis] = at
        self.tile_at = [self.group_at[k] * tiling.tile[k] for k in axes]

    def turns(self, axis: int) -> int:
        """How many times the threads of a group take ``vector`` results along a loop."""
        return self.mapping.registers[axis] // self.mapping.vector[axis]

    def in_tile(self, axis: int, turn: Any, lane: Any) -> Any:
        """A thread's result within the tile of its group."""
        vector = self.mapping.vector[axis]
        return self.thread_at[axis] * vector + turn * (self.mapping.threads[axis] * vector) + lane

    def positions(self, turn: dict[int, Any], lane: dict[int, Any]) -> dict[int, Any]:
        """Where a thread's result is along every loop over results."""
        return {
            axis: self.tile_at[axis] + self.in_tile(axis, turn[axis], lane[axis])
            for axis in self.results
        }

    def exact(self, axis: int) -> bool:
        """Whether every position of the tiles along a loop exists."""
        tiling = self.tiling
        if self.product.axes[axis].role == "k":
            reach = self.mapping.split[axis] * tiling.stages[axis] * tiling.tile[axis]
        else:
            reach = tiling.groups[axis] * tiling.tile[axis]
        return bool(reach == self.product.axes[axis].size)

    def k_start(self, axis: int, stage: Any) -> Any:
        """The first reduced position of a stage."""
        chunk, stages = self.mapping.chunk[axis], self.tiling.stages[axis]
        return self.split_at[axis] * (stages * chunk) + stage * chunk

    def sum_at(self, turn: dict[int, Any], lane: dict[int, Any]) -> Any:
        """The place of a sum among a thread's."""
        return self.register_at(self.results, turn, lane)

    def register_at(self, axes: Sequence[int], turn: dict[int, Any], lane: dict[int, Any]) -> Any:
        """The place among what a thread holds by its turns and lanes along these loops."""
        flat: Any = 0
        for axis in axes:
            flat = (flat * self.turns(axis) + turn[axis]) * self.mapping.vector[axis] + lane[axis]
        return flat

    def tests(self, places: dict[int, Any], padded: Sequence[int] = ()) -> Expr | None:
        """Whether a result exists; along ``padded`` loops there is room for all."""
        from tvm import tirx

        tests = [
            tirx.LT(place, self.product.axes[axis].size)
            for axis, place in places.items()
            if axis not in padded and not self.exact(axis)
        ]
        return all_of(tests)

    def share(self, total: int, body: Callable[[Any], Stmt]) -> Stmt:
        """``total`` pieces of work shared by the threads of a group."""
        from tvm import tirx

        rounds = -(-total // self.count)

        def one(turn: Any) -> Stmt:
            at = turn * self.count + self.thread
            inside = body(at)
            if total % self.count == 0:
                return inside
            if isinstance(turn, int) and (turn + 1) * self.count <= total:
                return inside
            return launching.guarded(tirx.LT(at, total), inside)

        return launching.unrolled(rounds, one)
