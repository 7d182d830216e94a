"""The time of reductions over rows, by a model of what bounds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits, Model
from glenside.codegen.gpu.rows.mapping import RowMapping
from glenside.codegen.gpu.rows.space import RowSpace
from glenside.codegen.scalars import itemsize


def first_principles(limits: DeviceLimits) -> Model:
    """Cycles: until the first element is there, until one is there again, of each element, and of
    one step of handing totals on in registers and through local memory, of starting a group; how
    many threads have to want something for the memory's whole bandwidth."""
    return {
        "first": 800.0, "again": 200.0, "element": 8.0, "register": 30.0, "local": 60.0,
        "barrier": 40.0, "busy": 0.25, "group": 50.0,
    }  # fmt: skip


def predict(
    space: RowSpace, mappings: Sequence[RowMapping], limits: DeviceLimits
) -> np.ndarray[Any, Any]:
    """Seconds of each mapping."""
    return np.array([_seconds(space, mapping, limits) for mapping in mappings])


def _seconds(space: RowSpace, mapping: RowMapping, limits: DeviceLimits) -> float:
    model = limits.model("rows") or first_principles(limits)
    turns = -(-space.length // mapping.team)
    groups = -(-space.rows // mapping.rows)
    kept = mapping.held * len(space.held) * turns
    local = itemsize(space.total) * mapping.threads // (limits.warp if mapping.shuffled else 1)
    together = limits.occupancy(mapping.threads, local, 32 + kept)
    combining = _combining(mapping, limits, model)
    again = 0.0 if mapping.held else model["again"]
    chain = model["first"] + space.passes * (turns * model["element"] + combining)
    chain += (space.passes - 1) * again * max(1, turns / 8)
    waves = -(-groups // (limits.compute_units * together))
    # A unit issues for four warps at a time.
    issued = space.passes * turns * model["element"] * mapping.threads / limits.warp / 4
    issued = (issued + model["group"]) * groups / limits.compute_units
    read = space.read_bytes * space.rows * space.length
    moved = read * (1 if mapping.held or space.passes == 1 else space.passes)
    threads = min(groups, limits.compute_units * together) * mapping.threads
    share = min(1.0, threads / (model["busy"] * limits.compute_units * limits.unit_threads))
    memory = max(
        (read + space.written_bytes) / limits.bandwidth,
        (moved + space.written_bytes) / limits.cache_bandwidth,
    )
    return limits.launch_seconds + max(memory / share, max(waves * chain, issued) / limits.clock)


def _combining(mapping: RowMapping, limits: DeviceLimits, model: Model) -> float:
    """Cycles until all threads of a row have its total."""
    steps = math.log2(mapping.team)
    if not mapping.shuffled:
        return steps * (model["local"] + model["barrier"])
    warps = mapping.team // limits.warp
    cycles = min(steps, math.log2(limits.warp)) * model["register"]
    return cycles + (2 * model["barrier"] + warps * model["register"] / 4 if warps > 1 else 0)
