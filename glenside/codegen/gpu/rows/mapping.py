"""How reductions over rows are spread over a device's threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.mapping.product import ProductMapping


@dataclass(frozen=True)
class RowMapping(ProductMapping):
    """``team`` threads share a row, a group has ``rows`` of them.

    ``held``: what several reductions read of a row stays in registers, else it is read again.
    ``shuffled``: threads of a warp hand on their totals in registers, else in local memory.
    """

    kind: ClassVar[str] = "rows"

    team: int
    rows: int
    held: int = 0
    shuffled: int = 0

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return self.team * self.rows
