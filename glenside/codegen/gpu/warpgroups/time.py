"""The time of a product by warpgroups, by a model of what bounds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits, Model
from glenside.codegen.gpu.tensor.geometry import Geometry
from glenside.codegen.gpu.warpgroups.mapping import WarpgroupMapping
from glenside.codegen.gpu.warpgroups.tiling import WarpgroupTiling


def first_principles(limits: DeviceLimits) -> Model:
    """The constants where none were fitted: units at their peak, an even share of the cache, two
    answers of the memory before the first product."""
    return {
        "fetch": limits.cache_bandwidth / limits.compute_units / limits.clock, "together": 1.0,
        "apart": 1.0, "latency": 800.0, "wait": 200.0, "overlapped": 0.0, "issue": 1.0,
        "gather": 32.0, "fill": 1600.0, "sums": 128.0, "cluster": 1600.0, "exchange": 32.0,
        "launch": 1.0,
    }  # fmt: skip


def predict(
    geometry: Geometry, mappings: Sequence[WarpgroupMapping], limits: DeviceLimits
) -> np.ndarray[Any, Any]:
    """Seconds of each mapping."""
    model = limits.model("warpgroups") or first_principles(limits)
    all_fetch = limits.cache_bandwidth / limits.clock
    space = geometry.space
    elements = math.prod(space.streamed.shape) + math.prod(space.resident.shape)
    least = (elements + space.size("batch", "m", "n")) * geometry.bytes / limits.bandwidth
    times = []
    for mapping in mappings:
        tiling = WarpgroupTiling(geometry, mapping)
        columns = tiling.columns_each
        products = tiling.taps * tiling.units // 2 * (mapping.rows // 64) * mapping.groups[1]
        brought = tiling.box.positions * tiling.units
        rows = tiling.taps * tiling.units * mapping.rows
        # A product takes half a cycle a position; local memory gives it 128 bytes a cycle.
        step = max(products * columns / 2, products * (16 + columns / 4) + (brought + rows) / 8)
        local = tiling.local_bytes(geometry.rows_fast)
        used = min(limits.thread_registers, -(-(tiling.sums + 70) // 8) * 8)
        together = limits.occupancy(tiling.threads, local, used)
        blocks = math.prod(tiling.grid)
        per_unit = -(-blocks // limits.compute_units)
        together = min(together, per_unit)
        rate = model["together" if per_unit <= together else "apart"]
        fetch = min(model["fetch"], rate * all_fetch / min(blocks, limits.compute_units))
        load = (brought + rows) * 16 / fetch
        direct = geometry.direct(mapping.gathered)
        packed = geometry.space.resident.constant
        read = tiling.box.positions * min(mapping.chunk, tiling.inner)
        issue = brought / 8 if direct else read / 32 * model["gather"] + brought / 8
        issue += 0 if packed else rows / 32 * 4
        wait = model["overlapped" if mapping.kept else "wait"]
        arrival = (model["latency"] + load) / tiling.ahead
        chain = max(step + wait, arrival) if tiling.share > 1 else step + load
        cycles = max(step, load, chain / together) + issue * model["issue"] / together
        cycles = per_unit * tiling.share * cycles
        end = model["fill"] + tiling.columns * mapping.rows * 4 / model["sums"]
        if mapping.split > 1:
            end += model["cluster"] + tiling.columns * mapping.rows * 4 / model["exchange"]
        cycles += -(-per_unit // together) * end
        seconds = max(cycles / limits.clock, least)
        times.append(seconds + limits.launch_seconds * model["launch"])
    return np.array(times)
