"""How a large product is spread over groups that stay, operands being brought to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.tensor.mapping import UnitMapping


@dataclass(frozen=True)
class StreamMapping(UnitMapping):
    """``groups`` are warpgroups (128 threads), which stay, and warps of their own bring operands:
    ``boxes`` of the streamed operand are in local memory at a time, and for each warpgroup
    ``stages`` portions of rows, a portion for each window offset. ``apart``: each window offset has
    a box of its own."""

    kind: ClassVar[str] = "streams"

    boxes: int
    apart: bool = False
