"""Which mappings there are to matrix units: by the units that a device has."""

from __future__ import annotations

from typing import Any

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.kinds import TensorMapping
from glenside.codegen.gpu.mapping.streams import StreamProblem
from glenside.codegen.gpu.mapping.tensors import TensorProblem
from glenside.codegen.gpu.mapping.warps import WarpProblem
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.tensor.geometry import geometry_of
from glenside.codegen.gpu.tensor.warp_tiling import Parts


def tensor_mappings(space: ProductSpace, limits: DeviceLimits, count: int) -> list[TensorMapping]:
    """Up to ``count`` mappings that differ in more than a detail, best predicted first; none where
    the matrix units have no use for the product."""
    geometry = geometry_of(space, limits)
    if geometry is None:
        return []
    key = space.key()
    held = _solved.get((key, limits.name))
    if held is None or held[0] != limits:
        if len(_solved) > 256:
            _solved.clear()
        if limits.warpgroups:
            ranked = TensorProblem(geometry, limits, geometry.rows_fast).ranked()
            ranked += StreamProblem(geometry, limits).ranked()
            ranked.sort(key=lambda each: each.predicted)
        else:
            ranked = [
                m
                for m in WarpProblem(geometry, limits, geometry.rows_fast).ranked()
                if m.split == 1 or 4 * Parts(space, m.split).elements <= limits.scratch_bytes
            ]
        held = limits, ranked
        _solved[key, limits.name] = held
    known = held[1]
    if count == 1:
        return known[:1]
    seen: dict[Any, int] = {}
    chosen = []
    for m in known:
        form = bool(m.boxes), m.apart
        kinds: list[Any] = [("tile", form, m.tile, m.rows, m.groups)]
        kinds.append(("split", form, m.tile, m.split))
        kinds.append(("depth", form, m.rows, m.groups, m.split, m.chunk))
        if any(seen.get(kind, 0) >= 2 for kind in kinds):
            continue
        for kind in kinds:
            seen[kind] = seen.get(kind, 0) + 1
        chosen.append(m)
        if len(chosen) == count:
            break
    return chosen


_solved: dict[tuple[str, str], tuple[Any, list[TensorMapping]]] = {}
