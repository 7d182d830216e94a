"""What mappings to matrix units have in common."""

from __future__ import annotations

from dataclasses import dataclass

from glenside.codegen.gpu.mapping.product import ProductMapping


@dataclass(frozen=True)
class UnitMapping(ProductMapping):
    """How a product is spread over groups that multiply on matrix units.

    ``tile`` has the results of a group along each loop over positions, ``rows`` those along the
    rows; ``groups`` are those that multiply together along rows and along positions. A step takes
    ``chunk`` elements of the inner reduced loop; ``stages`` steps are in local memory at a time.
    """

    tile: tuple[int, ...]
    rows: int
    groups: tuple[int, int]
    chunk: int
    stages: int

    # What only some kinds choose:

    @property
    def split(self) -> int:
        """Groups that share the steps of a tile."""
        return 1

    @property
    def kept(self) -> int:
        """Products of earlier steps that may be under way."""
        return 0

    @property
    def gathered(self) -> bool:
        """Whether all reduced loops are one."""
        return False
