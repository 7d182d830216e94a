"""Weighted looks at computed places: what sampling grids, regions and deformed kernels share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from glenside.frontends.lowering.constants import Arrays
from glenside.frontends.lowering.phrases import (
    add,
    div,
    dot,
    elementwise,
    like,
    maximum,
    minimum,
    mul,
    reshape,
    select,
    sub,
    transpose,
)
from glenside.frontends.lowering.places import steps
from glenside.frontends.lowering.window import Window
from glenside.language import Term, builders
from glenside.language.builders import access

Tap = tuple[Term, Term | None, Term | None]
"""A position along one axis that a place looks at, its weight (None: 1), and where it lies on the
axis (None: everywhere). What does not is 0, whatever the element looked at instead may be."""


def look_up(x: Term, base: Term, taps: list[list[Tap]], channel_axis: int) -> Term:
    """Weighted sums of the elements of ``x`` at all combinations of taps along its last axes.

    ``base`` says where each channel begins; the taps know no channels, whose axis they are given.
    """
    flat = reshape(x, (x.type.size,))
    size = x.shape[x.type.rank - len(taps) :]
    total: Term | None = None
    for chosen in itertools.product(*taps):
        place: Term | None = None
        weight: Term | None = None
        held: Term | None = None
        for (position, share, on), step in zip(chosen, steps(size), strict=True):
            moved = mul(builders.cast(position, "int64"), step)
            place = moved if place is None else add(place, moved)
            weight = share if weight is None or share is None else mul(weight, share)
            held = on if held is None or on is None else elementwise("and", held, on)
        assert place is not None
        value = builders.gather(flat, add(base, builders.unsqueeze(place, channel_axis)), 0)
        if weight is not None:
            value = mul(value, builders.unsqueeze(weight, channel_axis))
        if held is not None:
            value = select(builders.unsqueeze(held, channel_axis), value, 0)
        total = value if total is None else add(total, value)
    assert total is not None
    return total


def grid_taps(place: Term, length: int, mode: str, padding: str, corners: bool) -> list[Tap]:
    """Positions along one axis that a place looks at, each with its weight."""
    if corners:
        place = mul(add(place, 1), (length - 1) / 2)
        least, most = 0.0, length - 1.0
    else:
        place = mul(sub(mul(add(place, 1), length), 1), 0.5)
        least, most = -0.5, length - 0.5
    return taps_at(place, length, mode, padding, least, most)


def taps_at(
    place: Term, length: int, mode: str, padding: str, least: float, most: float
) -> list[Tap]:
    """As :func:`grid_taps`, for places counted in positions of the axis."""
    if mode == "nearest":
        place = elementwise("round", place)
    if padding == "border" and mode != "cubic":
        # A cubic goes on beyond the border, over copies of the last value.
        place = clamp(place, length)
    elif padding == "reflection":
        place = reflect(place, least, most)
    if mode == "nearest":
        return [_tap(place, None, length, padding, least, most)]
    first = elementwise("floor", place)
    part = sub(place, first)
    if mode == "linear":
        shares = [(0, sub(like(part, 1), part)), (1, part)]
    else:
        shares = [(offset, _cubic(part, offset)) for offset in (-1, 0, 1, 2)]
    return [
        _tap(add(first, offset) if offset else first, share, length, padding, least, most)
        for offset, share in shares
    ]


def clamp(place: Term, length: int) -> Term:
    """A place brought between the first and the last position of an axis."""
    return minimum(maximum(place, 0), length - 1)


def reflect(place: Term, least: float, most: float) -> Term:
    """Folded back at both borders until it lies between them."""
    span = most - least
    if span <= 0:
        return mul(place, 0)
    beyond = elementwise("abs", sub(place, least))
    times = elementwise("floor", div(beyond, span))
    rest = sub(beyond, mul(times, span))
    odd = elementwise("greater", elementwise("mod", times, like(times, 2)), like(times, 0.5))
    return select(odd, sub(like(rest, most), rest), add(rest, least))


def _tap(
    position: Term, share: Term | None, length: int, padding: str, least: float, most: float
) -> Tap:
    if padding == "reflection":
        return clamp(reflect(position, least, most), length), share, None
    inside = clamp(position, length)
    if padding == "border":
        return inside, share, None
    held = elementwise("equal", inside, position)
    # A place that is not a number lies nowhere.
    return select(held, inside, 0), share, held


def _cubic(part: Term, offset: int, a: float = -0.75) -> Term:
    """Weight of the neighbour ``offset`` away (Keys' cubic convolution)."""
    distance = {-1: add(part, 1), 0: part, 1: sub(like(part, 1), part)}.get(
        offset, sub(like(part, 2), part)
    )
    if offset in (0, 1):
        inner = sub(mul(distance, a + 2), a + 3)
        return add(mul(mul(inner, distance), distance), 1)
    inner = add(mul(sub(mul(distance, a), 5 * a), distance), 8 * a)
    return sub(mul(inner, distance), 4 * a)


def region_taps(place: Term, length: int) -> list[Tap]:
    """The neighbours of a place; up to one position outside counts as the border, beyond as 0."""
    seen = elementwise(
        "and",
        elementwise("greater_equal", place, like(place, -1)),
        elementwise("less_equal", place, like(place, length)),
    )
    inside = clamp(place, length)
    low = elementwise("floor", inside)
    part = sub(inside, low)
    return [
        (low, sub(like(part, 1), part), seen),
        (minimum(add(low, 1), length - 1), part, seen),
    ]


def deformable_convolution(
    arrays: Arrays,
    x: Term,
    w: Term,
    offset: Term,
    mask: Term | None,
    window: Window,
    groups: int,
    parts: int,
    inside_only: bool = False,
) -> Term:
    """A convolution whose every look is moved: (N, C, h, w), (O, C/G, k, l) to (N, O, h', w').

    ``offset`` is (N, P * k * l * 2, h', w') for ``parts`` P, rows before columns; what lies
    outside is 0: what a place sees of it or, with ``inside_only``, all that a place outside sees.
    ``mask``, (N, P * k * l, h', w'), scales what is seen.
    """
    n, c, *size = x.shape
    o, depth, *kernel = w.shape
    count = math.prod(kernel)
    out = offset.shape[2:]
    moved = reshape(offset, (n, parts, count, 2, *out))
    arrays.make_room((*kernel, *out), "the grid")
    taps = []
    for axis, length in enumerate(size):
        within = np.arange(kernel[axis]) * window.dilation[axis]
        corner = np.arange(out[axis]) * window.stride[axis] - window.before[axis]
        grid = np.zeros((*kernel, *out))
        grid += within.reshape([-1 if i == axis else 1 for i in range(4)])
        grid += corner.reshape([-1 if i == axis + 2 else 1 for i in range(4)])
        start = arrays.parameter(grid.reshape(count, *out).astype(x.dtype), "grid")
        by = builders.squeeze(builders.slice_(moved, 3, axis, axis + 1), 3)
        place = add(by, start)
        looks = taps_at(place, length, "linear", "zeros", 0, 0)
        if inside_only:
            inside = elementwise(
                "and",
                elementwise("greater_equal", place, like(place, 0)),
                elementwise("less", place, like(place, length)),
            )
            looks = [
                (at, share, inside if held is None else elementwise("and", held, inside))
                for at, share, held in looks
            ]
        taps.append(looks)
    planes = np.arange(n * c).reshape(n, parts, c // parts, 1, 1, 1) * math.prod(size)
    seen = look_up(x, arrays.parameter(planes, "planes"), taps, 2)
    if mask is not None:
        seen = mul(seen, builders.unsqueeze(reshape(mask, (n, parts, count, *out)), 2))
    columns = transpose(reshape(seen, (n, groups, c // groups, count, *out)), (1, 0, 4, 5, 2, 3))
    filters = access(reshape(w, (groups, o // groups, depth, count)), 2)
    product = transpose(dot(filters, access(columns, 4), 1), (2, 0, 1, 3, 4))
    result = reshape(product, (n, o, *out))
    return result


def region_values(
    arrays: Arrays,
    x: Term,
    corner: Term,
    batches: Term,
    out: Sequence[int],
    samples: int,
    least: float,
) -> Term:
    """Samples of regions: (N, C, h, w) to (R, C, out..., samples, samples), interpolated.

    ``corner`` is (R, 4), x and y of two corners in pixels of ``x``; ``batches`` (R) says in which
    image each region lies. A region has at least the extent ``least``.
    """
    count = corner.shape[0]
    images, channels, *size = x.shape
    arrays.require(batches, 0, images, f"takes regions of the images 0 to {images - 1}")
    taps = []
    for axis, length in enumerate(size):
        low, high = (
            reshape(builders.slice_(corner, 1, at, at + 1), (count, 1, 1, 1, 1))
            for at in (1 - axis, 3 - axis)
        )
        extent = sub(high, low)
        if least:
            extent = maximum(extent, least)
        arrays.make_room((out[axis], samples), "the samples")
        cell = np.arange(out[axis])[:, None] + (np.arange(samples) + 0.5) / samples
        shape = [1, 1, 1, 1, 1]
        shape[1 + axis], shape[3 + axis] = out[axis], samples
        steps_ = arrays.parameter((cell / out[axis]).reshape(shape).astype(x.dtype), "cells")
        taps.append(region_taps(add(low, mul(extent, steps_)), length))
    start = mul(builders.cast(batches, "int64"), channels * math.prod(size))
    planes = arrays.parameter(np.arange(channels).reshape(1, -1) * math.prod(size), "planes")
    base = reshape(add(reshape(start, (count, 1)), planes), (count, channels, 1, 1, 1, 1))
    return look_up(x, base, taps, 1)
