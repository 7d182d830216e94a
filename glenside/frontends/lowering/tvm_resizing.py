"""Images brought to another size, as TVM's two languages, Relay and Relax, ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.axes import through_layout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.known import pick
from glenside.frontends.lowering.phrases import select
from glenside.frontends.lowering.resampling import cubic_taps, linear_taps, weighted
from glenside.frontends.refusal import Refused
from glenside.language import Term, builders

Array = np.ndarray[Any, Any]

_NUDGE = 1e-5
"""TVM takes what was computed a little beside an integer for that integer."""


@dataclass(frozen=True)
class Resizing:
    """How an image is resized; the fields are TVM's attributes."""

    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = ""
    cubic_alpha: float = -0.5
    cubic_exclude: bool = False
    extrapolation_value: float = 0.0
    roi: Sequence[float] = ()
    """First and last corner of what is seen, in parts of the image; in volumes the last axis comes
    first."""


def resize(
    constants: Constants,
    x: Term,
    form: str,
    layout: str,
    size: Sequence[int],
    how: Resizing,
    out_dtype: str | None = None,
) -> Term:
    """``x``, whose axes are in the order ``layout``, with its spatial axes of lengths ``size``.

    :param form: the channels-first layout of so many spatial axes, as ``NCHW``.
    """
    if how.method not in _TAPS and how.method != "nearest_neighbor":
        methods = ", ".join(("nearest_neighbor", *_TAPS))
        raise Refused(f"attribute method {how.method} is not supported; {methods} are")
    dtype = dtype_of(out_dtype, x.dtype)

    def work(x: Term) -> Term:
        spatial = x.shape[2:]
        if len(size) != len(spatial) or min((*size, *spatial)) < 1:
            raise ShapeError(f"size {list(size)} must be {len(spatial)} lengths, at least 1")
        if how.method != "nearest_neighbor" and x.dtype != "float64":
            x = builders.cast(x, "float32")
        outside = []
        for axis, (old, new) in enumerate(zip(spatial, size, strict=True), 2):
            places = _coordinates(how, len(spatial), axis, old, new)
            if how.coordinate_transformation_mode == "tf_crop_and_resize":
                outside.append((axis, (places < 0) | (places > old - 1)))
            if how.method == "nearest_neighbor":
                nearest = np.clip(_rounded(places, how), 0, old - 1).astype(int)
                x = pick(constants, x, nearest.tolist(), axis)
            else:
                x = weighted(constants, x, axis, *_TAPS[how.method](places, old, how))
        for axis, where in outside:
            if where.any():
                column = where.reshape((-1,) + (1,) * (x.type.rank - axis - 1))
                mask = constants.parameter(column, "outside")
                x = select(mask, how.extrapolation_value, x)
        return builders.cast(x, dtype)

    return through_layout(x, form, layout, "", work)


def _coordinates(how: Resizing, rank: int, axis: int, old: int, new: int) -> Array:
    """Where, in the old image, the pixels of the new one lie."""
    position, scale = np.arange(new), old / new
    match how.coordinate_transformation_mode:
        case "half_pixel":
            return (position + 0.5) * scale - 0.5
        case "pytorch_half_pixel":
            return (position + 0.5) * scale - 0.5 if new > 1 else np.zeros(1)
        case "align_corners":
            return position * ((old - 1) / (new - 1)) if new > 1 else np.zeros(1)
        case "asymmetric":
            return position * scale
        case "tf_half_pixel_for_nn":
            return (position + 0.5) * scale
        case "tf_crop_and_resize":
            if len(how.roi) != 2 * rank:
                raise ShapeError(f"roi {list(how.roi)} must have {2 * rank} entries")
            at = rank + 1 - axis if rank == 3 else axis - 2
            first, last = how.roi[at], how.roi[at + rank]
            if new == 1:
                return np.full(1, 0.5 * (first + last) * (old - 1))
            return first * (old - 1) + position * ((last - first) * (old - 1) / (new - 1))
    raise Refused(
        f"attribute coordinate_transformation_mode {how.coordinate_transformation_mode} is not "
        "supported; half_pixel, pytorch_half_pixel, align_corners, asymmetric, "
        "tf_half_pixel_for_nn and tf_crop_and_resize are"
    )


def _rounded(places: Array, how: Resizing) -> Array:
    corners = how.coordinate_transformation_mode == "align_corners"
    match how.rounding_method or ("round" if corners else "floor"):
        case "round":
            return np.rint(places)
        case "round_prefer_floor":
            return np.ceil(places - 0.5)
        case "round_prefer_ceil":
            return np.floor(places + 0.5)
        case "floor":
            return np.floor(places + _NUDGE)
        case "ceil":
            return np.ceil(places - _NUDGE)
    raise Refused(
        f"attribute rounding_method {how.rounding_method} is not supported; round, "
        "round_prefer_floor, round_prefer_ceil, floor and ceil are"
    )


def _linear(places: Array, length: int, how: Resizing) -> tuple[Array, Array]:
    return linear_taps(places, length)


def _cubic(places: Array, length: int, how: Resizing) -> tuple[Array, Array]:
    return cubic_taps(places, length, how.cubic_alpha, how.cubic_exclude)


_TAPS = {"linear": _linear, "cubic": _cubic}
