"""Reductions that TVM's two languages, Relay and Relax, have under one name."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.phrases import div, reduce
from glenside.language import Term, builders
from glenside.language.shape import FLOATS


def mean(x: Term, axes: Sequence[int], keepdims: bool) -> Term:
    """The mean over axes; of integers, as TVM has it, the sum divided toward zero, in their dtype.

    :raises ShapeError: there are no integers to take the mean of.
    """
    if x.dtype in FLOATS:
        return reduce("mean", x, axes, keepdims)
    count = math.prod(x.shape[each] for each in axes)
    if not count:
        raise ShapeError(f"{x.dtype} has no mean of no elements: an axis of {x.shape} is empty")
    total = reduce("sum", x, axes, keepdims)
    if count > np.iinfo(x.dtype).max:
        return builders.cast(div(builders.cast(total, "int64"), count), x.dtype)
    return div(total, count)
