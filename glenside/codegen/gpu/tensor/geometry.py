"""How a product's loops become rows, positions and reduced units of the matrix units.

The matrix units take cells of 8 rows by 16 bytes of the reduced axis. A tile of the streamed
operand is a *box*: positions along a few *sides*, each with 16 bytes of the *inner* reduced loop
in every plane. Loops over results whose windows overlap run along one side of the box, a dimension
of the operand's base; others are sides of their own. If windows move by more than one element, the
side is cut into residues of that stride, so that neighbouring results are neighbours in the box
whatever the stride: then a window offset (*tap*) is the same distance for all of them.

Where the reduced loops do not allow that (few channels, windows along the inner loop, an operand
that is no constant), they are *gathered*: flattened into one inner loop without taps.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glenside.codegen.gpu.space import Operand, ProductSpace
from glenside.language.shape import HALVES

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import DeviceLimits


@dataclass(frozen=True)
class Loop:
    """Loops of the space as one: the space's axes, outermost first, and their sizes."""

    axes: tuple[int, ...]
    sizes: tuple[int, ...]

    @functools.cached_property
    def size(self) -> int:
        return math.prod(self.sizes)


@dataclass(frozen=True)
class Side:
    """One side of a box. ``dimension`` is that of the base, None for a loop's own side.

    ``members`` are the loops along it with their steps in positions; ``unit`` elements of the base
    lie between neighbours of one residue. The last ``overlap`` positions are zeros, as the first
    ones are, and lie where the first ones of the next line along this side do.
    """

    dimension: int | None
    members: tuple[tuple[int, int], ...]
    unit: int
    residues: tuple[int, ...]
    extent: int
    overlap: int = 0

    @property
    def pitch(self) -> int:
        """Positions from one line to the next."""
        return self.extent - self.overlap


@dataclass(frozen=True)
class Box:
    """The positions of one operand that a group has at a time."""

    sides: tuple[Side, ...]
    tile: tuple[int, ...]

    @functools.cached_property
    def strides(self) -> tuple[int, ...]:
        """Distance of neighbours along each side."""
        result, step = [], 1
        for side in reversed(self.sides):
            result.append(step)
            step *= side.pitch
        return tuple(result[::-1])

    @functools.cached_property
    def phase(self) -> int:
        """Positions of one choice of residues."""
        pairs = zip(self.sides, self.strides, strict=True)
        return 1 + sum((side.extent - 1) * stride for side, stride in pairs)

    @functools.cached_property
    def phases(self) -> tuple[int, ...]:
        return tuple(len(side.residues) for side in self.sides)

    @functools.cached_property
    def positions(self) -> int:
        return self.phase * math.prod(self.phases)

    def step(self, loop: int) -> int:
        """Positions between neighbouring results along a loop."""
        return sum(
            stride * step
            for side, stride in zip(self.sides, self.strides, strict=True)
            for member, step in side.members
            if member == loop
        )

    @functools.cached_property
    def span(self) -> int:
        """Positions from the tile's first to its last result."""
        return 1 + sum((t - 1) * self.step(k) for k, t in enumerate(self.tile))


