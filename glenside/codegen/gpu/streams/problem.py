"""Mappings of large products to matrix units, operands brought by warps of their own, as a
constraint problem."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.solver import Constraints, Problem
from glenside.codegen.gpu.streams.mapping import StreamMapping
from glenside.codegen.gpu.streams.tiling import started_registers
from glenside.codegen.gpu.tensor.boxes import boxes_of, fits, positions_of
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


def fills(geometry: Geometry, limits: DeviceLimits) -> bool:
    """Whether a product has groups for most of the device."""
    positions = math.prod(loop.size for loop in geometry.loops)
    batches = math.prod(geometry.size(k) for k in geometry.batch)
    tiles = -(-geometry.rows.size // 64) * (positions / _COLUMNS) * batches
    return tiles >= _FULL * limits.compute_units


@dataclass(frozen=True)
class _Tile:
    """A tile of the loops over positions, and what follows from it."""

    tile: tuple[int, ...]
    apart: bool
    span: int
    lines: int
    groups: int
    reach: int = 0


class StreamProblem(Problem[StreamMapping]):
    """The constraint problem of a product whose groups stay.

    Variables: the tile of the loops over positions (and whether windows have boxes of their own),
    the rows of a group and its warpgroups, the bytes of a line, boxes and portions of rows under
    way.
    """

    budget: ClassVar[float] = 10.0
    most: ClassVar[int] = 1 << 30

    def __init__(self, geometry: Geometry, limits: DeviceLimits) -> None:
        super().__init__()
        self.geometry, self.limits = geometry, limits

    def tables(self) -> list[Sequence[Any]]:
        geometry = self.geometry
        tiles = [*self._tiles(False), *(self._tiles(True) if geometry.windows else [])]
        inner = geometry.inner_size(False) * geometry.bytes
        lengths = [n for n in _LINES if n == _LINES[0] or n < 2 * inner]
        padded = -(-geometry.rows.size // 64) * 64
        shapes = [s for s in _SHAPES if s[0] <= padded or s[0] == 64]
        return [tiles, shapes, lengths, _BOXES, _STAGES]

    def admits(self, mapping: StreamMapping) -> bool:
        return self._tile(mapping.tile, mapping.apart) is not None

    def row(self, mapping: StreamMapping) -> list[Any]:
        made = self._tile(mapping.tile, mapping.apart)
        assert made is not None
        length = mapping.chunk * self.geometry.bytes
        shape = mapping.rows, *mapping.groups
        return [replace(made, reach=self._reach(made)), shape, length, mapping.boxes,
                mapping.stages]  # fmt: skip

    def mapping(self, rows: Sequence[Any]) -> StreamMapping:
        tile, (height, along, across), length, boxes, stages = rows
        return StreamMapping(
            tile=tile.tile,
            rows=height,
            groups=(along, across),
            chunk=length // self.geometry.bytes,
            stages=stages,
            boxes=boxes,
            apart=tile.apart,
        )

    def state(self, constraints: Constraints, tables: Sequence[Sequence[Any]]) -> list[Any]:
        """What the device and the kernels ask for."""
        geometry, limits, c = self.geometry, self.limits, constraints
        tiles, shapes, lengths, all_boxes, all_stages = tables
        padded = -(-geometry.rows.size // 64) * 64
        names = ("tile", "shape", "length", "box", "stage")
        choices = [c.choice(table, name) for table, name in zip(tables, names, strict=True)]
        tile, shape, length, box_choice, stage = choices
        boxes = c.column(box_choice, all_boxes, "boxes")
        stages = c.column(stage, all_stages, "stages")
        span = c.column(tile, [t.span for t in tiles], "span")
        lines = c.column(tile, [t.lines for t in tiles], "lines")
        reach = c.column(tile, [t.reach for t in tiles], "reach")
        groups = c.column(tile, [t.groups for t in tiles], "position groups")
        rows = c.column(shape, [s[0] for s in shapes], "rows")
        rows_each = c.column(shape, [s[0] // s[1] for s in shapes], "rows each")
        across = c.column(shape, [s[2] for s in shapes], "across")
        warpgroups = [s[1] * s[2] for s in shapes]
        consumers = c.column(shape, warpgroups, "consumers")
        line = c.column(length, lengths, "line")

        each = c.number(1, _COLUMNS // 8, "each", lambda: -(-int(span) // (8 * int(across))))
        columns = c.named(8 * c.product([each, across], 1 << 7, "cells"), 1 << 10, "columns")
        c.define(columns >= span)
        c.define(columns - 8 * across < span)
        fragments = c.column(shape, [s[0] // s[1] // 64 for s in shapes], "fragments")
        left = [started_registers(limits, n) - _OTHERS for n in warpgroups]
        sums = c.product([fragments, each, 4], 1 << 10, "sums")
        c.at_most("registers", sums, c.column(shape, left, "registers left"))
        held = c.larger(lines, reach + columns, 1 << 12, "held")
        box = c.named(c.product([held, line], 1 << 19) + 1024, 1 << 20, "box")
        portion = c.product([rows_each, line, consumers], 1 << 17, "portion")
        wide = 2 if geometry.space.dtype == "float16" else 4
        staged = c.product([rows_each + 4 * (wide == 4), columns, wide], 1 << 20, "staged")
        along = c.column(shape, [s[1] for s in shapes], "along")
        staged = c.product([staged, along], 1 << 20)
        local = c.named(
            c.product([boxes, box], 1 << 22) + c.product([stages, portion], 1 << 22)
            + staged + 1024 * consumers + 512, 1 << 23, "local",
        )  # fmt: skip
        most = c.column(shape, [self._local(n) for n in warpgroups], "local bytes of a group")
        c.at_most("local memory", local, most)
        # No memory is left that one more portion would fill.
        c.at_least_unless("local memory", local + portion, most + 1, stages, _STAGES[-1])
        down = c.column(shape, [-(-geometry.rows.size // s[0]) for s in shapes], "row groups")
        covered = c.product([down, rows], 1 << 31)
        c.at_most("tiles", covered, max(padded, padded * 5 // 4))
        batches = math.prod(geometry.size(k) for k in geometry.batch)
        whole = c.product([groups, down, batches], 1 << 40, "blocks")
        c.at_least("grid", whole, int(_FULL * limits.compute_units))
        return choices

    def _local(self, consumers: int) -> int:
        """Bytes of a group; where one warpgroup multiplies, two groups share a unit."""
        limits = self.limits
        both = limits.unit_local_bytes // 2 - 1024
        return min(limits.local_bytes, both if consumers == 1 else limits.local_bytes)

    def _tiles(self, apart: bool) -> list[_Tile]:
        """Tiles of the loops over positions that come into question."""
        geometry = self.geometry
        if boxes_of(geometry, apart) is None:
            return []
        options = []
        for loop in geometry.loops:
            sizes = {-(-loop.size // g) for g in range(1, min(loop.size, 64) + 1)}
            sizes |= {t for t in (1, 2, 4, 8, 16, 32, 64, 128, 256) if t <= loop.size}
            options.append(sorted(t for t in sizes if t <= _COLUMNS))
        given = [t for t in itertools.product(*options) if _LEAST <= math.prod(t) <= 2 * _COLUMNS]
        found = (self._tile(tile, apart) for tile in given)
        made = [tile for tile in found if tile is not None and tile.span <= 2 * _COLUMNS]
        # Small tiles bring all rows too often.
        made.sort(key=lambda t: (-(-t.span // 8) * 8 * t.groups * (1 + 32 / t.span), t.tile))
        return [replace(t, reach=self._reach(t)) for t in made[:_TILES]]

    def _tile(self, tile: tuple[int, ...], apart: bool) -> _Tile | None:
        """A tile; None where the copy engine cannot bring its boxes."""
        geometry = self.geometry
        boxes = boxes_of(geometry, apart)
        if boxes is None:
            return None
        extents = boxes.extents(geometry, tile, 1, apart)
        if not fits(extents):
            return None
        span = geometry.box(tile, apart, overlapping=False).span
        groups = math.prod(-(-loop.size // t) for loop, t in zip(geometry.loops, tile, strict=True))
        return _Tile(tile, apart, span, positions_of(extents, boxes), groups)

    def _reach(self, tile: _Tile) -> int:
        """Positions from the first tap to the furthest one."""
        return max(self.geometry.tap_places(tile.tile, tile.apart, overlapping=False))
