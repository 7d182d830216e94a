"""The numbers that follow from a mapping of a product to warps."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.tensor.tiling import TensorTiling


@dataclass(frozen=True)
class WarpTiling(TensorTiling):
    """As :class:`TensorTiling`, of warps; parts along z share the steps."""

    members: ClassVar[int] = 32
    fragment: ClassVar[int] = 16

    def arrivals(self, rows_fast: bool) -> int:
        """Bytes of operands or of sums; there are no barriers behind them."""
        size = max(self.mapping.stages * self.stage_bytes, self.sums_bytes(rows_fast))
        return -(-size // 128) * 128

    def local_bytes(self, rows_fast: bool) -> int:
        return self.arrivals(rows_fast)

    @functools.cached_property
    def ahead(self) -> int:
        return max(1, self.mapping.stages - 1)


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
