"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Callable

from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import axes_of
from glenside.frontends.lowering.phrases import div, position, reduce
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import Term, builders
from glenside.language.shape import FLOATS


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
        if function == "mean" and x.dtype not in FLOATS:
            count = math.prod(x.shape[each] for each in axes)
            return div(reduce("sum", x, axes, keepdims), count)
        return reduce(function, x, axes, keepdims)

    return apply


for _name in ("max", "mean", "min", "prod", "sum"):
    operator(_name)(_reduction(_name))


def _position(function: str) -> Callable[..., Value]:
    def apply(
        x: Term,
        *,
        axis: Ints | int | None = None,
        keepdims: bool = False,
        exclude: bool = False,
        select_last_index: bool = False,
    ) -> Term:
        if select_last_index:
            raise Refused("attribute select_last_index is not supported")
        axes = sorted(_reduced_axes(axis, x.type.rank, exclude))
        return builders.cast(position(function, x, axes, keepdims), "int32")

    return apply


for _name in ("argmax", "argmin"):
    operator(_name)(_position(_name))
