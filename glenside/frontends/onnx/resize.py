"""Resize: one axis after the other, every output a weighted sum of a few inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.frontends.lowering.phrases import (
    add,
    dot,
    elementwise,
    maximum,
    minimum,
    mul,
    select,
    to_end,
    transpose,
)
from glenside.frontends.onnx.node import Array, Node, operator
from glenside.frontends.onnx.shape_ops import take
from glenside.language import Term, builders
from glenside.language.builders import access
from glenside.language.shape import FLOATS

MOST_TAPS = 4
"""Inputs an output may be gathered from; beyond it a matrix says how they are weighted."""


@dataclass(frozen=True)
class _Method:
    """How coordinates are mapped and inputs weighted."""

    mode: str
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    antialias: bool = False
    inside_only: bool = False
    outside: float = 0.0


@dataclass(frozen=True)
class _Axis:
    """What becomes of one axis: its scale, its new length and the part of it that is seen."""

    axis: int
    scale: float
    length: int
    start: float = 0.0
    end: float = 1.0


@operator("Resize")
def _resize(node: Node) -> Term:
    x = node[0]
    mode = node.attributes.choice("mode", "nearest", "linear", "cubic")
    if node.opset < 11:
        method = _Method(mode, "asymmetric", "simple")
        return _apply(node, x, _by_scales(node, x, node.array(1, "scales"), None), method)
    method = _Method(
        mode,
        node.attributes.choice(
            "coordinate_transformation_mode", "half_pixel", "half_pixel_symmetric",
            "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
            "tf_half_pixel_for_nn",  # ONNX dropped it in opset 13, onnxruntime did not.
        ),
        node.attributes.choice(
            "nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"
        ),
        node.attributes.real("cubic_coeff_a", -0.75),
        node.attributes.flag("antialias"),
        node.attributes.flag("exclude_outside"),
        node.attributes.real("extrapolation_value", 0.0),
    )  # fmt: skip
    policy = node.attributes.choice(
        "keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller"
    )
    axes = node.axes(node.attributes.integers("axes") or range(x.type.rank), x.type.rank)
    roi: Array | None = None
    if method.coordinates == "tf_crop_and_resize":
        roi = node.array(1, "roi")
        if roi.shape != (2 * len(axes),):
            raise node.error(f"roi needs {2 * len(axes)} entries, got shape {roi.shape}")
    if node.get(2) is not None and node[2].type.size:
        changes = _by_scales(node, x, node.array(2, "scales"), roi, axes)
    elif node.get(3) is not None:
        changes = _by_sizes(node, x, node.ints(3, "sizes"), roi, axes, policy)
    else:
        raise node.error("takes scales or sizes")
    return _apply(node, x, changes, method)


@operator("Upsample")
def _upsample(node: Node) -> Term:
    x = node[0]
    mode = node.attributes.choice("mode", "nearest", "linear", "bilinear")
    scales: Any = node.attributes.reals("scales") if node.opset < 9 else node.array(1, "scales")
    if scales is None:
        raise node.error("attribute scales is missing")
    method = _Method("nearest" if mode == "nearest" else "linear", "asymmetric", "simple")
    return _apply(node, x, _by_scales(node, x, np.asarray(scales), None), method)


def _by_scales(
    node: Node, x: Term, scales: Array, roi: Array | None, axes: Sequence[int] | None = None
) -> list[_Axis]:
    axes = range(x.type.rank) if axes is None else axes
    if scales.shape != (len(axes),) or not np.all(scales > 0) or not np.all(np.isfinite(scales)):
        raise node.error(f"scales must be {len(axes)} positive numbers, got {scales.tolist()}")
    changes = []
    for i, axis in enumerate(axes):
        scale = float(scales[i])
        # In float32, as everybody does it: 3 * 0.6666667 is 2, not 2.0000001.
        node.check_size(float(x.shape[axis]) * scale, "scales")
        length = math.floor(np.float32(x.shape[axis]) * np.float32(scale))
        changes.append(_Axis(axis, scale, length, *_seen(roi, i)))
    return changes


def _by_sizes(
    node: Node,
    x: Term,
    sizes: Sequence[int],
    roi: Array | None,
    axes: Sequence[int],
    policy: str,
) -> list[_Axis]:
    if len(sizes) != len(axes) or min(sizes, default=0) < 0 or any(not x.shape[a] for a in axes):
        raise node.error(f"sizes {list(sizes)} do not fit data of shape {x.shape}")
    node.check_size(max(sizes, default=0), "sizes")
    scales = [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    if policy != "stretch":
        common = min(scales) if policy == "not_larger" else max(scales)
        scales = [common] * len(axes)
        sizes = [int(common * x.shape[axis] + 0.5) for axis in axes]
        node.check_size(max(sizes, default=0), "sizes")
    return [
        _Axis(axis, scale, size, *_seen(roi, i))
        for i, (axis, scale, size) in enumerate(zip(axes, scales, sizes, strict=True))
    ]


def _seen(roi: Array | None, i: int) -> tuple[float, float]:
    return (0.0, 1.0) if roi is None else (float(roi[i]), float(roi[i + len(roi) // 2]))


def _apply(node: Node, x: Term, changes: list[_Axis], method: _Method) -> Term:
    dtype = x.dtype
    whole_shape = list(x.shape)
    for change in changes:
        whole_shape[change.axis] = change.length
    if not math.prod(whole_shape):
        return builders.constant(0, whole_shape, dtype)
    work = x if method.mode == "nearest" else builders.cast(x, _exact(dtype))
    beyond: list[tuple[int, Array]] = []
    for change in changes:
        whole = (change.start, change.end) == (0.0, 1.0)
        if change.length == work.shape[change.axis] and change.scale == 1.0 and whole:
            continue
        if not work.shape[change.axis]:
            raise node.error(f"axis {change.axis} of shape {x.shape} is empty")
        where = _coordinates(change, work.shape[change.axis], method)
        if method.coordinates == "tf_crop_and_resize":
            outside = (where < 0) | (where > work.shape[change.axis] - 1)
            if outside.any():
                beyond.append((change.axis, outside))
        work = _resample(node, work, change, where, method)
    for axis, outside in beyond:
        shape = [-1 if each == axis else 1 for each in range(work.type.rank)]
        mask = node.parameter(outside.reshape(shape), "outside")
        work = select(mask, method.outside, work)
    if dtype not in FLOATS and work.dtype in FLOATS:
        limits = np.iinfo(dtype)
        rounded = elementwise("round", work)
        work = minimum(maximum(rounded, int(limits.min)), int(limits.max))
    return builders.cast(work, dtype)


def _exact(dtype: str) -> str:
    return dtype if dtype in ("float32", "float64") else "float32"


def _coordinates(change: _Axis, length: int, method: _Method) -> Array:
    """Where in the input each output stands, in positions of the input."""
    places = np.arange(change.length, dtype=np.float64)
    scale = change.scale
    whole = scale * length
    match method.coordinates:
        case "align_corners":
            if whole == 1:
                return np.zeros(change.length)
            return places * (length - 1) / (whole - 1)
        case "asymmetric":
            return places / scale
        case "tf_crop_and_resize":
            start, end = change.start, change.end
            if whole == 1:
                return np.full(change.length, (start + end) * (length - 1) / 2)
            steps = (end - start) * (length - 1) / (whole - 1)
            return start * (length - 1) + places * steps
        case "pytorch_half_pixel" if whole == 1:
            return np.full(change.length, -0.5)
        case "half_pixel_symmetric":
            return (places + 0.5) / scale - 0.5 + length / 2 * (1 - change.length / whole)
        case "tf_half_pixel_for_nn":
            return (places + 0.5) / scale
    return (places + 0.5) / scale - 0.5


def _nearest(where: Array, scale: float, how: str) -> Array:
    match how:
        case "floor":
            return np.floor(where)
        case "ceil":
            return np.ceil(where)
        case "round_prefer_ceil":
            return np.floor(where + 0.5)
        case "simple":
            return np.ceil(where) if scale < 1 else np.floor(where)
    return np.ceil(where - 0.5)


def _resample(node: Node, x: Term, change: _Axis, where: Array, method: _Method) -> Term:
    axis, length = change.axis, x.shape[change.axis]
    if method.mode == "nearest":
        places = np.clip(_nearest(where, change.scale, method.nearest), 0, length - 1)
        return take(node, x, places.astype(np.int64), axis)
    if change.length == 0:
        return builders.slice_(x, axis, 0, 0)
    taps, weights = _taps(where, min(change.scale, 1.0) if method.antialias else 1.0, method)
    if method.inside_only:
        weights = np.where((taps < 0) | (taps >= length), 0.0, weights)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    taps = np.clip(taps, 0, length - 1)
    if taps.shape[1] <= MOST_TAPS:
        shape = [-1 if each == axis else 1 for each in range(x.type.rank)]
        parts = []
        for i in range(taps.shape[1]):
            factor = node.parameter(weights[:, i].reshape(shape).astype(x.dtype), "weights")
            parts.append(mul(take(node, x, taps[:, i], axis), factor))
        total_term = parts[0]
        for part in parts[1:]:
            total_term = add(total_term, part)
        return total_term
    node.make_room((change.length, length), "the matrix of weights")
    matrix = np.zeros((change.length, length))
    np.add.at(matrix, (np.arange(change.length)[:, None], taps), weights)
    moved, inverse = to_end(x, [axis])
    by = node.parameter(matrix.astype(x.dtype), "weights")
    return transpose(dot(access(moved, x.type.rank - 1), access(by, 1)), inverse)


def _taps(where: Array, scale: float, method: _Method) -> tuple[Array, Array]:
    """Positions that each output looks at, and their weights; a scale below 1 widens the look."""
    reach = 1 if method.mode == "linear" else 2
    first = np.floor(where).astype(np.int64)
    span = math.ceil(reach / scale)
    taps = first[:, None] + np.arange(1 - span, span + 1)
    distance = np.abs(taps - where[:, None]) * scale
    if method.mode == "linear":
        weights = np.clip(1 - distance, 0, 1)
    else:
        a = method.cubic
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    if method.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return taps, weights
