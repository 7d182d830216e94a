"""Operators of detectors, and those that look into images at computed places."""

from __future__ import annotations

import math

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.kinds import Floats, Ints
from glenside.frontends.lowering import boxes
from glenside.frontends.lowering.axes import relayout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.known import number_of
from glenside.frontends.lowering.phrases import (
    add,
    elementwise,
    like,
    maximum,
    minimum,
    mul,
    reduce,
    reshape,
    select,
    sub,
    transpose,
)
from glenside.frontends.lowering.sampling import Tap, grid_taps, look_up, region_values
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import Term, builders
from glenside.language.builders import access
from glenside.language.shape import lowest


@operator("vision.multibox_prior")
def multibox_prior(
    constants: Constants,
    x: Term,
    *,
    sizes: Floats = (1.0,),
    ratios: Floats = (1.0,),
    steps: Floats = (-1.0, -1.0),
    offsets: Floats = (0.5, 0.5),
    clip: bool = False,
) -> Term:
    """Anchor boxes of every position of a feature map."""
    if x.type.rank != 4 or not min(x.shape[2:]):
        raise ShapeError(f"data of shape {x.shape} is no feature map")
    return boxes.anchors(
        constants, x.shape[2], x.shape[3], sizes, ratios, steps, offsets, clip, x.dtype
    )


