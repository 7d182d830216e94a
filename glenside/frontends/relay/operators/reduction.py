"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import axes_of, axis_of
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.known import pick
from glenside.frontends.lowering.phrases import (
    div,
    like,
    position,
    reduce,
    reshape,
    square,
    sub,
)
from glenside.frontends.lowering.running import running
from glenside.frontends.lowering.tvm_reduction import mean
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import Term, builders


def _reduced_axes(axis: int | Ints | None, rank: int, exclude: bool) -> list[int]:
    """The axes a reduction goes over: none given means all, ``exclude`` means the others."""
    if axis is None or axis == ():
        return list(range(rank))
    axes = axes_of((axis,) if isinstance(axis, int) else axis, rank)
    if exclude:
        return [each for each in range(rank) if each not in axes]
    return axes


def _reduction(function: str) -> Callable[..., Value]:
    def apply(
        x: Term,
        *,
        axis: Ints | int | None = None,
        keepdims: bool = False,
        exclude: bool = False,
    ) -> Term:
        axes = _reduced_axes(axis, x.type.rank, exclude)
        if not axes:
            return x
        return (mean if function == "mean" else partial(reduce, function))(x, axes, keepdims)

    return apply


for _name in ("max", "mean", "min", "prod", "sum"):
    operator(_name)(_reduction(_name))


def _truth(function: str) -> Callable[..., Value]:
    def apply(
        x: Term,
        *,
        axis: Ints | int | None = None,
        keepdims: bool = False,
        exclude: bool = False,
    ) -> Term:
        axes = _reduced_axes(axis, x.type.rank, exclude)
        held = builders.cast(x, "bool")
        return reduce(function, held, axes, keepdims) if axes else held

    return apply


operator("all")(_truth("min"))
operator("any")(_truth("max"))


@operator("variance")
def variance(
    x: Term,
    mean: Term,
    *,
    axis: Ints | int | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Term:
    """The mean square of what remains when the mean, an operand, is taken off."""
    axes = _reduced_axes(axis, x.type.rank, exclude)
    if mean.type.rank != x.type.rank:
        for each in sorted(axes):
            mean = builders.unsqueeze(mean, each)
    total = reduce("sum", square(sub(x, mean)), axes, keepdims)
    count = math.prod(x.shape[each] for each in axes)
    return div(total, float(count - unbiased))


def _scan(product: bool) -> Callable[..., Value]:
    def apply(
        x: Term, *, axis: int | None = None, dtype: str | None = None, exclusive: bool = False
    ) -> Term:
        if axis is None:
            x, axis = reshape(x, (x.type.size,)), 0
        x = builders.cast(x, dtype_of(dtype, x.dtype))
        return running(x, axis_of(axis, x.type.rank), product, exclusive, False)

    return apply


operator("cumsum")(_scan(False))
operator("cumprod")(_scan(True))


def _position(function: str) -> Callable[..., Value]:
    def apply(
        constants: Constants,
        x: Term,
        *,
        axis: Ints | int | None = None,
        keepdims: bool = False,
        exclude: bool = False,
        select_last_index: bool = False,
    ) -> Term:
        axes = sorted(_reduced_axes(axis, x.type.rank, exclude))
        if not select_last_index:
            return builders.cast(position(function, x, axes, keepdims), "int32")
        # The last of equals is the first where every axis goes backwards.
        for each in axes:
            x = pick(constants, x, range(x.shape[each])[::-1], each)
        last = math.prod(x.shape[each] for each in axes) - 1
        found = position(function, x, axes, keepdims)
        return builders.cast(sub(like(found, last), found), "int32")

    return apply


for _name in ("argmax", "argmin"):
    operator(_name)(_position(_name))
