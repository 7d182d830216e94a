"""What may overlap on a device: no launch runs beside one whose memory it needs or spoils."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from glenside.hw_targets.codegen.device.cuda import CudaDevice
from glenside.hw_targets.codegen.device.order import dependences
from glenside.hw_targets.codegen.launch import Entry, KernelCall, Plan, Slot


@st.composite
def plans(draw) -> Plan:
    """Calls that read what was written before (or nothing) and write one of a few buffers, which
    may share memory."""
    slots = [
        Slot("float32", draw(st.integers(1, 4)), offset=4 * draw(st.integers(0, 12)))
        for _ in range(draw(st.integers(1, 6)))
    ]
    slots.append(Slot("float32", 4, parameter=0))
    numbers = st.integers(0, len(slots) - 2)
    steps: list[Any] = []
    kernels = {}
    for k in range(draw(st.integers(0, 9))):
        reads = draw(st.lists(st.integers(0, len(slots) - 1), max_size=3))
        place = draw(st.integers(0, len(reads)))
        arguments = [*reads[:place], draw(numbers), *reads[place:]]
        steps.append(KernelCall(f"k{k}", [[buffer, 0, 1] for buffer in arguments]))
        kernels[f"k{k}"] = Entry([1, 1, 1], [1, 1, 1], 0, place)
    return Plan(arena=100, slots=slots, steps=steps, device="cuda", kernels=kernels)


def conflicts(plan: Plan, one: KernelCall, two: KernelCall) -> bool:
    """Whether the order of two calls matters: one writes memory that the other uses."""

    def span(buffer: int) -> set[int]:
        slot = plan.slots[buffer]
        return (
            set() if slot.offset is None else set(range(slot.offset, slot.offset + 4 * slot.size))
        )

    def used(call: KernelCall) -> tuple[int, list[int]]:
        buffers = [buffer for buffer, _, _ in call.arguments]
        return buffers.pop(plan.kernels[call.function].written), buffers

    (first, reads), (second, later) = used(one), used(two)
    if first in later:
        return True  # It reads what was written.
    # A buffer's elements are written once: two writers of it do not meet, and what was read of it
    # before is not what is written after.
    return any(
        first_used != second_used and span(first_used) & span(second_used)
        for first_used, second_used in itertools.chain(
            ((b, second) for b in [first, *reads]),
        )
    )


def reachable(edges: list[tuple[int, ...]]) -> list[set[int]]:
    before: list[set[int]] = []
    for needed in edges:
        before.append(set(needed).union(*(before[k] for k in needed)))
    return before


@given(plans())
def test_calls_that_conflict_are_ordered_and_no_others(plan):
    edges = dependences(plan, plan.steps)
    before = reachable(edges)
    needed = [
        {k for k in range(n) if conflicts(plan, plan.steps[k], call)}
        for n, call in enumerate(plan.steps)
    ]
    assert before == reachable([tuple(each) for each in needed])
    for each, after in zip(edges, before, strict=True):
        # No edge is implied by another one.
        assert not any(a in before[b] for a in each for b in each)
        assert set(each) <= after


class Stream:
    """A stream that notes what must be done before each launch on it."""

    current: Stream | None = None

    def __init__(self) -> None:
        self.done: set[int] = set()

    def record(self) -> set[int]:
        return set(self.done)

    def wait_event(self, event: set[int]) -> None:
        self.done |= event

    def __enter__(self) -> None:
        Stream.current = self

    def __exit__(self, *_: object) -> None:
        Stream.current = None


@given(st.lists(st.lists(st.integers(0, 30), max_size=3), max_size=30))
def test_streams_wait_for_what_launches_are_after(wanted):
    after = [sorted({k % n for k in each}) if n else [] for n, each in enumerate(wanted)]
    device = CudaDevice.__new__(CudaDevice)
    device.stream, device._sides = Stream(), []
    device._cp = type(
        "cp", (), {"cuda": type("cuda", (), {"Stream": lambda non_blocking: Stream()})}
    )
    before: list[set[int]] = []

    def launch(number: int):
        def run() -> None:
            assert Stream.current is not None
            before.append(set(Stream.current.done))
            Stream.current.done.add(number)

        return run

    device._fork(after, [launch(k) for k in range(len(after))])
    assert all(set(needed) <= seen for needed, seen in zip(after, before, strict=True))
    assert device.stream.done == set(range(len(after)))
    assert len(device._sides) <= 3


def test_branches_use_streams_of_their_own():
    device = CudaDevice.__new__(CudaDevice)
    device.stream, device._sides = Stream(), []
    device._cp = type(
        "cp", (), {"cuda": type("cuda", (), {"Stream": lambda non_blocking: Stream()})}
    )
    seen = []

    def launch() -> None:
        assert Stream.current is not None
        seen.append(Stream.current)

    device._fork([(), (0,), (0,), (1, 2)], [launch] * 4)
    assert seen[0] is seen[1] and seen[2] is not seen[0]
