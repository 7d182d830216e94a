"""Mappings of large products to matrix units, operands brought by warps of their own: the
constraint problem that CP-SAT solves, and the model of their time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen.gpu.warpgroups.problem import TensorMapping

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import DeviceLimits
    from glenside.codegen.gpu.streams.tiling import StreamTiling
    from glenside.codegen.gpu.tensor.geometry import Geometry

_SHAPES = ((64, 1, 1), (64, 1, 2), (128, 2, 1), (128, 1, 1), (192, 3, 1), (256, 2, 1))
"""Rows of a group, and warpgroups along rows and along positions."""
_BOXES = (2, 3, 4)
_STAGES = (2, 3, 4, 5, 6)
_LINES = (64, 128)
"""Bytes of a position's chunk."""
_COLUMNS = 256
"""Most positions of one product."""
_LEAST = 96
"""Fewest results of a tile."""
_FULL = 0.7
"""Share of the device that has something to do, at least."""
_OTHERS = 40
"""Registers of a thread beside its sums."""
_TILES = 60
"""Tiles that are looked at, those first that waste least."""
_BUDGET = 10.0
"""Of CP-SAT's deterministic seconds, for one product."""


@dataclass(frozen=True)
class _Tile:
    """A tile of the loops over positions, and what follows from it."""

    tile: tuple[int, ...]
    apart: bool
    span: int
    lines: int
    groups: int
    reach: int = 0


