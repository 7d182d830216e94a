"""Programs taken through the passes up to one of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glenside.codegen.program.cut import passed
from glenside.codegen.program.record import Cut
from glenside.language import Term, topological_order


def after(
    name: str,
    *outputs: Term,
    params: Mapping[str, np.ndarray] | None = None,
    plain: bool = False,
    rows_last: bool = False,
) -> Cut:
    """The record after the pass of that name; leaves that are no parameters are inputs."""
    params = params or {}
    leaves = [term for term in topological_order(outputs) if term.op == "tensor"]
    types = {term["name"]: term.type for term in leaves if term["name"] not in params}
    start = Cut(tuple(outputs), types, params, plain, rows_last)
    return next(cut for step, cut in passed(start) if step == name)


def strides(cut: Cut, term: Term) -> list[int]:
    """How far apart neighbours along each axis lie, where none is cut into pieces."""
    axes = cut.stored[term].view.axes
    assert all(len(axis) <= 1 for axis in axes)
    return [axis[0][1] if axis else 0 for axis in axes]
