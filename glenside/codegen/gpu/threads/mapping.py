"""How any product is spread over a device's threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from glenside.codegen.gpu.mapping.product import ProductMapping


@dataclass(frozen=True)
class ThreadMapping(ProductMapping):
    """How the loops of a product space are spread over a device, one number a loop.

    A loop over results is cut into ``ceil(size / (threads * registers))`` groups of the grid,
    ``threads`` neighbouring threads and ``registers`` results in each thread, which are ``vector``
    neighbours at a time (the threads of a group take turns, ``vector`` results each). A reduced
    loop is cut into ``split`` groups of the grid, whose partial sums a second kernel adds up, into
    stages of ``chunk`` steps, and each stage into ``threads`` threads, whose sums are added up in
    local memory.
    """

    kind: ClassVar[str] = "threads"

    threads: tuple[int, ...]
    registers: tuple[int, ...]
    vector: tuple[int, ...]
    chunk: tuple[int, ...]
    split: tuple[int, ...]
    resident_fast: bool = True
    """Whether neighbouring threads lie along the resident operand's rows."""
    staged: tuple[bool, bool] = (True, True)
    """Whether the resident and the streamed operand are read through local memory."""
    gathered: bool = False
    """Whether results are brought together in local memory, to be stored in order."""
    buffers: int = 1
    """Stages that have room in local memory; with more than one, the next are brought while one is
    multiplied."""

    @property
    def order(self) -> Any:
        """By the numbers, as declared."""
        return (self.threads, self.registers, self.vector, self.chunk, self.split,
                self.resident_fast, self.staged, self.gathered, self.buffers)  # fmt: skip
