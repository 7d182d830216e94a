"""Axes: counted from the front, named by the letters of a layout, matched by vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glenside.errors import ShapeError
from glenside.frontends.lowering.phrases import transpose
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
    """Axes named by the letters of ``have`` brought into the order of ``want``."""
    if sorted(have) != sorted(want):
        raise Refused(f"layout {have} is not supported; permutations of {want} are")
    if x.type.rank != len(have):
        raise ShapeError(f"layout {have} does not fit shape {x.shape}")
    return transpose(x, [have.index(letter) for letter in want])


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
