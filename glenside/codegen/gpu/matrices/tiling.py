"""A product space as matrices, and the numbers that follow from a mapping of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glenside.codegen.gpu.matrices.mapping import MatrixMapping
from glenside.codegen.gpu.space import ProductSpace

SPARE_REGISTERS = 34
"""Registers for addresses, loops and what is on its way to local memory, beside those counted."""


@dataclass(frozen=True)
class MatrixShape:
    """A product space as matrices: sizes, and how far apart elements of the streamed operand are.

    ``outer`` are the loops over batches and over streamed rows that do not lie next to the others,
    each with its stride; ``columns`` those that do, whose elements follow each other.
    """

    outer: tuple[tuple[int, int], ...]
    """(loop, stride)"""
    columns: tuple[int, ...]
    batches: int
    rows: int
    width: int
    depth: int
    step: int
    """Elements from one reduced step to the next."""
    offset: int


def as_matrices(space: ProductSpace) -> MatrixShape | None:
    """The space as matrices; None where it is something else.

    The resident operand has to be constant, since it is packed, and the streamed one to lie in
    memory without borders, the columns' elements one after the other.
    """
    streamed, memory = space.streamed, space.streamed.memory
    if not space.resident.constant or memory is None or not space.of("m"):
        return None
    if any(memory.before) or tuple(memory.size) != tuple(streamed.shape):
        return None
    if {space.dtype, space.accumulate, streamed.dtype, space.resident.dtype} != {"float32"}:
        return None
    strides = [
        sum(step * stride for step, stride in zip(steps, memory.strides, strict=True))
        for steps in streamed.steps
    ]
    long = [k for k, axis in enumerate(space.axes) if axis.size > 1]
    for dimension in range(len(streamed.shape)):
        if sum(1 for axis in streamed.axes_of(dimension) if axis in long) > 1:
            return None
    start = zip(streamed.start, memory.strides, strict=True)
    offset = memory.offset + sum(at * stride for at, stride in start)
    depth, step = _run(space, strides, [k for k in space.of("k") if k in long])
    if depth is None:
        return None
    columns: list[int] = []
    rest = [k for k in space.of("n") if k in long]
    reach = 1
    while rest and strides[rest[-1]] == reach:
        columns.insert(0, rest.pop())
        reach *= space.axes[columns[0]].size
    if not columns:
        return None
    batch = [k for k in space.of("batch") if k in long]
    outer = tuple((k, strides[k]) for k in [*batch, *rest])
    return MatrixShape(
        outer,
        tuple(columns),
        space.size("batch"),
        space.size("m"),
        reach,
        depth,
        step,
        offset,
    )


def _run(
    space: ProductSpace, strides: Sequence[int], loops: Sequence[int]
) -> tuple[int | None, int]:
    """The length and step of loops that together are one; a length of None where they are not."""
    if not loops:
        return None, 0
    size, step = space.axes[loops[-1]].size, strides[loops[-1]]
    for loop in reversed(loops[:-1]):
        if strides[loop] != size * step:
            return None, 0
        size *= space.axes[loop].size
    return size, step


def registers(mapping: MatrixMapping) -> int:
    """Registers of a thread, about: sums, what it multiplies and what it fetches ahead."""
    down, left = mapping.tile
    moved = mapping.depth * (mapping.rows + mapping.columns) // mapping.threads
    return down * left + down + left + moved + SPARE_REGISTERS
