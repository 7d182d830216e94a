"""How a product is spread over warpgroups, which multiply what lies in local memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.tensor.mapping import UnitMapping


@dataclass(frozen=True)
class WarpgroupMapping(UnitMapping):
    """``groups`` are warpgroups (128 threads). A product of the previous step may be under way for
    each ``kept``. The ``split`` groups of a cluster share the steps and add up their sums.
    ``gathered``: all reduced loops are one."""

    kind: ClassVar[str] = "warpgroups"

    split: int = 1
    kept: int = 0
    gathered: bool = False
