"""Parallel mappings of products as a constraint problem, solved by CP-SAT.

Variables, one set a loop of the :class:`~.gpu.space.ProductSpace`: threads and registers along
loops over results; stage, split over groups and threads along reduced loops. Everything else is a
function of them that the space's index maps give: the tile of a loop is ``threads * registers``,
the box of an operand's base that a stage reads is ``1 + sum of steps * (tile - 1)`` along each
dimension. The constraints are what the device and the kernels ask for, in named groups:

- ``threads``: a group has at most as many threads as the device allows, in whole warps;
- ``local memory``: what a stage holds fits;
- ``registers``: a thread's sums and what it multiplies fit, and so do all threads of a group;
- ``tiles``: a loop is cut into tiles that divide it, or its last tile is masked and little of it
  is wasted; a reduced loop that shares a dimension with another is staged as a whole;
- ``alignment``: registers are whole vectors, as memory lies;
- ``coalescing``: neighbouring threads read runs of at least a memory transaction;
- ``barriers``: all threads of a group take the same number of stages, with enough to do between
  two barriers;
- ``grid``: the launch is within the device's limits;
- ``partial sums``: scratch memory of a split reduction fits, and a split is worth it.

All solutions are enumerated (one worker, a deterministic budget) and ranked by the predicted time
of :mod:`.time`, to which devices that are short of memory add what scratch memory is worth
to them. If there is none, the solver says which groups cannot hold together.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen.gpu.matrices.mapping import (
    MatrixMapping,
    matrix_mappings,
    occupies,
)
from glenside.codegen.gpu.warpgroups.problem import TensorMapping, tensor_mappings
from glenside.errors import TargetError

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import Choose, DeviceLimits
    from glenside.codegen.gpu.space import ProductSpace

GROUPS = (
    "threads",
    "local memory",
    "registers",
    "tiles",
    "alignment",
    "coalescing",
    "barriers",
    "grid",
    "partial sums",
)
"""The names of the groups of constraints."""

_BUDGET = 20.0
"""Of CP-SAT's deterministic seconds, for one product."""
_TRIED = 16
"""Mappings of a product that are tried where a device refuses the best."""
_MOST = 20000
"""Solutions that are looked at."""
_BUFFERED = 500
"""Of the best, those that are also looked at with room for another stage."""
_WASTE = 1.25
"""Most work, masked work included, by work that counts."""
_SPARE_REGISTERS = 30
"""Registers for addresses and loops."""
_LEAST_STEPS, _MOST_STEPS = 24, 160
"""Reduced steps of a thread, of a group between two barriers."""


