"""How long a streamed product takes, and how long its parts would, each a kernel of its own.

First principles: arithmetic at a rate that local memory bounds, in whole rounds of groups; of the
parts what they multiply, what they write and read again, and their launches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.streamed import warps
from glenside.codegen.gpu.streamed.mapping import StreamedMapping, mappings
from glenside.codegen.gpu.streamed.problem import StreamedProblem
from glenside.codegen.gpu.streamed.warps import WarpStreamMapping

_POWER = 24
"""Operations' worth of an exponential, and of what finds its reference."""
_PRODUCT, _ELEMENT, _BLOCK, _START = 18.0, 12.0, 400.0, 2500.0
"""Cycles of a warp: a product on its matrix unit, an element's power, what a block takes beside,
and a group until its first block is there."""
_ISSUE = 0.5
"""What of a warp's cycles another one on its quarter cannot use."""
_PARTS = 0.5
"""Of the peak, what products of their own reach."""


def predict(problem: StreamedProblem, mapping: StreamedMapping, limits: DeviceLimits) -> float:
    """Seconds of the one kernel."""
    peak = limits.peak.get(problem.inner, limits.peak["float32"]) / limits.compute_units
    blocks = -(-problem.columns // mapping.block)
    width = -(-problem.width // mapping.across) * mapping.across
    area = mapping.rows * mapping.block * blocks

    def loads(along: int) -> float:
        """Times as long as its arithmetic a product takes, reading local memory for it."""
        return 1 + 4 * (mapping.each + along) / (2 * mapping.each * along)

    work = 2 * area * problem.depth * loads(mapping.along)
    work += 2 * area * width * loads(width // mapping.across)
    work += area * _POWER
    staged = blocks * mapping.block * (problem.depth + width) + mapping.rows * problem.depth
    bytes_ = staged * np.dtype(problem.dtype).itemsize
    fetch = bytes_ * limits.compute_units / limits.cache_bandwidth
    groups = problem.batches * -(-problem.rows // mapping.rows)
    resident = min(
        limits.unit_groups,
        limits.unit_threads // mapping.threads,
        max(1, limits.unit_local_bytes // mapping.local_bytes(problem)),
    )
    # A group alone does not fill a unit: two warps a quarter hide what they wait for.
    alone = min(1.0, mapping.threads / 256)
    each = work / peak + fetch
    rounds = -(-groups // limits.compute_units)
    at_once = max(1, min(resident, rounds))
    busy = each * rounds / min(1.0, at_once * alone)
    return limits.launch_seconds + busy


def predict_on_units(
    problem: StreamedProblem, mapping: WarpStreamMapping, limits: DeviceLimits
) -> float:
    """Seconds of the one kernel on matrix units."""
    step = mapping.parts * mapping.block
    steps = -(-problem.columns // step)
    deep, wide = (-(-n // 16) * 16 for n in (problem.depth, problem.width))
    # A warp's products of one block, each 16 by 8 by 16, and its powers.
    products = mapping.block // 8 * (deep + wide) // 16
    cycles = _BLOCK + products * _PRODUCT + mapping.block * 16 / 32 * _ELEMENT
    together = mapping.row_warps * mapping.parts
    groups = problem.batches * -(-problem.rows // mapping.rows)
    resident = max(
        1,
        min(
            limits.unit_groups,
            limits.unit_threads // mapping.threads,
            limits.unit_local_bytes // mapping.local_bytes(problem),
            limits.unit_registers // (mapping.threads * mapping.registers(problem)),
        ),
    )
    rounds = -(-groups // limits.compute_units)
    busy = min(resident, rounds) * together / 4  # Of a quarter of a unit, which has its own units.
    issue = max(1.0, busy * _ISSUE)
    staged = steps * step * (deep + wide) + mapping.rows * deep
    fetch = 2 * staged * min(groups, limits.compute_units) / limits.cache_bandwidth
    started = (_START + steps * cycles * issue) / limits.clock
    return limits.launch_seconds + (started + fetch) * max(1, -(-rounds // resident))


def separate(problem: StreamedProblem, limits: DeviceLimits) -> float:
    """Seconds of a kernel for each product, and one for the rows between."""
    peak = limits.tensor_peak.get(problem.dtype) or limits.peak.get(
        problem.inner, limits.peak["float32"]
    )
    itemsize = np.dtype(problem.dtype).itemsize
    scores = problem.batches * problem.rows * problem.columns * itemsize
    rate = limits.cache_bandwidth if 2 * scores < limits.cache_bytes else limits.bandwidth
    return 3 * limits.launch_seconds + problem.operations / (_PARTS * peak) + 4 * scores / rate


def best(problem: StreamedProblem, limits: DeviceLimits) -> StreamedMapping | None:
    """The mapping predicted to be fastest; None where the device allows none."""
    timed = [replace(m, predicted=predict(problem, m, limits)) for m in mappings(problem, limits)]
    return min(timed, key=lambda m: (m.predicted, m.threads, m.each, m.along), default=None)


def best_on_units(problem: StreamedProblem, limits: DeviceLimits) -> WarpStreamMapping | None:
    """Likewise on matrix units; None where they are not for such a product."""
    timed = [
        replace(m, predicted=predict_on_units(problem, m, limits))
        for m in warps.mappings(problem, limits)
    ]
    return min(timed, key=lambda m: (m.predicted, m.threads, m.block), default=None)


def pays(problem: StreamedProblem, limits: DeviceLimits) -> bool:
    """Whether one kernel is predicted to be faster than its parts."""
    mapping = best_on_units(problem, limits) or best(problem, limits)
    return mapping is not None and mapping.predicted < separate(problem, limits)
