"""Mappings of products to matrix units that take operands from registers, warp by warp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glenside.codegen.gpu.warpgroups.problem import TensorMapping, TensorProblem

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import DeviceLimits
    from glenside.codegen.gpu.tensor.geometry import Geometry

_SHAPES = (
    (16, 1, 4), (32, 1, 4), (32, 2, 2), (64, 1, 4), (64, 2, 2), (64, 2, 4), (64, 4, 1),
    (128, 2, 2), (128, 2, 4), (128, 4, 2), (256, 4, 2),
)  # fmt: skip
"""Rows of a group, and warps along rows and along positions."""


class WarpProblem(TensorProblem):
    """The same problem where each warp multiplies 16 rows by 8 positions at a time.

    A warp's sums are fewer, for it holds operands in registers too. Parts of a split product are
    added up by a kernel of its own, so there may be more of them than a cluster has groups.
    """

    members: ClassVar[int] = 32
    fragment: ClassVar[int] = 16
    warps: ClassVar[bool] = True
    shapes: ClassVar[Sequence[tuple[int, int, int]]] = _SHAPES
    all_stages: ClassVar[Sequence[int]] = (1, 2, 3, 4)
    splits: ClassVar[Sequence[int]] = (1, 2, 3, 4, 6, 8, 12, 16)
    most_sums: ClassVar[int] = 128
    most_tiles: ClassVar[int] = 60

    def kept(self, stages: int) -> int:
        return 0

    def most_split(self) -> int:
        return max(self.splits)

    def predicted(self, mappings: Sequence[TensorMapping]) -> np.ndarray[Any, Any]:
        return predict(self.geometry, mappings, self.limits, self.rows_fast)


# --- the model ------------------------------------------------------------------------------------

_MODEL = {
    "rate": 0.7,  # of the units' peak that products reach
    "behind": 0.49,  # the same where only whole warpgroups reach the peak
    "fetch": 68.0,  # bytes a cycle that one compute unit gets from the shared cache, at most
    "together": 0.68,  # of the shared cache's rate, where all units read at one time
    "read": 6.0,  # cycles that a load of four cells keeps local memory busy
    "turn": 27.0,  # cycles between loads of cells and the products of them
    "latency": 400.0,  # cycles from asking for a copy to its arrival
    "wait": 60.0,  # cycles between two steps of a group
    "gather": 15.0,  # cycles a warp takes to bring an element for each of its threads
    "fill": 1400.0,  # cycles until the first step has arrived, and to start and to end
    "sums": 20.0,  # bytes of sums a cycle that go through local memory
    "launch": 0.4,  # of the time between kernels, what is not hidden
    "parts": 0.8,  # launches that adding up parts costs
}
"""Fitted to measurements of this form on an H200, but the first: no older device was at hand."""


def predict(
    geometry: Geometry, mappings: Sequence[TensorMapping], limits: DeviceLimits, rows_fast: bool
) -> np.ndarray[Any, Any]:
    """Seconds of each mapping."""
    from glenside.codegen.gpu.warps.tiling import WarpTiling

    model, space = _MODEL, geometry.space
    known = {"float32": "tf32"}.get(space.streamed.dtype, space.streamed.dtype)
    share = model["behind" if limits.warpgroups or limits.generation == 90 else "rate"]
    peak = share * limits.tensor_peak[known] / limits.compute_units / limits.clock
    each = 2 * 16 * 8 * 2 * geometry.unit / peak  # Cycles of a compute unit for one product.
    all_fetch = model["together"] * limits.cache_bandwidth / limits.clock
    elements = math.prod(space.streamed.shape) + math.prod(space.resident.shape)
    results = space.size("batch", "m", "n")
    least = (elements + results) * geometry.bytes / limits.bandwidth
    boxes: dict[Any, WarpTiling] = {}
    times = []
    for mapping in mappings:
        tiling = WarpTiling(geometry, mapping)
        same = boxes.setdefault((mapping.tile, mapping.gathered), tiling)
        for name in ("box", "tap_places", "loop_groups"):
            tiling.__dict__[name] = getattr(same, name)
        warps, cells = tiling.threads // 32, tiling.columns_each // 8
        loads = tiling.taps * tiling.units // 2  # Of each warp in a step.
        products = loads * tiling.fragments * cells
        brought = tiling.box.positions * tiling.units
        rows = tiling.taps * tiling.units * mapping.rows
        # Four warps at a time multiply; local memory gives all of them 128 bytes a cycle.
        multiply = products * each * 4 * -(-warps // 4)
        read = warps * loads * (tiling.fragments + (cells + 1) // 2) * model["read"]
        read += (brought + rows) / 8
        local = tiling.local_bytes(rows_fast)
        used = min(limits.thread_registers, -(-(tiling.sums + 60) // 8) * 8)
        together = min(
            limits.unit_local_bytes // (local + 1024),
            limits.unit_threads // tiling.threads,
            limits.unit_registers // (used * tiling.threads),
            limits.unit_groups,
        )
        blocks = math.prod(tiling.grid)
        per_unit = -(-blocks // limits.compute_units)
        together = max(1, min(together, per_unit))
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
