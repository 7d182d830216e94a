"""Operators that put elements in order."""

from __future__ import annotations

from glenside.frontends.lowering.axes import axis_of
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.ordering import best_places, sorted_by
from glenside.frontends.lowering.phrases import elementwise, reduce
from glenside.frontends.lowering.places import gather_elements
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders


@operator("sort")
def sort(constants: Constants, x: Term, *, axis: int, descending: bool) -> Term:
    """The elements along an axis in order."""
    return sorted_by(constants, x, axis_of(axis, x.type.rank), not descending)[0]


@operator("argsort")
def argsort(constants: Constants, x: Term, *, axis: int, descending: bool, dtype: str) -> Term:
    """Where the elements stand in order; of equal ones the first comes first."""
    places = sorted_by(constants, x, axis_of(axis, x.type.rank), not descending)[1]
    return builders.cast(places, dtype)


@operator("topk")
def topk(
    constants: Constants,
    x: Term,
    *,
    k: int,
    axis: int,
    ret_type: str,
    largest: bool,
    dtype: str,
) -> Term | tuple[Term, Term]:
    """The ``k`` greatest (or least) elements along an axis, and where they stand; 0 means all."""
    axis = axis_of(axis, x.type.rank)
    count = x.shape[axis] if k < 1 else min(k, x.shape[axis])
    if count:
        found = best_places(constants, x, axis, count, largest)
    else:
        found = builders.cast(builders.slice_(x, axis, 0, 0), "int64")
    values, indices = gather_elements(constants, x, found, axis), builders.cast(found, dtype)
    return {"values": values, "indices": indices}.get(ret_type, (values, indices))


@operator("bucketize")
def bucketize(x: Term, boundaries: Term, *, out_int32: bool, right: bool) -> Term:
    """How many of the sorted boundaries are less than each element, or as well equal to it."""
    mine = builders.unsqueeze(x, x.type.rank)
    before = elementwise("less_equal" if right else "less", boundaries, mine)
    counted = builders.cast(before, "int32" if out_int32 else "int64")
    return reduce("sum", counted, [x.type.rank], False)
