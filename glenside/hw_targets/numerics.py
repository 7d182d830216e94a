"""Number formats of accelerators: arrays rounded to what a unit can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def adaptivfloat(array: Array, bits: int = 8, exponent: int = 3) -> Array:
    """AdaptivFloat<bits, exponent>: small floats whose exponent range follows the tensor.

    The greatest magnitude sets the range of exponents; the mantissa has what sign and exponent
    leave. The code of the least magnitude stands for zero, so what is below the next one goes to
    that or to zero, whichever is nearer. Nothing overflows.

    Source: Tambe et al., arXiv 1909.13271, algorithm 1.
    """
    mantissa = bits - exponent - 1
    greatest = float(np.max(np.abs(array), initial=0.0))
    if greatest == 0 or not np.isfinite(greatest):
        return array
    top = int(np.floor(np.log2(greatest)))
    bottom = top - (2**exponent - 1)
    largest = 2.0**top * (2 - 2.0**-mantissa)
    least = 2.0**bottom * (1 + 2.0**-mantissa)
    size = np.abs(array.astype(np.float64))
    _, power = np.frexp(size)  # size = f 2**power with f in [0.5, 1)
    step = np.exp2(np.clip(power - 1, bottom, top) - mantissa)
    rounded = np.minimum(np.rint(size / step) * step, largest)
    rounded = np.where(size < least, np.where(size * 2 < least, 0.0, least), rounded)
    return np.copysign(rounded, array).astype(array.dtype)


def fixed_point(array: Array, bits: int) -> Array:
    """Two's complement of ``bits`` bits, the binary point where the greatest magnitude just fits;
    rounded to nearest, and what is beyond the greatest number saturates."""
    greatest = float(np.max(np.abs(array), initial=0.0))
    if greatest == 0 or not np.isfinite(greatest):
        return array
    whole = int(np.floor(np.log2(greatest))) + 1
    step = 2.0 ** (whole - (bits - 1))
    limit = 2 ** (bits - 1)
    codes = np.clip(np.rint(array.astype(np.float64) / step), -limit, limit - 1)
    return (codes * step).astype(array.dtype)
