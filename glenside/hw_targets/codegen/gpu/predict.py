"""The time of a product's kernels, by a model of what bounds them.

Per compute unit: instructions that threads issue, hidden latency by resident warps, waiting at
barriers, traffic from the shared cache; then the launch and what is stored. The numbers of
:data:`_MODEL` were fitted to 1,400 measurements of fp32 convolutions on an H200 (17 layers; of the
mappings measured, the one predicted to be best took 1.11 times as long as the best, in geometric
mean).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.hw_targets.codegen import scalars
from glenside.hw_targets.codegen.gpu.interface import DeviceLimits
from glenside.hw_targets.codegen.gpu.space import ProductSpace
from glenside.hw_targets.codegen.mapping import GpuMapping

_MODEL = {
    "floor": 0.812,  # microseconds of a kernel beside its launch
    "exchange": 1.11,  # cycles a warp takes to hand one sum a thread to another
    "load": 3.03,  # instructions' worth of reading local memory
    "bring": 2.32,  # instructions an element of the streamed operand takes to be staged
    "hide": 0.88,  # warps of one unit that hide the latency of arithmetic
    "wait": 0.639,  # microseconds of a stage that one group alone waits
    "batch": 20.7,  # fetches of one thread that are under way at a time
    "share": 0.447,  # how far groups on one unit hide each other's waiting
    "result": 273e3,  # transactions of 32 bytes a microsecond
    "direct": 1.0,  # of that, where nothing is staged
    "handing": 0.383,  # microseconds to hand on sums at the end
    "unstaged": 3.19,  # how much dearer reading past local memory is
    "overlap": 1.17,  # of the time it takes to store, what is not hidden
    "sum": 3.43e6,  # bytes of partial sums read a microsecond
}


def predict(space: ProductSpace, mapping: GpuMapping, limits: DeviceLimits) -> float:
    """Seconds of all kernels of a mapping."""
    return float(predict_all(space, [mapping], limits)[0])


def predict_all(
    space: ProductSpace, mappings: Sequence[GpuMapping], limits: DeviceLimits
) -> np.ndarray[Any, Any]:
    """Seconds of each mapping."""
    model = _MODEL
    axes = space.axes
    roles = np.array([axis.role for axis in axes])
    sizes = np.array([axis.size for axis in axes], dtype=float)

    def column(name: str) -> np.ndarray[Any, Any]:
        rows = [getattr(mapping, name) for mapping in mappings]
        return np.array(rows, dtype=float).reshape(len(mappings), len(axes))

    threads, registers, vector = column("threads"), column("registers"), column("vector")
    chunk, split = column("chunk"), column("split")
    reduced = roles == "k"
    tile = np.where(reduced, chunk, threads * registers)
    groups = np.where(reduced, 1, np.ceil(sizes / tile))
    stages = np.where(reduced, np.ceil(sizes / (split * chunk)), 1).prod(axis=1)

    def over(values: np.ndarray[Any, Any], *which: str) -> np.ndarray[Any, Any]:
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
    element = np.dtype(scalars.storage_dtype(space.streamed.dtype)).itemsize
    inner = np.dtype(scalars.storage_dtype(space.accumulate)).itemsize
    in_group = over(threads, "k")
    each = over(chunk, "k") / in_group
    staged = np.array([m.staged for m in mappings]).reshape(len(mappings), 2)
    past = np.where(staged[:, 1], 1.0, model["unstaged"])
    issue = each * (sums + (run / shared * past + rows / np.maximum(width, 1)) * model["load"])
    brought = np.where(staged[:, 1], box * model["bring"], 0)
    brought = brought + np.where(staged[:, 0], resident_elements, 0)
    issue = issue + brought / count
    used = np.minimum(limits.thread_registers, sums + run + rows + 36)
    exchanged = np.array([m.gathered for m in mappings]) | (in_group > 1)
    local = np.maximum(
        (box + resident_elements) * element, np.where(exchanged, sums * count * inner, 0)
    )
    together = np.minimum.reduce(
        [
            limits.unit_registers // np.maximum(1, used * warps * limits.warp),
            limits.unit_local_bytes // (local + 1024),
            limits.unit_threads // (warps * limits.warp),
            np.full(len(mappings), float(limits.unit_groups)),
        ]
    )
    together = np.maximum(1, together)
    per_unit = np.ceil(blocks / limits.compute_units)
    together = np.minimum(together, per_unit)
    lanes = limits.peak.get(space.accumulate, 1e12) / 2 / limits.compute_units / limits.clock
    hidden = np.minimum(1, together * warps * (1 + np.minimum(sums, 64) / 64) / 2 / model["hide"])
    us = 1e6
    cycles = per_unit * stages * issue * warps * limits.warp / lanes / hidden
    cycles = cycles + per_unit * np.where(exchanged, sums * warps * model["exchange"], 0)
    compute = cycles / limits.clock * us
    # A thread's fetches are under way a few at a time; other groups compute meanwhile.
    fetches = np.where(staged[:, 1], box, 0) + np.where(staged[:, 0], resident_elements / 4, 0)
    wait = model["wait"] * (1 + fetches / count / model["batch"]) / together ** model["share"]
    wait = np.where(staged.any(axis=1), wait, wait * model["direct"])
    turns = np.ceil(per_unit / together)
    compute = compute + turns * (stages * wait + np.where(exchanged, model["handing"], 0))
    traffic = (box + resident_elements) * element * stages * blocks
    result = space.size("batch", "m", "n") * inner
    time = np.maximum(compute, traffic / limits.cache_bandwidth * us)
    time = time + limits.launch_seconds * us * model["floor"]
    padded = over(groups * tile, "m") * space.size("batch", "n") * inner * splits
    second = padded / 32 / model["result"] + limits.launch_seconds * us + padded / model["sum"]
    second = second + result / 32 / model["result"]
    apart = _elements_together(space, mappings, threads, vector)
    direct = result / inner / apart / model["result"] * model["overlap"]
    time = time + np.where(splits == 1, direct, second)
    # What is read from and written to the device's memory at least.
    operands = math.prod(space.resident.shape) + math.prod(space.streamed.shape)
    least = (operands * element + result) / limits.bandwidth
    return np.asarray(np.maximum(time / us, least + limits.launch_seconds))


def _elements_together(
    space: ProductSpace,
    mappings: Sequence[GpuMapping],
    threads: np.ndarray[Any, Any],
    vector: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """How many neighbouring results a transaction stores."""
    in_order = np.array([m.gathered for m in mappings])
    in_order |= threads[:, space.of("k")].prod(axis=1) > 1
    near = [k for k, step in enumerate(space.out_steps or ()) if step == 1]
    if not near:
        return np.where(in_order, 8.0, 1.0)
    (axis, *_) = near
    run = vector[:, axis]
    wide = np.where(run % 4 == 0, 4, np.where(run % 2 == 0, 2, 1))
    fast = np.array([m.resident_fast for m in mappings]) == (space.axes[axis].role == "m")
    # Neighbouring threads go on where a thread's vector ends.
    following = np.minimum(8, wide * threads[:, axis])
    joined = np.where(fast & (run == wide), following, wide)
    return np.where(in_order, 8.0, joined)
