"""The numbers that follow from a mapping of a product to warps."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.tensor.tiling import UnitTiling
from glenside.codegen.gpu.tensor.unit import MMA, MatrixUnit


@dataclass(frozen=True)
class WarpTiling(UnitTiling):
    """As :class:`UnitTiling`, of warps; parts along z share the steps."""

    unit: ClassVar[MatrixUnit] = MMA


@dataclass(frozen=True)
class Parts:
    """Sums of a split product in scratch memory: by part, batch and positions, rows innermost."""

    space: ProductSpace
    split: int

    @functools.cached_property
    def groups(self) -> tuple[int, ...]:
        """One along each loop: rows are not padded."""
        return (1,) * len(self.space.axes)

    @functools.cached_property
    def tile(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.space.axes)

    @functools.cached_property
    def elements(self) -> int:
        return self.split * math.prod(self.space.size(role) for role in ("batch", "m", "n"))
