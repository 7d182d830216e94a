"""Mappings of products to matrix units, as a constraint problem solved by CP-SAT."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import DeviceLimits
    from glenside.codegen.gpu.space import ProductSpace
    from glenside.codegen.gpu.tensor.geometry import Box, Geometry


@dataclass(frozen=True)
class TensorMapping:
    """How a product is spread over groups that multiply on matrix units.

    ``tile`` has the results of a group along each loop over positions, ``rows`` those along the
    rows; ``groups`` are the warpgroups (128 threads) along rows and along positions. A step takes
    ``chunk`` elements of the inner reduced loop; ``stages`` steps are in local memory at a time,
    and a product of the previous step may be under way for each ``kept``. The ``split`` groups of a
    cluster share the steps and add up their sums. ``gathered``: all reduced loops are one.

    With ``boxes`` the groups stay, and warps of their own bring operands: so many boxes of the
    streamed operand are in local memory at a time, and for each warpgroup ``stages`` portions of
    rows, a portion for each window offset. ``apart``: each window offset has a box of its own.

    With ``warps`` each warp multiplies alone: ``groups`` are warps (32 threads), and the ``split``
    parts of a product lie in memory until another kernel adds them up.
    """

    tile: tuple[int, ...]
    rows: int
    groups: tuple[int, int]
    chunk: int
    stages: int
    split: int = 1
    kept: int = 0
    gathered: bool = False
    boxes: int = 0
    apart: bool = False
    warps: bool = False
    predicted: float = 0.0
    """Seconds, by the model."""

    def to_json(self) -> str:
        """Text that :meth:`from_json` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | dict[str, Any]) -> TensorMapping:
        """A mapping from its text, or from what ``json.loads`` makes of it."""
        given = json.loads(text) if isinstance(text, str) else text
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
        }
        return cls(**values)


# --- the problem ----------------------------------------------------------------------------------

_SHAPES = (
    (64, 1, 1), (64, 1, 2), (128, 1, 1), (128, 2, 1), (128, 1, 2), (128, 2, 2), (192, 3, 1),
    (256, 2, 1), (256, 4, 1), (256, 2, 2),
)  # fmt: skip
"""Rows of a group, and warpgroups along rows and along positions."""
_STAGES = (1, 2, 3, 4, 6)
_SPLITS = (1, 2, 3, 4, 5, 6, 7, 8)
_UNITS = (2, 4, 8)
"""Units of 16 bytes in a step."""
_WHOLE = 24
"""Units up to which a gathered loop may be one step."""
_COLUMNS = 256
"""Most positions of one product."""
_SUMS = 160
"""Most sums of a thread: registers are needed beside them."""
_TURNS = 24
"""Most units of a box that a thread brings in a step."""
_BUDGET = 20.0
"""Of CP-SAT's deterministic seconds, for one product."""
_MOST = 30000
"""Solutions that are looked at."""
_TILES = 240
"""Tiles that are looked at, those first that waste least."""


@dataclass(frozen=True)
class _Tile:
    """A tile of the loops over positions, and what follows from it."""

    tile: tuple[int, ...]
    span: int
    positions: int
    reach: int
    """Positions from the first tap to the last."""
    groups: int

    @property
    def waste(self) -> float:
        """Positions that are multiplied, by results that count."""
        return self.span * self.groups


