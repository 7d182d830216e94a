"""What several families read the same way: axes, layouts, windows, result dtypes."""

from __future__ import annotations

from collections.abc import Sequence

from glenside.errors import ShapeError
from glenside.frontends.onnx.phrases import transpose
from glenside.frontends.onnx.spatial import Window
from glenside.frontends.relay.signature import Ints, Refused
from glenside.language import DTYPES, Term


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


def reduced_axes(axis: int | Ints | None, rank: int, exclude: bool) -> list[int]:
    """The axes a reduction goes over: none given means all, ``exclude`` means the others."""
    if axis is None or axis == ():
        return list(range(rank))
    axes = axes_of((axis,) if isinstance(axis, int) else axis, rank)
    if exclude:
        return [each for each in range(rank) if each not in axes]
    return axes


def accumulator(out_dtype: str | None) -> str | None:
    """The dtype that ``out_dtype`` asks for; empty and ``void`` mean that of the operands."""
    if out_dtype in (None, "", "void"):
        return None
    if out_dtype not in DTYPES:
        raise Refused(f"attribute out_dtype {out_dtype} is not supported")
    return out_dtype


def relayout(x: Term, have: str, want: str) -> Term:
    """Axes named by the letters of ``have`` brought into the order of ``want``."""
    if sorted(have) != sorted(want):
        raise Refused(f"layout {have} is not supported; permutations of {want} are")
    if x.type.rank != len(have):
        raise ShapeError(f"layout {have} does not fit shape {x.shape}")
    return transpose(x, [have.index(letter) for letter in want])


def window(
    size: Sequence[int], kernel: Ints, strides: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> Window:
    """A sliding window over spatial axes of the lengths ``size``.

    ``padding`` has one entry for all sides, one for each axis, or all befores and then all afters.
    """
    rank = len(size)

    def spread(name: str, values: Ints, least: int) -> Ints:
        values = values * rank if len(values) == 1 else values
        if len(values) != rank or min(values) < least:
            raise ShapeError(f"{name} {list(values)} must be {rank} numbers, at least {least}")
        return values

    if len(padding) == 2 * rank:
        befores, afters = padding[:rank], padding[rank:]
    else:
        befores = afters = padding
    kernel = spread("the window", kernel, 1)
    strides = spread("strides", strides, 1)
    dilation = spread("dilation", dilation, 1)
    before, after = spread("padding", befores, 0), spread("padding", afters, 0)
    overhang = []
    for i, length in enumerate(size):
        reach = (kernel[i] - 1) * dilation[i] + 1
        room = before[i] + length + after[i] - reach
        overhang.append(-room % strides[i] if ceil else 0)
    return Window(kernel, strides, dilation, before, after, tuple(overhang))