@dataclass(frozen=True)
class GpuMapping:
    """How the loops of a product space are spread over a device, one number a loop.

    A loop over results is cut into ``ceil(size / (threads * registers))`` groups of the grid,
    ``threads`` neighbouring threads and ``registers`` results in each thread, which are ``vector``
    neighbours at a time (the threads of a group take turns, ``vector`` results each). A reduced
    loop is cut into ``split`` groups of the grid, whose partial sums a second kernel adds up, into
    stages of ``chunk`` steps, and each stage into ``threads`` threads, whose sums are added up in
    local memory.
    """

    threads: tuple[int, ...]
    registers: tuple[int, ...]
    vector: tuple[int, ...]
    chunk: tuple[int, ...]
    split: tuple[int, ...]
    resident_fast: bool = True
    """Whether neighbouring threads lie along the resident operand's rows."""
    staged: tuple[bool, bool] = (True, True)
    """Whether the resident and the streamed operand are read through local memory."""
    gathered: bool = False
    """Whether results are brought together in local memory, to be stored in order."""
    buffers: int = 1
    """Stages that have room in local memory; with more than one, the next are brought while one is
    multiplied."""
    predicted: float = 0.0
    """Seconds, by the model."""

    def to_json(self) -> str:
        """Text that :meth:`from_json` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | dict[str, Any]) -> AnyMapping:
        """A mapping of any kind from its text, or from what ``json.loads`` makes of it."""
        given = json.loads(text) if isinstance(text, str) else text
        if "stages" in given:
            return TensorMapping.from_json(given)
        if "depth" in given:
            return MatrixMapping.from_json(given)
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
        }
        return cls(**fields)


def partial_bytes(space: ProductSpace, mapping: AnyMapping) -> int:
    """Bytes of scratch memory that the partial sums of a mapping take."""
    from glenside.codegen.gpu.threads.tiling import Tiling
    from glenside.codegen.gpu.warps.tiling import Parts

    if isinstance(mapping, GpuMapping):
        if math.prod(mapping.split) == 1:
            return 0
        return Tiling(space, mapping).partial_elements * _itemsize(space.accumulate)
    if isinstance(mapping, TensorMapping) and mapping.warps and mapping.split > 1:
        return 4 * Parts(space, mapping.split).elements
    return 0


def weighed(space: ProductSpace, mapping: AnyMapping, limits: DeviceLimits) -> float:
    """Seconds that a mapping is predicted to take, and what its scratch memory is worth."""
    if not limits.byte_seconds:
        return mapping.predicted
    return mapping.predicted + limits.byte_seconds * partial_bytes(space, mapping)


def _itemsize(dtype: str) -> int:
    return np.dtype("uint8" if dtype == "bool" else dtype).itemsize


def _order(mapping: GpuMapping) -> tuple[Any, ...]:
    """By time, then by all else."""
    m = mapping
    return (m.predicted, m.threads, m.registers, m.vector, m.chunk, m.split, m.resident_fast,
            m.staged, m.gathered, m.buffers)  # fmt: skip


AnyMapping = GpuMapping | MatrixMapping | TensorMapping
"""How a product is mapped: to threads, one of matrices to threads, or to matrix units."""


class InfeasibleMapping(TargetError):
    """No mapping obeys all constraints; ``groups`` names those that cannot hold together."""

    def __init__(self, message: str, groups: Sequence[str]) -> None:
        super().__init__(message)
        self.groups = tuple(groups)


def best_mapping(space: ProductSpace, limits: DeviceLimits) -> AnyMapping:
    """The mapping predicted to be fastest.

    :raises InfeasibleMapping: there is none.
    """
    return best_mappings(space, limits, 1)[0]


def chosen_mapping(
    space: ProductSpace,
    limits: DeviceLimits,
    choose: Choose | None,
    refused: Collection[AnyMapping] = (),
) -> AnyMapping:
    """What ``choose`` names, else the mapping predicted to be fastest.

    :param refused: mappings whose kernels the device does not run; the next best is then taken, of
        a few.
    :raises InfeasibleMapping: it names none, and there is none.
    """
    named = choose(space, limits) if choose is not None else None
    if named is not None and partial_bytes(space, named) > limits.scratch_bytes:
        named = None
    if not refused:
        return best_mapping(space, limits) if named is None else named
    passed = {replace(each, predicted=0.0) for each in refused}
    first = [best_mapping(space, limits)] if named is None else [named]
    for each in [*first, *best_mappings(space, limits, _TRIED)]:
        if replace(each, predicted=0.0) not in passed:
            return each
    raise InfeasibleMapping(
        f"a product of {space.key()}: {limits.name} refused the kernels of all {len(passed)} "
        "mappings that were tried",
        (),
    )


def best_mappings(space: ProductSpace, limits: DeviceLimits, count: int) -> Sequence[AnyMapping]:
    """Up to ``count`` mappings that differ in more than a detail, best predicted first: to matrix
    units where the device has them for the operands' dtype, else to threads, those of products of
    plain matrices and of any product in turn.

    :raises InfeasibleMapping: there is none.
    """
    on_matrix_units = tensor_mappings(space, limits, count)
    if on_matrix_units:
        return on_matrix_units
    matrices = matrix_mappings(space, limits, count)
    if matrices and count == 1 and occupies(matrices[0], space, limits):
        return matrices
    # Where results are few, a reduction that is split over groups may be faster.
    try:
        others = thread_mappings(space, limits, count)
    except InfeasibleMapping:
        if not matrices:
            raise
        others = []
    if not matrices or not others:
        return matrices or others
    # The best of all, then of either kind in turn: the predictions are not each other's.
    kinds: list[Sequence[AnyMapping]] = [matrices, others]
    kinds.sort(key=lambda kind: weighed(space, kind[0], limits))
    turns = itertools.zip_longest(*kinds)
    return [each for turn in turns for each in turn if each is not None][:count]


def thread_mappings(space: ProductSpace, limits: DeviceLimits, count: int) -> list[GpuMapping]:
    """The same of mappings to threads only.

    :raises InfeasibleMapping: there is none.
    """
    key = (space.key(), limits.name, limits)
    known = _solved.get(key[:2])
    if known is None or known[0] != limits:
        problem = MappingProblem(space, limits)
        known = limits, problem.ranked()
        if len(_solved) > 256:
            _solved.clear()
        _solved[key[:2]] = known
    return _different(known[1], count)


_solved: dict[tuple[str, str], tuple[Any, list[GpuMapping]]] = {}


def _different(ranked: Sequence[GpuMapping], count: int) -> list[GpuMapping]:
    """The first ones, at most two with the same block of registers and split, or the same tile."""
    if count == 1:
        return list(ranked[:1])
    seen: dict[Any, int] = {}
    chosen = []
    for mapping in ranked:
        block = ("block", mapping.registers, mapping.split)
        tile = ("tile", mapping.registers, mapping.threads)
        if seen.get(block, 0) >= 2 or seen.get(tile, 0) >= 2:
            continue
        for each in (block, tile):
            seen[each] = seen.get(each, 0) + 1
        chosen.append(mapping)
        if len(chosen) == count:
            break
    return chosen


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


class MappingProblem:
    """The constraint problem of one product on one device."""

    def __init__(self, space: ProductSpace, limits: DeviceLimits) -> None:
        self.space, self.limits = space, limits
        self.element = [_itemsize(each.dtype) for each in (space.resident, space.streamed)]
        self.inner = _itemsize(space.accumulate)
        self.occupying = True
        """Whether a reduction has to occupy the device where results alone do not."""

    # --- solutions ----------------------------------------------------------------------------

    def ranked(self) -> list[GpuMapping]:
        """All solutions found, best predicted first.

        :raises InfeasibleMapping: there is none.
        """
        from glenside.codegen.gpu.threads.time import predict_all

        most = self.limits.scratch_bytes
        # With what rows are padded by, which the problem leaves out.
        found = [each for each in self.solutions() if partial_bytes(self.space, each) <= most]
        if not found and most < type(self.limits).scratch_bytes:
            # There may be no room for the parts that would occupy the device.
            self.occupying = False
            found = [each for each in self.solutions() if partial_bytes(self.space, each) <= most]
        if not found:
            raise self.conflict()
        found += self._variants(found)

        def timed(mappings: Sequence[GpuMapping]) -> list[GpuMapping]:
            times = predict_all(self.space, mappings, self.limits)
            return [replace(m, predicted=float(t)) for m, t in zip(mappings, times, strict=True)]

        def order(mapping: GpuMapping) -> tuple[Any, ...]:
            return weighed(self.space, mapping, self.limits), *_order(mapping)

        ranked = sorted(timed(found), key=order)
        buffered = self._buffered(ranked[:_BUFFERED])
        return sorted([*ranked, *timed(buffered)], key=order) if buffered else ranked

    def _variants(self, found: Sequence[GpuMapping]) -> list[GpuMapping]:
        """Mappings that obey the same constraints: other ways to add up, to store and to read."""
        space = self.space
        made = []
        rows = space.of("m")
        for each in found:
            split = math.prod(each.split)
            alone = all(each.threads[k] == 1 for k in space.of("k"))
            results = math.prod(each.threads) * math.prod(each.registers)
            fits = 1.1 * results * self.inner + 384 <= self.limits.local_bytes
            if split == 1 and alone:
                made.append(replace(each, resident_fast=False))
                if fits and space.size("m") > 1:
                    made.append(replace(each, gathered=True))
            if any(each.staged) and all(each.threads[k] == 1 for k in rows):
                made.append(replace(each, staged=(False, each.staged[1])))
        return made

    def _buffered(self, found: Sequence[GpuMapping]) -> list[GpuMapping]:
        """The same with room for another stage in local memory, where a device can fetch in the
        background what a thread copies as it is."""
        from glenside.codegen.gpu.threads.tiling import Tiling

        streamed = self.space.streamed
        if not self.limits.copies_in_background or self.element[0] % 4 or self.element[1] % 4:
            return []
        made = []
        for each in found:
            if each.staged[1] and streamed.memory is None:
                continue
            several = replace(each, buffers=2)
            tiling = Tiling(self.space, several)
            room = any(each.staged) and tiling.local_bytes() <= self.limits.local_bytes
            if room and tiling.buffers == several.buffers:
                made.append(several)
        return made

    def solutions(self) -> Iterable[GpuMapping]:
        """The mappings that obey all constraints."""
        from ortools.sat.python import cp_model

        model, variables, _ = self._model(None)
        found: list[GpuMapping] = []
        outer = self

        class Collect(cp_model.CpSolverSolutionCallback):
            def on_solution_callback(self) -> None:
                found.append(outer._mapping([self.value(v) for v in variables]))
                if len(found) >= _MOST:
                    self.stop_search()

        solver = self._solver()
        solver.parameters.enumerate_all_solutions = True
        solver.solve(model, Collect())
        return found

    def conflict(self) -> InfeasibleMapping:
        """Why there is no solution: a set of groups of constraints that cannot hold together."""
        from ortools.sat.python import cp_model

        model, _, literals = self._model(cp_model)
        model.add_assumptions(list(literals.values()))
        solver = self._solver()
        groups: list[str] = []
        if solver.solve(model) == cp_model.INFEASIBLE:
            core = set(solver.sufficient_assumptions_for_infeasibility())
            groups = [name for name, literal in literals.items() if literal.index in core]
        named = ", ".join(groups) or "its budget of search"
        return InfeasibleMapping(
            f"a product of {self.space.key()} cannot be mapped to {self.limits.name}: "
            f"these constraints conflict: {named}",
            groups,
        )

    def _solver(self) -> Any:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = _BUDGET
        solver.parameters.random_seed = 0
        # No linear programs: all that counts here is how fast solutions are propagated.
        solver.parameters.linearization_level = 0
        return solver

    # --- the ways to cut a loop -----------------------------------------------------------------

    def _tables(self) -> list[list[_Choice]]:
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

    def _mapping(self, choices: Sequence[int]) -> GpuMapping:
        picked = [table[c] for table, c in zip(self._known_tables, choices, strict=True)]
        space = self.space
        rows = math.prod(picked[k].threads for k in space.of("m"))
        others = math.prod(picked[k].threads for k in space.of("n"))
        # One row of the resident operand: threads have nothing but windows' overlap in common,
        # which the cache serves without a barrier.
        alone = space.size("m") == 1
        return GpuMapping(
            tuple(p.threads for p in picked),
            tuple(p.turns * p.vector for p in picked),
            tuple(p.vector for p in picked),
            tuple(p.chunk for p in picked),
            tuple(p.split for p in picked),
            staged=(others > 1 and not alone, rows > 1 or (self._windows and not alone)),
        )

    @functools.cached_property
    def _windows(self) -> bool:
        """Whether neighbouring rows of the streamed operand overlap."""
        return any(self.space.windows_of(n) for n in self.space.of("n"))

    # --- constraints ----------------------------------------------------------------------------

    def _model(self, assumed: Any) -> tuple[Any, list[Any], dict[str, Any]]:
        """The model, its decision variables, and the literal of each group if ``assumed``."""
        from ortools.sat.python import cp_model

        self._known_tables = self._tables()
        builder = _Builder(cp_model.CpModel(), assumed is not None)
        model, space, limits = builder.model, self.space, self.limits
        roles = [axis.role for axis in space.axes]
        fields: list[dict[str, Any]] = []
        variables = []
        for k, table in enumerate(self._known_tables):
            choice = model.new_int_var(0, len(table) - 1, f"choice{k}")
            variables.append(choice)
            columns: dict[str, Any] = {}
            for name in ("threads", "turns", "vector", "chunk", "split", "tile", "groups"):
                values = [getattr(each, name) for each in table]
                columns[name] = builder.column(choice, values, f"{name}{k}")
            fields.append(columns)

        def over(name: str, *which: str) -> list[Any]:
            return [f[name] for f, role in zip(fields, roles, strict=True) if role in which]

        threads = builder.product(over("threads", "batch", "m", "n", "k"), 1 << 16)
        builder.at_most("threads", threads, limits.threads_per_group)
        builder.at_most("threads", threads, limits.group_size[0])
        work = space.size("batch", "m", "n", "k")
        if work >= 1 << 20 and limits.warp > 1:
            # Few warps cannot fetch enough at a time.
            least = min((4 if work >= 1 << 26 else 2) * limits.warp, limits.threads_per_group // 2)
            builder.at_least("threads", threads, least)
            builder.at_most("threads", threads, max(512, 2 * limits.warp))
            builder.whole_multiple("threads", threads, limits.warp, 1 << 16)

        turns = builder.product(over("turns", "batch", "m", "n"), 1 << 10)
        vectors = builder.product(over("vector", "batch", "m", "n"), 1 << 10)
        sums = builder.product([turns, vectors], 1 << 12)
        rows = builder.product(
            [*over("turns", "batch", "m"), *over("vector", "batch", "m")], 1 << 10
        )
        run = self._run_length(builder, fields)
        words = max(1, self.inner // 4)
        used = words * sums + rows + run + _SPARE_REGISTERS
        builder.at_most("registers", used, min(limits.thread_registers, 200))
        together = builder.product([builder.named(used, 1 << 13), threads], 1 << 24)
        builder.at_most("registers", together, limits.unit_registers)
        if space.size("m") >= 16 and space.size("batch", "n") >= 16 and work >= 1 << 20:
            builder.at_least("registers", sums, min(16, limits.thread_registers // 8))
        elif work >= 1 << 20:
            builder.at_least("registers", sums, 2)

        resident = builder.product([*over("chunk", "k"), *over("tile", "batch", "m")], 1 << 22)
        extents = []
        streamed = space.streamed
        for d in range(len(streamed.shape)):
            parts = [
                streamed.steps[k][d] * (fields[k]["chunk" if roles[k] == "k" else "tile"] - 1)
                for k in streamed.axes_of(d)
            ]
            extents.append(builder.named(1 + sum(parts), 1 << 16))
        box = builder.product(extents, 1 << 22)
        shared = builder.product(over("threads", "k"), 1 << 10)
        # Sums that threads with the same results hand to each other.
        exchanged = builder.product([sums, threads], 1 << 22)
        extra = builder.conditional(exchanged, shared, 1 << 22)
        # Sums have gaps against bank conflicts, one in 32; the parts are rounded up.
        total = 32 * (self.element[0] * resident + self.element[1] * box) + 33 * self.inner * extra
        builder.at_most("local memory", total, 32 * (limits.local_bytes - 384))

        split = builder.product(over("split", "k"), 1 << 12)
        grid = (
            builder.product(over("groups", "batch", "n"), 1 << 31),
            builder.product(over("groups", "m"), 1 << 31),
            split,
        )
        for size, most in zip(grid, limits.grid_size, strict=True):
            builder.at_most("grid", size, most)
        results = space.size("batch", "m", "n")
        scratch = split * (results * self.inner)
        builder.at_most_if_above("partial sums", scratch, limits.scratch_bytes, split, 1)
        # A split is there to occupy the device, not beyond.
        blocks = builder.product([grid[0], grid[1]], 1 << 31)
        whole = builder.product([blocks, split], 1 << 31)
        builder.at_most_if_above("partial sums", whole, 3 * limits.compute_units, split, 1)
        # Where results alone do not occupy the device, the reduction has to.
        most = space.size("k") // 16 * (space.size("batch", "m", "n") // 2048)
        if self.occupying and work >= 1 << 20 and most >= 8 * limits.compute_units:
            busy = builder.product([whole, shared], 1 << 31)
            builder.at_least("partial sums", busy, limits.compute_units * 3 // 4)

        main = next((k for k in reversed(space.of("m")) if space.axes[k].size > 1), None)
        if main is not None and space.axes[main].size % 4 == 0:
            builder.at_least("alignment", fields[main]["vector"], 4)
        for k in space.of("n"):
            if not space.windows_of(k) and space.axes[k].size % 4 == 0 and self._nearest(k):
                builder.not_in("alignment", fields[k]["vector"], (2, 7, 14))
        for d in self._contiguous():
            least = min(8, streamed.shape[d])
            if work >= 1 << 16:
                builder.at_least("coalescing", extents[d], least)
        # All threads take the same stages, since the tables hold stages that threads divide.
        # Between two barriers a thread takes a few dozen reduced steps: fewer, and waiting is most
        # of what it does; more only need more memory.
        steps = builder.product(over("chunk", "k"), 1 << 22)
        reduced = space.size("k")
        if work >= 1 << 20:
            windows = [axis.size for k, axis in enumerate(space.axes) if self._is_window(k)]
            builder.at_most("barriers", steps, max(_MOST_STEPS, math.prod(windows)))
            least_steps = builder.product([shared, min(_LEAST_STEPS, reduced)], 1 << 24)
            builder.at_least("barriers", steps, least_steps)
        for k, role in enumerate(roles):
            if role == "k":
                continue
            covered = builder.product([fields[k]["tile"], fields[k]["groups"]], 1 << 31)
            builder.at_least("tiles", covered, space.axes[k].size)
        return model, variables, builder.literals

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

    def _run_length(self, builder: _Builder, fields: Sequence[dict[str, Any]]) -> Any:
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
                length = builder.named(1 + step * (length - 1) + widest, 1 << 12)
            parts += [length, fields[k]["turns"]]
        return builder.product(parts, 1 << 12)


class _Builder:
    """CP-SAT's expressions, and constraints that belong to named groups."""

    def __init__(self, model: Any, assumed: bool) -> None:
        self.model = model
        self.literals = {name: model.new_bool_var(name) for name in GROUPS} if assumed else {}
        self._count = 0

    def _new(self, most: int) -> Any:
        self._count += 1
        return self.model.new_int_var(0, most, f"v{self._count}")

    def column(self, choice: Any, values: Sequence[int], name: str) -> Any:
        """The value a table has in the row that ``choice`` names."""
        if len(set(values)) == 1:
            return values[0]
        result = self.model.new_int_var(min(values), max(values), name)
        self.model.add_element(choice, list(values), result)
        return result

    def named(self, expression: Any, most: int) -> Any:
        """A variable for a linear expression."""
        if isinstance(expression, int):
            return expression
        result = self._new(most)
        self.model.add(result == expression)
        return result

    def product(self, factors: Iterable[Any], most: int) -> Any:
        """The product of variables and numbers; beyond ``most`` there is no solution."""
        number, variables = 1, []
        for factor in factors:
            if isinstance(factor, int):
                number *= factor
            else:
                variables.append(factor)
        if not variables:
            return number
        result = variables[0]
        for other in variables[1:]:
            made = self._new(most)
            self.model.add_multiplication_equality(made, [result, other])
            result = made
        return result if number == 1 else self.named(number * result, most)

    def conditional(self, value: Any, count: Any, most: int) -> Any:
        """``value`` where ``count`` is above 1, else 0."""
        if isinstance(count, int):
            return value if count > 1 else 0
        several = self._above(count, 1)
        result = self._new(most)
        self.model.add(result == value).only_enforce_if(several)
        self.model.add(result == 0).only_enforce_if(~several)
        return result

    def _above(self, value: Any, least: int) -> Any:
        flag = self.model.new_bool_var("")
        self.model.add(value > least).only_enforce_if(flag)
        self.model.add(value <= least).only_enforce_if(~flag)
        return flag

    def _enforce(self, group: str, constraint: Any) -> None:
        if self.literals:
            constraint.only_enforce_if(self.literals[group])

    def _add(self, group: str, holds: Any) -> None:
        if isinstance(holds, bool):
            if holds:
                return
            if not self.literals:
                self.model.add_bool_or([])
            else:
                self.model.add_bool_or([~self.literals[group]])
            return
        self._enforce(group, self.model.add(holds))

    def at_most(self, group: str, value: Any, most: int) -> None:
        self._add(group, value <= most)

    def at_least(self, group: str, value: Any, least: int) -> None:
        self._add(group, value >= least)

    def at_most_if_above(self, group: str, value: Any, most: int, other: Any, least: int) -> None:
        """``value <= most`` where ``other`` is above ``least``."""
        if isinstance(other, int):
            if other > least:
                self.at_most(group, value, most)
            return
        flag = self._above(other, least)
        literals = [flag, self.literals[group]] if self.literals else [flag]
        self.model.add(value <= most).only_enforce_if(literals)

    def whole_multiple(self, group: str, value: Any, unit: int, most: int) -> None:
        if isinstance(value, int):
            self._add(group, value % unit == 0)
            return
        count = self._new(most // unit)
        self._enforce(group, self.model.add(value == unit * count))

    def not_in(self, group: str, value: Any, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._add(group, value != number)


def _divisors(n: int) -> set[int]:
    return {d for d in range(1, min(n, 64) + 1) if n % d == 0}
