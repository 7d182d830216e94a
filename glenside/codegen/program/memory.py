"""Slots for the buffers of a program: those that are not needed at the same time share memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen.plan import HostCall, KernelCall, Plan, Slot
from glenside.codegen.storage import Memory

Array = np.ndarray[Any, Any]


def plan_memory(plan: Plan, memory: Memory, align: int) -> dict[int, Array]:
    """Gives every buffer its slot, ``align`` bytes apart; returns the parameters' arrays by buffer.

    Buffers whose lifetimes do not meet share memory. A lifetime runs from the first step that
    touches a buffer to the last one; inputs live from the start, outputs to the end.
    """
    last_step = len(plan.steps)
    life: dict[int, list[int]] = {}

    def touch(buffer: int, step: int) -> None:
        span = life.setdefault(buffer, [step, step])
        span[0], span[1] = min(span[0], step), max(span[1], step)

    for place in plan.inputs.values():
        touch(place.buffer, -1)
    for number, step in enumerate(plan.steps):
        if isinstance(step, KernelCall):
            for buffer, _, _ in step.arguments:
                touch(buffer, number)
        elif isinstance(step, HostCall):
            for place in (*step.operands.values(), *step.results.values()):
                touch(place.buffer, number)
        else:
            for place in (*step.operands, step.result):
                touch(place.buffer, number)
    for place in plan.outputs:
        touch(place.buffer, last_step)

    parameters: dict[int, Array] = {}
    plan.slots = [Slot(buffer.dtype, buffer.size) for buffer in memory.buffers]
    for number, array in memory.arrays.items():
        slot = plan.slots[number]
        flat = array
        if flat.size and flat.ndim == 1 and (flat.strides == (0,) or flat.size == 1):
            slot.fill = flat[0].item()
        elif not flat.size:
            slot.fill = 0
        elif number in life:
            parameters[number] = _writable(np.ascontiguousarray(flat).reshape(-1))
        else:
            slot.fill, slot.size = 0, 1  # Bound, then folded into something else.
    wanted = []
    for number, slot in enumerate(plan.slots):
        if number in memory.arrays:
            continue
        size = slot.size * np.dtype(slot.dtype).itemsize
        wanted.append((number, -(-size // align) * align, life.get(number, [-1, -1])))
    plan.arena = _assign(plan, wanted)
    return parameters


def _assign(plan: Plan, wanted: Sequence[tuple[int, int, Sequence[int]]]) -> int:
    """Offsets in one arena, largest buffers first, each in the lowest gap; returns its size."""
    taken: list[tuple[int, int, Sequence[int]]] = []  # offset, size, lifetime
    total = 0
    for number, size, life in sorted(wanted, key=lambda each: -each[1]):
        busy = sorted(
            (offset, length)
            for offset, length, other in taken
            if life[0] <= other[1] and other[0] <= life[1]
        )
        at = 0
        for offset, length in busy:
            if at + size <= offset:
                break
            at = max(at, offset + length)
        taken.append((at, size, life))
        plan.slots[number].offset = at
        total = max(total, at + size)
    return total


def _writable(array: Array) -> Array:
    """The array itself, or a copy where DLPack would not take it (it wants writable memory)."""
    aligned = array.ctypes.data % array.dtype.itemsize == 0
    return array if array.flags.writeable and aligned else array.copy()
