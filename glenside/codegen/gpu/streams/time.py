"""The time of a product whose groups stay, by a model of what bounds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits, Model
from glenside.codegen.gpu.streams.mapping import StreamMapping
from glenside.codegen.gpu.streams.tiling import StreamTiling
from glenside.codegen.gpu.tensor.geometry import Geometry


def first_principles(limits: DeviceLimits) -> Model:
    """The constants where none were fitted: units at their peak, an even share of the cache, two
    answers of the memory before the first product."""
    return {
        "multiply": 0.5, "fetch": limits.cache_bandwidth / limits.compute_units / limits.clock,
        "line": 1.0, "latency": 800.0, "portion": 0.0, "fill": 1600.0, "sums": 128.0, "store": 1.0,
        "launch": 1.0,
    }  # fmt: skip


def predict(
    geometry: Geometry, mappings: Sequence[StreamMapping], limits: DeviceLimits
) -> np.ndarray[Any, Any]:
    """Seconds of each mapping."""
    times = []
    for mapping in mappings:
        tiling = StreamTiling(geometry, mapping, limits)
        times.append(_seconds(tiling))
    return np.array(times)


def _seconds(tiling: StreamTiling) -> float:
    limits, mapping = tiling.limits, tiling.mapping
    model = limits.model("streams") or first_principles(limits)
    geometry, space = tiling.geometry, tiling.geometry.space
    portions = tiling.box_steps * tiling.taps
    products = portions * tiling.line // 32 * tiling.fragments * tiling.consumers
    columns = tiling.columns_each
    boxes = tiling.box_steps * tiling.lines * tiling.line
    rows = portions * tiling.consumers * tiling.rows_bytes
    multiply = products * columns * model["multiply"]
    others = tiling.consumers * tiling.residents
    lines = tiling.box_steps * tiling.lines * model["line"]
    each = max(multiply, (boxes + rows) / model["fetch"], lines)
    each += portions * tiling.consumers * model["portion"] / others
    # Copies are under way for as long as the other portions, and boxes, are multiplied.
    waited = portions * model["latency"] / (mapping.stages - 1)
    box = model["latency"] + tiling.lines * tiling.line / model["fetch"]
    waited = max(waited, tiling.box_steps * box / (mapping.boxes - (1.5 if tiling.lag else 1)))
    each = max(each, waited / tiling.residents)
    store = columns * tiling.rows_each * (2 if tiling.halves else 4) / model["sums"]
    each += store / tiling.residents
    turns = -(-tiling.tiles // (limits.compute_units * tiling.residents)) * tiling.residents
    seconds = (turns * each + model["fill"]) / limits.clock
    elements = math.prod(space.streamed.shape) + math.prod(space.resident.shape)
    results = space.size("batch", "m", "n") / model["store"]
    least = (elements + results) * geometry.bytes / limits.bandwidth
    return max(seconds, least) + limits.launch_seconds * model["launch"]
