"""The time of a product's kernels, by a model of what bounds them.

Per compute unit: instructions that threads issue, hidden latency by resident warps, waiting at
barriers, traffic from the shared cache; then the launch and what is stored. The numbers of
:data:`_MODEL` were fitted to measurements of fp32 convolutions on an H200.
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
    "floor": 1.11,  # microseconds of a kernel beside its launch
    "exchange": 4.96,  # cycles a warp takes to hand one sum a thread to another
    "load": 2.63,  # instructions' worth of reading local memory
    "bring": 3.49,  # instructions an element of the streamed operand takes to be staged
    "hide": 2.12,  # warps of one unit that hide the latency of arithmetic
    "wait": 0.98,  # microseconds of a stage that one group alone waits
    "result": 229e3,  # transactions of 32 bytes a microsecond
    "unstaged": 1.35,  # how much slower operands are read past local memory
    "overlap": 0.97,  # of the time it takes to store, what is not hidden
    "sum": 8.3e6,  # bytes of partial sums read a microsecond
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
        return np.array([getattr(m, name) for m in mappings], dtype=float).reshape(-1, len(axes))

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
    for k in space.of("batch", "n"):
        length = registers[:, k].copy()
        for w in space.windows_of(k):
            d = space.streamed.dimensions_of(k)[-1]
            strip = space.streamed.steps[k][d] * (length - 1) + 1
            strip = strip + space.streamed.steps[w][d] * (axes[w].size - 1)
            wide = vector[:, k] > 1
            length = np.where(wide, strip, length)
            shared = np.where(wide, np.maximum(shared, axes[w].size), shared)
        run *= length
    loads = run / shared + rows / np.maximum(width, 1)
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
    issue = each * (sums + loads * model["load"])
    issue = issue + (box * model["bring"] + resident_elements) / count
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
    wait = model["wait"] / np.where(together < 2, 1, np.where(together < 3, 2, 4))
    compute = compute + stages * np.ceil(per_unit / together) * wait
    traffic = (box + resident_elements) * element * stages * blocks
    result = space.size("batch", "m", "n") * inner
    staged = np.array([m.staged for m in mappings])
    compute = np.where(staged[:, 1], compute, compute * model["unstaged"])
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
