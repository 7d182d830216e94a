"""Images brought to another size."""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import relayout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.known import pick
from glenside.frontends.lowering.phrases import add, mul
from glenside.frontends.refusal import Refused
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders

Array = np.ndarray[Any, Any]


@operator("image.resize2d")
def resize2d(
    constants: Constants,
    x: Term,
    size: Ints,
    *,
    roi: object,
    layout: str,
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
    cubic_exclude: int,
    extrapolation_value: float,
    out_dtype: str | None,
) -> Term:
    """Each pixel from the nearest one, or from the two nearest along each axis."""
    # A region of interest and what lies outside it belong to a mode that is refused below.
    del roi, extrapolation_value, cubic_alpha, cubic_exclude
    if method not in ("nearest_neighbor", "linear"):
        raise Refused(f"attribute method {method} is not supported; nearest_neighbor, linear are")
    x = relayout(x, layout, "NCHW")
    if len(size) != 2 or min((*size, *x.shape[2:])) < 1:
        raise ShapeError(f"size {list(size)} must be two lengths, at least 1")
    dtype = dtype_of(out_dtype, x.dtype)
    for axis, length in ((2, size[0]), (3, size[1])):
        places = _coordinates(coordinate_transformation_mode, x.shape[axis], length)
        if method == "linear":
            x = _between(constants, x, places, axis)
        else:
            nearest = _rounded(places, coordinate_transformation_mode, rounding_method)
            inside = np.clip(nearest, 0, x.shape[axis] - 1).astype(int)
            x = pick(constants, x, inside.tolist(), axis)
    return relayout(builders.cast(x, dtype), "NCHW", layout)


def _coordinates(mode: str, old: int, new: int) -> Array:
    """Where, in the old image, the pixels of the new one lie."""
    position, scale = np.arange(new), old / new
    match mode:
        case "half_pixel":
            return (position + 0.5) * scale - 0.5
        case "pytorch_half_pixel":
            return (position + 0.5) * scale - 0.5 if new > 1 else np.zeros(1)
        case "align_corners":
            return position * ((old - 1) / (new - 1)) if new > 1 else np.zeros(1)
        case "asymmetric":
            return position * scale
    raise Refused(
        f"attribute coordinate_transformation_mode {mode} is not supported; half_pixel, "
        "pytorch_half_pixel, align_corners and asymmetric are"
    )


def _rounded(places: Array, mode: str, method: str) -> Array:
    # TVM nudges what was computed a little below an integer.
    nudge = 1e-5
    match method or ("round" if mode == "align_corners" else "floor"):
        case "round":
            return np.rint(places)
        case "round_prefer_floor":
            return np.ceil(places - 0.5)
        case "round_prefer_ceil":
            return np.floor(places + 0.5)
        case "floor":
            return np.floor(places + nudge)
        case "ceil":
            return np.ceil(places - nudge)
    raise Refused(f"attribute rounding_method {method} is not supported")


def _between(constants: Constants, x: Term, places: Array, axis: int) -> Term:
    """Along one axis, the weighted mean of the pixels before and after each place."""
    last = x.shape[axis] - 1
    low = np.floor(places)
    share = (places - low).astype(x.dtype)
    before = pick(constants, x, np.clip(low, 0, last).astype(int).tolist(), axis)
    if not share.any():
        return before
    after = pick(constants, x, np.clip(low + 1, 0, last).astype(int).tolist(), axis)
    column = (-1,) + (1,) * (x.type.rank - axis - 1)
    near = constants.parameter((1 - share).reshape(column), "near")
    far = constants.parameter(share.reshape(column), "far")
    return add(mul(before, near), mul(after, far))
