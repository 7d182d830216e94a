"""Sorted order along an axis: ranks by counting, for every element, those that come before it."""

from __future__ import annotations

import numpy as np

from glenside.frontends.lowering.constants import Arrays
from glenside.frontends.lowering.phrases import elementwise, reduce, to_end, transpose
from glenside.frontends.lowering.places import gather_elements
from glenside.language import Term, builders
from glenside.language.builders import access, compute

LARGEST_SORT = 2**24
"""Pairs of elements that are compared; more are left to the host."""


def best_places(arrays: Arrays, x: Term, axis: int, k: int, largest: bool) -> Term:
    """Where along an axis the ``k`` largest (or least) elements stand, best first, as int64.

    Of equal elements the first comes first.
    """
    if x.type.size * x.shape[axis] > LARGEST_SORT:
        return _by_host(x, axis, k, largest)
    moved, inverse = to_end(x, [axis])
    length = x.shape[axis]
    last = moved.type.rank
    mine, other = builders.unsqueeze(moved, last), builders.unsqueeze(moved, last - 1)
    ahead = elementwise("greater" if largest else "less", other, mine)
    earlier = np.arange(length)[None, :] < np.arange(length)[:, None]
    tied = elementwise(
        "and", elementwise("equal", other, mine), arrays.parameter(earlier, "earlier")
    )
    before = elementwise("or", ahead, tied)
    rank = reduce("sum", builders.cast(before, "int64"), [last], False)
    place = arrays.parameter(np.arange(k).reshape(k, 1), "places")
    hit = elementwise("equal", builders.unsqueeze(rank, last - 1), place)
    found = compute("argmax", access(builders.cast(hit, "int8"), last))
    return transpose(found, inverse)


def _by_host(x: Term, axis: int, k: int, largest: bool) -> Term:
    """As :func:`best_places`, by ONNX's TopK, whose ties are settled alike."""
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    attributes = f'{{"axis": {axis}, "largest": {int(largest)}, "sorted": 1}}'
    count = builders.constant(k, (1,), "int64")
    return builders.host_op(
        "TopK", [x, count], shape, "int64", version=11, output=1, attributes=attributes
    )


def sorted_by(arrays: Arrays, x: Term, axis: int, ascending: bool) -> tuple[Term, Term]:
    """All elements along an axis in order, and where they stood (int64)."""
    length = x.shape[axis]
    if length == 0:
        return x, builders.cast(x, "int64")
    places = best_places(arrays, x, axis, length, not ascending)
    return gather_elements(arrays, x, places, axis), places
