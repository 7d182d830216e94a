"""What a declaration claims about the unit's own sizes.

:mod:`~glenside.hw_targets.declare.claims` proves it, and
:mod:`~glenside.hw_targets.declare.required` refuses what is false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glenside.hw_targets.declare.checked import Declared
from glenside.hw_targets.declare.tiling import Tiling


@dataclass(frozen=True)
class Claim:
    """One thing that a declaration says of a size: it is ``cut`` along it, or ``padded``.

    ``how`` is what parts give, ``outer``, ``sum`` or ``max``, or what stands behind the elements,
    ``zero`` or ``lowest``; ``axis`` that of the result which is cut.
    """

    unit: str
    size: str
    what: str
    how: str
    axis: int = -1

    def __str__(self) -> str:
        if self.what == "padded":
            behind = "zeros" if self.how == "zero" else "lowest values"
            return f"{self.unit}: {behind} behind {self.size} change nothing"
        gives = {"outer": "side by side", "sum": "in sum", "max": "as maximum"}[self.how]
        return f"{self.unit}: parts along {self.size} give the whole {gives}"


def claims(accelerator: Declared) -> Iterator[Claim]:
    """What a declaration claims of the unit's own sizes."""
    return claims_of(accelerator.name, accelerator.tiling)


def claims_of(unit: str, tiling: Tiling) -> Iterator[Claim]:
    """Likewise of a unit that is being declared."""
    for size, role in tiling.roles.items():
        yield Claim(unit, size, "cut", role.kind, role.axis)
    for size in tiling.padded:
        yield Claim(unit, size, "padded", "lowest" if size in tiling.lowest else "zero")
