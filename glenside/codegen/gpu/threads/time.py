"""The time of a product's kernels, by a model of what bounds them.

Per compute unit: instructions that threads issue, hidden latency by resident warps, waiting at
barriers and past local memory, traffic from the shared cache; then the launch and what is stored.
Its constants are those fitted to the device
(:attr:`~glenside.codegen.gpu.interface.DeviceLimits.fit`), else :func:`first_principles`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.codegen import scalars
from glenside.codegen.gpu.interface import DeviceLimits, Model
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.views import strides_of

Array = np.ndarray[Any, Any]


def first_principles(limits: DeviceLimits) -> Model:
    """The constants where none were fitted: every instruction and every turn at a bank is issued
    once, results leave at the memory's rate, what is waited for is hidden by other groups."""
    return {
        "floor": 1.0, "exchange": 1.0, "load": 1.0, "row": 0.0, "bank": 1.0, "bring": 2.0,
        "latency": 400.0, "packed": 400.0, "uneven": 1.0, "hide": 4.0,
        "wait": 400.0 / limits.clock * 1e6, "batch": 8.0, "share": 1.0, "joined": 0.0, "line": 1.0,
        "scatter": 0.0, "camp": 0.0, "result": limits.bandwidth / 128e6, "direct": 1.0,
        "handing": 0.0, "unstaged": 4.0, "overlap": 1.0, "sum": limits.bandwidth / 1e6,
        "second": 1.0, "ahead": 0.0, "each": 1.0, "other": 30.0,
    }  # fmt: skip


_BESIDE = 0.03
"""Of the shorter of two times that pass together, what is added to the longer one."""
_LANES = 32
"""Threads that are looked at, and banks of local memory, of 4 bytes each."""
_FEW = 8
"""Lines of the cache that 32 threads can store to at a time without waiting."""
_LINE = 32
"""Elements of 4 bytes in a line of the cache."""


