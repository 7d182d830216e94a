"""Reductions over axes, and sums along one."""

from __future__ import annotations

from collections.abc import Callable

from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import axes_of, axis_of
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.phrases import (
    elementwise,
    position,
    reduce,
    reshape,
    square,
    sub,
    to_end,
    transpose,
)
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders
from glenside.language.builders import access, compute


def _axes(axis: Ints | None, rank: int) -> list[int]:
    return sorted(axes_of(range(rank) if axis is None else axis, rank))


def _reduction(function: str) -> Callable[..., Term]:
    def apply(x: Term, *, axis: Ints | None, keepdims: bool) -> Term:
        axes = _axes(axis, x.type.rank)
        return reduce(function, x, axes, keepdims) if axes else x

    return apply


for _name in ("max", "mean", "min", "prod", "sum"):
    operator(_name)(_reduction(_name))


@operator("variance")
def variance(x: Term, *, axis: Ints | None, keepdims: bool) -> Term:
    """The mean square of what remains when the mean is taken off."""
    axes = _axes(axis, x.type.rank)
    centred = sub(x, reduce("mean", x, axes, True))
    return reduce("mean", square(centred), axes, keepdims)


@operator("std")
def std(x: Term, *, axis: Ints | None, keepdims: bool) -> Term:
    """The root of the variance."""
    return elementwise("sqrt", variance(x, axis=axis, keepdims=keepdims))


def _position(function: str) -> Callable[..., Term]:
    def apply(x: Term, *, axis: int | None, keepdims: bool) -> Term:
        rank = x.type.rank
        axes = list(range(rank)) if axis is None else [axis_of(axis, rank)]
        return position(function, x, axes, keepdims)

    return apply


for _name in ("argmax", "argmin"):
    operator(_name)(_position(_name))


def _scan(function: str, neutral: float) -> Callable[..., Term]:
    def apply(x: Term, *, axis: int | None, dtype: str | None, exclusive: bool) -> Term:
        if axis is None:
            x, axis = reshape(x, (x.type.size,)), 0
        axis = axis_of(axis, x.type.rank)
        x = builders.cast(x, dtype_of(dtype, x.dtype))
        length = x.shape[axis]
        if length == 0:
            return x
        moved, inverse = to_end(x, [axis])
        last = moved.type.rank - 1
        # Element k sees a window that ends with it, or with the one before.
        fill = "zero" if neutral == 0 else int(neutral)
        moved = builders.pad(moved, last, length - 1 + exclusive, 0, fill)
        moved = builders.slice_(moved, last, 0, 2 * length - 1)
        looks = builders.windows(access(moved, last), (length,), (1,))
        return transpose(compute(function, looks), inverse)

    return apply


operator("cumsum")(_scan("sum", 0))
operator("cumprod")(_scan("prod", 1))
