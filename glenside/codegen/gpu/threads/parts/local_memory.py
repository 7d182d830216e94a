"""Local memory: which part of it holds what, and where an element of a part is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.threads.tiling import Tiling
from glenside.codegen.loops import Expr, Stmt, allocate, get, put


@dataclass(frozen=True)
class Part:
    """A place within a buffer in local memory; one of several of ``size`` elements each, one after
    the other, where several stages have room."""

    buffer: Any
    base: Any
    size: int = 0

    def at(self, number: Any) -> Part:
        """The place of that number."""
        return Part(self.buffer, self.base + number * self.size)

    def address(self, at: Any) -> Expr:
        """Where an element is."""
        return launching.address(self.buffer, self._place(at))

    def get(self, at: Any) -> Expr:
        """An element."""
        return get(self.buffer, self._place(at))

    def put(self, at: Any, value: Expr) -> Stmt:
        """Writes an element."""
        return put(self.buffer, self._place(at), value)

    def _place(self, at: Any) -> Any:
        return at if isinstance(self.base, int) and not self.base else at + self.base


def skewed(place: Any) -> Any:
    """A place in local memory with a gap after every 32, so that strides of powers of two do not
    all fall into the same bank."""
    return place + place // 32


class LocalMemory:
    """The parts of a group's local memory: places in one buffer, or a buffer each.

    ``resident``, ``streamed``: the operands' tiles, None where they are not staged. ``exchanged``:
    the sums that threads hand to each other. ``allocations`` go before all use.
    """

    def __init__(self, tiling: Tiling, limits: DeviceLimits) -> None:
        dynamic = tiling.local_bytes() > limits.static_local_bytes
        resident, streamed, sums = tiling.parts
        self.resident: Part | None = None
        self.streamed: Part | None = None
        self.exchanged: Part | None = None
        self.allocations: list[Stmt] = []
        accumulate = scalars.storage_dtype(tiling.space.accumulate)
        room = tiling.stage_parts
        if tiling.one_dtype:
            size = max(resident + streamed, sums)
            if not size:
                return
            pool = launching.shared("local", size, accumulate, dynamic)
            self.allocations.append(allocate(pool))
            if resident:
                self.resident = Part(pool, streamed, room[0])
            if streamed:
                self.streamed = Part(pool, 0, room[1])
            if sums:
                self.exchanged = Part(pool, 0)
            return
        dtypes = (
            scalars.storage_dtype(tiling.space.resident.dtype),
            scalars.storage_dtype(tiling.space.streamed.dtype),
            accumulate,
        )
        made = []
        names = ("rows", "box", "sums")
        for name, size, dtype, each in zip(names, tiling.parts, dtypes, [*room, 0], strict=True):
            part = None
            if size:
                buffer = launching.shared(name, size, dtype, dynamic)
                self.allocations.append(allocate(buffer))
                part = Part(buffer, 0, each)
            made.append(part)
        self.resident, self.streamed, self.exchanged = made