def predict(space: ProductSpace, mappings: Sequence[ThreadMapping], limits: DeviceLimits) -> Array:
    """Seconds of each mapping."""
    model = limits.model("threads") or first_principles(limits)
    axes = space.axes
    roles = np.array([axis.role for axis in axes])
    sizes = np.array([axis.size for axis in axes], dtype=float)

    def column(name: str) -> Array:
        rows = [getattr(mapping, name) for mapping in mappings]
        return np.array(rows, dtype=float).reshape(len(mappings), len(axes))

    threads, registers, vector = column("threads"), column("registers"), column("vector")
    chunk, split = column("chunk"), column("split")
    reduced = roles == "k"
    tile = np.where(reduced, chunk, threads * registers)
    groups = np.where(reduced, 1, np.ceil(sizes / tile))
    stages = np.where(reduced, np.ceil(sizes / (split * chunk)), 1).prod(axis=1)

    def over(values: Array, *which: str) -> Array:
        return values[:, np.isin(roles, which)].prod(axis=1)

    count = threads.prod(axis=1)
    warps = np.ceil(count / limits.warp)
    sums = registers.prod(axis=1)
    splits = split.prod(axis=1)
    blocks = groups.prod(axis=1) * splits
    rows = over(registers, "batch", "m")
    width = vector[:, space.of("m")[-1]] if space.of("m") else np.ones(len(mappings))
    run = np.ones(len(mappings))
    shared = np.ones(len(mappings))
    taken = np.zeros(len(mappings), dtype=bool)
    for k in sorted(space.of("batch", "n"), key=lambda k: space.streamed.dimensions_of(k)[-1:],
                    reverse=True):  # fmt: skip
        length = registers[:, k].copy()
        for w in space.windows_of(k):
            # Along the nearest loop with vectors, windows share what they read.
            d = space.streamed.dimensions_of(k)[-1]
            strip = space.streamed.steps[k][d] * (length - 1) + 1
            strip = strip + space.streamed.steps[w][d] * (axes[w].size - 1)
            wide = (vector[:, k] > 1) & ~taken
            length = np.where(wide, strip, length)
            shared = np.where(wide, axes[w].size, shared)
            taken |= wide
        run *= length
    resident_elements = over(tile, "k", "batch", "m")
    extents = [
        1 + sum(
            steps[d] * (tile[:, k] - 1) for k, steps in enumerate(space.streamed.steps) if steps[d]
        )
        for d in range(len(space.streamed.shape))
    ]  # fmt: skip
    box = np.prod(np.broadcast_arrays(np.ones(len(mappings)), *extents), axis=0)
    element = scalars.itemsize(space.streamed.dtype)
    inner = scalars.itemsize(space.accumulate)
    in_group = over(threads, "k")
    each = over(chunk, "k") / in_group
    staged = np.array([m.staged for m in mappings]).reshape(len(mappings), 2)
    past = np.where(staged[:, 1], 1.0, model["unstaged"])
    lanes = _lanes(space, mappings, extents, threads, vector)
    again = (lanes.banks - 1) * model["bank"]
    again = np.where(staged[:, 1], again, (lanes.read - 1) * model["line"])
    joined = np.where(staged[:, 1], lanes.even ** model["joined"], 1)
    # Wide loads are fewer, but what they want of one bank comes in as many turns.
    reads = run / shared * (past * model["load"] / joined + again)
    fetched = rows / np.maximum(width, 1) * model["load"] + rows * model["row"]
    issue = each * (sums + reads + fetched)
    width, slowest = _fetches(space, extents, count)
    brought = np.where(staged[:, 1], box / width * model["bring"], 0)
    brought = brought + np.where(staged[:, 0], resident_elements, 0)
    issue = issue + brought / count
    used = sums * model["each"] + run + rows + model["other"]
    used = np.minimum(limits.thread_registers, used)
    buffers = np.minimum(np.array([m.buffers for m in mappings]), stages)
    exchanged = np.array([m.gathered for m in mappings]) | (in_group > 1)
    local = np.maximum(
        (box + resident_elements) * element * buffers, np.where(exchanged, sums * count * inner, 0)
    )
    together = limits.occupancy(warps * limits.warp, local, used)
    per_unit = np.ceil(blocks / limits.compute_units)
    together = np.minimum(together, per_unit)
    units = limits.peak.get(space.accumulate, 1e12) / 2 / limits.compute_units / limits.clock
    hidden = np.minimum(1, together * warps * (1 + np.minimum(sums, 64) / 64) / 2 / model["hide"])
    us = 1e6
    # A unit issues for four warps at a time, each of its own.
    evened = warps + (np.ceil(warps / 4) * 4 - warps) * model["uneven"]
    cycles = per_unit * stages * issue * evened * limits.warp / units / hidden
    cycles = cycles + per_unit * np.where(exchanged, sums * warps * model["exchange"], 0)
    compute = cycles / limits.clock * us
    # A thread's fetches are under way a few at a time; other groups compute meanwhile.
    fetches = np.where(staged[:, 1], slowest, 0)
    fetches = fetches + np.where(staged[:, 0], np.ceil(resident_elements / 4 / count), 0)
    wait = model["wait"] * (1 + fetches / model["batch"]) / together ** model["share"]
    wait = np.where(staged.any(axis=1), wait, wait * model["direct"])
    later = wait * np.where(buffers > 1, model["ahead"], 1)
    turns = np.ceil(per_unit / together)
    # A thread that reads past local memory waits at every step of its loop.
    alone = [k for k in space.of("k") if not any(k in space.windows_of(n) for n in space.of("n"))]
    steps = stages * (chunk[:, alone] / threads[:, alone]).prod(axis=1)
    latency = np.where(staged[:, 1], 0, model["latency"])
    latency = np.maximum(latency, np.where(staged[:, 0], 0, model["packed"]))
    compute = np.maximum(compute, turns * steps * latency / limits.clock * us)
    handing = np.where(exchanged, model["handing"], 0)
    compute = compute + turns * (wait + (stages - 1) * later + handing)
    traffic = (box + resident_elements) * element * stages * blocks
    result = space.size("batch", "m", "n") * inner
    time = np.maximum(compute, traffic / limits.cache_bandwidth * us)
    time = time + limits.launch_seconds * us * model["floor"]
    padded = over(groups * tile, "m") * space.size("batch", "n") * inner * splits
    second = padded / 128 / model["result"] + padded / model["sum"]
    second = second + limits.launch_seconds * us * model["second"]
    second = second + result / 128 / model["result"]
    lines = result / inner / lanes.together
    scattered = 1 + np.clip(lanes.stored / _FEW - 1, 0, 1) * model["scatter"]
    scattered = scattered + (lanes.camping - 1) * model["camp"]
    direct = lines * scattered / model["result"] * model["overlap"]
    time = time + np.where(splits == 1, direct, second)
    # What is read from and written to the device's memory at least.
    operands = math.prod(space.resident.shape) + math.prod(space.streamed.shape)
    least = (operands * element + result) / limits.bandwidth
    floor = np.full(len(mappings), least + limits.launch_seconds * model["floor"])
    # Where memory alone decides, the mapping with less to do besides goes first.
    return np.asarray(np.maximum(time / us, floor) + _BESIDE * np.minimum(time / us, floor))


