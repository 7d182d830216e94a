"""The time of a product by warps, by a model of what bounds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits, Model
from glenside.codegen.gpu.tensor.geometry import Geometry
from glenside.codegen.gpu.warps.mapping import WarpMapping
from glenside.codegen.gpu.warps.tiling import WarpTiling


def first_principles(limits: DeviceLimits) -> Model:
    """The constants where none were fitted: units at their peak, an even share of the cache, two
    answers of the memory before the first product."""
    return {
        "rate": 1.0, "fetch": limits.cache_bandwidth / limits.compute_units / limits.clock,
        "together": 1.0, "read": 4.0, "turn": 0.0, "latency": 800.0, "wait": 0.0, "gather": 32.0,
        "fill": 1600.0, "sums": 128.0, "launch": 1.0, "parts": 1.0,
    }  # fmt: skip


def predict(
    geometry: Geometry, mappings: Sequence[WarpMapping], limits: DeviceLimits
) -> np.ndarray[Any, Any]:
    """Seconds of each mapping."""
    model, space = limits.model("warps") or first_principles(limits), geometry.space
    known = {"float32": "tf32"}.get(space.streamed.dtype, space.streamed.dtype)
    share = model["rate"]
    peak = share * limits.tensor_peak[known] / limits.compute_units / limits.clock
    each = 2 * 16 * 8 * 2 * geometry.unit / peak  # Cycles of a compute unit for one product.
    all_fetch = model["together"] * limits.cache_bandwidth / limits.clock
    elements = math.prod(space.streamed.shape) + math.prod(space.resident.shape)
    results = space.size("batch", "m", "n")
    least = (elements + results) * geometry.bytes / limits.bandwidth
    times = []
    for mapping in mappings:
        tiling = WarpTiling(geometry, mapping)
        warps, cells = tiling.threads // 32, tiling.columns_each // 8
        loads = tiling.taps * tiling.units // 2  # Of each warp in a step.
        products = loads * tiling.fragments * cells
        brought = tiling.box.positions * tiling.units
        rows = tiling.taps * tiling.units * mapping.rows
        # Four warps at a time multiply; local memory gives all of them 128 bytes a cycle.
        multiply = products * each * 4 * -(-warps // 4)
        read = warps * loads * (tiling.fragments + (cells + 1) // 2) * model["read"]
        read += (brought + rows) / 8
        local = tiling.local_bytes(geometry.rows_fast)
        used = min(limits.thread_registers, -(-(tiling.sums + 60) // 8) * 8)
        together = limits.occupancy(tiling.threads, local, used)
        blocks = math.prod(tiling.grid)
        per_unit = -(-blocks // limits.compute_units)
        together = min(together, per_unit)
        fetch = min(model["fetch"], all_fetch / min(blocks, limits.compute_units))
        load = (brought + rows) * 16 / fetch
        issue = 0.0
        if not geometry.direct(mapping.gathered):
            taken = tiling.box.positions * min(mapping.chunk, tiling.inner)
            issue = taken / 32 * model["gather"]
        step = max(multiply, read) + issue
        arrival = (model["latency"] + load) / tiling.ahead
        step += loads * model["turn"]
        chain = max(step + model["wait"], arrival) if tiling.share > 1 else step + load
        busy = max(products * each * warps, read) + issue
        cycles = per_unit * tiling.share * max(busy, load, chain / together)
        end = model["fill"] + tiling.columns * mapping.rows * 4 / model["sums"]
        cycles += -(-per_unit // together) * end
        seconds = max(cycles / limits.clock, least) + limits.launch_seconds * model["launch"]
        if mapping.split > 1:
            moved = (mapping.split + 1) * results * 4
            seconds += model["parts"] * limits.launch_seconds + moved / limits.cache_bandwidth
        times.append(seconds)
    return np.array(times)
