"""Axes: counted from the front, named by the letters of a layout, matched by vectors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from glenside.errors import ShapeError
from glenside.frontends.lowering.phrases import reshape, transpose
from glenside.frontends.refusal import Refused
from glenside.language import Term

IMAGES = {"1d": "NCW", "2d": "NCHW", "3d": "NCDHW"}
"""Layouts of data with so many spatial axes, in which convolutions and pools are formed."""


def axis_of(axis: int, rank: int) -> int:
    """``axis`` counted from the front; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} does not exist, axes are {-rank} to {rank - 1}")
    return axis % rank


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Different axes, counted from the front."""
    result = [axis_of(axis, rank) for axis in axes]
    if len(set(result)) < len(result):
        raise ShapeError(f"axes {list(axes)} name one axis twice")
    return result


def relayout(x: Term, have: str, want: str) -> Term:
    """Axes named by the letters of ``have`` brought into the order of ``want``.

    A packed layout such as ``NCHW4c`` has blocks of an axis, here four channels, as a further axis.
    """
    given, wanted = _axes(have), _axes(want)
    if {letter.upper() for letter, _ in given} != {letter.upper() for letter, _ in wanted}:
        raise Refused(f"layout {have} is not supported; permutations and blocks of {want} are")
    if x.type.rank != len(given):
        raise ShapeError(f"layout {have} does not fit shape {x.shape}")
    for (letter, size), length in zip(given, x.shape, strict=True):
        if size not in (None, length):
            raise ShapeError(f"layout {have} does not fit shape {x.shape}: {size}{letter}")
    return _packed(_unpacked(x, given), [letter for letter, _ in given if letter.isupper()], wanted)


def _axes(layout: str) -> list[tuple[str, int | None]]:
    """Letter of each axis, and the size of those that are blocks; raises :class:`Refused`."""
    found = re.findall(r"([0-9]*)([A-Za-z])", layout)
    axes = [(letter, int(size) if size else None) for size, letter in found]
    whole = [letter for letter, _ in axes if letter.isupper()]
    sound = (
        "".join(size + letter for size, letter in found) == layout
        and len(set(whole)) == len(whole)
        and all(letter.isupper() == (size is None) and size != 0 for letter, size in axes)
        and all(letter.upper() in whole for letter, _ in axes)
    )
    if not sound:
        raise Refused(f"layout {layout} is not supported")
    return axes


def _unpacked(x: Term, axes: Sequence[tuple[str, int | None]]) -> Term:
    """Blocks merged with their axes, which keep their order."""
    if all(size is None for _, size in axes):
        return x
    order, shape = [], []
    for letter in [letter for letter, _ in axes if letter.isupper()]:
        parts = [i for i, (each, _) in enumerate(axes) if each.upper() == letter]
        parts.sort(key=lambda i: axes[i][0].islower())
        order += parts
        shape.append(math.prod(x.shape[i] for i in parts))
    return reshape(transpose(x, order), shape)


def _packed(x: Term, letters: Sequence[str], axes: Sequence[tuple[str, int | None]]) -> Term:
    """Axes ``letters`` brought into the order of ``axes``, blocks split off."""
    shape: list[int] = []
    where: dict[tuple[str, int], int] = {}
    for letter, length in zip(letters, x.shape, strict=True):
        blocks = [size for each, size in axes if each == letter.lower() and size is not None]
        rest = math.prod(blocks)
        if length % rest:
            raise ShapeError(f"axis {letter} of length {length} does not divide into {rest}")
        for number, size in enumerate([length // rest, *blocks]):
            where[letter if number == 0 else letter.lower(), max(number - 1, 0)] = len(shape)
            shape.append(size)
    seen: dict[str, int] = {}
    order = []
    for letter, _ in axes:
        order.append(where[letter, seen.get(letter, 0)])
        seen[letter] = seen.get(letter, 0) + 1
    return transpose(reshape(x, shape), order)


def through_layout(
    x: Term, form: str, layout: str, out_layout: str, work: Callable[[Term], Term]
) -> Term:
    """``work`` on ``x``, which has its axes in the order ``layout`` but is worked on in ``form``.

    The result has them in the order ``out_layout``, or ``layout`` where that is empty.
    """
    return relayout(work(relayout(x, layout, form)), form, out_layout or layout)


def check_vector(name: str, vector: Term, x: Term, axis: int) -> None:
    """``vector`` must have one element for each position of ``axis``."""
    if vector.shape != (x.shape[axis],):
        raise ShapeError(
            f"{name} of shape {vector.shape} does not fit axis {axis} of shape {x.shape}"
        )
