"""The numbers that follow from a mapping whose operands are brought by warps of their own."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.streams.mapping import StreamMapping
from glenside.codegen.gpu.tensor.boxes import Boxes, boxes_of, fits, positions_of
from glenside.codegen.gpu.tensor.geometry import Box
from glenside.codegen.gpu.tensor.tiling import UnitTiling
from glenside.codegen.gpu.tensor.unit import WGMMA, MatrixUnit
from glenside.errors import TargetError

ALIGNED = 1024
"""Bytes at which memory that the copy engine swaps units in starts."""
FEWER = 24
"""Registers of a thread that brings operands, where there is more than one warpgroup to feed."""
_LEAST = 26
"""Registers that a product takes beside its sums."""


def group_threads(consumers: int) -> int:
    """Threads of a group of which so many warpgroups multiply: registers move from one warpgroup
    to others only where the first one is whole."""
    return WGMMA.threads * consumers + (WGMMA.threads if consumers > 1 else 64)


def started_registers(limits: DeviceLimits, consumers: int) -> int:
    """Registers of a thread when its group starts, which hold a product's sums at least; where one
    warpgroup multiplies, two groups share a unit."""
    together = 2 if consumers == 1 else 1
    return limits.unit_registers // (together * group_threads(consumers)) // 8 * 8


@dataclass(frozen=True)
class StreamTiling(UnitTiling):
    """As :class:`UnitTiling`; ``limits`` say how many groups stay."""

    unit: ClassVar[MatrixUnit] = WGMMA

    mapping: StreamMapping
    limits: DeviceLimits

    def check(self) -> None:
        """Refuses a mapping that does not fit the product.

        :raises TargetError: says what does not.
        """
        mapping, geometry = self.mapping, self.geometry
        wrong = ""
        if self._boxes is None:
            wrong = "the copy engine cannot bring its boxes"
        elif len(mapping.tile) != len(geometry.loops):
            wrong = f"{len(geometry.loops)} loops over positions, {len(mapping.tile)} tiles"
        elif mapping.rows % (self.unit.rows * mapping.groups[0]):
            wrong = f"{mapping.rows} rows for {mapping.groups[0]} warpgroups"
        elif self.line not in (32, 64, 128):
            wrong = f"chunks of {mapping.chunk} elements"
        elif mapping.stages < 2 or mapping.boxes < 2:
            wrong = f"{mapping.stages} stages, {mapping.boxes} boxes"
        elif self.columns_each > 256:
            wrong = f"{self.columns_each} positions for a warpgroup"
        elif mapping.groups[1] > 2 or self.consumers > 3:
            wrong = f"{mapping.groups} warpgroups"
        elif self.sums + _LEAST > started_registers(self.limits, self.consumers):
            wrong = f"{self.sums} sums of a thread"
        elif not fits(self.extents):
            wrong = f"boxes of {self.extents} elements"
        if wrong:
            raise TargetError(f"the mapping does not fit the product: {wrong}")

    # --- the launch -------------------------------------------------------------------------------

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return math.prod(self.mapping.groups)

    @functools.cached_property
    def threads(self) -> int:
        return group_threads(self.consumers)

    @property
    def registers(self) -> int:
        """Of a thread that multiplies; 0: as many as its group starts with."""
        if self.consumers == 1:
            return 0
        left = self.limits.unit_registers // WGMMA.threads - FEWER
        return min(240, left // self.consumers // 8 * 8)

    @functools.cached_property
    def tiles(self) -> int:
        return math.prod(self.loop_groups) * self.row_groups * self.batches

    @functools.cached_property
    def residents(self) -> int:
        """Groups that stay on one compute unit."""
        limits = self.limits
        if self.consumers > 1:
            return 1
        return max(1, min(2, limits.unit_local_bytes // (self.local_bytes(True) + 1024)))

    @functools.cached_property
    def grid(self) -> tuple[int, int, int]:
        return min(self.tiles, self.limits.compute_units * self.residents), 1, 1

    # --- the reduced loops ------------------------------------------------------------------------

    @functools.cached_property
    def box_steps(self) -> int:
        """Boxes of a tile."""
        return self.steps * (self.all_taps if self.mapping.apart else 1)

    @functools.cached_property
    def all_taps(self) -> int:
        return self.geometry.taps(False)

    @functools.cached_property
    def taps(self) -> int:
        """Of one box."""
        return 1 if self.mapping.apart else self.all_taps

    # --- boxes ------------------------------------------------------------------------------------

    @property
    def _boxes(self) -> Boxes | None:
        return boxes_of(self.geometry, self.mapping.apart)

    @functools.cached_property
    def tap_places(self) -> tuple[int, ...]:
        mapping = self.mapping
        return self.geometry.tap_places(mapping.tile, mapping.apart, overlapping=False)

    @property
    def boxes(self) -> Boxes:
        found = self._boxes
        assert found is not None
        return found

    @functools.cached_property
    def box(self) -> Box:
        return self.geometry.box(self.mapping.tile, self.mapping.apart, overlapping=False)

    @functools.cached_property
    def extents(self) -> list[int]:
        mapping = self.mapping
        return self.boxes.extents(self.geometry, mapping.tile, mapping.chunk, mapping.apart)

    @functools.cached_property
    def lines(self) -> int:
        """Lines that a box is brought to."""
        return positions_of(self.extents, self.boxes)

    # --- shared memory ----------------------------------------------------------------------------

    @functools.cached_property
    def line(self) -> int:
        """Bytes of one position's chunk."""
        return self.mapping.chunk * self.geometry.bytes

    @functools.cached_property
    def box_bytes(self) -> int:
        lines = max(self.lines, max(self.tap_places) + self.columns)
        return -(-lines * self.line // ALIGNED) * ALIGNED

    @functools.cached_property
    def rows_each(self) -> int:
        """Rows of a warpgroup."""
        return self.mapping.rows // self.mapping.groups[0]

    @functools.cached_property
    def rows_bytes(self) -> int:
        """Of one portion: a warpgroup's rows for one tap of a step."""
        return self.rows_each * self.line

    @functools.cached_property
    def rows_at(self) -> int:
        return self.mapping.boxes * self.box_bytes

    @functools.cached_property
    def staged_at(self) -> int:
        return self.rows_at + self.consumers * self.mapping.stages * self.rows_bytes

    @property
    def halves(self) -> bool:
        """Whether results are rounded to halves before anything is computed of them."""
        return self.geometry.space.dtype == "float16"

    @functools.cached_property
    def staged_bytes(self) -> int:
        """Of one warpgroup's results."""
        size = self.columns_each * (self.rows_each * 2 if self.halves else self.line_of_sums * 4)
        return -(-size // ALIGNED) * ALIGNED

    @functools.cached_property
    def line_of_sums(self) -> int:
        """Floats from one position's sums to the next one's."""
        return self.rows_each + 4

    @functools.cached_property
    def gates_at(self) -> int:
        """Where the barriers of the rings lie."""
        return self.staged_at + self.consumers * self.staged_bytes

    @functools.cached_property
    def gates(self) -> int:
        return 2 * self.mapping.boxes + self.consumers * (2 * self.mapping.stages + 1)

    def local_bytes(self, rows_fast: bool) -> int:
        return self.gates_at + -(-self.gates * 8 // 64) * 64

    @functools.cached_property
    def lag(self) -> int:
        """Portions that a warpgroup begins after the one before it, so that they do not store at
        the same time; boxes are shared, so half of those under way at most."""
        if self.consumers == 1:
            return 0
        portions = self.box_steps * self.taps
        ahead = (self.mapping.boxes - 1) * self.taps // 2
        return min(portions // self.consumers, ahead // (self.consumers - 1))

    @functools.cached_property
    def second(self) -> int:
        """The first place of a tile whose sums the second warpgroup along positions has."""
        mapping = self.mapping
        if mapping.groups[1] == 1:
            return math.prod(mapping.tile)
        for place in range(math.prod(mapping.tile)):
            rest, column = place, 0
            for number in reversed(range(len(mapping.tile))):
                column += rest % mapping.tile[number] * self.box.step(number)
                rest //= mapping.tile[number]
            if column >= self.columns_each:
                return place
        return math.prod(mapping.tile)
