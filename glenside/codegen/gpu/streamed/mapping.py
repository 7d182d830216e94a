"""How a streamed product is spread over a device: the mappings there are, and their constraints."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.streamed.problem import StreamedProblem

_ACROSS = 16
"""Threads along columns, and along what rows are multiplied with."""


@dataclass(frozen=True)
class StreamedMapping:
    """A group computes ``down * each`` rows, a block of ``across * along`` columns at a time: a
    thread has ``each`` rows by ``along`` columns of a block."""

    down: int
    across: int
    each: int
    along: int
    predicted: float = 0.0
    """Seconds, by the model."""

    @property
    def threads(self) -> int:
        return self.down * self.across

    @property
    def rows(self) -> int:
        """Rows of a group."""
        return self.down * self.each

    @property
    def block(self) -> int:
        """Columns of a block."""
        return self.across * self.along

    def pitch(self, length: int) -> int:
        """Elements from one row in local memory to the next, on another bank."""
        return length + 1

    def elements(self, problem: StreamedProblem) -> dict[str, int]:
        """What a group has in local memory, by name."""
        return {
            "rows": self.rows * problem.depth,
            "columns": self.block * self.pitch(problem.depth),
            "values": self.block * problem.width,
            "scores": self.rows * self.pitch(self.block),
            "parts": self.threads,
            "factors": self.rows,
        }

    def local_bytes(self, problem: StreamedProblem) -> int:
        """Bytes of it."""
        return sum(self.elements(problem).values()) * np.dtype(problem.inner).itemsize

    def registers(self, problem: StreamedProblem) -> int:
        """32-bit registers of a thread, sums and what is read for them."""
        words = np.dtype(problem.inner).itemsize // 4
        sums = self.each * (self.along + -(-problem.width // self.across))
        return words * (sums + self.each + max(self.along, -(-problem.width // self.across))) + 32


def mappings(problem: StreamedProblem, limits: DeviceLimits) -> Iterator[StreamedMapping]:
    """All mappings that the device allows, each row's threads being neighbours."""
    local = min(limits.local_bytes, limits.static_local_bytes)
    for down, each, along in itertools.product((4, 8, 16), (1, 2, 4), (1, 2, 4)):
        mapping = StreamedMapping(down, _ACROSS, each, along)
        if (
            mapping.threads <= min(limits.threads_per_group, limits.group_size[0])
            and mapping.local_bytes(problem) <= local
            and mapping.registers(problem) <= limits.thread_registers
            and problem.batches <= limits.grid_size[1]
        ):
            yield mapping
