"""Mappings of products to warpgroups, as a constraint problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from glenside.codegen.gpu.tensor.problem import UnitProblem
from glenside.codegen.gpu.tensor.unit import WGMMA, MatrixUnit
from glenside.codegen.gpu.warpgroups.mapping import WarpgroupMapping


class WarpgroupProblem(UnitProblem[WarpgroupMapping]):
    """The groups of a cluster share the steps."""

    unit: ClassVar[MatrixUnit] = WGMMA
    shapes: ClassVar[Sequence[tuple[int, int, int]]] = (
        (64, 1, 1), (64, 1, 2), (128, 1, 1), (128, 2, 1), (128, 1, 2), (128, 2, 2), (192, 3, 1),
        (256, 2, 1), (256, 4, 1), (256, 2, 2),
    )  # fmt: skip
    stages: ClassVar[Sequence[int]] = (1, 2, 3, 4, 6)
    splits: ClassVar[Sequence[int]] = (1, 2, 3, 4, 5, 6, 7, 8)
    most_sums: ClassVar[int] = 160
    most_tiles: ClassVar[int] = 240

    @property
    def most_split(self) -> int:
        return self.limits.cluster_groups

    def mapping(self, rows: Sequence[Any]) -> WarpgroupMapping:
        tile, (height, along, across), (units, split, _), stages = rows
        return WarpgroupMapping(
            tile=tile.tile,
            rows=height,
            groups=(along, across),
            chunk=units * self.geometry.unit,
            stages=stages,
            split=split,
            kept=int(stages >= 3),
            gathered=self.gathered,
        )
