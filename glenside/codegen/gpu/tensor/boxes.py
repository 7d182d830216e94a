"""Boxes of the streamed operand as a GPU's copy engine brings them.

The engine knows a tensor of up to five dimensions and brings a box of it, zeros where the box
leaves the tensor: the borders that windows look at cost nothing. A dimension of the base along
which results move is one of the tensor, and what moves along it adds to the box's corner; other
loops (the inner one, joined positions, batches, outer reduced loops) are dimensions of their own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from glenside.codegen.gpu.tensor.geometry import Geometry

_RANK = 5
_MOST_STEP = 8
_MOST_BOX = 256


@dataclass(frozen=True)
class Dimension:
    """One dimension of the tensor, in elements: ``terms`` are the loops that move along it, by
    their steps, ``corner`` is where they start; ``loop`` is that over positions among them."""

    size: int
    stride: int
    terms: tuple[tuple[int, int], ...]
    corner: int = 0
    loop: int | None = None
    step: int = 1


@dataclass(frozen=True)
class Boxes:
    """The tensor, the inner loop first, then positions from the nearest, then others."""

    dimensions: tuple[Dimension, ...]
    offset: int
    """Elements from the start of memory."""

    def extents(
        self, geometry: Geometry, tile: Sequence[int], chunk: int, apart: bool
    ) -> list[int]:
        """Elements of a box along each dimension, from its first to its last."""
        found = [chunk]
        for each in self.dimensions[1:]:
            extent = 1
            if each.loop is not None:
                extent += each.step * (tile[each.loop] - 1)
                windows = [] if apart else geometry.windows
                extent += sum(
                    step * (geometry.size(axis) - 1) for axis, step in each.terms if axis in windows
                )
            found.append(extent)
        return found


@functools.lru_cache(maxsize=16)
def boxes_of(geometry: Geometry, apart: bool) -> Boxes | None:
    """How boxes are brought; None where the engine cannot.

    :param apart: whether each window offset has a box of its own.
    """
    space, memory = geometry.space, geometry.memory
    streamed = space.streamed
    if memory is None or geometry.inner is None or not space.resident.constant:
        return None
    if not geometry.direct(False) or not geometry.rows_fast or not geometry.loops[0].axes:
        return None
    along: dict[int, int] = {}  # Dimensions of the base that results move along, by their loop.
    for number, loop in enumerate(geometry.loops):
        if len(loop.axes) == 1:
            found = streamed.dimensions_of(loop.axes[0])
            if len(found) != 1 or found[0] in along:
                return None
            along[found[0]] = number
    moving = [
        *geometry.batch,
        *geometry.reduced,
        *(k for loop in geometry.loops for k in loop.axes),
    ]
    terms: dict[int, list[tuple[int, int]]] = {d: [] for d in along}
    own: list[int] = []
    for axis in moving:
        dimensions = streamed.dimensions_of(axis)
        if any(d in along for d in dimensions):
            if len(dimensions) != 1 or axis == geometry.inner:
                return None
            step = streamed.steps[axis][dimensions[0]]
            if step < 0:
                return None
            terms[dimensions[0]].append((axis, step))
        elif any(geometry.bordered(d) for d in dimensions):
            return None
        elif dimensions and axis != geometry.inner:
            own.append(axis)
    offset = memory.offset
    for d, stride in enumerate(memory.strides):
        at = streamed.start[d] - memory.before[d]
        if d in along:
            continue
        if not 0 <= at < max(memory.size[d], 1):
            return None
        offset += stride * at
    by_base = {number: d for d, number in along.items()}
    positions: list[Dimension] = []
    for number, loop in enumerate(geometry.loops):
        if number in by_base:
            d = by_base[number]
            step = streamed.steps[loop.axes[0]][d]
            if step > _MOST_STEP or (step > 1 and not apart and len(terms[d]) > 1):
                return None
            corner = streamed.start[d] - memory.before[d]
            size, stride = memory.size[d], memory.strides[d]
            positions.append(Dimension(size, stride, tuple(terms[d]), corner, number, step))
        else:
            distance = geometry.distance(loop.axes[-1])
            assert distance is not None
            positions.append(Dimension(loop.size, distance, (), 0, number))
            own = [k for k in own if k not in loop.axes]
    others = [Dimension(geometry.size(k), geometry.distance(k) or 0, ((k, 1),)) for k in own]
    inner = Dimension(geometry.inner_size(False), 1, ((geometry.inner, 1),))
    made = (inner, *positions[::-1], *others)
    strides = [each.stride * geometry.bytes for each in made[1:]]
    if len(made) > _RANK or any(stride <= 0 or stride % 16 for stride in strides):
        return None
    return Boxes(made, offset)


def fits(extents: Sequence[int]) -> bool:
    """Whether the engine brings a box of that size at once."""
    return max(extents) <= _MOST_BOX


def positions_of(extents: Sequence[int], boxes: Boxes) -> int:
    """Lines that a box is brought to."""
    pairs = zip(extents[1:], boxes.dimensions[1:], strict=True)
    return math.prod(-(-extent // each.step) for extent, each in pairs)
