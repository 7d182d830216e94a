"""The numbers that follow from a mapping of a product: tiles, groups, local memory, packing."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.codegen import scalars
from glenside.codegen.gpu.space import ProductSpace, Role
from glenside.codegen.gpu.threads.mapping import ThreadMapping

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tiling:
    """The numbers that follow from a mapping, one a loop."""

    space: ProductSpace
    mapping: ThreadMapping

    @functools.cached_property
    def tile(self) -> tuple[int, ...]:
        """Steps that a group has in local memory at a time."""
        m = self.mapping
        return tuple(
            m.chunk[k] if axis.role == "k" else m.threads[k] * m.registers[k]
            for k, axis in enumerate(self.space.axes)
        )

    @functools.cached_property
    def groups(self) -> tuple[int, ...]:
        """Groups along a loop over results, 1 along reduced ones."""
        return tuple(
            1 if axis.role == "k" else -(-axis.size // self.tile[k])
            for k, axis in enumerate(self.space.axes)
        )

    @functools.cached_property
    def stages(self) -> tuple[int, ...]:
        """Stages of one group along a reduced loop, 1 along others."""
        m = self.mapping
        return tuple(
            -(-axis.size // (m.split[k] * m.chunk[k])) if axis.role == "k" else 1
            for k, axis in enumerate(self.space.axes)
        )

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return math.prod(self.mapping.threads)

    @property
    def split(self) -> int:
        """Groups that share the reduction of one tile."""
        return math.prod(self.mapping.split)

    @property
    def sums(self) -> int:
        """Sums that a thread keeps."""
        return math.prod(self.mapping.registers)

    def product(self, numbers: Sequence[int], *roles: Role) -> int:
        """The product of numbers, one a loop, over the loops with these roles."""
        return math.prod(
            n for n, axis in zip(numbers, self.space.axes, strict=True) if axis.role in roles
        )

    @functools.cached_property
    def grid(self) -> tuple[int, int, int]:
        """Groups: rows of the streamed operand and batch, rows of the resident one, splits."""
        groups = self.groups
        return (
            self.product(groups, "batch", "n"),
            self.product(groups, "m"),
            self.split,
        )

    @functools.cached_property
    def extents(self) -> tuple[int, ...]:
        """The box of the streamed operand's base that a stage reads."""
        streamed = self.space.streamed
        return tuple(streamed.extent(d, self.tile) for d in range(len(streamed.shape)))

    @property
    def resident_elements(self) -> int:
        """Elements of the resident operand that a stage reads."""
        return self.product(self.tile, "k", "batch", "m")

    @property
    def streamed_elements(self) -> int:
        """Elements of the box of the streamed operand's base that a stage reads."""
        return math.prod(self.extents)

    @property
    def reduced_in_group(self) -> int:
        """Threads that share one sum."""
        return self.product(self.mapping.threads, "k")

    @property
    def partial_elements(self) -> int:
        """Scratch memory of a split reduction."""
        padded = math.prod(
            g * t
            for g, t, axis in zip(self.groups, self.tile, self.space.axes, strict=True)
            if axis.role == "m"
        )
        return self.split * self.space.size("batch", "n") * padded

    @property
    def exchanged_elements(self) -> int:
        """Sums that threads hand to each other through local memory, and gaps against conflicts."""
        if self.reduced_in_group == 1 and not self.mapping.gathered:
            return 0
        count = self.sums * self.threads
        return count + count // 32 + 1

    @property
    def one_dtype(self) -> bool:
        """Whether all that lies in local memory has one dtype, so that it can share its place."""
        space = self.space
        dtypes = {space.resident.dtype, space.streamed.dtype, space.accumulate}
        return len({scalars.storage_dtype(dtype) for dtype in dtypes}) == 1

    @functools.cached_property
    def parts(self) -> tuple[int, int, int]:
        """Elements in local memory: of the resident, of the streamed operand, of sums; for all
        stages that have room."""
        resident, streamed = self.stage_parts
        sums = -(-self.exchanged_elements // 16) * 16
        return resident * self.buffers, streamed * self.buffers, sums

    @property
    def stage_parts(self) -> tuple[int, int]:
        """Elements of one stage in local memory, rounded up to 16."""
        resident, streamed = self.mapping.staged
        counts = (
            self.resident_elements if resident else 0,
            self.streamed_elements if streamed else 0,
        )
        return tuple(-(-count // 16) * 16 for count in counts)  # type: ignore[return-value]

    @property
    def buffers(self) -> int:
        """Stages that have room in local memory: no more than there are."""
        return min(self.mapping.buffers, math.prod(self.stages))

    def local_bytes(self) -> int:
        """Local memory of a group; sums take the operands' place where they can."""
        sizes = [
            np.dtype(scalars.storage_dtype(dtype)).itemsize
            for dtype in (
                self.space.resident.dtype,
                self.space.streamed.dtype,
                self.space.accumulate,
            )
        ]
        resident, streamed, sums = (n * size for n, size in zip(self.parts, sizes, strict=True))
        if self.one_dtype:
            return max(resident + streamed, sums)
        return resident + streamed + sums


@dataclass(frozen=True)
class Packing:
    """How a constant operand is laid out: its loops, zeros after each, cut and put in order."""

    sizes: tuple[int, ...]
    padding: tuple[int, ...]
    cut: tuple[int, ...]
    order: tuple[int, ...]

    def apply(self, array: Array) -> Array:
        """The packed elements."""
        whole = array.reshape(self.sizes)
        if any(self.padding):
            whole = np.pad(whole, [(0, after) for after in self.padding])
        return np.ascontiguousarray(whole.reshape(self.cut).transpose(self.order)).reshape(-1)


def packing(tiling: Tiling) -> Packing:
    """By groups along batch, rows and splits, then stages: what each reads is one run, in which
    reduced steps come first and rows last."""
    space, mapping = tiling.space, tiling.mapping
    sides = [k for k, axis in enumerate(space.axes) if axis.role != "n"]
    cut: list[int] = []
    padding = []
    order: list[list[int]] = [[] for _ in range(7)]
    for k in sides:
        axis, at = space.axes[k], len(cut)
        if axis.role == "k":
            pieces = [mapping.split[k], tiling.stages[k], tiling.tile[k]]
            places = [2, 3, 4]
        else:
            pieces = [tiling.groups[k], tiling.tile[k]]
            places = [0, 5] if axis.role == "batch" else [1, 6]
        for number, place in enumerate(places):
            order[place].append(at + number)
        cut += pieces
        padding.append(math.prod(pieces) - axis.size)
    return Packing(
        tuple(space.axes[k].size for k in sides),
        tuple(padding),
        tuple(cut),
        tuple(itertools.chain(*order)),
    )
