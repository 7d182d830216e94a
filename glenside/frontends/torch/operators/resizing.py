"""Images brought to another size."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from glenside.frontends.lowering.known import pick
from glenside.frontends.lowering.resampling import cubic_taps, linear_taps, weighted
from glenside.frontends.torch.signature import Node, operator
from glenside.language import Term

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
Floats = tuple[float, ...]

_CUBIC = -0.75
"""Of Keys' cubic convolution; PyTorch's choice."""


def _scales(
    x: Term, shape: Ints, scale_factors: Floats | None, single: tuple[float | None, ...]
) -> list[float]:
    """How far apart, in positions of the old image, those of the new one stand along each axis.

    PyTorch goes by the factors it was given, which rounding may make other than the sizes' ratio.
    """
    given = scale_factors or single
    steps = []
    for axis, new in enumerate(shape[2:], 2):
        factor = given[axis - 2] if given else None
        steps.append(1 / factor if factor else x.shape[axis] / new)
    return steps


Along = Callable[[Node, Term, int, float, bool], Term]
"""Brings one axis to the node's length: its new pixels are so many old ones apart, and the outer
ones lie at the image's corners or not."""


def _resized(along: Along, told: str) -> Callable[..., Term]:
    """An operator that brings one axis after the other to its new length; ``told`` describes it."""

    def apply(
        node: Node,
        input: Term | None = None,
        x: Term | None = None,
        output_size: Ints | None = None,
        align_corners: bool = False,
        scale_factors: Floats | None = None,
        scales: float | None = None,
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Term:
        result = input if input is not None else x
        assert result is not None
        spatial = len(node.shape) - 2
        single = (scales,) if spatial == 1 else (scales_d, scales_h, scales_w)[-spatial:]
        steps = _scales(result, node.shape, scale_factors, single)
        for axis, step in enumerate(steps, 2):
            result = along(node, result, axis, step, align_corners)
        return result

    apply.__doc__ = told
    return apply


def _nearest(
    node: Node, x: Term, axis: int, step: float, align_corners: bool, *, exact: bool
) -> Term:
    at = np.arange(node.shape[axis], dtype=np.float32)
    # In float32, as PyTorch computes it.
    places = np.floor((at + np.float32(0.5 if exact else 0)) * np.float32(step))
    spots = np.minimum(places.astype(np.int64), x.shape[axis] - 1)
    return pick(node.constants, x, spots.tolist(), axis)


def _coordinates(old: int, new: int, step: float, align_corners: bool, cubic: bool) -> Array:
    """Where, in the old image, the pixels of the new one lie."""
    at = np.arange(new, dtype=np.float64)
    if align_corners:
        return at * ((old - 1) / (new - 1)) if new > 1 else np.zeros(1)
    places = (at + 0.5) * step - 0.5
    return places if cubic else np.maximum(places, 0)


def _weighted(
    node: Node, x: Term, axis: int, step: float, align_corners: bool, *, cubic: bool
) -> Term:
    length = x.shape[axis]
    places = _coordinates(length, node.shape[axis], step, align_corners, cubic)
    taps = cubic_taps(places, length, _CUBIC) if cubic else linear_taps(places, length)
    return weighted(node.constants, x, axis, *taps)


_PIXEL = "The pixel at or before where each one lies in the old image; ``exact``: the nearest."
_MIXED = "Each pixel from those around where it lies in the old image."
for _spatial in (1, 2, 3):
    for _name, _exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True)):
        _along = functools.partial(_nearest, exact=_exact)
        operator(f"{_name}{_spatial}d")(_resized(_along, _PIXEL))
for _name in ("linear1d", "bilinear2d", "trilinear3d", "bicubic2d"):
    _along = functools.partial(_weighted, cubic=_name == "bicubic2d")
    operator(f"upsample_{_name}")(_resized(_along, _MIXED))
