"""The time of a product's kernels by a model of what bounds them."""

from __future__ import annotations

import math

import numpy as np

from glenside.hw_targets.codegen.gpu.interface import DeviceLimits
from glenside.hw_targets.codegen.gpu.space import ProductSpace
from glenside.hw_targets.codegen.mapping import GpuMapping


def predict(space: ProductSpace, mapping: GpuMapping, limits: DeviceLimits) -> float:
    """Seconds of all kernels of a mapping."""
    from glenside.hw_targets.codegen.gpu.products import Tiling

    tiling = Tiling(space, mapping)
    us = 1e6
    count = tiling.threads
    warps = -(-count // limits.warp)
    sums = tiling.sums
    steps = tiling.product(mapping.chunk, "k")
    stages = math.prod(tiling.stages)
    groups = math.prod(tiling.grid)
    # What a thread issues for each reduced position.
    rows = tiling.product(mapping.registers, "batch", "m")
    width = mapping.vector[space.of("m")[-1]] if space.of("m") else 1
    run, shared = 1, 1
    for k in space.of("batch", "n"):
        length = mapping.registers[k]
        for w in space.windows_of(k):
            d = space.streamed.dimensions_of(k)[-1]
            if mapping.vector[k] > 1:
                length = space.streamed.steps[k][d] * (length - 1) + 1
                length += space.streamed.steps[w][d] * (space.axes[w].size - 1)
                shared = max(shared, space.axes[w].size)
        run *= length
    loads = run / shared + rows / max(width, 1)
    element = np.dtype("uint8" if space.streamed.dtype == "bool" else space.streamed.dtype).itemsize
    each = steps / tiling.reduced_in_group
    brought = tiling.streamed_elements * 3 + tiling.resident_elements
    issue = each * (sums + loads * 1.1) + brought / count
    # Groups on one compute unit at a time.
    registers = min(limits.thread_registers, sums + run + rows + 36)
    local = tiling.local_bytes()
    resident = min(
        limits.unit_registers // max(1, registers * warps * limits.warp),
        limits.unit_local_bytes // (local + 1024),
        limits.unit_threads // (warps * limits.warp),
        limits.unit_groups,
    )
    resident = max(1, resident)
    per_unit = -(-groups // limits.compute_units)
    together = min(resident, per_unit)
    lanes = limits.peak.get(space.accumulate, 1e12) / 2 / limits.compute_units / limits.clock
    hidden = min(1.0, together * warps * (1 + min(sums, 64) / 64) / 2 / 11)
    cycles = per_unit * stages * issue * warps * limits.warp / lanes / hidden
    compute = cycles / limits.clock * us
    latency = 0.55 if together < 2 else 0.28 if together < 3 else 0.14
    compute += stages * -(-per_unit // together) * latency
    traffic = (tiling.streamed_elements + tiling.resident_elements) * element * stages * groups
    moved = traffic / limits.cache_bandwidth * us
    result = space.size("batch", "m", "n") * 4
    time = max(compute, moved) + limits.launch_seconds * us
    if tiling.split > 1:
        time += tiling.partial_elements * 4 / 32 / 110e3
        time += limits.launch_seconds * us + tiling.partial_elements * 4 / 5e6 + result / 32 / 110e3
    else:
        time += result / 32 * 2 / 110e3
    return time / us