class Geometry:
    """The loops of a product as the matrix units take them.

    ``memory`` is that of the streamed operand, ``rows_memory`` of a resident one that is no
    constant; None where they are computed as they are read.
    """

    def __init__(self, space: ProductSpace) -> None:
        self.space = space
        self.memory, self.rows_memory = space.streamed.memory, space.resident.memory
        self.bytes = np.dtype(space.streamed.dtype).itemsize
        self.unit = 16 // self.bytes
        """Elements of 16 bytes."""
        self.batch = [k for k in space.of("batch") if space.axes[k].size > 1]
        self.rows = Loop(*self._several(space.of("m")))
        self.windows = sorted(
            {
                w
                for n in space.of("n")
                for w in space.windows_of(n)
                if space.axes[n].size > 1 and space.axes[w].size > 1
            }
        )
        self.reduced = [k for k in space.of("k") if space.axes[k].size > 1]
        self.loops = self._loops()
        self._boxes: dict[tuple[Sequence[int], bool, bool], Box] = {}
        self._tap_places: dict[tuple[Sequence[int], bool, bool], tuple[int, ...]] = {}

    def _several(self, axes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        kept = tuple(k for k in axes if self.space.axes[k].size > 1)
        return kept, tuple(self.space.axes[k].size for k in kept)

    def size(self, axis: int) -> int:
        return self.space.axes[axis].size

    def distance(self, axis: int, operand: Operand | None = None) -> int | None:
        """Elements in memory between a loop's neighbours, of the streamed operand by default."""
        operand = operand or self.space.streamed
        memory = self.memory if operand is self.space.streamed else self.rows_memory
        if memory is None:
            return None
        return sum(s * m for s, m in zip(operand.steps[axis], memory.strides, strict=True))

    def bordered(self, dimension: int) -> bool:
        """Whether some positions along a dimension of the streamed base are not in memory."""
        if self.memory is None:
            return True
        whole = self.space.streamed.shape[dimension]
        return self.memory.before[dimension] > 0 or self.memory.size[dimension] < whole

    def _loops(self) -> list[Loop]:
        """Loops over positions; those that go on where the next one ends are one."""
        made: list[Loop] = []
        for k in self.space.of("n"):
            if self.size(k) == 1:
                continue
            if made and self._joins(made[-1], k):
                last = made.pop()
                made.append(Loop((*last.axes, k), (*last.sizes, self.size(k))))
            else:
                made.append(Loop((k,), (self.size(k),)))
        return made or [Loop((), ())]

    def _joins(self, outer: Loop, axis: int) -> bool:
        space, steps = self.space, self.space.streamed.steps
        for k in (*outer.axes, axis):
            windows = [w for w in space.windows_of(k) if self.size(w) > 1]
            if windows or any(self.bordered(d) for d, s in enumerate(steps[k]) if s):
                return False
        one, two = self.distance(outer.axes[-1]), self.distance(axis)
        return one is not None and two is not None and one == two * self.size(axis)

    @functools.cached_property
    def rows_fast(self) -> bool:
        """Whether results lie with rows innermost."""
        steps = self.space.out_steps
        if steps is None:
            return True
        moving = [*self.rows.axes, *(k for loop in self.loops for k in loop.axes)]
        nearest = min(moving, key=lambda k: abs(steps[k]) or 1 << 62, default=None)
        return nearest is None or nearest in self.rows.axes

    # --- the reduced loops ------------------------------------------------------------------------

    @functools.cached_property
    def inner(self) -> int | None:
        """The reduced loop that is cut into units where taps stay apart; None where none can be."""
        if not self.space.resident.constant:
            return None
        found = [k for k in self.reduced if k not in self.windows and self._free(k)]
        if len(found) + len(self.windows) < len(self.reduced):
            return None
        if any(len(self.space.streamed.dimensions_of(k)) > 1 for k in self._along_windows()):
            return None
        found.sort(key=lambda k: (abs(self.distance(k) or 1 << 62), -self.size(k)))
        return found[0] if found else None

    def _along_windows(self) -> list[int]:
        """Loops over positions that have windows."""
        steps = self.space.streamed.steps
        dimensions = {d for w in self.windows for d, s in enumerate(steps[w]) if s}
        return [
            k
            for k in (*self.space.of("n"), *self.windows)
            if self.size(k) > 1 and any(steps[k][d] for d in dimensions)
        ]

    def _free(self, axis: int) -> bool:
        """Whether a reduced loop moves within memory, whatever the other loops do."""
        return not any(self.bordered(d) for d in self.space.streamed.dimensions_of(axis))

    @functools.cached_property
    def outer(self) -> list[int]:
        """Reduced loops beside windows and the inner one."""
        return [k for k in self.reduced if k != self.inner and k not in self.windows]

    @functools.cached_property
    def flat(self) -> list[int]:
        """All reduced loops, as the streamed operand lies in memory."""
        return sorted(self.reduced, key=lambda k: (-abs(self.distance(k) or 0), k))

    def inner_axes(self, gathered: bool) -> list[int]:
        return self.flat if gathered else [self.inner]  # type: ignore[list-item]

    def inner_size(self, gathered: bool) -> int:
        return math.prod(self.size(k) for k in self.inner_axes(gathered))

    def taps(self, gathered: bool) -> int:
        return 1 if gathered else math.prod(self.size(k) for k in self.windows)

    def outer_size(self, gathered: bool) -> int:
        return 1 if gathered else math.prod(self.size(k) for k in self.outer)

    def direct(self, gathered: bool, resident: bool = False) -> bool:
        """Whether 16 bytes of the inner loop are neighbours in memory, at multiples of 16."""
        space = self.space
        operand = space.resident if resident else space.streamed
        memory = self.rows_memory if resident else self.memory
        if memory is None:
            return False
        axes = self.inner_axes(gathered)
        expected = 1
        for k in reversed(axes):
            if self.distance(k, operand) != expected:
                return False
            expected *= self.size(k)
            if gathered and not all(
                memory.before[d] == 0 and memory.size[d] == operand.shape[d]
                for d in operand.dimensions_of(k)
            ):
                return False
        if self.inner_size(gathered) % self.unit or memory.offset % self.unit:
            return False
        others = [k for k in range(len(space.axes)) if k not in axes and self.size(k) > 1]
        aligned = [*(self.distance(k, operand) or 0 for k in others)]
        aligned += [
            stride * (start - before)
            for stride, start, before in zip(
                memory.strides, operand.start, memory.before, strict=True
            )
        ]
        return all(each % self.unit == 0 for each in aligned)

    # --- boxes ------------------------------------------------------------------------------------

    def box(self, tile: Sequence[int], gathered: bool, overlapping: bool = True) -> Box:
        """The box of the streamed operand for a tile of the loops over positions.

        :param overlapping: whether lines may share the zeros that they begin and end with.
        """
        key = tuple(tile), gathered, overlapping
        if key not in self._boxes:
            self._boxes[key] = self._box(*key)
        return self._boxes[key]

    def _box(self, tile: Sequence[int], gathered: bool, overlapping: bool) -> Box:
        steps = self.space.streamed.steps
        windows = [] if gathered else self.windows
        shared: dict[int, list[int]] = {}
        for number, loop in enumerate(self.loops):
            for d, step in enumerate(steps[loop.axes[0]] if len(loop.axes) == 1 else ()):
                if step and any(steps[w][d] for w in windows):
                    shared.setdefault(d, []).append(number)
        placed = {number for numbers in shared.values() for number in numbers}
        sides: list[tuple[int, Side]] = []
        for number in range(len(self.loops)):
            if number not in placed:
                sides.append((number, Side(None, ((number, 1),), 1, (0,), tile[number])))
        for d, numbers in shared.items():
            moves = {n: steps[self.loops[n].axes[0]][d] for n in numbers}
            unit = math.gcd(*moves.values())
            offsets = [0]
            for w in windows:
                offsets = [o + steps[w][d] * i for o in offsets for i in range(self.size(w))]
            low = min(offsets)
            assert low == 0 and unit > 0
            residues = tuple(sorted({o % unit for o in offsets}))
            reach = sum(moves[n] // unit * (tile[n] - 1) for n in numbers)
            extent = 1 + reach + max(offsets) // unit
            members = tuple((n, moves[n] // unit) for n in numbers)
            overlap = 0
            whole = all(tile[n] == self.loops[n].size for n in numbers)
            if overlapping and min(numbers) > 0 and unit == 1 and whole:
                overlap = self._shared_border(d, extent)
            sides.append((min(numbers), Side(d, members, unit, residues, extent, overlap)))
        sides.sort(key=lambda each: each[0])
        return Box(tuple(side for _, side in sides), tuple(tile))

    def _shared_border(self, dimension: int, extent: int) -> int:
        """Zeros that a whole line along a dimension both begins and ends with."""
        streamed, memory = self.space.streamed, self.memory
        if memory is None or any(streamed.steps[k][dimension] for k in self.batch):
            return 0
        start, before = streamed.start[dimension], memory.before[dimension]
        first = before - start
        last = start + extent - (before + memory.size[dimension])
        return max(0, min(first, last, extent - 1))

    def tap_places(
        self, tile: Sequence[int], gathered: bool, overlapping: bool = True
    ) -> tuple[int, ...]:
        """Where each tap's positions start in that box."""
        key = tuple(tile), gathered, overlapping
        if key not in self._tap_places:
            box = self.box(*key)
            ranges = [] if gathered else [range(self.size(w)) for w in self.windows]
            indices = itertools.product(*ranges)
            self._tap_places[key] = (
                tuple(self.tap_place(box, index) for index in indices) if ranges else (0,)
            )
        return self._tap_places[key]

    def tap_place(self, box: Box, index: Sequence[int]) -> int:
        """How far a tap's positions lie from the first tap's."""
        place = phase = 0
        steps = self.space.streamed.steps
        for side, stride in zip(box.sides, box.strides, strict=True):
            offset = 0
            if side.dimension is not None:
                offset = sum(
                    steps[w][side.dimension] * i for w, i in zip(self.windows, index, strict=True)
                )
            phase = phase * len(side.residues) + side.residues.index(offset % side.unit)
            place += offset // side.unit * stride
        return phase * box.phase + place


def unfit(space: ProductSpace, limits: DeviceLimits) -> str:
    """Why matrix units have no use for a product; nothing where they have."""
    dtype = space.streamed.dtype
    if not limits.has_matrix_units:
        return f"{limits.name} has no matrix units that kernels are made for"
    if space.resident.dtype != dtype:
        return f"operands of {space.resident.dtype} and {dtype}"
    if dtype not in (*HALVES, "float32"):
        return f"matrix units take no {dtype}"
    if dtype == "float32" and not limits.tf32:
        return "float32 may not be rounded to tf32"
    if space.accumulate != "float32":
        return f"sums in {space.accumulate}"
    if space.size("m") < 8 or space.size("k") < 8:
        return "fewer than 8 rows or reduced steps"
    return ""


def geometry_of(space: ProductSpace, limits: DeviceLimits) -> Geometry | None:
    """How a product is given to the matrix units; None where they have no use for it."""
    return None if unfit(space, limits) else Geometry(space)