@operator("vision.multibox_transform_loc")
def multibox_transform_loc(
    constants: Constants,
    scores: Term,
    locations: Term,
    anchor: Term,
    *,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Floats = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> Value:
    """Rows (class, score, corners) of the boxes that show something, and how many there are.

    Class 0, the background, counts for nothing and the others from 0. Rows behind are -1.
    """
    if keep_background:
        raise Refused("attribute keep_background True is not supported")
    batch, count = scores.shape[0], scores.shape[-1]
    fits = scores.type.rank == 3 and scores.shape[1] > 1 and anchor.shape == (1, count, 4)
    if not fits or locations.shape != (batch, 4 * count) or len(variances) != 4:
        raise ShapeError(
            f"scores {scores.shape}, locations {locations.shape} and anchors {anchor.shape} do "
            "not fit"
        )
    foreground = builders.slice_(scores, 1, 1, scores.shape[1])
    best = reduce("max", foreground, [1], False)
    moved = transpose(foreground, (0, 2, 1))
    kind = builders.cast(builders.compute("argmax", access(moved, 2)), scores.dtype)
    # What is not above -1 was never looked at.
    held = elementwise(
        "and",
        elementwise("greater_equal", best, like(best, threshold)),
        elementwise("greater", best, like(best, -1)),
    )
    corners = boxes.decoded(reshape(locations, (batch, count, 4)), anchor, variances, clip)
    head = boxes.columns([kind, best])
    whole = builders.concat(2, head, corners)
    (rows,) = boxes.compacted(constants, held, whole)
    return rows, boxes.counted(held)


@operator("vision.get_valid_counts")
def get_valid_counts(
    constants: Constants,
    x: Term,
    threshold: Term | None = None,
    *,
    score_threshold: float | None = None,
    id_index: int = 0,
    score_index: int = 1,
) -> Value:
    """How many boxes have a score above the threshold; these come first, with their positions."""
    least = score_threshold or 0.0
    if threshold is not None:
        least = number_of(constants, threshold, "score_threshold")
    if x.type.rank != 3:
        raise ShapeError(f"data of shape {x.shape} must be (batch, boxes, entries)")
    score = boxes.column(x, score_index)
    held = elementwise("greater", score, like(score, least))
    if id_index >= 0:
        kind = boxes.column(x, id_index)
        held = elementwise("and", held, elementwise("greater_equal", kind, like(kind, 0)))
    numbers = np.broadcast_to(np.arange(x.shape[1], dtype="int32"), x.shape[:2])
    places = constants.parameter(np.ascontiguousarray(numbers), "numbers")
    rows, indices = boxes.compacted(constants, held, x, places)
    return boxes.counted(held), rows, indices


@operator("vision.non_max_suppression")
def non_max_suppression(
    constants: Constants,
    x: Term,
    valid_count: Term,
    indices: Term,
    most: Term | None = None,
    overlap: Term | None = None,
    *,
    max_output_size: int = -1,
    iou_threshold: float = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Value:
    """Boxes by score, those dropped that overlap a better one; -1 where a row is dropped.

    With ``return_indices`` the numbers of those that remain, first, and how many they are.
    """
    batch, count = x.shape[:2]
    if x.type.rank != 3 or valid_count.shape != (batch,) or indices.shape != (batch, count):
        raise ShapeError(
            f"data {x.shape}, valid_count {valid_count.shape} and indices {indices.shape} do not "
            "fit"
        )
    limit = max_output_size if most is None else int(number_of(constants, most, "max_output_size"))
    if overlap is not None:
        iou_threshold = number_of(constants, overlap, "iou_threshold")
    if iou_threshold <= 0:
        raise Refused("attribute iou_threshold must be positive")
    ordered, order, remain = boxes.suppressed(
        constants,
        x,
        valid_count,
        most=limit,
        threshold=iou_threshold,
        any_class=force_suppress,
        top_k=top_k,
        coordinates=coord_start,
        score_at=score_index,
        class_at=id_index,
    )
    if return_indices:
        numbers = builders.cast(boxes.rows(constants, indices, order), "int32")
        (found,) = boxes.compacted(constants, remain, numbers)
        total = builders.unsqueeze(boxes.counted(remain), 1)
        return boxes.padded_rows(found, count), total
    kept = select(builders.unsqueeze(remain, 2), ordered, -1)
    if invalid_to_bottom:
        first = boxes.column(kept, 0)
        held = elementwise("greater_equal", first, like(first, 0))
        (kept,) = boxes.compacted(constants, held, kept)
    return boxes.padded_rows(kept, count)


@operator("vision.all_class_non_max_suppression")
def all_class_non_max_suppression(
    constants: Constants,
    corners: Term,
    scores: Term,
    most: Term | None = None,
    overlap: Term | None = None,
    least: Term | None = None,
    *,
    output_format: str = "onnx",
) -> Value:
    """Numbers (batch, class, box) of the boxes that remain for each class, and how many they are.

    Rows behind them are 0.
    """
    if output_format != "onnx":
        raise Refused(f"attribute output_format {output_format} is not supported; onnx is")
    batch, _, count = scores.shape if scores.type.rank == 3 else (0, 0, 0)
    if corners.shape != (batch, count, 4):
        raise ShapeError(f"boxes {corners.shape} and scores {scores.shape} do not fit")
    limit = -1 if most is None else int(number_of(constants, most, "max_output_boxes_per_class"))
    close = 0.0 if overlap is None else number_of(constants, overlap, "iou_threshold")
    floor = 0.0 if least is None else number_of(constants, least, "score_threshold")
    return boxes.by_class(constants, corners, scores, limit, close, floor)


@operator("vision.yolo_reorg")
def yolo_reorg(x: Term, *, stride: int) -> Term:
    """Darknet's reorganisation: blocks of pixels become channels, in that network's own order."""
    n, c, h, w = x.shape if x.type.rank == 4 else (0, 0, 0, 0)
    s = stride
    if s < 1 or not c or c % s**2 or h % s or w % s:
        raise ShapeError(f"stride {stride} does not fit shape {x.shape}")
    apart = reshape(x, (n, c // s**2, h, s, w, s))
    return reshape(transpose(apart, (0, 3, 5, 1, 2, 4)), (n, c * s**2, h // s, w // s))


# --- regions ------------------------------------------------------------------------------------


def _regions(rois: Term) -> tuple[Term, Term]:
    """Numbers of images (R) and corners (R, 4) of regions."""
    if rois.type.rank != 2 or rois.shape[1] != 5:
        raise ShapeError(f"rois of shape {rois.shape} must be (regions, 5)")
    return builders.cast(boxes.column(rois, 0), "int64"), builders.slice_(rois, 1, 1, 5)


def _pooled(size: Ints | int) -> Ints:
    pair = (size, size) if isinstance(size, int) else size
    if len(pair) != 2 or min(pair) < 1:
        raise ShapeError(f"pooled_size {list(pair)} must be two lengths, at least 1")
    return pair


@operator("vision.roi_align")
def roi_align(
    constants: Constants,
    x: Term,
    rois: Term,
    *,
    pooled_size: Ints | int,
    spatial_scale: float,
    sample_ratio: int = -1,
    layout: str = "NCHW",
    mode: str | int = "avg",
) -> Term:
    """Means (or maxima) of interpolated samples in the cells of regions."""
    if sample_ratio < 1:
        raise Refused(
            f"attribute sample_ratio {sample_ratio}, as many samples as a region is large, is not "
            "supported; positive numbers are"
        )
    modes: dict[object, str] = {"avg": "mean", 0: "mean", "max": "max", 1: "max"}
    if mode not in modes:
        raise Refused(f"attribute mode {mode} is not supported; avg and max are")
    batches, corners = _regions(rois)
    x = relayout(x, layout, "NCHW")
    out = _pooled(pooled_size)
    corner = mul(corners, spatial_scale)
    seen = region_values(constants, x, corner, batches, out, sample_ratio, 1.0)
    return relayout(reduce(modes[mode], seen, [4, 5], False), "NCHW", layout)


@operator("vision.roi_pool")
def roi_pool(
    constants: Constants,
    x: Term,
    rois: Term,
    *,
    pooled_size: Ints | int,
    spatial_scale: float,
    layout: str = "NCHW",
) -> Term:
    """Maxima of the pixels in the cells of regions; an empty cell gives 0."""
    batches, corners = _regions(rois)
    x = relayout(x, layout, "NCHW")
    ends = elementwise("floor", add(mul(corners, spatial_scale), 0.5))
    seen = builders.gather(x, batches, 0)
    empty: list[Term] = []
    for axis, count in enumerate(_pooled(pooled_size)):
        length = x.shape[2 + axis]
        first, last = (boxes.column(ends, at) for at in (1 - axis, 3 - axis))
        extent = maximum(add(sub(last, first), 1), 1)
        cell = builders.unsqueeze(mul(extent, 1 / count), 1)
        start = builders.unsqueeze(first, 1)
        low, high = (
            minimum(maximum(add(elementwise(how, mul(cell, number)), start), 0), length)
            for how, number in (
                ("floor", constants.parameter(np.arange(count, dtype=rois.dtype)[None], "cells")),
                ("ceil", constants.parameter(np.arange(1, count + 1).astype(rois.dtype)[None],
                                             "cells")),
            )
        )  # fmt: skip
        empty.append(elementwise("less_equal", high, low))
        place = constants.parameter(np.arange(length, dtype=rois.dtype), "pixels")
        inside = elementwise(
            "and",
            elementwise("less_equal", builders.unsqueeze(low, 2), place),
            elementwise("less", place, builders.unsqueeze(high, 2)),
        )
        # (R, C, done..., n, rest...) with a mask (R, count, n), reduced over n.
        where = 2 + axis
        spot = [1] * (x.type.rank + 1)
        spot[0], spot[where], spot[where + 1] = inside.shape
        masked = select(reshape(inside, spot), builders.unsqueeze(seen, where), lowest(x.dtype))
        seen = reduce("max", masked, [where + 1], False)
    none = elementwise("or", builders.unsqueeze(empty[0], 2), builders.unsqueeze(empty[1], 1))
    return relayout(select(builders.unsqueeze(none, 1), 0, seen), "NCHW", layout)


# --- images -------------------------------------------------------------------------------------


@operator("image.crop_and_resize")
def crop_and_resize(
    constants: Constants,
    x: Term,
    corners: Term,
    box_indices: Term,
    *,
    crop_size: Ints,
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Term:
    """Boxes (top, left, bottom, right, in parts of the image) of images, brought to one size."""
    if method not in ("bilinear", "nearest_neighbor"):
        raise Refused(f"attribute method {method} is not supported; bilinear, nearest_neighbor are")
    dtype = dtype_of(out_dtype, x.dtype)
    x = relayout(x, layout, "NCHW")
    count = corners.shape[0]
    if len(crop_size) != 2 or min(crop_size) < 1 or corners.shape != (count, 4):
        raise ShapeError(f"boxes {corners.shape} and crop_size {list(crop_size)} do not fit")
    x = builders.cast(x, "float64" if x.dtype == "float64" else "float32")
    corners = builders.cast(corners, x.dtype)
    taps: list[list[Tap]] = []
    inside: Term | None = None
    for axis, new in enumerate(crop_size):
        length = x.shape[2 + axis]
        first, last = (boxes.column(corners, at) for at in (axis, axis + 2))
        shares = np.linspace(0, 1, new) if new > 1 else np.array([0.5])
        along = constants.parameter(shares.astype(x.dtype).reshape(1, -1), "steps")
        extent = builders.unsqueeze(sub(last, first), 1)
        place = mul(add(builders.unsqueeze(first, 1), mul(extent, along)), length - 1)
        place = builders.unsqueeze(place, 2 - axis)
        held = elementwise(
            "and",
            elementwise("greater_equal", place, like(place, 0)),
            elementwise("less_equal", place, like(place, length - 1)),
        )
        inside = held if inside is None else elementwise("and", inside, held)
        safe = select(held, place, 0)
        if method == "nearest_neighbor":
            taps.append([(elementwise("round", safe), None, None)])
            continue
        low = elementwise("floor", safe)
        part = sub(safe, low)
        high = minimum(add(low, 1), length - 1)
        taps.append([(low, sub(like(part, 1), part), None), (high, part, None)])
    assert inside is not None
    area, channels = math.prod(x.shape[2:]), x.shape[1]
    start = mul(reshape(builders.cast(box_indices, "int64"), (count, 1)), channels * area)
    planes = constants.parameter(np.arange(channels).reshape(1, -1) * area, "planes")
    base = reshape(add(start, planes), (count, channels, 1, 1))
    seen = look_up(x, base, taps, 1)
    result = select(builders.unsqueeze(inside, 1), seen, extrapolation_value)
    return relayout(builders.cast(result, dtype), "NCHW", layout)


@operator("image.grid_sample")
def grid_sample(
    constants: Constants,
    x: Term,
    grid: Term,
    *,
    method: str = "bilinear",
    layout: str = "",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Term:
    """Samples at places (N, axes, ...) between -1 and 1, the last axis of the image first."""
    rank = x.type.rank - 2
    form = {2: "NCHW", 3: "NCDHW"}.get(rank, "")
    x = relayout(x, layout or form, form)
    if grid.shape[:2] != (x.shape[0], rank) or grid.type.rank != rank + 2:
        raise ShapeError(f"a grid of shape {grid.shape} does not fit data of shape {x.shape}")
    modes = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    if method not in modes:
        raise Refused(f"attribute method {method} is not supported; {', '.join(modes)} are")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise Refused(
            f"attribute padding_mode {padding_mode} is not supported; zeros, border, reflection are"
        )
    taps = []
    for axis, length in enumerate(x.shape[2:]):
        at = rank - 1 - axis
        along = builders.squeeze(builders.slice_(grid, 1, at, at + 1), 1)
        taps.append(grid_taps(along, length, modes[method], padding_mode, align_corners))
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2] + (1,) * rank)
    base = constants.parameter(planes * math.prod(x.shape[2:]), "planes")
    return relayout(look_up(x, base, taps, 1), form, layout or form)


@operator("image.affine_grid")
def affine_grid(constants: Constants, x: Term, *, target_shape: Ints | None = None) -> Term:
    """Where a transformation (B, 2, 3) puts the places of a grid from -1 to 1."""
    if target_shape is None or len(target_shape) != 2 or min(target_shape) < 2:
        raise ShapeError("target_shape must be two lengths, at least 2")
    if x.type.rank != 3 or x.shape[1:] != (2, 3):
        raise ShapeError(f"transformations of shape {x.shape} must be (batch, 2, 3)")
    height, width = target_shape
    down, right = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    places = np.stack([right, down, np.ones_like(right)], -1).astype(x.dtype)
    rows = constants.parameter(places.reshape(-1, 3), "grid")
    product = builders.compute("dot", builders.cart_prod(access(x, 2), access(rows, 1)))
    return reshape(product, (x.shape[0], 2, height, width))
