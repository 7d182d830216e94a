"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Callable

from glenside.frontends.onnx.phrases import div, reduce, to_end
from glenside.frontends.relay.operators.common import reduced_axes
from glenside.frontends.relay.signature import Ints, Refused, operator
from glenside.frontends.relay.types import Value
from glenside.language import Term, builders
from glenside.language.builders import access, compute
from glenside.language.shape import FLOATS


def _reduction(function: str) -> Callable[..., Value]:
    def apply(
        x: Term,
        *,
        axis: Ints | int | None = None,
        keepdims: bool = False,
        exclude: bool = False,
    ) -> Term:
        axes = reduced_axes(axis, x.type.rank, exclude)
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
        axes = sorted(reduced_axes(axis, x.type.rank, exclude))
        moved, _ = to_end(x, axes)
        items = access(moved, x.type.rank - len(axes))
        # Over several axes positions count row-major.
        items = builders.reshape(items, items.outer, (math.prod(items.item),))
        best = compute(function, items)
        for each in axes if keepdims else ():
            best = builders.unsqueeze(best, each)
        return builders.cast(best, "int32")

    return apply


for _name in ("argmax", "argmin"):
    operator(_name)(_position(_name))
