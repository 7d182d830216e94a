"""Reductions over axes, and sums along one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
)
from glenside.frontends.lowering.running import running
from glenside.frontends.lowering.tvm_reduction import mean
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders


def _axes(axis: Ints | None, rank: int) -> list[int]:
    return sorted(axes_of(range(rank) if axis is None else axis, rank))


def _reduction(function: str) -> Callable[..., Term]:
    def apply(x: Term, *, axis: Ints | None, keepdims: bool) -> Term:
        axes = _axes(axis, x.type.rank)
        if not axes:
            return x
        return (mean if function == "mean" else partial(reduce, function))(x, axes, keepdims)

    return apply


for _name in ("max", "mean", "min", "prod", "sum"):
    operator(_name)(_reduction(_name))


@operator("variance")
def variance(x: Term, *, axis: Ints | None, keepdims: bool) -> Term:
    """The mean square of what remains when the mean is taken off."""
    axes = _axes(axis, x.type.rank)
    centred = sub(x, mean(x, axes, True))
    return mean(square(centred), axes, keepdims)


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


def _scan(product: bool) -> Callable[..., Term]:
    def apply(x: Term, *, axis: int | None, dtype: str | None, exclusive: bool) -> Term:
        if axis is None:
            x, axis = reshape(x, (x.type.size,)), 0
        x = builders.cast(x, dtype_of(dtype, x.dtype))
        return running(x, axis_of(axis, x.type.rank), product, exclusive, False)

    return apply


operator("cumsum")(_scan(False))
operator("cumprod")(_scan(True))
