"""Pipelining: stages one after the other, the next ones brought while one is multiplied."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen.gpu import launching
from glenside.codegen.gpu.threads.parts.local_memory import LocalMemory
from glenside.codegen.gpu.threads.parts.staging import Staging
from glenside.codegen.loops import Index, Stmt, sequence, unflatten
from glenside.codegen.text import dialects


class Pipeline:
    """The stages of a group, each brought by ``staging`` and then multiplied.

    ``multiply(stage, number)`` multiplies what lies at the place of that number in ``memory``.
    """

    def __init__(
        self,
        staging: Staging,
        memory: LocalMemory,
        multiply: Callable[[Index, Any], Stmt],
    ) -> None:
        self.staging, self.memory, self.multiply = staging, memory, multiply
        self.dialect, self.placement = staging.dialect, staging.placement
        self.tiling, self.mapping = self.placement.tiling, self.placement.mapping
        self.packed = staging.operands.packed

    def stages(self) -> Stmt:
        """All stages of a group."""
        counts = [self.tiling.stages[k] for k in self.placement.reduced]
        waits = any(self.mapping.staged)
        if waits and self.tiling.buffers > 1:
            return self._buffered_stages(counts)

        def one(stage: Index) -> Stmt:
            body = []
            if waits and math.prod(counts) > 1:
                body.append(launching.barrier())
            bring = self._bring(stage, 0)
            if math.prod(counts) == 1 and self.packed is not None and self.mapping.staged[0]:
                # What is constant need not be waited for.
                bring = [bring[-1], *self._after_earlier(), *bring[:-1]]
            body += bring
            if waits:
                body.append(launching.barrier())
            body.append(self.multiply(stage, 0))
            return sequence(body)

        return launching.serial_nest(counts, one)

    def _bring(self, stage: Index, number: Any) -> list[Stmt]:
        """Brings the operands' parts for a stage to the place of that number."""
        body = []
        if self.memory.streamed is not None:
            body.append(self.staging.streamed(stage, self.memory.streamed.at(number)))
        if self.memory.resident is not None:
            body.append(self.staging.resident(stage, self.memory.resident.at(number)))
        return body

    def _buffered_stages(self, counts: Sequence[int]) -> Stmt:
        """Stages of which the next are brought while one is multiplied."""
        from tvm import tirx

        total, room = math.prod(counts), self.tiling.buffers
        background = self.dialect == "cuda"

        def begun() -> list[Stmt]:
            return [launching.call(dialects.COPIES_BEGUN)] if background else []

        first: list[Stmt] = []
        for number in range(room - 1):
            bring = self._bring(unflatten(number, counts), number)
            if not number and self.packed is not None and self.memory.resident is not None:
                bring = [bring[-1], *self._after_earlier(), *bring[:-1]]
            first += [*bring, *begun()]

        def one(at: Any) -> Stmt:
            later = at + (room - 1)
            bring = sequence(self._bring(unflatten(later, counts), later % room))
            body = [launching.call(dialects.COPIES_DONE.format(room - 2))] if background else []
            body += [launching.barrier(), launching.guarded(tirx.LT(later, total), bring), *begun()]
            body.append(self.multiply(unflatten(at, counts), at % room))
            return sequence(body)

        return sequence([*first, launching.serial(total, one)])

    def _after_earlier(self) -> list[Stmt]:
        return [launching.call(dialects.AFTER_EARLIER)] if self.dialect == "cuda" else []
