"""How long a streamed product takes, and how long its parts would, each a kernel of its own.

First principles: arithmetic at a rate that local memory bounds, in whole rounds of groups; of the
parts what they multiply, what they write and read again, and their launches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.streamed.mapping import StreamedMapping, mappings
from glenside.codegen.gpu.streamed.problem import StreamedProblem

_POWER = 24
"""Operations' worth of an exponential, and of what finds its reference."""
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


def pays(problem: StreamedProblem, limits: DeviceLimits) -> bool:
    """Whether one kernel is predicted to be faster than its parts."""
    mapping = best(problem, limits)
    return mapping is not None and mapping.predicted < separate(problem, limits)
