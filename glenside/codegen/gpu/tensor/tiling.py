"""The numbers that follow from a mapping of a product to the matrix units."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.tensor.geometry import Box, Geometry
from glenside.codegen.gpu.tensor.mapping import UnitMapping
from glenside.codegen.gpu.tensor.unit import MatrixUnit
from glenside.errors import TargetError


@dataclass(frozen=True)
class UnitTiling:
    """Sizes of tiles, of shared memory (bytes) and of the launch."""

    unit: ClassVar[MatrixUnit]

    geometry: Geometry
    mapping: UnitMapping

    def check(self) -> None:
        """Refuses a mapping that does not fit the product.

        :raises TargetError: says what does not.
        """
        mapping, geometry = self.mapping, self.geometry
        wrong = ""
        if mapping.gathered is False and geometry.inner is None:
            wrong = "the reduced loops cannot stay apart"
        elif len(mapping.tile) != len(geometry.loops):
            wrong = f"{len(geometry.loops)} loops over positions, {len(mapping.tile)} tiles"
        elif mapping.rows % (self.unit.rows * mapping.groups[0]):
            wrong = (
                f"{mapping.rows} rows for {mapping.groups[0]} groups of {self.unit.threads} threads"
            )
        elif mapping.chunk % (2 * geometry.unit):
            wrong = f"chunks of {mapping.chunk} elements"
        elif (mapping.split - 1) * self.share >= self.steps:
            wrong = f"{self.steps} steps for {mapping.split} groups"
        elif mapping.stages < 2 + mapping.kept and self.share > 1:
            wrong = f"{mapping.stages} stages"
        elif self.columns_each > 256:
            wrong = f"{self.columns_each} positions for {self.unit.threads} threads"
        if wrong:
            raise TargetError(f"the mapping does not fit the product: {wrong}")

    # --- the launch -------------------------------------------------------------------------------

    @functools.cached_property
    def threads(self) -> int:
        return self.unit.threads * self.mapping.groups[0] * self.mapping.groups[1]

    @functools.cached_property
    def loop_groups(self) -> tuple[int, ...]:
        """Groups along each loop over positions."""
        pairs = zip(self.geometry.loops, self.mapping.tile, strict=True)
        return tuple(-(-loop.size // tile) for loop, tile in pairs)

    @functools.cached_property
    def row_groups(self) -> int:
        return -(-self.geometry.rows.size // self.mapping.rows)

    @functools.cached_property
    def batches(self) -> int:
        return math.prod(self.geometry.size(k) for k in self.geometry.batch)

    @functools.cached_property
    def grid(self) -> tuple[int, int, int]:
        return math.prod(self.loop_groups), self.row_groups * self.batches, self.mapping.split

    # --- the reduced loops ------------------------------------------------------------------------

    @functools.cached_property
    def inner(self) -> int:
        return self.geometry.inner_size(self.mapping.gathered)

    @functools.cached_property
    def chunks(self) -> int:
        """Steps along the inner loop."""
        return -(-self.inner // self.mapping.chunk)

    @functools.cached_property
    def steps(self) -> int:
        return self.chunks * self.geometry.outer_size(self.mapping.gathered)

    @functools.cached_property
    def share(self) -> int:
        """Steps of one group of a cluster, at most."""
        return -(-self.steps // self.mapping.split)

    @functools.cached_property
    def taps(self) -> int:
        return self.geometry.taps(self.mapping.gathered)

    @functools.cached_property
    def units(self) -> int:
        """16 bytes each, of one step of the inner loop."""
        return self.mapping.chunk // self.geometry.unit

    # --- shared memory ----------------------------------------------------------------------------

    @functools.cached_property
    def box(self) -> Box:
        return self.geometry.box(self.mapping.tile, self.mapping.gathered)

    @functools.cached_property
    def tap_places(self) -> tuple[int, ...]:
        """Where each tap's positions start."""
        return self.geometry.tap_places(self.mapping.tile, self.mapping.gathered)

    @functools.cached_property
    def columns(self) -> int:
        """Positions that are multiplied: the span of the tile's results, in whole cells."""
        unit = 8 * self.mapping.groups[1]
        return -(-self.box.span // unit) * unit

    @functools.cached_property
    def columns_each(self) -> int:
        return self.columns // self.mapping.groups[1]

    def _plane(self, positions: int) -> int:
        """Bytes of a plane; units of one position lie in banks of their own."""
        if self.units > 8:
            shift = 16
        else:
            shift = 128 // self.units if self.units in (2, 4, 8) else 16
        size = positions * 16
        return size + (shift - size) % 128

    @functools.cached_property
    def plane(self) -> int:
        return self._plane(max(self.box.positions, max(self.tap_places) + self.columns))

    @functools.cached_property
    def box_bytes(self) -> int:
        return -(-self.units * self.plane // 128) * 128

    @functools.cached_property
    def lead(self) -> int:
        """Bytes from one unit of the rows to the next."""
        if self.geometry.space.resident.constant:
            return self.mapping.rows * 16
        return self._plane(self.mapping.rows)

    @functools.cached_property
    def rows_bytes(self) -> int:
        return -(-self.taps * self.units * self.lead // 128) * 128

    @functools.cached_property
    def stage_bytes(self) -> int:
        return self.box_bytes + self.rows_bytes

    def sums_bytes(self, rows_fast: bool) -> int:
        """What the sums take once all is multiplied."""
        lines = self.columns if rows_fast else self.mapping.rows
        return lines * self.pitch(rows_fast) * 4

    def pitch(self, rows_fast: bool) -> int:
        """Floats from one line of sums to the next."""
        if rows_fast:
            return self.mapping.rows + 4
        return self.columns + (8 - self.columns) % 32

    def arrivals(self, rows_fast: bool) -> int:
        """Bytes of operands or of sums, behind which a kind may have barriers."""
        size = max(self.mapping.stages * self.stage_bytes, self.sums_bytes(rows_fast))
        return -(-size // 128) * 128

    def local_bytes(self, rows_fast: bool) -> int:
        """Local memory of a group."""
        return self.arrivals(rows_fast)

    # --- registers --------------------------------------------------------------------------------

    @functools.cached_property
    def fragments(self) -> int:
        """Products along rows that a warpgroup, or a warp, has."""
        return self.mapping.rows // (self.unit.rows * self.mapping.groups[0])

    @functools.cached_property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.fragments * self.columns_each * self.unit.rows // self.unit.threads

    @functools.cached_property
    def turns(self) -> int:
        """Units of a box that a thread brings."""
        return -(-self.box.positions * self.units // self.threads)

    @functools.cached_property
    def row_turns(self) -> int:
        return -(-self.mapping.rows * self.units // self.threads)

    @functools.cached_property
    def ahead(self) -> int:
        """Steps that are under way before they are needed."""
        return max(1, self.mapping.stages - 1 - self.mapping.kept)
