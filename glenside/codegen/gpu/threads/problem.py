"""Parallel mappings of products to threads as a constraint problem.

Variables, one set a loop of the :class:`~.gpu.space.ProductSpace`: threads and registers along
loops over results; stage, split over groups and threads along reduced loops. Everything else is a
function of them that the space's index maps give: the tile of a loop is ``threads * registers``,
the box of an operand's base that a stage reads is ``1 + sum of steps * (tile - 1)`` along each
dimension. The constraints are what the device and the kernels ask for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.solver import Constraints, Problem
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.scalars import itemsize

_WASTE = 1.25
"""Most work, masked work included, by work that counts."""
_SPARE_REGISTERS = 30
"""Registers for addresses and loops."""
_LEAST_STEPS, _MOST_STEPS = 24, 160
"""Reduced steps of a thread, of a group between two barriers."""


@dataclass(frozen=True)
class _Choice:
    """One way to cut a loop."""

    threads: int
    turns: int
    vector: int
    chunk: int
    split: int
    tile: int
    groups: int


class ThreadProblem(Problem[ThreadMapping]):
    """The constraint problem of one product on one device.

    :param occupying: whether a reduction has to occupy the device where results alone do not.
    """

    def __init__(self, space: ProductSpace, limits: DeviceLimits, occupying: bool = True) -> None:
        super().__init__()
        self.space, self.limits, self.occupying = space, limits, occupying
        self.element = [itemsize(each.dtype) for each in (space.resident, space.streamed)]
        self.inner = itemsize(space.accumulate)

    # --- the ways to cut a loop -----------------------------------------------------------------

    def tables(self) -> list[list[_Choice]]:
        """For every loop, the ways to cut it that come into question."""
        space = self.space
        moving = [k for k in space.of("n") if space.axes[k].size > 1]
        strides = self._streamed_distance
        moving.sort(key=strides)
        reduced = [k for k in space.of("k") if not self._is_window(k)]
        reduced.sort(key=lambda k: -space.axes[k].size)
        rows = sorted(space.of("m"), key=lambda k: -k)
        tables = []
        for k, axis in enumerate(space.axes):
            if axis.role == "k":
                main = bool(reduced) and k == reduced[0]
                tables.append(self._reduced_choices(k, main))
            elif axis.role == "m":
                main_row = k == max(rows, key=lambda r: (space.axes[r].size > 1, r))
                tables.append(self._result_choices(k, [4, 2, 1] if main_row else [1], (1, 2), 64))
            elif axis.role == "batch":
                tables.append(self._result_choices(k, [1], (1,), 32))
            elif moving and k == moving[0]:
                windows = bool(space.windows_of(k))
                # With rows of the resident operand to share them, long runs pay.
                long = windows and axis.size >= 16 and space.size("m") > 1
                runs = [4, 7, 8, 14] if long else [1, 2, 4, 7, 8, 14]
                tables.append(self._result_choices(k, runs, (1,) if windows else (1, 2), 64))
            elif len(moving) > 1 and k == moving[1]:
                tables.append(self._result_choices(k, [1, 2, 4], (1,), 16))
            else:
                tables.append(self._result_choices(k, [1], (1,), 4))
        return tables

    def _streamed_distance(self, axis: int) -> int:
        """How far apart in the streamed operand's base a loop's steps are."""
        streamed = self.space.streamed
        sizes = [math.prod(streamed.shape[d + 1 :]) for d in range(len(streamed.shape))]
        return sum(s * size for s, size in zip(streamed.steps[axis], sizes, strict=True))

    def _is_window(self, axis: int) -> bool:
        return any(axis in self.space.windows_of(n) for n in self.space.of("n"))

    def _alone(self, axis: int) -> bool:
        """Whether a reduced loop alone moves along one dimension of the streamed operand."""
        streamed = self.space.streamed
        found = streamed.dimensions_of(axis)
        return len(found) == 1 and streamed.axes_of(found[0]) == [axis]

    def _result_choices(
        self, k: int, vectors: Sequence[int], turns: Sequence[int], most: int
    ) -> list[_Choice]:
        size = self.space.axes[k].size
        made: dict[tuple[int, int, int], _Choice] = {}
        for vector in vectors:
            if vector > max(1, size) and vector > 1:
                continue
            for turn in turns:
                whole = -(-size // (vector * turn))
                counts = {whole} | {2**i for i in range(7)} | _divisors(whole)
                for count in counts:
                    if count > most or count > whole:
                        continue
                    tile = count * turn * vector
                    groups = -(-size // tile)
                    if tile > 1 and groups * tile > _WASTE * size and tile > 4:
                        continue
                    made[count, turn, vector] = _Choice(count, turn, vector, 1, 1, tile, groups)
        return list(made.values())

    def _reduced_choices(self, k: int, main: bool) -> list[_Choice]:
        size = self.space.axes[k].size
        if self._is_window(k) or (not self._alone(k) and not main):
            return [_Choice(1, 1, 1, size, 1, size, 1)]
        chunks = {2**i for i in range(8) if 2**i <= size}
        if size <= 32:
            chunks.add(size)
        if not any(c >= _LEAST_STEPS and -(-size // c) * c <= _WASTE * size for c in chunks):
            # No power of two is long enough and wastes little: of 48 steps, say.
            chunks |= {c for c in (_LEAST_STEPS, 2 * _LEAST_STEPS, size) if c <= min(size, 64)}
        splits = {2**i for i in range(7) if 2**i <= size} if main else {1}
        made = []
        for chunk in sorted(chunks):
            for split in sorted(splits):
                stages = -(-size // (split * chunk))
                covered = stages * split * chunk
                if covered != size and (not self._alone(k) or covered > _WASTE * size):
                    continue
                for count in (1, 2, 4) if main else (1,):
                    if chunk % count == 0:
                        made.append(_Choice(count, 1, 1, chunk, split, chunk, 1))
        return made

    def row(self, mapping: ThreadMapping) -> list[_Choice]:
        m, made = mapping, []
        for k, axis in enumerate(self.space.axes):
            tile = m.chunk[k] if axis.role == "k" else m.threads[k] * m.registers[k]
            groups = 1 if axis.role == "k" else -(-axis.size // tile)
            turns = m.registers[k] // m.vector[k]
            made.append(
                _Choice(m.threads[k], turns, m.vector[k], m.chunk[k], m.split[k], tile, groups)
            )
        return made

    def mapping(self, rows: Sequence[_Choice]) -> ThreadMapping:
        space = self.space
        along = math.prod(rows[k].threads for k in space.of("m"))
        others = math.prod(rows[k].threads for k in space.of("n"))
        # One row of the resident operand: threads have nothing but windows' overlap in common,
        # which the cache serves without a barrier.
        alone = space.size("m") == 1
        return ThreadMapping(
            tuple(p.threads for p in rows),
            tuple(p.turns * p.vector for p in rows),
            tuple(p.vector for p in rows),
            tuple(p.chunk for p in rows),
            tuple(p.split for p in rows),
            staged=(others > 1 and not alone, along > 1 or (self._windows and not alone)),
        )

    @functools.cached_property
    def _windows(self) -> bool:
        """Whether neighbouring rows of the streamed operand overlap."""
        return any(self.space.windows_of(n) for n in self.space.of("n"))

    # --- constraints ----------------------------------------------------------------------------

    def state(self, constraints: Constraints, tables: Sequence[Sequence[Any]]) -> list[Any]:
        """What the device and the kernels ask for."""
        space, limits = self.space, self.limits
        roles = [axis.role for axis in space.axes]
        fields: list[dict[str, Any]] = []
        variables = []
        for loop, table in zip(space.names, tables, strict=True):
            choice = constraints.choice(table, f"choice[{loop}]")
            variables.append(choice)
            columns: dict[str, Any] = {}
            for name in ("threads", "turns", "vector", "chunk", "split", "tile", "groups"):
                values = [getattr(each, name) for each in table]
                columns[name] = constraints.column(choice, values, f"{name}[{loop}]")
            fields.append(columns)

        def over(name: str, *which: str) -> list[Any]:
            return [f[name] for f, role in zip(fields, roles, strict=True) if role in which]

        threads = constraints.product(over("threads", "batch", "m", "n", "k"), 1 << 16, "threads")
        constraints.at_most("threads", threads, limits.threads_per_group)
        constraints.at_most("threads", threads, limits.group_size[0])
        work = space.size("batch", "m", "n", "k")
        if work >= 1 << 20 and limits.warp > 1:
            # Few warps cannot fetch enough at a time.
            least = min((4 if work >= 1 << 26 else 2) * limits.warp, limits.threads_per_group // 2)
            constraints.at_least("threads", threads, least)
            constraints.at_most("threads", threads, max(512, 2 * limits.warp))
            constraints.whole_multiple("threads", threads, limits.warp, 1 << 16)

        turns = constraints.product(over("turns", "batch", "m", "n"), 1 << 10, "turns")
        vectors = constraints.product(over("vector", "batch", "m", "n"), 1 << 10, "vectors")
        sums = constraints.product([turns, vectors], 1 << 12, "sums")
        rows = constraints.product(
            [*over("turns", "batch", "m"), *over("vector", "batch", "m")], 1 << 10, "rows"
        )
        run = self._run_length(constraints, fields)
        words = max(1, self.inner // 4)
        used = words * sums + rows + run + _SPARE_REGISTERS
        constraints.at_most("registers", used, min(limits.thread_registers, 200))
        together = constraints.product([constraints.named(used, 1 << 13), threads], 1 << 24)
        constraints.at_most("registers", together, limits.unit_registers)
        if space.size("m") >= 16 and space.size("batch", "n") >= 16 and work >= 1 << 20:
            constraints.at_least("registers", sums, min(16, limits.thread_registers // 8))
        elif work >= 1 << 20:
            constraints.at_least("registers", sums, 2)

        resident = constraints.product(
            [*over("chunk", "k"), *over("tile", "batch", "m")], 1 << 22, "resident"
        )
        extents = []
        streamed = space.streamed
        for d in range(len(streamed.shape)):
            parts = [
                streamed.steps[k][d] * (fields[k]["chunk" if roles[k] == "k" else "tile"] - 1)
                for k in streamed.axes_of(d)
            ]
            extents.append(constraints.named(1 + sum(parts), 1 << 16, f"box[{d}]"))
        box = constraints.product(extents, 1 << 22, "box")
        shared = constraints.product(over("threads", "k"), 1 << 10, "shared")
        # Sums that threads with the same results hand to each other.
        exchanged = constraints.product([sums, threads], 1 << 22, "exchanged")
        extra = constraints.conditional(exchanged, shared, 1 << 22)
        # Sums have gaps against bank conflicts, one in 32; the parts are rounded up.
        total = 32 * (self.element[0] * resident + self.element[1] * box) + 33 * self.inner * extra
        constraints.at_most("local memory", total, 32 * (limits.local_bytes - 384))

        split = constraints.product(over("split", "k"), 1 << 12, "split")
        grid = (
            constraints.product(over("groups", "batch", "n"), 1 << 31, "column groups"),
            constraints.product(over("groups", "m"), 1 << 31, "row groups"),
            split,
        )
        for size, most in zip(grid, limits.grid_size, strict=True):
            constraints.at_most("grid", size, most)
        results = space.size("batch", "m", "n")
        scratch = split * (results * self.inner)
        constraints.at_most_if_above("partial sums", scratch, limits.scratch_bytes, split, 1)
        # A split is there to occupy the device, not beyond.
        blocks = constraints.product([grid[0], grid[1]], 1 << 31, "blocks")
        whole = constraints.product([blocks, split], 1 << 31, "all groups")
        constraints.at_most_if_above("partial sums", whole, 3 * limits.compute_units, split, 1)
        # Where results alone do not occupy the device, the reduction has to.
        most = space.size("k") // 16 * (space.size("batch", "m", "n") // 2048)
        if self.occupying and work >= 1 << 20 and most >= 8 * limits.compute_units:
            busy = constraints.product([whole, shared], 1 << 31)
            constraints.at_least("partial sums", busy, limits.compute_units * 3 // 4)

        main = next((k for k in reversed(space.of("m")) if space.axes[k].size > 1), None)
        if main is not None and space.axes[main].size % 4 == 0:
            constraints.at_least("alignment", fields[main]["vector"], 4)
        for k in space.of("n"):
            if not space.windows_of(k) and space.axes[k].size % 4 == 0 and self._nearest(k):
                constraints.not_in("alignment", fields[k]["vector"], (2, 7, 14))
        for d in self._contiguous():
            least = min(8, streamed.shape[d])
            if work >= 1 << 16:
                constraints.at_least("coalescing", extents[d], least)
        # All threads take the same stages, since the tables hold stages that threads divide.
        # Between two barriers a thread takes a few dozen reduced steps: fewer, and waiting is most
        # of what it does; more only need more memory.
        steps = constraints.product(over("chunk", "k"), 1 << 22, "steps")
        reduced = space.size("k")
        if work >= 1 << 20:
            windows = [axis.size for k, axis in enumerate(space.axes) if self._is_window(k)]
            constraints.at_most("barriers", steps, max(_MOST_STEPS, math.prod(windows)))
            least_steps = constraints.product([shared, min(_LEAST_STEPS, reduced)], 1 << 24)
            constraints.at_least("barriers", steps, least_steps)
        for k, role in enumerate(roles):
            if role == "k":
                continue
            covered = constraints.product([fields[k]["tile"], fields[k]["groups"]], 1 << 31)
            constraints.at_least("tiles", covered, space.axes[k].size)
        return variables

    def _nearest(self, k: int) -> bool:
        strides = self.space.streamed.strides
        if strides is None:
            return False
        return any(strides[d] == 1 for d in self.space.streamed.dimensions_of(k))

    def _contiguous(self) -> list[int]:
        """The dimension of the streamed operand along which memory is contiguous."""
        streamed = self.space.streamed
        if streamed.strides is None:
            return []
        return [
            d
            for d, stride in enumerate(streamed.strides)
            if stride == 1 and streamed.shape[d] > 1 and streamed.axes_of(d)
        ][:1]

    def _run_length(self, constraints: Constraints, fields: Sequence[dict[str, Any]]) -> Any:
        """Elements of the streamed operand that a thread holds: along the nearest loop also what
        windows add."""
        space = self.space
        moving = [k for k in space.of("n") if space.axes[k].size > 1]
        nearest = min(moving, key=self._streamed_distance, default=None)
        parts = []
        for k in space.of("batch", "n"):
            length = fields[k]["vector"]
            windows = space.windows_of(k)
            if windows and k == nearest:
                d = space.streamed.dimensions_of(k)[-1]
                step = space.streamed.steps[k][d]
                widest = max(space.streamed.steps[w][d] * (space.axes[w].size - 1) for w in windows)
                length = constraints.named(1 + step * (length - 1) + widest, 1 << 12)
            parts += [length, fields[k]["turns"]]
        return constraints.product(parts, 1 << 12, "run")


def _divisors(n: int) -> set[int]:
    return {d for d in range(1, min(n, 64) + 1) if n % d == 0}
