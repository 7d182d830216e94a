"""The time of a product of matrices, by a model of what bounds it."""

from __future__ import annotations

from glenside.codegen.gpu.interface import DeviceLimits, Model
from glenside.codegen.gpu.matrices.mapping import MatrixMapping
from glenside.codegen.gpu.matrices.tiling import MatrixShape, registers


def first_principles(limits: DeviceLimits) -> Model:
    """The constants where none were fitted: every instruction is issued once, and what is waited
    for is the memory's answer, once a stage."""
    return {
        "read": 1.0, "fetch": 2.0, "uneven": 1.0, "few": 1.0, "stage": 400.0, "exchange": 0.0,
        "start": 800.0, "apart": 0.0, "launch": limits.launch_seconds,
    }  # fmt: skip


def predict(mapping: MatrixMapping, shape: MatrixShape, outer: int, limits: DeviceLimits) -> float:
    """Seconds, by what a compute unit multiplies and waits for and what goes through memory."""
    model = limits.model("matrices") or first_principles(limits)
    groups = outer * -(-shape.rows // mapping.rows) * -(-shape.width // mapping.columns)
    stages = -(-shape.depth // mapping.depth)
    depth = stages * mapping.depth
    held = limits.occupancy(mapping.threads, 4 * mapping.local_elements, registers(mapping))
    turns = -(-groups // limits.compute_units)
    together = min(held, turns)
    tile = mapping.rows * mapping.columns
    # Instructions of a warp: multiplications, and reads of local memory, which wait for each other.
    down, left = mapping.tile
    reads = down / 4 + left / (4 if left % 4 == 0 else 1)
    lanes = limits.peak["float32"] / (2 * limits.compute_units * limits.clock)
    fetched = (mapping.rows + mapping.columns) * mapping.parts / mapping.threads
    busy = (
        tile
        * depth
        / lanes
        * (1 + (model["read"] * reads + model["fetch"] * fetched) / (down * left))
    )
    _, along = mapping.places
    if along & (along - 1):
        busy *= model["uneven"]
    # Few warps leave a unit waiting for what they depend on.
    busy *= 1 + model["few"] / (together * mapping.threads / limits.warp)
    cycles = turns * busy + model["start"]
    cycles += (
        turns
        / together
        * (stages * model["stage"] + (mapping.parts - 1) * tile * model["exchange"])
    )
    stored = 4.0 * outer * shape.rows * shape.width
    moved = 4.0 * groups * depth * (mapping.rows + mapping.columns) + 2 * stored
    own = 4.0 * (shape.batches * shape.rows + outer * shape.width) * depth + stored
    parts = cycles / limits.clock, moved / limits.cache_bandwidth, own / limits.bandwidth
    longest = max(parts)
    return longest + model["apart"] * (sum(parts) - longest) + model["launch"]
