"""How a product of plain matrices is spread over a device's threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from glenside.codegen.gpu.mapping.product import ProductMapping


@dataclass(frozen=True)
class MatrixMapping(ProductMapping):
    """A group computes ``rows`` of the resident operand by ``columns`` of the streamed one, a
    thread ``tile[0]`` by ``tile[1]`` of them, ``depth`` reduced steps at a time. ``parts`` threads
    share the reduced steps of a stage and add up their sums at the end."""

    kind: ClassVar[str] = "matrices"

    rows: int
    columns: int
    depth: int
    tile: tuple[int, int]
    parts: int = 1

    @property
    def threads(self) -> int:
        """Threads of a group."""
        across, along = self.places
        return across * along * self.parts

    @property
    def places(self) -> tuple[int, int]:
        """Threads along rows and along columns."""
        return self.rows // self.tile[0], self.columns // self.tile[1]

    @property
    def local_elements(self) -> int:
        """Elements in local memory."""
        return 2 * self.depth * (self.rows + self.columns) + self.exchanged_elements

    @property
    def exchanged_elements(self) -> int:
        """Sums of the threads that share reduced steps."""
        return (self.parts - 1) * self.rows * self.columns
