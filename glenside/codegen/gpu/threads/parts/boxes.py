"""Boxes: the part of the streamed operand's base that a stage reads, and how it is laid out."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.threads.parts.operands import stored_dtype
from glenside.codegen.gpu.threads.parts.placing import Placement
from glenside.codegen.gpu.threads.tiling import Tiling
from glenside.codegen.loops import Expr, Index


class Box:
    """The box of one stage: its extent in the base, its order and distances in local memory."""

    def __init__(self, tiling: Tiling) -> None:
        self.tiling, self.product, self.mapping = tiling, tiling.space, tiling.mapping
        self.n = self.product.of("n")

    @functools.cached_property
    def order(self) -> list[int]:
        """Dimensions as the box has them in local memory: reduced ones outermost, the one along
        which threads keep runs innermost."""
        streamed = self.product.streamed
        dimensions = list(range(len(streamed.shape)))
        last = self.run_dimension

        def rank(d: int) -> tuple[bool, bool, int]:
            only_reduced = all(self.product.axes[k].role == "k" for k in streamed.axes_of(d))
            return d == last, not only_reduced, d

        return sorted(dimensions, key=rank)

    @functools.cached_property
    def pitch(self) -> list[int]:
        """Distances in the box along the base's dimensions."""
        pitch, result = 1, [0] * len(self.product.streamed.shape)
        for d in reversed(self.order):
            result[d] = pitch
            pitch *= self.tiling.extents[d]
        return result

    @functools.cached_property
    def run(self) -> tuple[int | None, int | None]:
        """The loop along which threads keep runs of the box, and the window loop along it."""
        best: tuple[int, int, int] | None = None
        for axis in self.n:
            if self.mapping.vector[axis] == 1:
                continue
            for window in self.product.windows_of(axis):
                if self.mapping.chunk[window] != self.product.axes[window].size:
                    continue
                if self.mapping.threads[window] > 1 or self.product.axes[window].size > 16:
                    continue
                d = self.product.streamed.dimensions_of(axis)[-1]
                if best is None or d > best[2]:
                    best = axis, window, d
        if best is not None:
            return best[0], best[1]
        wide = [axis for axis in self.n if self.mapping.vector[axis] > 1]
        return (wide[-1] if wide else None), None

    @functools.cached_property
    def run_dimension(self) -> int | None:
        axis = self.run[0]
        if axis is None:
            axis = self.n[-1] if self.n else None
        found = self.product.streamed.dimensions_of(axis) if axis is not None else []
        return found[-1] if found else None

    def width(self, limits: DeviceLimits) -> int:
        """Neighbours in memory that a thread brings at a time: as many as surely lie at a multiple
        of that many, in memory and in the box, and are all there or none."""
        streamed, tiling = self.product.streamed, self.tiling
        memory = streamed.memory
        if memory is None or stored_dtype(streamed) != streamed.dtype:
            return 1
        d = self.order[-1]
        whole = memory.before[d] == 0 and memory.size[d] == streamed.shape[d]
        if memory.strides[d] != 1 or not whole:
            return 1
        numbers = [tiling.extents[d], streamed.shape[d], streamed.start[d], memory.offset]
        others = zip(memory.strides, streamed.shape, strict=True)
        numbers += [step for k, (step, size) in enumerate(others) if k != d and size > 1]
        for axis in streamed.axes_of(d):
            several = tiling.groups[axis] * tiling.stages[axis] * self.mapping.split[axis] > 1
            if several:
                numbers.append(streamed.steps[axis][d] * tiling.tile[axis])
        most = limits.vector_bytes // np.dtype(streamed.dtype).itemsize
        return next(w for w in (4, 2, 1) if w <= most and all(n % w == 0 for n in numbers))

    def reach(self, d: int) -> int:
        """Most positions of the base's dimension that any box asks for."""
        streamed, reach = self.product.streamed, self.product.streamed.start[d]
        for axis in streamed.axes_of(d):
            if self.product.axes[axis].role == "k":
                count = self.mapping.split[axis] * self.tiling.stages[axis]
            else:
                count = self.tiling.groups[axis]
            reach += streamed.steps[axis][d] * (count * self.tiling.tile[axis] - 1)
        return reach + 1

    def start(self, placement: Placement, stage: Index) -> list[Any]:
        """The base's position of the box's first element."""
        streamed = self.product.streamed
        start: list[Any] = list(streamed.start)
        places = {axis: placement.tile_at[axis] for axis in placement.results}
        for axis, at in zip(placement.reduced, stage, strict=True):
            places[axis] = placement.k_start(axis, at)
        for axis, place in places.items():
            for d, step in enumerate(streamed.steps[axis]):
                if step:
                    start[d] = start[d] + place * step
        return start

    def tests(self, placement: Placement, index: Index, offset: Index, stage: Index) -> list[Expr]:
        """What has to hold for a position of a box to be read."""
        from tvm import tirx

        streamed = self.product.streamed
        tests = []
        for d, place in enumerate(index):
            if self.reach(d) > streamed.shape[d]:
                tests.append(tirx.LT(place, streamed.shape[d]))
        for axis, at in zip(placement.reduced, stage, strict=True):
            if placement.exact(axis):
                continue
            # The loop alone moves along its dimension, which the mapping's constraints see to.
            (d,) = streamed.dimensions_of(axis)
            within = offset[d] // streamed.steps[axis][d]
            tests.append(
                tirx.LT(placement.k_start(axis, at) + within, self.product.axes[axis].size)
            )
        return tests
