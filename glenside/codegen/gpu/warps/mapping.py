"""How a product is spread over warps, each of which multiplies alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.tensor.mapping import UnitMapping


@dataclass(frozen=True)
class WarpMapping(UnitMapping):
    """``groups`` are warps (32 threads), and the ``split`` parts of a product lie in memory until
    another kernel adds them up. ``gathered``: all reduced loops are one."""

    kind: ClassVar[str] = "warps"

    split: int = 1
    gathered: bool = False
