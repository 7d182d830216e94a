"""Boxes of detectors: anchors, decoding, selection by score, suppression by overlap.

Everything has a fixed shape: what is selected comes first, and what is behind it is filled with -1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.constants import Arrays
from glenside.frontends.lowering.ordering import best_places
from glenside.frontends.lowering.phrases import (
    add,
    div,
    elementwise,
    like,
    maximum,
    minimum,
    mul,
    reduce,
    reshape,
    select,
    sub,
)
from glenside.frontends.lowering.running import running
from glenside.frontends.refusal import Refused
from glenside.language import Term, builders

MOST_SUPPRESSORS = 1024
"""Boxes that may suppress others: each is a step of the program, taken after those before it."""


def anchors(
    arrays: Arrays,
    height: int,
    width: int,
    sizes: Sequence[float],
    ratios: Sequence[float],
    strides: Sequence[float],
    offsets: Sequence[float],
    clip: bool,
    dtype: str,
) -> Term:
    """Prior boxes (1, height * width * count, 4) of a feature map: left, top, right, bottom.

    Every position has a box of the first ratio for each size and one of the first size for each
    further ratio. ``strides`` and ``offsets`` are vertical first; a stride below 0 is that of the
    map.
    """
    if not sizes or not ratios or len(strides) != 2 or len(offsets) != 2 or min(ratios) <= 0:
        raise ShapeError("sizes and positive ratios, two steps and two offsets are needed")
    step_y = strides[0] if strides[0] > 0 else 1 / height
    step_x = strides[1] if strides[1] > 0 else 1 / width
    shapes = [(size, 1.0) for size in sizes] + [(sizes[0], math.sqrt(r)) for r in ratios[1:]]
    half = np.array([(size * height / width * root / 2, size / root / 2) for size, root in shapes])
    y = (np.arange(height) + offsets[0]) * step_y
    x = (np.arange(width) + offsets[1]) * step_x
    centre = np.stack(np.broadcast_arrays(x[None, :], y[:, None]), -1)[:, :, None, :]
    boxes = np.concatenate([centre - half, centre + half], -1).reshape(1, -1, 4)
    if clip:
        boxes = np.clip(boxes, 0, 1)
    return arrays.parameter(boxes.astype(dtype), "anchors")


def column(x: Term, at: int) -> Term:
    """One entry of the last axis, which goes."""
    last = x.type.rank - 1
    if not 0 <= at < x.shape[last]:
        raise ShapeError(f"rows of {x.shape[last]} entries have none numbered {at}")
    return builders.squeeze(builders.slice_(x, last, at, at + 1), last)


def columns(parts: Sequence[Term]) -> Term:
    """Tensors side by side along a new last axis."""
    last = parts[0].type.rank
    return builders.concat(last, *(builders.unsqueeze(part, last) for part in parts))


def decoded(locations: Term, boxes: Term, variances: Sequence[float], clip: bool) -> Term:
    """Anchors (1, N, 4) moved and stretched by predictions (B, N, 4)."""
    left, top, right, bottom = (column(boxes, i) for i in range(4))
    x, y, w, h = (mul(column(locations, i), variances[i]) for i in range(4))
    wide, high = sub(right, left), sub(bottom, top)
    centre_x = add(mul(x, wide), div(add(left, right), 2))
    centre_y = add(mul(y, high), div(add(top, bottom), 2))
    half_w = div(mul(elementwise("exp", w), wide), 2)
    half_h = div(mul(elementwise("exp", h), high), 2)
    edges = [
        sub(centre_x, half_w),
        sub(centre_y, half_h),
        add(centre_x, half_w),
        add(centre_y, half_h),
    ]
    if clip:
        edges = [maximum(minimum(edge, 1), 0) for edge in edges]
    return columns(edges)


def counted(held: Term) -> Term:
    """How many of the last axis hold, as int32."""
    return reduce("sum", builders.cast(held, "int32"), [held.type.rank - 1], False)


def compacted(arrays: Arrays, held: Term, *values: Term) -> list[Term]:
    """The rows (B, N, ...) that ``held`` (B, N) marks, first and in order; -1 behind them."""
    count = held.shape[1]
    order = best_places(arrays, builders.cast(held, "int8"), 1, count, True)
    behind = _below(arrays, counted(held), count)
    return [_filled(behind, rows(arrays, each, order)) for each in values]


def _below(arrays: Arrays, counts: Term, length: int) -> Term:
    """Which of ``length`` positions are below the count (B) of their batch."""
    places = arrays.parameter(np.arange(length, dtype="int64").reshape(1, -1), "places")
    return elementwise("less", places, builders.unsqueeze(builders.cast(counts, "int64"), 1))


def _filled(held: Term, x: Term) -> Term:
    """``x`` (B, N, ...) where ``held`` (B, N), else -1."""
    for _ in range(x.type.rank - 2):
        held = builders.unsqueeze(held, held.type.rank)
    return select(held, x, -1)


def rows(arrays: Arrays, x: Term, places: Term) -> Term:
    """``x[b, places[b, i]]`` for (B, N, ...) and (B, M)."""
    batch, count, *rest = x.shape
    flat = reshape(x, (batch * count, *rest))
    starts = arrays.parameter(np.arange(batch).reshape(-1, 1) * count, "starts")
    return builders.gather(flat, add(builders.cast(places, "int64"), starts), 0)


def overlaps(boxes: Term) -> Term:
    """Intersection over union of each two boxes: (B, N, 4) to (B, N, N).

    Corners may come in any order; boxes without area overlap nothing.
    """
    first, second = (_lesser(column(boxes, i), column(boxes, i + 2)) for i in (0, 1))
    third, fourth = (_greater(column(boxes, i), column(boxes, i + 2)) for i in (0, 1))
    area = mul(sub(third, first), sub(fourth, second))

    def pairs(term: Term) -> tuple[Term, Term]:
        return builders.unsqueeze(term, 2), builders.unsqueeze(term, 1)

    width = elementwise("relu", sub(_lesser(*pairs(third)), _greater(*pairs(first))))
    height = elementwise("relu", sub(_lesser(*pairs(fourth)), _greater(*pairs(second))))
    common = mul(width, height)
    union = sub(add(*pairs(area)), common)
    positive = elementwise("greater", union, like(union, 0))
    return select(positive, div(common, select(positive, union, 1)), 0)


def _lesser(a: Term, b: Term) -> Term:
    # Chosen, not a minimum: nested ones are slow to compile.
    return select(elementwise("less", a, b), a, b)


def _greater(a: Term, b: Term) -> Term:
    return select(elementwise("greater", a, b), a, b)


def survivors(arrays: Arrays, candidates: Term, suppresses: Term) -> Term:
    """Which candidates (B, N), best first, no surviving one before them suppresses.

    ``suppresses`` (B, N, N) says for each two whether the first, if it survives, takes the second
    away.
    """
    count = candidates.shape[1]
    if count > MOST_SUPPRESSORS:
        raise Refused(
            f"{count} boxes are too many to suppress each other: up to {MOST_SUPPRESSORS} are "
            "steps of the program; top_k bounds them"
        )
    later = arrays.parameter(np.triu(np.ones((count, count), bool), 1), "later")
    taken = builders.cast(elementwise("and", suppresses, later), "float32")
    alive = builders.cast(candidates, "float32")
    for i in range(count - 1):
        mine = builders.slice_(alive, 1, i, i + 1)
        against = builders.squeeze(builders.slice_(taken, 1, i, i + 1), 1)
        # All are 0 or 1. A minimum would say the same, but nested ones are slow to compile.
        alive = sub(alive, mul(alive, mul(mine, against)))
    return elementwise("equal", alive, like(alive, 1))


def suppressed(
    arrays: Arrays,
    data: Term,
    counts: Term,
    *,
    most: int,
    threshold: float,
    any_class: bool,
    top_k: int,
    coordinates: int,
    score_at: int,
    class_at: int,
) -> tuple[Term, Term, Term]:
    """The first ``counts`` rows of each batch of (B, N, L) by score, those that overlap dropped.

    :param most: how many may remain; any number if negative.
    :param threshold: the overlap from which on the better box drops the other.
    :param any_class: whether boxes of different classes drop each other.
    :param top_k: how many take part at all; all if it is not positive.
    :param coordinates: where in a row the four corners begin.
    :param class_at: where in a row its class stands; negative if there is none.
    :returns: rows (B, K, L) in order, where they stood (B, K), which of them remain (B, K).
    """
    count = data.shape[1]
    kept = min(count, top_k) if top_k > 0 else count
    inside = _below(arrays, counts, count)
    score = column(data, score_at)
    order = best_places(arrays, select(inside, score, -math.inf), 1, kept, True)
    ordered = rows(arrays, data, order)
    inside = _below(arrays, counts, kept)
    score = column(ordered, score_at)
    candidates = elementwise("and", inside, elementwise("greater", score, like(score, 0)))
    corners = builders.slice_(ordered, 2, coordinates, coordinates + 4)
    common = overlaps(corners)
    close = elementwise("greater_equal", common, like(common, threshold))
    if class_at >= 0:
        kind = column(ordered, class_at)
        mine, other = builders.unsqueeze(kind, 2), builders.unsqueeze(kind, 1)
        close = elementwise("and", close, elementwise("greater_equal", mine, like(mine, 0)))
        if not any_class:
            close = elementwise("and", close, elementwise("equal", mine, other))
    best = survivors(arrays, candidates, close)
    # Rows without a positive score neither drop others nor are dropped.
    remain = elementwise("or", best, elementwise("and", inside, elementwise("not", candidates)))
    if most >= 0:
        before = running(builders.cast(best, "int32"), 1, False, True, False)
        remain = elementwise("and", remain, elementwise("less", before, like(before, most)))
    return ordered, order, remain


def padded_rows(x: Term, count: int) -> Term:
    """``x`` (B, K, ...) with rows of -1 behind, ``count`` in all."""
    return builders.pad(x, 1, 0, count - x.shape[1], -1)


def by_class(
    arrays: Arrays,
    corners: Term,
    scores: Term,
    most: int,
    threshold: float,
    least: float,
) -> tuple[Term, Term]:
    """Suppression for every class by itself: (B, N, 4) and (B, C, N) to (B * C * N, 3) and (1).

    The rows, which name batch, class and box, are ordered by batch, class and score; behind those
    that remain they are 0.
    """
    batch, kinds, count = scores.shape
    flat = reshape(scores, (batch * kinds, count))
    order = best_places(arrays, flat, 1, count, True)
    score = rows(arrays, flat, order)
    images = arrays.parameter(np.arange(batch * kinds) // kinds, "images")
    ordered = rows(arrays, builders.gather(corners, images, 0), order)
    common = overlaps(ordered)
    close = elementwise("greater_equal", common, like(common, threshold))
    candidates = elementwise("greater", score, like(score, least))
    remain = survivors(arrays, candidates, close)
    if most >= 0:
        before = running(builders.cast(remain, "int32"), 1, False, True, False)
        remain = elementwise("and", remain, elementwise("less", before, like(before, most)))
    group = np.repeat(np.arange(batch * kinds), count)
    named = arrays.parameter(np.stack([group // kinds, group % kinds], 1), "groups")
    whole = builders.concat(1, named, reshape(order, (batch * kinds * count, 1)))
    held = reshape(remain, (1, batch * kinds * count))
    (found,) = compacted(arrays, held, builders.unsqueeze(whole, 0))
    total = builders.cast(counted(held), "int64")
    return maximum(builders.squeeze(found, 0), 0), total