class TensorProblem:
    """The constraint problem of a product on matrix units.

    Variables: the tile of the loops over positions, the rows of a group and its warpgroups, the
    chunk of the inner loop, the split over a cluster and the stages. What they imply (span, box,
    planes) follows from the geometry. Constraints are named as those of
    :class:`~.mapping.MappingProblem`.
    """

    members: ClassVar[int] = 128
    """Threads that multiply together."""
    fragment: ClassVar[int] = 64
    """Rows that they multiply at a time."""
    warps: ClassVar[bool] = False
    shapes: ClassVar[Sequence[tuple[int, int, int]]] = _SHAPES
    all_stages: ClassVar[Sequence[int]] = _STAGES
    splits: ClassVar[Sequence[int]] = _SPLITS
    most_sums: ClassVar[int] = _SUMS
    most_tiles: ClassVar[int] = _TILES

    def __init__(self, geometry: Geometry, limits: DeviceLimits, rows_fast: bool) -> None:
        self.geometry, self.limits, self.rows_fast = geometry, limits, rows_fast

    # --- solutions ----------------------------------------------------------------------------

    def ranked(self) -> list[TensorMapping]:
        """The mappings that obey all constraints, best predicted first; maybe none."""
        found = []
        for gathered in self.forms():
            found += self.solutions(gathered)
        if not found:
            return []
        times = self.predicted(found)
        timed = [replace(m, predicted=float(t)) for m, t in zip(found, times, strict=True)]
        return sorted(timed, key=lambda each: (each.predicted, each.to_json()))

    def predicted(self, mappings: Sequence[TensorMapping]) -> np.ndarray[Any, Any]:
        """Seconds of each mapping."""
        return predict(self.geometry, mappings, self.limits, self.rows_fast)

    def kept(self, stages: int) -> int:
        """Products of earlier steps that may be under way."""
        return int(stages >= 3)

    def most_split(self) -> int:
        """Most groups that share the steps."""
        return self.limits.cluster_groups

    def forms(self) -> list[bool]:
        """Whether the reduced loops may be gathered, and whether they may stay apart."""
        geometry = self.geometry
        if geometry.inner is None:
            return [True]
        # Where the inner loop does not fill a unit or two, fewer products may do.
        few = geometry.inner_size(False) < 2 * geometry.unit
        return [False, True] if geometry.windows and few else [False]

    def solutions(self, gathered: bool) -> list[TensorMapping]:
        """The mappings of one form."""
        from ortools.sat.python import cp_model

        from glenside.codegen.gpu.threads.problem import _Builder

        geometry, limits = self.geometry, self.limits
        builder = _Builder(cp_model.CpModel(), False)
        model = builder.model
        tiles, depths = self._tiles(gathered), self._depths(gathered)
        if not tiles or not depths:
            return []
        taps = geometry.taps(gathered)
        rows_padded = -(-geometry.rows.size // self.fragment) * self.fragment
        least = min(s[0] for s in self.shapes)
        shapes = [s for s in self.shapes if s[0] <= max(least, rows_padded)]

        tile = model.new_int_var(0, len(tiles) - 1, "tile")
        shape = model.new_int_var(0, len(shapes) - 1, "shape")
        depth = model.new_int_var(0, len(depths) - 1, "depth")
        stage = model.new_int_var(0, len(self.all_stages) - 1, "stage")
        span = builder.column(tile, [t.span for t in tiles], "span")
        positions = builder.column(tile, [t.positions for t in tiles], "positions")
        reach = builder.column(tile, [t.reach for t in tiles], "reach")
        groups = builder.column(tile, [t.groups for t in tiles], "groups")
        rows = builder.column(shape, [s[0] for s in shapes], "rows")
        across = builder.column(shape, [s[2] for s in shapes], "across")
        along = builder.column(shape, [s[1] for s in shapes], "along")
        units = builder.column(depth, [d[0] for d in depths], "units")
        split = builder.column(depth, [d[1] for d in depths], "split")
        share = builder.column(depth, [d[2] for d in depths], "share")
        stages = builder.column(stage, list(self.all_stages), "stages")

        threads = builder.product([along, across, self.members], 1 << 12)
        builder.at_most("threads", threads, limits.threads_per_group)
        # Whole cells of eight positions for all that multiply together.
        each = model.new_int_var(1, _COLUMNS // 8, "each")
        cells = builder.product([each, across], 1 << 10)
        columns = builder.named(8 * cells, 1 << 13)
        model.add(columns >= span)
        model.add(columns - 8 * across < span)
        fragments = model.new_int_var(1, 8, "fragments")
        model.add(self.fragment * builder.product([fragments, along], 1 << 6) == rows)
        sums = builder.product([fragments, each, 4], 1 << 12)
        builder.at_most("registers", sums, self.most_sums)
        together = builder.product([builder.named(sums + 80, 1 << 12), threads], 1 << 22)
        builder.at_most("registers", together, limits.unit_registers)
        builder.at_most("registers", builder.product([positions, units], 1 << 20) -
                        _TURNS * threads, 0)  # fmt: skip
        # A plane holds the box, and what products read beyond it.
        plane = model.new_int_var(1, 1 << 16, "plane")
        model.add_max_equality(plane, [positions, builder.named(reach + columns, 1 << 16)])
        lines = builder.named(plane + 8 + taps * rows, 1 << 20)
        stage_bytes = builder.product([units, lines, 16], 1 << 24)
        local = builder.product([stages, stage_bytes], 1 << 26)
        builder.at_most("local memory", local, limits.local_bytes - 192)
        lines_of_sums = builder.product([builder.named(rows + 32, 1 << 10), columns, 4], 1 << 24)
        builder.at_most("local memory", lines_of_sums, limits.local_bytes - 192)
        # Stages that are never filled are of no use; one is enough for one step.
        model.add(stages <= share)
        several = builder.named(share, 1 << 30) if isinstance(share, int) else share
        if isinstance(several, int):
            if several > 1:
                model.add(stages >= 2)
        else:
            flag = model.new_bool_var("")
            model.add(several > 1).only_enforce_if(flag)
            model.add(several <= 1).only_enforce_if(~flag)
            model.add(stages >= 2).only_enforce_if(flag)
        builder.at_most("grid", groups, limits.grid_size[0])
        row_groups = [-(-geometry.rows.size // s[0]) for s in shapes]
        down = builder.column(shape, row_groups, "down")
        batches = math.prod(geometry.size(k) for k in geometry.batch)
        builder.at_most("grid", builder.product([down, batches], 1 << 31), limits.grid_size[1])
        # Rows in vain: at most as many as in the smallest groups, and a quarter.
        covered = builder.product([down, rows], 1 << 31)
        builder.at_most("tiles", covered, max(rows_padded, rows_padded * 5 // 4))
        blocks = builder.product([groups, down, batches], 1 << 40)
        whole = builder.product([blocks, split], 1 << 42)
        builder.at_most_if_above("partial sums", whole, 4 * limits.compute_units, split, 1)

        found: list[TensorMapping] = []
        unit, problem = geometry.unit, self

        class Collect(cp_model.CpSolverSolutionCallback):
            def on_solution_callback(self) -> None:
                t, s = tiles[self.value(tile)], shapes[self.value(shape)]
                d, n = depths[self.value(depth)], problem.all_stages[self.value(stage)]
                found.append(
                    TensorMapping(
                        tile=t.tile,
                        rows=s[0],
                        groups=(s[1], s[2]),
                        chunk=d[0] * unit,
                        stages=n,
                        split=d[1],
                        kept=problem.kept(n),
                        gathered=gathered,
                        warps=problem.warps,
                    )
                )
                if len(found) >= _MOST:
                    self.stop_search()

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = _BUDGET
        solver.parameters.random_seed = 0
        solver.parameters.linearization_level = 0
        solver.parameters.enumerate_all_solutions = True
        solver.solve(model, Collect())
        return found

    # --- the ways to cut loops ----------------------------------------------------------------

    def _tiles(self, gathered: bool) -> list[_Tile]:
        """Tiles of the loops over positions that come into question."""
        geometry = self.geometry
        options = []
        for loop in geometry.loops:
            sizes = {-(-loop.size // g) for g in range(1, min(loop.size, 64) + 1)}
            sizes |= {t for t in (1, 2, 4, 8, 16, 32, 64, 128, 256) if t <= loop.size}
            options.append(sorted(t for t in sizes if t <= 2 * _COLUMNS))
        whole = math.prod(loop.size for loop in geometry.loops)
        least = min(whole, 48)
        made = []
        for tile in itertools.product(*options):
            if math.prod(tile) > 2 * _COLUMNS or 2 * math.prod(tile) < least:
                continue
            box = geometry.box(tile, gathered)
            if not least <= box.span <= 2 * _COLUMNS:
                continue
            groups = math.prod(
                -(-loop.size // t) for loop, t in zip(geometry.loops, tile, strict=True)
            )
            ends = [geometry.size(w) - 1 for w in geometry.windows] if not gathered else []
            reach = self._reach(box, ends)
            made.append(_Tile(tuple(tile), box.span, box.positions, reach, groups))
        made.sort(key=lambda t: (t.waste, t.tile))
        return made[: self.most_tiles]

    def _reach(self, box: Box, ends: Sequence[int]) -> int:
        """Positions from the first tap to the furthest one."""
        if not ends:
            return 0
        ranges = [range(n + 1) for n in ends]
        return max(self.geometry.tap_place(box, index) for index in itertools.product(*ranges))

    def _depths(self, gathered: bool) -> list[tuple[int, int, int]]:
        """Units of a step, groups of a cluster, and the steps of each of them."""
        geometry = self.geometry
        inner = geometry.inner_size(gathered)
        needed = -(-inner // geometry.unit)
        options = {u for u in _UNITS if u == 2 or u < 2 * needed}
        if needed <= _WHOLE:
            options.add(needed + needed % 2)
        made = []
        for units in sorted(options):
            steps = -(-inner // (units * geometry.unit)) * geometry.outer_size(gathered)
            for split in self.splits:
                share = -(-steps // split)
                if split <= self.most_split() and (split - 1) * share < steps:
                    made.append((units, split, share))
        return made


def tensor_mappings(space: ProductSpace, limits: DeviceLimits, count: int) -> list[TensorMapping]:
    """Up to ``count`` mappings that differ in more than a detail, best predicted first; none where
    the matrix units have no use for the product."""
    from glenside.codegen.gpu.tensor.geometry import geometry_of

    geometry = geometry_of(space, limits)
    if geometry is None:
        return []
    key = space.key()
    held = _solved.get((key, limits.name))
    if held is None or held[0] != limits:
        if len(_solved) > 256:
            _solved.clear()
        if limits.warpgroups:
            from glenside.codegen.gpu.streams.problem import StreamProblem

            ranked = TensorProblem(geometry, limits, geometry.rows_fast).ranked()
            ranked += StreamProblem(geometry, limits).ranked()
            ranked.sort(key=lambda each: each.predicted)
        else:
            from glenside.codegen.gpu.warps.problem import WarpProblem
            from glenside.codegen.gpu.warps.tiling import Parts

            ranked = [
                m
                for m in WarpProblem(geometry, limits, geometry.rows_fast).ranked()
                if m.split == 1 or 4 * Parts(space, m.split).elements <= limits.scratch_bytes
            ]
        held = limits, ranked
        _solved[key, limits.name] = held
    known = held[1]
    if count == 1:
        return known[:1]
    seen: dict[Any, int] = {}
    chosen = []
    for m in known:
        form = bool(m.boxes), m.apart
        kinds: list[Any] = [("tile", form, m.tile, m.rows, m.groups)]
        kinds.append(("split", form, m.tile, m.split))
        kinds.append(("depth", form, m.rows, m.groups, m.split, m.chunk))
        if any(seen.get(kind, 0) >= 2 for kind in kinds):
            continue
        for kind in kinds:
            seen[kind] = seen.get(kind, 0) + 1
        chosen.append(m)
        if len(chosen) == count:
            break
    return chosen


_solved: dict[tuple[str, str], tuple[Any, list[TensorMapping]]] = {}


# --- the model ------------------------------------------------------------------------------------

_MODEL = {
    "fetch": 78.0,  # bytes a cycle that one compute unit gets from the shared cache, at most
    "together": 1.8,  # of the shared cache's rate, where groups read the same at one time
    "apart": 1.0,  # the same, where some groups start when others end
    "latency": 720.0,  # cycles from asking for a copy to its arrival
    "wait": 300.0,  # cycles between two steps of a group, nothing kept under way
    "overlapped": 55.0,  # the same, a product kept under way
    "issue": 4.5,  # of the cycles it takes to ask for copies, what is not hidden
    "gather": 15.0,  # cycles a warp takes to bring an element for each of its threads
    "fill": 1130.0,  # cycles until the first step has arrived, and to start and to end
    "sums": 14.0,  # bytes of sums a cycle that go through local memory
    "cluster": 1600.0,  # cycles in which the groups of a cluster wait for each other
    "exchange": 4.0,  # bytes of sums a cycle from other groups
    "launch": 0.3,  # of the time between kernels, what is not hidden
}
"""Fitted to measurements of convolutions on an H200."""


def predict(
    geometry: Geometry, mappings: Sequence[TensorMapping], limits: DeviceLimits, rows_fast: bool
) -> np.ndarray[Any, Any]:
    """Seconds of each mapping."""
    from glenside.codegen.gpu.tensor.tiling import TensorTiling

    model = _MODEL
    boxes: dict[Any, TensorTiling] = {}
    all_fetch = limits.cache_bandwidth / limits.clock
    space = geometry.space
    elements = math.prod(space.streamed.shape) + math.prod(space.resident.shape)
    least = (elements + space.size("batch", "m", "n")) * geometry.bytes / limits.bandwidth
    times = []
    for mapping in mappings:
        tiling = TensorTiling(geometry, mapping)
        same = boxes.setdefault((mapping.tile, mapping.gathered), tiling)
        for name in ("box", "tap_places", "loop_groups"):
            tiling.__dict__[name] = getattr(same, name)
        columns = tiling.columns_each
        products = tiling.taps * tiling.units // 2 * (mapping.rows // 64) * mapping.groups[1]
        brought = tiling.box.positions * tiling.units
        rows = tiling.taps * tiling.units * mapping.rows
        # A product takes half a cycle a position; local memory gives it 128 bytes a cycle.
        step = max(products * columns / 2, products * (16 + columns / 4) + (brought + rows) / 8)
        local = tiling.local_bytes(rows_fast)
        used = min(limits.thread_registers, -(-(tiling.sums + 70) // 8) * 8)
        together = min(
            limits.unit_local_bytes // (local + 1024),
            limits.unit_threads // tiling.threads,
            limits.unit_registers // (used * tiling.threads),
        )
        blocks = math.prod(tiling.grid)
        per_unit = -(-blocks // limits.compute_units)
        together = max(1, min(together, per_unit))
        rate = model["together" if per_unit <= together else "apart"]
        fetch = min(model["fetch"], rate * all_fetch / min(blocks, limits.compute_units))
        load = (brought + rows) * 16 / fetch
        direct = geometry.direct(mapping.gathered)
        packed = geometry.space.resident.constant
        read = tiling.box.positions * min(mapping.chunk, tiling.inner)
        issue = brought / 8 if direct else read / 32 * model["gather"] + brought / 8
        issue += 0 if packed else rows / 32 * 4
        wait = model["overlapped" if mapping.kept else "wait"]
        arrival = (model["latency"] + load) / tiling.ahead
        chain = max(step + wait, arrival) if tiling.share > 1 else step + load
        cycles = max(step, load, chain / together) + issue * model["issue"] / together
        cycles = per_unit * tiling.share * cycles
        end = model["fill"] + tiling.columns * mapping.rows * 4 / model["sums"]
        if mapping.split > 1:
            end += model["cluster"] + tiling.columns * mapping.rows * 4 / model["exchange"]
        cycles += -(-per_unit // together) * end
        seconds = max(cycles / limits.clock, least)
        times.append(seconds + limits.launch_seconds * model["launch"])
    return np.array(times)
