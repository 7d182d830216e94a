"""Mappings of any product to threads."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits
from glenside.codegen.gpu.mapping.kind import Kind, Ranked, Work
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.threads.kernel import ThreadNest
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.gpu.threads.problem import ThreadProblem
from glenside.codegen.gpu.threads.tiling import Tiling
from glenside.codegen.gpu.threads.time import predict
from glenside.codegen.scalars import itemsize
from glenside.errors import TargetError

_BUFFERED = 500
"""Of the best, those that are also looked at with room for another stage."""


class Threads(Kind[ProductSpace, ThreadMapping]):
    """Any product, on what every device has."""

    name = ThreadMapping.kind

    def unfit(self, space: ProductSpace, limits: DeviceLimits) -> str:
        return ""

    def problems(self, space: ProductSpace, limits: DeviceLimits) -> Sequence[ThreadProblem]:
        return [ThreadProblem(space, limits)]

    def ranked(self, space: ProductSpace, limits: DeviceLimits) -> Ranked[ThreadMapping]:
        (problem,) = self.problems(space, limits)
        # With what rows are padded by, which the problem leaves out.
        found = self.admitted(space, problem.solutions(), limits)
        if not found and limits.scratch_bytes < type(limits).scratch_bytes:
            # There may be no room for the parts that would occupy the device.
            problem = ThreadProblem(space, limits, occupying=False)
            found = self.admitted(space, problem.solutions(), limits)
        ranked = self.timed(space, [*found, *_variants(space, found, limits)], limits)
        buffered = _buffered(space, ranked[:_BUFFERED], limits)
        if buffered:
            ranked = self.sorted(space, [*ranked, *self.timed(space, buffered, limits)], limits)
        return Ranked(ranked, problem.whole)

    def predict(
        self, space: ProductSpace, mappings: Sequence[ThreadMapping], limits: DeviceLimits
    ) -> np.ndarray[Any, Any]:
        return predict(space, mappings, limits)

    def check(self, space: ProductSpace, mapping: ThreadMapping, limits: DeviceLimits) -> None:
        for name in ("threads", "registers", "vector", "chunk", "split"):
            numbers = getattr(mapping, name)
            if len(numbers) != len(space.axes):
                raise TargetError(f"{name} is {numbers!r} for {len(space.axes)} loops")

    def kernels(self, work: Work[ProductSpace], mapping: ThreadMapping) -> list[DeviceKernel]:
        w = work
        nest = ThreadNest(w.builder, w.step, w.limits, w.space, mapping, w.dialect)
        return nest.kernels(w.name)

    def alike(self, mapping: ThreadMapping) -> Sequence[Hashable]:
        block = ("block", mapping.registers, mapping.split)
        return block, ("tile", mapping.registers, mapping.threads)

    def scratch_bytes(self, space: ProductSpace, mapping: ThreadMapping) -> int:
        if math.prod(mapping.split) == 1:
            return 0
        return Tiling(space, mapping).partial_elements * itemsize(space.accumulate)


def _variants(
    space: ProductSpace, found: Sequence[ThreadMapping], limits: DeviceLimits
) -> list[ThreadMapping]:
    """Mappings that obey the same constraints: other ways to add up, to store and to read."""
    made = []
    rows, inner = space.of("m"), itemsize(space.accumulate)
    for each in found:
        split = math.prod(each.split)
        alone = all(each.threads[k] == 1 for k in space.of("k"))
        results = math.prod(each.threads) * math.prod(each.registers)
        fits = 1.1 * results * inner + 384 <= limits.local_bytes
        if split == 1 and alone:
            made.append(replace(each, resident_fast=False))
            if fits and space.size("m") > 1:
                made.append(replace(each, gathered=True))
        if any(each.staged) and all(each.threads[k] == 1 for k in rows):
            made.append(replace(each, staged=(False, each.staged[1])))
    return made


def _buffered(
    space: ProductSpace, found: Sequence[ThreadMapping], limits: DeviceLimits
) -> list[ThreadMapping]:
    """The same with room for another stage in local memory, where a device can fetch in the
    background what a thread copies as it is."""
    streamed = space.streamed
    whole_words = all(itemsize(each.dtype) % 4 == 0 for each in (space.resident, streamed))
    if not limits.copies_in_background or not whole_words:
        return []
    made = []
    for each in found:
        if each.staged[1] and streamed.memory is None:
            continue
        several = replace(each, buffers=2)
        tiling = Tiling(space, several)
        room = any(each.staged) and tiling.local_bytes() <= limits.local_bytes
        if room and tiling.buffers == several.buffers:
            made.append(several)
    return made
