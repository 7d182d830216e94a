"""Which mappings there are to matrix units: by the units that a device has."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.kinds import TensorMapping
from glenside.codegen.gpu.mapping.ranking import Solved, distinct
from glenside.codegen.gpu.mapping.streams import StreamProblem
from glenside.codegen.gpu.mapping.tensors import TensorProblem
from glenside.codegen.gpu.mapping.warps import WarpProblem
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.tensor.geometry import Geometry, geometry_of
from glenside.codegen.gpu.tensor.warp_tiling import Parts


def tensor_mappings(space: ProductSpace, limits: DeviceLimits, count: int) -> list[TensorMapping]:
    """Up to ``count`` mappings that differ in more than a detail, best predicted first; none where
    the matrix units have no use for the product."""
    geometry = geometry_of(space, limits)
    if geometry is None:
        return []
    ranked = _solved.ranked(space.key(), limits, lambda: _ranked(space, geometry, limits))
    return distinct(ranked, count, _kinds)


_solved: Solved[TensorMapping] = Solved()


def _ranked(space: ProductSpace, geometry: Geometry, limits: DeviceLimits) -> list[TensorMapping]:
    if limits.warpgroups:
        ranked = TensorProblem(geometry, limits, geometry.rows_fast).ranked()
        ranked += StreamProblem(geometry, limits).ranked()
        return sorted(ranked, key=lambda each: each.predicted)
    return [
        m
        for m in WarpProblem(geometry, limits, geometry.rows_fast).ranked()
        if m.split == 1 or 4 * Parts(space, m.split).elements <= limits.scratch_bytes
    ]


def _kinds(m: TensorMapping) -> Iterator[Hashable]:
    form = bool(m.boxes), m.apart
    yield "tile", form, m.tile, m.rows, m.groups
    yield "split", form, m.tile, m.split
    yield "depth", form, m.rows, m.groups, m.split, m.chunk
