"""Matrix units, as what a kernel has to know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MatrixUnit:
    """An instruction that adds products of rows by positions to sums that threads hold.

    It takes 32 bytes of the reduced axis, in cells of 8 rows or positions by 16 bytes.
    """

    name: str
    """Of the instruction."""
    threads: int
    """That issue it together, and share its sums."""
    rows: int
    """Of one product."""
    positions: int
    """Of one product, at most; in steps of 8."""
    operands: Literal["local memory", "registers"]
    """Where it takes them from."""


WGMMA = MatrixUnit("wgmma.mma_async", 128, 64, 256, "local memory")
"""Hopper's: four warps, a warpgroup, issue it."""
MMA = MatrixUnit("mma.sync", 32, 16, 8, "registers")
"""From Ampere on."""
