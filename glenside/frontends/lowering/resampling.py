"""Values between the elements of an axis, as weighted sums of those around them."""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.known import pick
from glenside.frontends.lowering.phrases import add, mul
from glenside.language import Term

Array = np.ndarray[Any, Any]


def linear_taps(places: Array, length: int) -> tuple[Array, Array]:
    """The elements before and after each place, and their weights: both (places, 2)."""
    low = np.floor(places)
    share = places - low
    taps = np.stack([low, low + 1], 1)
    return np.clip(taps, 0, length - 1).astype(int), np.stack([1 - share, share], 1)


def cubic_taps(places: Array, length: int, a: float, exclude: bool = False) -> tuple[Array, Array]:
    """The four elements around each place, and their weights (Keys' cubic convolution).

    :param exclude: those outside have no weight; else the outermost stands in for them.
    """
    low = np.floor(places)
    t = places - low
    weights = np.stack(
        [
            a * (t**3 - 2 * t**2 + t),
            (a + 2) * t**3 - (a + 3) * t**2 + 1,
            -(a + 2) * t**3 + (2 * a + 3) * t**2 - a * t,
            -a * t**3 + a * t**2,
        ],
        1,
    )
    taps = low[:, None] + np.arange(-1, 3)
    if exclude:
        weights = np.where((taps < 0) | (taps >= length), 0.0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(taps, 0, length - 1).astype(int), weights


def weighted(constants: Constants, x: Term, axis: int, taps: Array, weights: Array) -> Term:
    """Along one axis, sums of the elements at ``taps`` (new length, count) times ``weights``."""
    column = (-1,) + (1,) * (x.type.rank - axis - 1)
    total: Term | None = None
    for number in range(taps.shape[1]):
        share = weights[:, number].astype(x.dtype)
        if not share.any():
            continue
        part = pick(constants, x, taps[:, number].tolist(), axis)
        if not (share == 1).all():
            part = mul(part, constants.parameter(share.reshape(column), "shares"))
        total = part if total is None else add(total, part)
    assert total is not None
    return total
