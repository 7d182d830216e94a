"""Mappings of products to matrix units that take operands from registers, warp by warp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from glenside.codegen.gpu.tensor.problem import UnitProblem
from glenside.codegen.gpu.tensor.unit import MMA, MatrixUnit
from glenside.codegen.gpu.warps.mapping import WarpMapping


class WarpProblem(UnitProblem[WarpMapping]):
    """Each warp multiplies 16 rows by 8 positions at a time.

    A warp's sums are fewer, for it holds operands in registers too. Parts of a split product are
    added up by a kernel of its own, so there may be more of them than a cluster has groups.
    """

    unit: ClassVar[MatrixUnit] = MMA
    shapes: ClassVar[Sequence[tuple[int, int, int]]] = (
        (16, 1, 4), (32, 1, 4), (32, 2, 2), (64, 1, 4), (64, 2, 2), (64, 2, 4), (64, 4, 1),
        (128, 2, 2), (128, 2, 4), (128, 4, 2), (256, 4, 2),
    )  # fmt: skip
    stages: ClassVar[Sequence[int]] = (1, 2, 3, 4)
    splits: ClassVar[Sequence[int]] = (1, 2, 3, 4, 6, 8, 12, 16)
    most_sums: ClassVar[int] = 128
    most_tiles: ClassVar[int] = 60

    @property
    def most_split(self) -> int:
        return max(self.splits)

    def mapping(self, rows: Sequence[Any]) -> WarpMapping:
        tile, (height, along, across), (units, split, _), stages = rows
        return WarpMapping(
            tile=tile.tile,
            rows=height,
            groups=(along, across),
            chunk=units * self.geometry.unit,
            stages=stages,
            split=split,
            gathered=self.gathered,
        )
