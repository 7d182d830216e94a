"""Running sums and products along an axis."""

from __future__ import annotations

from glenside.frontends.lowering.phrases import elementwise, to_end, transpose
from glenside.language import Term, builders
from glenside.language.builders import access, compute

LONGEST_WINDOW = 64
"""Axis length up to which a running sum is a window; longer ones take steps that double."""


def running(x: Term, axis: int, product: bool, exclusive: bool, reverse: bool) -> Term:
    """The sum or ``product`` of all elements up to each one along an axis.

    ``exclusive`` leaves the element itself out, ``reverse`` counts from the end.
    """
    if not x.type.size:
        return x
    if exclusive:
        x = _shifted(x, axis, 1, reverse, product)
    if x.shape[axis] <= LONGEST_WINDOW:
        return _by_window(x, axis, reverse, product)
    # Twice as many elements are in every sum after each step.
    distance = 1
    while distance < x.shape[axis]:
        moved = _shifted(x, axis, distance, reverse, product)
        x = elementwise("mul" if product else "add", x, moved)
        distance *= 2
    return x


def _shifted(x: Term, axis: int, distance: int, reverse: bool, product: bool) -> Term:
    """Elements moved along an axis, the place they leave filled with what changes nothing."""
    length, fill = x.shape[axis], 1 if product else "zero"
    if reverse:
        kept = builders.slice_(x, axis, distance, length)
        return builders.pad(kept, axis, 0, distance, fill)
    return builders.pad(builders.slice_(x, axis, 0, length - distance), axis, distance, 0, fill)


def _by_window(x: Term, axis: int, reverse: bool, product: bool) -> Term:
    """Every position looks over a window as long as the axis."""
    length, fill = x.shape[axis], 1 if product else "zero"
    before, after = (0, length - 1) if reverse else (length - 1, 0)
    moved, inverse = to_end(builders.pad(x, axis, before, after, fill), [axis])
    looks = builders.windows(access(moved, x.type.rank - 1), (length,), (1,))
    return transpose(compute("prod" if product else "sum", looks), inverse)
