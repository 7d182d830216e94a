"""Which buffers share memory."""

import numpy as np
import pytest

from glenside.codegen.plan import KernelCall, Place, Plan
from glenside.codegen.program.memory import plan_memory
from glenside.codegen.storage import Memory


def planned(steps, sizes, results=(), arrays=None, align=64):
    """Offsets by buffer, of kernels that take these buffers each; and the arena."""
    memory = Memory(arrays=arrays or {})
    for size in sizes:
        memory.add(size, "float32")
    calls = [KernelCall(f"k{n}", [[k, 0, 1] for k in taken]) for n, taken in enumerate(steps)]
    plan = Plan(arena=0, steps=[*calls])
    plan.outputs = [Place(k, 0, [], [], "float32") for k in results]
    parameters = plan_memory(plan, memory, align)
    return plan, parameters


def test_what_is_not_needed_at_the_same_time_shares():
    plan, _ = planned([(0, 1), (1, 2), (2, 3)], [16] * 4, results=[3])
    offsets = [slot.offset for slot in plan.slots]
    assert offsets == [0, 64, 0, 64]
    assert plan.arena == 128


def test_lifetimes_that_touch_do_not():
    plan, _ = planned([(0, 1)], [16, 16])
    assert {slot.offset for slot in plan.slots} == {0, 64}


def test_results_live_to_the_end():
    plan, _ = planned([(0,), (1,)], [16, 16], results=[0])
    assert plan.arena == 128
    plan, _ = planned([(0,), (1,)], [16, 16])
    assert plan.arena == 64


@pytest.mark.parametrize("align", [64, 512])
def test_buffers_start_at_boundaries(align):
    plan, _ = planned([(0, 1, 2)], [1, 17, 3], align=align)
    assert all(slot.offset is not None and slot.offset % align == 0 for slot in plan.slots)


def test_parameters_are_apart_and_numbers_are_said():
    arrays = {0: np.arange(4, dtype="float32"), 1: np.broadcast_to(np.float32(2), (9,))}
    plan, parameters = planned([(0, 1, 2)], [4, 9, 16], arrays=arrays)
    assert [*parameters] == [0]
    assert (plan.slots[0].offset, plan.slots[1].fill, plan.slots[1].size) == (None, 2.0, 9)
    assert plan.arena == 64


def test_parameters_that_no_call_reads_are_let_go_of():
    plan, parameters = planned([(1,)], [4, 4], arrays={0: np.arange(4, dtype="float32")})
    assert not parameters
    assert plan.slots[0].size == 1
