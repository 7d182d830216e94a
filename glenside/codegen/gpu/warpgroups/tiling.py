"""The numbers that follow from a mapping of a product to warpgroups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.tensor.tiling import UnitTiling
from glenside.codegen.gpu.tensor.unit import WGMMA, MatrixUnit


@dataclass(frozen=True)
class WarpgroupTiling(UnitTiling):
    """As :class:`UnitTiling`, of warpgroups; clusters along z share the steps."""

    unit: ClassVar[MatrixUnit] = WGMMA

    def local_bytes(self, rows_fast: bool) -> int:
        """Local memory of a group; the barriers that runs of rows arrive at lie behind the rest."""
        return self.arrivals(rows_fast) + 64
