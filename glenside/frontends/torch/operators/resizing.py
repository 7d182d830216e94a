"""Images brought to another size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glenside.frontends.lowering.known import pick
from glenside.frontends.lowering.tvm_resizing import weighted
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


def _nearest(exact: bool) -> Callable[..., Term]:
    def apply(
        node: Node,
        input: Term | None = None,
        x: Term | None = None,
        output_size: Ints | None = None,
        scale_factors: Floats | None = None,
        scales: float | None = None,
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Term:
        """The pixel at or before where each one lies in the old image; ``exact``: the nearest."""
        old = input if input is not None else x
        assert old is not None
        spatial = len(node.shape) - 2
        single = (scales,) if spatial == 1 else (scales_d, scales_h, scales_w)[-spatial:]
        steps = _scales(old, node.shape, scale_factors, single)
        for axis, step in enumerate(steps, 2):
            at = np.arange(node.shape[axis], dtype=np.float32)
            # In float32, as PyTorch computes it.
            places = np.floor((at + np.float32(0.5 if exact else 0)) * np.float32(step))
            spots = np.minimum(places.astype(np.int64), old.shape[axis] - 1)
            old = pick(node.constants, old, spots.tolist(), axis)
        return old

    return apply


def _coordinates(old: int, new: int, step: float, align_corners: bool, cubic: bool) -> Array:
    """Where, in the old image, the pixels of the new one lie."""
    at = np.arange(new, dtype=np.float64)
    if align_corners:
        return at * ((old - 1) / (new - 1)) if new > 1 else np.zeros(1)
    places = (at + 0.5) * step - 0.5
    return places if cubic else np.maximum(places, 0)


def _linear_taps(places: Array, length: int) -> tuple[Array, Array]:
    low = np.minimum(np.floor(places).astype(np.int64), length - 1)
    share = np.clip(places - low, 0, 1)
    taps = np.stack([low, np.minimum(low + 1, length - 1)], 1)
    return taps, np.stack([1 - share, share], 1)


def _cubic_taps(places: Array, length: int) -> tuple[Array, Array]:
    low, a = np.floor(places), _CUBIC
    t = places - low
    weights = [
        a * (t**3 - 2 * t**2 + t),
        (a + 2) * t**3 - (a + 3) * t**2 + 1,
        -(a + 2) * t**3 + (2 * a + 3) * t**2 - a * t,
        -a * t**3 + a * t**2,
    ]
    taps = low[:, None] + np.arange(-1, 3)
    return np.clip(taps, 0, length - 1).astype(np.int64), np.stack(weights, 1)


def _weighted(cubic: bool) -> Callable[..., Term]:
    def apply(
        node: Node,
        align_corners: bool,
        input: Term | None = None,
        x: Term | None = None,
        output_size: Ints | None = None,
        scale_factors: Floats | None = None,
        scales: float | None = None,
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Term:
        """Each pixel from those around where it lies in the old image."""
        old = input if input is not None else x
        assert old is not None
        spatial = len(node.shape) - 2
        single = (scales,) if spatial == 1 else (scales_d, scales_h, scales_w)[-spatial:]
        steps = _scales(old, node.shape, scale_factors, single)
        for axis, step in enumerate(steps, 2):
            length = old.shape[axis]
            places = _coordinates(length, node.shape[axis], step, align_corners, cubic)
            taps, shares = (_cubic_taps if cubic else _linear_taps)(places, length)
            old = weighted(node.constants, old, axis, taps, shares)
        return old

    return apply


for _spatial in (1, 2, 3):
    operator(f"upsample_nearest{_spatial}d")(_nearest(False))
    operator(f"_upsample_nearest_exact{_spatial}d")(_nearest(True))
for _name in ("linear1d", "bilinear2d", "trilinear3d"):
    operator(f"upsample_{_name}")(_weighted(False))
operator("upsample_bicubic2d")(_weighted(True))
