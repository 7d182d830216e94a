"""Mappings of products to matrix units whose groups bring operands themselves, as a constraint
problem."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.solver import Constraints, Problem
from glenside.codegen.gpu.tensor.geometry import Box, Geometry
from glenside.codegen.gpu.tensor.mapping import UnitMapping
from glenside.codegen.gpu.tensor.unit import MatrixUnit

_UNITS = (2, 4, 8)
"""Units of 16 bytes in a step."""
_WHOLE = 24
"""Units up to which a gathered loop may be one step."""
_COLUMNS = 256
"""Most positions that are multiplied together."""
_TURNS = 24
"""Most units of a box that a thread brings in a step."""


@dataclass(frozen=True)
class Tile:
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


def forms(geometry: Geometry) -> list[bool]:
    """Whether the reduced loops may be gathered, and whether they may stay apart."""
    if geometry.inner is None:
        return [True]
    # Where the inner loop does not fill a unit or two, fewer products may do.
    few = geometry.inner_size(False) < 2 * geometry.unit
    return [False, True] if geometry.windows and few else [False]


class UnitProblem[M: UnitMapping](Problem[M]):
    """The constraint problem of a product on matrix units, in one form.

    Variables: the tile of the loops over positions, the rows of a group and those that multiply
    together along rows and positions (``along``, ``across``), the chunk of the inner loop and the
    split, and the stages. What they imply (span, box, planes) follows from the geometry.
    """

    unit: ClassVar[MatrixUnit]
    shapes: ClassVar[Sequence[tuple[int, int, int]]]
    """Rows of a group, and those that multiply together along rows and along positions."""
    stages: ClassVar[Sequence[int]]
    splits: ClassVar[Sequence[int]]
    most_sums: ClassVar[int]
    """Of a thread: registers are needed beside them."""
    most_tiles: ClassVar[int]
    """Tiles that are looked at, those first that waste least."""
    most: ClassVar[int] = 30000

    def __init__(self, geometry: Geometry, limits: DeviceLimits, gathered: bool) -> None:
        super().__init__()
        self.geometry, self.limits, self.gathered = geometry, limits, gathered
        unit = self.unit.rows
        self.rows_padded = -(-geometry.rows.size // unit) * unit

    @property
    @abstractmethod
    def most_split(self) -> int:
        """Most groups that share the steps."""

    def tables(self) -> list[Sequence[Any]]:
        least = min(s[0] for s in self.shapes)
        shapes = [s for s in self.shapes if s[0] <= max(least, self.rows_padded)]
        return [self._tiles(), shapes, self._depths(), self.stages]

    def admits(self, mapping: M) -> bool:
        return mapping.gathered == self.gathered

    def row(self, mapping: M) -> list[Any]:
        units = mapping.chunk // self.geometry.unit
        share = -(-self._steps(units) // mapping.split)
        tile = self._tile(mapping.tile, self.geometry.box(mapping.tile, self.gathered))
        depth = (units, mapping.split, share)
        return [tile, (mapping.rows, *mapping.groups), depth, mapping.stages]

    def state(self, constraints: Constraints, tables: Sequence[Sequence[Any]]) -> list[Any]:
        """What the device and the kernels ask for."""
        geometry, limits, c = self.geometry, self.limits, constraints
        names = ("tile", "shape", "depth", "stage")
        choices = [c.choice(table, name) for table, name in zip(tables, names, strict=True)]
        tile, shape, depth, stage = choices
        tiles, shapes, depths, all_stages = tables
        span = c.column(tile, [t.span for t in tiles], "span")
        positions = c.column(tile, [t.positions for t in tiles], "positions")
        reach = c.column(tile, [t.reach for t in tiles], "reach")
        groups = c.column(tile, [t.groups for t in tiles], "position groups")
        rows = c.column(shape, [s[0] for s in shapes], "rows")
        across = c.column(shape, [s[2] for s in shapes], "across")
        along = c.column(shape, [s[1] for s in shapes], "along")
        units = c.column(depth, [d[0] for d in depths], "units")
        split = c.column(depth, [d[1] for d in depths], "split")
        share = c.column(depth, [d[2] for d in depths], "share")
        stages = c.column(stage, list(all_stages), "stages")

        threads = c.product([along, across, self.unit.threads], 1 << 12, "threads")
        c.at_most("threads", threads, limits.threads_per_group)
        # Whole cells of eight positions for all that multiply together.
        each = c.number(1, _COLUMNS // 8, "each", lambda: -(-int(span) // (8 * int(across))))
        cells = c.product([each, across], 1 << 10, "cells")
        columns = c.named(8 * cells, 1 << 13, "columns")
        c.define(columns >= span)
        c.define(columns - 8 * across < span)
        fragments = c.number(1, 8, "fragments", lambda: int(rows) // (self.unit.rows * int(along)))
        c.define(self.unit.rows * c.product([fragments, along], 1 << 6) == rows)
        per_thread = 8 * self.unit.rows // self.unit.threads
        sums = c.product([fragments, each, per_thread], 1 << 12, "sums")
        c.at_most("registers", sums, self.most_sums)
        together = c.product([c.named(sums + 80, 1 << 12), threads], 1 << 22)
        c.at_most("registers", together, limits.unit_registers)
        brought = c.product([positions, units], 1 << 20, "brought")
        c.at_most("registers", brought, _TURNS * threads)
        # A plane holds the box, and what products read beyond it.
        plane = c.larger(positions, reach + columns, 1 << 16, "plane")
        lines = c.named(plane + 8 + geometry.taps(self.gathered) * rows, 1 << 20, "lines")
        stage_bytes = c.product([units, lines, 16], 1 << 24, "stage bytes")
        local = c.product([stages, stage_bytes], 1 << 26)
        c.at_most("local memory", local, limits.local_bytes - 192)
        lines_of_sums = c.product([c.named(rows + 32, 1 << 10), columns, 4], 1 << 24)
        c.at_most("local memory", lines_of_sums, limits.local_bytes - 192)
        # Stages that are never filled are of no use; one is enough for one step.
        c.at_most("barriers", stages, share)
        c.at_least_if_above("barriers", stages, 2, share, 1)
        c.at_most("grid", groups, limits.grid_size[0])
        down = c.column(shape, [-(-geometry.rows.size // s[0]) for s in shapes], "row groups")
        batches = math.prod(geometry.size(k) for k in geometry.batch)
        c.at_most("grid", c.product([down, batches], 1 << 31), limits.grid_size[1])
        # Rows in vain: at most as many as in the smallest groups, and a quarter.
        covered = c.product([down, rows], 1 << 31)
        c.at_most("tiles", covered, max(self.rows_padded, self.rows_padded * 5 // 4))
        blocks = c.product([groups, down, batches], 1 << 40, "blocks")
        whole = c.product([blocks, split], 1 << 42, "all groups")
        c.at_most_if_above("partial sums", whole, 4 * limits.compute_units, split, 1)
        return choices

    # --- the ways to cut loops ----------------------------------------------------------------

    def _tiles(self) -> list[Tile]:
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
            box = geometry.box(tile, self.gathered)
            if not least <= box.span <= 2 * _COLUMNS:
                continue
            made.append(self._tile(tile, box))
        made.sort(key=lambda t: (t.waste, t.tile))
        return made[: self.most_tiles]

    def _tile(self, tile: tuple[int, ...], box: Box) -> Tile:
        geometry = self.geometry
        groups = math.prod(-(-loop.size // t) for loop, t in zip(geometry.loops, tile, strict=True))
        reach = max(geometry.tap_places(tile, self.gathered))
        return Tile(tile, box.span, box.positions, reach, groups)

    def _depths(self) -> list[tuple[int, int, int]]:
        """Units of a step, groups of a cluster, and the steps of each of them."""
        geometry = self.geometry
        inner = geometry.inner_size(self.gathered)
        needed = -(-inner // geometry.unit)
        options = {u for u in _UNITS if u == 2 or u < 2 * needed}
        if needed <= _WHOLE:
            options.add(needed + needed % 2)
        made = []
        for units in sorted(options):
            steps = self._steps(units)
            for split in self.splits:
                share = -(-steps // split)
                if split <= self.most_split and (split - 1) * share < steps:
                    made.append((units, split, share))
        return made

    def _steps(self, units: int) -> int:
        """Steps that so many units of 16 bytes make of the reduced loops."""
        geometry = self.geometry
        inner = geometry.inner_size(self.gathered)
        return -(-inner // (units * geometry.unit)) * geometry.outer_size(self.gathered)
