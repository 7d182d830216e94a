"""What the partial sums of a mapping take of a device's memory, and what that is worth."""

from __future__ import annotations

import math

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.kinds import AnyMapping, GpuMapping, TensorMapping
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.tensor.warp_tiling import Parts
from glenside.codegen.gpu.tiling import Tiling


def partial_bytes(space: ProductSpace, mapping: AnyMapping) -> int:
    """Bytes of scratch memory that the partial sums of a mapping take."""
    if isinstance(mapping, GpuMapping):
        if math.prod(mapping.split) == 1:
            return 0
        return Tiling(space, mapping).partial_elements * itemsize(space.accumulate)
    if isinstance(mapping, TensorMapping) and mapping.warps and mapping.split > 1:
        return 4 * Parts(space, mapping.split).elements
    return 0


def weighed(space: ProductSpace, mapping: AnyMapping, limits: DeviceLimits) -> float:
    """Seconds that a mapping is predicted to take, and what its scratch memory is worth."""
    if not limits.byte_seconds:
        return mapping.predicted
    return mapping.predicted + limits.byte_seconds * partial_bytes(space, mapping)


def itemsize(dtype: str) -> int:
    """Bytes of an element in memory."""
    return np.dtype("uint8" if dtype == "bool" else dtype).itemsize
