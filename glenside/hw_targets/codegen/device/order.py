"""Which launches have to wait for which, by the memory that they read and write.

Every element of a buffer is written once in a run: kernels that write the same buffer (the parts of
a ``concat``) write different elements of it and may overlap. Buffers that share memory may not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glenside.hw_targets.codegen.launch import KernelCall, Plan


def dependences(plan: Plan, calls: Sequence[KernelCall]) -> list[tuple[int, ...]]:
    """For each of consecutive calls, the earlier ones that it must follow, none implied by others.

    A call follows those that wrote what it reads, and those that used another buffer whose memory
    it overwrites.
    """
    sharing = _sharing(plan)
    writers: dict[int, list[int]] = {}
    users: dict[int, list[int]] = {}
    result: list[tuple[int, ...]] = []
    before: list[int] = []  # All that a call follows, as bits.
    for number, call in enumerate(calls):
        buffers = [buffer for buffer, _, _ in call.arguments]
        written = buffers.pop(plan.kernels[call.function].written)
        needed = {each for buffer in buffers for each in writers.get(buffer, ())}
        for other in sharing.get(written, ()):
            needed |= set(users.get(other, ()))
        direct, implied = [], 0
        for each in sorted(needed, reverse=True):
            if not implied >> each & 1:
                direct.append(each)
                implied |= before[each] | 1 << each
        result.append(tuple(sorted(direct)))
        before.append(implied)
        writers.setdefault(written, []).append(number)
        for buffer in {*buffers, written}:
            users.setdefault(buffer, []).append(number)
    return result


def _sharing(plan: Plan) -> dict[int, list[int]]:
    """For each buffer of the arena, the others that lie in some of the same memory."""
    spans = [
        (slot.offset, slot.offset + slot.size * np.dtype(slot.dtype).itemsize, number)
        for number, slot in enumerate(plan.slots)
        if slot.offset is not None
    ]
    return {
        number: [other for a, b, other in spans if other != number and a < end and start < b]
        for start, end, number in spans
    }
