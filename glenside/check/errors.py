"""How far two arrays are apart, and how far they may be."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

TOLERANCE = {"bfloat16": 1e-1, "float16": 2e-2, "float32": 1e-3, "float64": 1e-9}
"""Largest error by dtype, relative to the largest magnitude in the tensor; other dtypes: none.
Sums of thousands of float32 products in another order differ by some 1e-5."""

STEPS = 5e-2
"""Likewise between two runs through what rounds to small formats: the last bit of an operand may
decide which way, and that may be a step of the format."""


def agrees(got: Array, right: Array) -> bool:
    """Whether ``got`` is ``right`` within the tolerance of its dtype."""
    return relative_error(got, right) <= TOLERANCE.get(right.dtype.name, 0.0)


_PIECE = 1 << 22
"""Elements that are compared at a time."""


def relative_error(got: Array, right: Array) -> float:
    """Largest difference over the largest magnitude of ``right``; infinite when NaNs or
    infinities do not stand in the same places."""
    if got.shape != right.shape or got.dtype != right.dtype:
        return float("inf")
    if not right.size:
        return 0.0
    difference = scale = 0.0
    ours, theirs = got.reshape(-1), right.reshape(-1)
    for at in range(0, right.size, _PIECE):  # Arrays of float64 may be too large to have twice.
        a = ours[at : at + _PIECE].astype(np.float64)
        b = theirs[at : at + _PIECE].astype(np.float64)
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return float("inf")
        a, b = a[finite], b[finite]
        if b.size:
            # Written so that nan stays.
            difference = float(np.maximum(difference, np.abs(a - b).max()))
            scale = max(scale, float(np.abs(b).max()))
    return difference / scale if scale else difference


def compared(got: Array, right: Array) -> tuple[float, float]:
    """The largest difference, and the largest magnitude of what is right (1 where that is 0);
    infinite where shapes, NaNs or infinities differ."""
    if got.shape != right.shape:
        return float("inf"), 1.0
    if not right.size:
        return 0.0, 1.0
    if right.dtype.kind != "f":
        got, right = got.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        scale = float(np.abs(right).max())
        difference = float(np.abs(got - right).max())
        if not np.isfinite(difference) or not np.isfinite(scale):
            finite = np.isfinite(right)
            if not np.array_equal(got[~finite], right[~finite], equal_nan=True):
                return float("inf"), 1.0
            if not finite.any():
                return 0.0, 1.0
            scale = float(np.abs(right[finite]).max())
            difference = float(np.abs(got[finite] - right[finite]).max())
    return difference, scale or 1.0
