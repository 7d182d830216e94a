"""Matrix units, as what a kernel has to know of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Place:
    """A number that a lane's number gives, and that of what it holds: the sum of digits of both."""

    digits: tuple[tuple[Literal["lane", "held"], int, int, int], ...]
    """Of which of both; how often a digit's unit goes into it, how many there are, what each is
    worth."""

    def of(self, lane: int, held: int = 0) -> int:
        """The number itself."""
        numbers = {"lane": lane, "held": held}
        return sum(
            numbers[name] // unit % count * worth for name, unit, count, worth in self.digits
        )

    @property
    def text(self) -> str:
        """The number as an expression of C."""
        return " + ".join(
            f"{name} / {unit} % {count} * {worth}" for name, unit, count, worth in self.digits
        )


@dataclass(frozen=True)
class LaneLayout:
    """Which threads of a warp hold what of a product, where a unit takes operands from registers.

    Operands lie in local memory as units of 16 bytes of the reduced axis: by unit, rows (or
    positions) one after the other.
    """

    row_words: int
    """Words of 4 bytes of the resident operand that a lane holds."""
    row_unit: Place
    """The unit that a lane loads from,"""
    row_line: Place
    """and the row."""
    together: int
    """Products whose positions are loaded at once, of two words each."""
    position_unit: Place
    position_line: Place
    """Likewise of the streamed operand."""
    sums: int
    """Sums that a lane holds of one product,"""
    sum_row: Place
    """the row of each,"""
    sum_position: Place
    """and its position."""

    def functions(self) -> dict[str, Place]:
        """The places by the names that templates call them by."""
        places = {name: each for name, each in vars(self).items() if isinstance(each, Place)}
        return dict(sorted(places.items()))


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
    layout: LaneLayout | None = None
    """Which thread holds what of it, of those that take operands from registers."""


WGMMA = MatrixUnit("wgmma.mma_async", 128, 64, 256, "local memory")
"""Hopper's: four warps, a warpgroup, issue it."""
MMA = MatrixUnit(
    "mma.sync", 32, 16, 8, "registers",
    LaneLayout(
        row_words=4,
        row_unit=Place((("lane", 16, 2, 1),)),
        row_line=Place((("lane", 1, 16, 1),)),
        together=2,
        position_unit=Place((("lane", 8, 2, 1),)),
        position_line=Place((("lane", 16, 2, 8), ("lane", 1, 8, 1))),
        sums=4,
        sum_row=Place((("lane", 4, 8, 1), ("held", 2, 2, 8))),
        sum_position=Place((("lane", 1, 4, 2), ("held", 1, 2, 1))),
    ),
)  # fmt: skip
"""From Ampere on; ``ldmatrix`` brings what each lane names a row of to those that multiply it."""