class StreamProblem:
    """The constraint problem of a product whose groups stay.

    Variables: the tile of the loops over positions (and whether windows have boxes of their own),
    the rows of a group and its warpgroups, the bytes of a line, boxes and portions of rows under
    way. Constraints are named as those of :class:`~.mapping.MappingProblem`.
    """

    def __init__(self, geometry: Geometry, limits: DeviceLimits) -> None:
        self.geometry, self.limits = geometry, limits

    def ranked(self) -> list[TensorMapping]:
        """The mappings that obey all constraints, best predicted first; none for products that do
        not fill the device, or whose boxes the copy engine cannot bring."""
        geometry, limits = self.geometry, self.limits
        positions = math.prod(loop.size for loop in geometry.loops)
        batches = math.prod(geometry.size(k) for k in geometry.batch)
        tiles = -(-geometry.rows.size // 64) * (positions / _COLUMNS) * batches
        hopper = limits.architecture.rstrip("a") == "sm_90"  # Others have no such copy engine.
        if not hopper or tiles < _FULL * limits.compute_units or geometry.inner is None:
            return []
        found = self.solutions()
        times = predict(geometry, found, limits)
        timed = [replace(m, predicted=float(t)) for m, t in zip(found, times, strict=True)]
        return sorted(timed, key=lambda each: (each.predicted, each.to_json()))

    def solutions(self) -> list[TensorMapping]:
        """All mappings."""
        from ortools.sat.python import cp_model

        from glenside.codegen.gpu.streams.tiling import started_registers
        from glenside.codegen.gpu.threads.problem import _Builder

        geometry, limits = self.geometry, self.limits
        tiles = [*self._tiles(False), *(self._tiles(True) if geometry.windows else [])]
        inner = geometry.inner_size(False) * geometry.bytes
        lengths = [n for n in _LINES if n == _LINES[0] or n < 2 * inner]
        padded = -(-geometry.rows.size // 64) * 64
        shapes = [s for s in _SHAPES if s[0] <= padded or s[0] == 64]
        if not tiles:
            return []
        builder = _Builder(cp_model.CpModel(), False)
        model = builder.model
        tile = model.new_int_var(0, len(tiles) - 1, "tile")
        shape = model.new_int_var(0, len(shapes) - 1, "shape")
        length = model.new_int_var(0, len(lengths) - 1, "length")
        boxes = model.new_int_var(_BOXES[0], _BOXES[-1], "boxes")
        stages = model.new_int_var(_STAGES[0], _STAGES[-1], "stages")
        span = builder.column(tile, [t.span for t in tiles], "span")
        lines = builder.column(tile, [t.lines for t in tiles], "lines")
        reach = builder.column(tile, [t.reach for t in tiles], "reach")
        groups = builder.column(tile, [t.groups for t in tiles], "groups")
        rows = builder.column(shape, [s[0] for s in shapes], "rows")
        rows_each = builder.column(shape, [s[0] // s[1] for s in shapes], "rows each")
        across = builder.column(shape, [s[2] for s in shapes], "across")
        warpgroups = [s[1] * s[2] for s in shapes]
        consumers = builder.column(shape, warpgroups, "consumers")
        line = builder.column(length, lengths, "line")

        each = model.new_int_var(1, _COLUMNS // 8, "each")
        columns = builder.named(8 * builder.product([each, across], 1 << 7), 1 << 10)
        model.add(columns >= span)
        model.add(columns - 8 * across < span)
        fragments = builder.column(shape, [s[0] // s[1] // 64 for s in shapes], "fragments")
        left = [started_registers(limits, n) - _OTHERS for n in warpgroups]
        sums = builder.product([fragments, each, 4], 1 << 10)
        builder.at_most("registers", sums - builder.column(shape, left, "left"), 0)
        held = model.new_int_var(1, 1 << 12, "held")
        model.add_max_equality(held, [lines, builder.named(reach + columns, 1 << 12)])
        box = builder.named(builder.product([held, line], 1 << 19) + 1024, 1 << 20)
        portion = builder.product([rows_each, line, consumers], 1 << 17)
        wide = 2 if geometry.space.dtype == "float16" else 4
        staged = builder.product([rows_each + 4 * (wide == 4), columns, wide], 1 << 20)
        staged = builder.product([staged, builder.column(
            shape, [s[1] for s in shapes], "along")], 1 << 20)  # fmt: skip
        local = builder.named(
            builder.product([boxes, box], 1 << 22) + builder.product([stages, portion], 1 << 22)
            + staged + 1024 * consumers + 512, 1 << 23,
        )  # fmt: skip
        most = builder.column(shape, [self._local(n) for n in warpgroups], "most")
        builder.at_most("local memory", local - most, 0)
        # No memory is left that one more portion would fill.
        last = model.new_bool_var("last")
        model.add(stages == _STAGES[-1]).only_enforce_if(last)
        model.add(local + portion > most).only_enforce_if(~last)
        down = builder.column(shape, [-(-geometry.rows.size // s[0]) for s in shapes], "down")
        covered = builder.product([down, rows], 1 << 31)
        builder.at_most("tiles", covered, max(padded, padded * 5 // 4))
        batches = math.prod(geometry.size(k) for k in geometry.batch)
        whole = builder.product([groups, down, batches], 1 << 40)
        builder.at_most("grid", int(_FULL * limits.compute_units) - whole, 0)

        found: list[TensorMapping] = []

        class Collect(cp_model.CpSolverSolutionCallback):
            def on_solution_callback(self) -> None:
                t, s = tiles[self.value(tile)], shapes[self.value(shape)]
                found.append(
                    TensorMapping(
                        tile=t.tile,
                        rows=s[0],
                        groups=(s[1], s[2]),
                        chunk=lengths[self.value(length)] // geometry.bytes,
                        stages=self.value(stages),
                        boxes=self.value(boxes),
                        apart=t.apart,
                    )
                )

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = _BUDGET
        solver.parameters.random_seed = 0
        solver.parameters.linearization_level = 0
        solver.parameters.enumerate_all_solutions = True
        solver.solve(model, Collect())
        return found

    def _local(self, consumers: int) -> int:
        """Bytes of a group; where one warpgroup multiplies, two groups share a unit."""
        limits = self.limits
        both = limits.unit_local_bytes // 2 - 1024
        return min(limits.local_bytes, both if consumers == 1 else limits.local_bytes)

    def _tiles(self, apart: bool) -> list[_Tile]:
        """Tiles of the loops over positions that come into question."""
        from glenside.codegen.gpu.tensor.boxes import boxes_of, fits, positions_of

        geometry = self.geometry
        boxes = boxes_of(geometry, apart)
        if boxes is None:
            return []
        options = []
        for loop in geometry.loops:
            sizes = {-(-loop.size // g) for g in range(1, min(loop.size, 64) + 1)}
            sizes |= {t for t in (1, 2, 4, 8, 16, 32, 64, 128, 256) if t <= loop.size}
            options.append(sorted(t for t in sizes if t <= _COLUMNS))
        made = []
        for tile in itertools.product(*options):
            if not _LEAST <= math.prod(tile) <= 2 * _COLUMNS:
                continue
            extents = boxes.extents(geometry, tile, 1, apart)
            box = geometry.box(tile, apart, overlapping=False)
            if not fits(extents) or box.span > 2 * _COLUMNS:
                continue
            groups = math.prod(
                -(-loop.size // t) for loop, t in zip(geometry.loops, tile, strict=True)
            )
            made.append(_Tile(tuple(tile), apart, box.span, positions_of(extents, boxes), groups))
        # Small tiles bring all rows too often.
        made.sort(key=lambda t: (-(-t.span // 8) * 8 * t.groups * (1 + 32 / t.span), t.tile))
        return [replace(t, reach=self._reach(t)) for t in made[:_TILES]]

    def _reach(self, tile: _Tile) -> int:
        """Positions from the first tap to the furthest one."""
        geometry = self.geometry
        if tile.apart or not geometry.windows:
            return 0
        box = geometry.box(tile.tile, False, overlapping=False)
        ranges = [range(geometry.size(w)) for w in geometry.windows]
        return max(geometry.tap_place(box, index) for index in itertools.product(*ranges))


# --- the model ------------------------------------------------------------------------------------

_MODEL = {
    "multiply": 0.537,  # cycles a position that a product takes
    "fetch": 68.0,  # bytes a cycle that one compute unit gets from the shared cache
    "line": 1.6,  # cycles that the copy engine takes for a line of a box, at least
    "latency": 850.0,  # cycles from asking for a copy to its arrival
    "portion": 64.0,  # cycles between the products of two portions of one warpgroup
    "fill": 1360.0,  # cycles until the first products, and to end
    "sums": 11.3,  # bytes of results a cycle that one warpgroup stores
    "store": 0.728,  # of the memory's bandwidth, what results get
    "launch": 0.77,  # of the time between kernels, what is not hidden
}
"""Fitted to 274 measurements of convolutions on an H200 (13 layers, mostly of 16 and 64 images; of
the mappings measured, the one predicted to be best took 1.014 times as long as the best, in
geometric mean)."""


def predict(
    geometry: Geometry, mappings: Sequence[TensorMapping], limits: DeviceLimits
) -> np.ndarray[Any, Any]:
    """Seconds of each mapping."""
    from glenside.codegen.gpu.streams.tiling import StreamTiling

    shared: dict[Any, StreamTiling] = {}
    times = []
    for mapping in mappings:
        tiling = StreamTiling(geometry, mapping, limits)
        same = shared.setdefault((mapping.tile, mapping.apart), tiling)
        for name in ("box", "tap_places", "loop_groups", "_boxes"):
            tiling.__dict__[name] = getattr(same, name)
        times.append(_seconds(tiling))
    return np.array(times)


def _seconds(tiling: StreamTiling) -> float:
    model, limits, mapping = _MODEL, tiling.limits, tiling.mapping
    geometry, space = tiling.geometry, tiling.geometry.space
    portions = tiling.box_steps * tiling.taps
    products = portions * tiling.line // 32 * tiling.fragments * tiling.consumers
    columns = tiling.columns_each
    boxes = tiling.box_steps * tiling.lines * tiling.line
    rows = portions * tiling.consumers * tiling.rows_bytes
    multiply = products * columns * model["multiply"]
    others = tiling.consumers * tiling.residents
    lines = tiling.box_steps * tiling.lines * model["line"]
    each = max(multiply, (boxes + rows) / model["fetch"], lines)
    each += portions * tiling.consumers * model["portion"] / others
    # Copies are under way for as long as the other portions, and boxes, are multiplied.
    waited = portions * model["latency"] / (mapping.stages - 1)
    box = model["latency"] + tiling.lines * tiling.line / model["fetch"]
    waited = max(waited, tiling.box_steps * box / (mapping.boxes - (1.5 if tiling.lag else 1)))
    each = max(each, waited / tiling.residents)
    store = columns * tiling.rows_each * (2 if tiling.halves else 4) / model["sums"]
    each += store / tiling.residents
    turns = -(-tiling.tiles // (limits.compute_units * tiling.residents)) * tiling.residents
    seconds = (turns * each + model["fill"]) / limits.clock
    elements = math.prod(space.streamed.shape) + math.prod(space.resident.shape)
    results = space.size("batch", "m", "n") / model["store"]
    least = (elements + results) * geometry.bytes / limits.bandwidth
    return max(seconds, least) + limits.launch_seconds * model["launch"]