def _fetches(
    space: ProductSpace, extents: Sequence[Array | int], count: Array
) -> tuple[Array, Array]:
    """Elements of the streamed operand that a thread brings at a time, as far as alignment within
    its memory goes, and how often the busiest thread does so for a stage."""
    streamed = space.streamed
    sizes = [np.broadcast_to(each, len(count)) for each in extents]
    memory = streamed.memory
    width = np.ones(len(count))
    strides = streamed.strides or strides_of(streamed.shape)
    last = min(
        (d for d, size in enumerate(streamed.shape) if size > 1),
        key=lambda d: (strides[d] or 1 << 62, -d),
        default=None,
    )
    if memory is not None and last is not None and memory.strides[last] == 1:
        others = zip(memory.strides, streamed.shape, strict=True)
        fixed = [streamed.shape[last], streamed.start[last], memory.offset]
        fixed += [step for d, (step, size) in enumerate(others) if d != last and size > 1]
        if memory.before[last] == 0 and memory.size[last] == streamed.shape[last]:
            for wide in (2, 4):
                if all(number % wide == 0 for number in fixed):
                    width = np.where(sizes[last] % wide == 0, wide, width)
    serial = [
        d
        for d in range(len(sizes))
        if d != last
        and all(space.axes[k].role == "k" for k in streamed.axes_of(d))
        and not any(space.windows_of(n) and d in streamed.dimensions_of(n) for n in space.of("n"))
    ]
    deep = math.prod(sizes[d] for d in serial) if serial else np.ones(len(count))
    pieces = math.prod(sizes) / deep / width
    parts = np.clip(count // pieces, 1, deep)
    return width, np.ceil(pieces * parts / count) * np.ceil(deep / parts)


@dataclass(frozen=True)
class _Lanes:
    """What 32 neighbouring threads do at a time."""

    banks: Array
    """Places of local memory that they want of one bank, reading the streamed operand there."""
    even: Array
    """Elements, up to 4, at whose multiples all that one of them reads there begins."""
    read: Array
    """Lines of the cache that they want, reading the streamed operand past local memory."""
    together: Array
    """Results that they store of one line,"""
    stored: Array
    """lines that they store to,"""
    camping: Array
    """and lines of these that lie a multiple of 4 KiB apart."""


def _lanes(
    space: ProductSpace,
    mappings: Sequence[ThreadMapping],
    extents: Sequence[Array | int],
    threads: Array,
    vector: Array,
) -> _Lanes:
    """That of each mapping."""
    count, axes = len(mappings), space.axes
    fast = np.array([m.resident_fast for m in mappings])
    lanes = np.zeros((count, len(axes), _LANES), dtype=np.int64)
    first = [*space.of("k"), *space.of("batch")]
    orders = ((True, [*space.of("n"), *space.of("m")]), (False, [*space.of("m"), *space.of("n")]))
    for kind, last in orders:
        chosen = fast == kind
        rest = np.broadcast_to(np.arange(_LANES), (int(chosen.sum()), _LANES))
        for k in reversed([*first, *last]):
            size = threads[chosen, k].astype(np.int64)[:, None]
            lanes[chosen, k], rest = rest % size, rest // size
    places_of = vector.astype(np.int64)
    places = lanes * places_of[:, :, None]
    streamed = space.streamed
    # The dimension along which threads keep runs lies innermost in local memory; of the others,
    # those that only reduced loops move along lie outermost.
    runs = [(streamed.dimensions_of(k) or [-1])[-1] for k in space.of("n")]
    wide = vector[:, space.of("n")] > 1
    innermost = np.full(count, runs[-1] if runs else -1)
    for number, d in sorted(enumerate(runs), key=lambda pair: pair[1]):
        innermost = np.where(wide[:, number], d, innermost)
    address = np.zeros((count, _LANES), dtype=np.int64)
    even = np.full(count, 4, dtype=np.int64)
    for last in np.unique(innermost):
        chosen = innermost == last
        order = sorted(
            range(len(streamed.shape)),
            key=lambda d: (d == last, any(axes[k].role != "k" for k in streamed.axes_of(d)), d),
        )
        for k in streamed.axes_of(last) if last >= 0 else ():
            if axes[k].role != "k":
                moved = np.where(threads[chosen, k] > 1, places_of[chosen, k], 4)
                even[chosen] = np.gcd(even[chosen], streamed.steps[k][last] * moved)
        pitch = np.ones(int(chosen.sum()), dtype=np.int64)
        for d in reversed(order):
            for k in streamed.axes_of(d):
                address[chosen] += places[chosen, k] * (streamed.steps[k][d] * pitch)[:, None]
            size = np.broadcast_to(extents[d], count)[chosen].astype(np.int64)
            if d == last:
                even[chosen] = np.gcd(even[chosen], size)
            pitch = pitch * size
    strides = streamed.strides or strides_of(streamed.shape)
    memory, out = (np.zeros((count, _LANES), dtype=np.int64) for _ in range(2))
    steps = space.out_steps or tuple(1 << 20 for _ in axes)
    width = np.ones(count, dtype=np.int64)
    for k, axis in enumerate(axes):
        memory += places[:, k] * sum(map(operator.mul, streamed.steps[k], strides))
        if axis.role != "k":
            out += places[:, k] * steps[k]
            if steps[k] == 1:
                width = np.gcd(4, places_of[:, k])
    lines = _distinct(out // _LINE)
    in_order = np.array([m.gathered for m in mappings])
    in_order |= threads[:, space.of("k")].prod(axis=1) > 1
    return _Lanes(
        banks=_most_of_a_bank(address),
        even=even,
        read=_distinct(memory // _LINE),
        together=np.where(
            in_order, _LINE, np.minimum(threads.prod(axis=1), _LANES) * width / lines
        ),
        stored=np.where(in_order, 1, lines),
        camping=np.where(in_order, 1, _most_of_a_bank(out // _LINE)),
    )


def _distinct(rows: Array) -> Array:
    """Different numbers in each row."""
    ordered = np.sort(rows, axis=1)
    return np.asarray(1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1))


def _most_of_a_bank(address: Array) -> Array:
    """Different places that lanes want of one bank, for each row of lanes' addresses."""
    count = len(address)
    ordered = np.sort(address, axis=1)
    new = np.ones(ordered.shape, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    bank = (np.arange(count)[:, None] * _LANES + ordered % _LANES)[new]
    return np.asarray(np.bincount(bank, minlength=count * _LANES).reshape(count, _LANES).max(1))
