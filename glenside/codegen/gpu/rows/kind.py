"""Mappings of reductions over rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits
from glenside.codegen.gpu.mapping.kind import Kind, Work
from glenside.codegen.gpu.rows.kernel import RowNest
from glenside.codegen.gpu.rows.mapping import RowMapping
from glenside.codegen.gpu.rows.problem import RowProblem
from glenside.codegen.gpu.rows.space import RowSpace
from glenside.codegen.gpu.rows.time import predict
from glenside.errors import TargetError


class RowsKind(Kind[RowSpace, RowMapping]):
    """Reductions over rows, one after the other, by threads that share a row."""

    name = RowMapping.kind

    def unfit(self, space: RowSpace, limits: DeviceLimits) -> str:
        return ""

    def problems(self, space: RowSpace, limits: DeviceLimits) -> Sequence[RowProblem]:
        return [RowProblem(space, limits)]

    def predict(
        self, space: RowSpace, mappings: Sequence[RowMapping], limits: DeviceLimits
    ) -> np.ndarray[Any, Any]:
        return predict(space, mappings, limits)

    def check(self, space: RowSpace, mapping: RowMapping, limits: DeviceLimits) -> None:
        broken = [
            each for each in RowProblem(space, limits).stated(mapping).stated if not each.holds
        ]
        if broken:
            raise TargetError(f"{broken[0].group}: {broken[0].says} does not hold")

    def kernels(self, work: Work[RowSpace], mapping: RowMapping) -> list[DeviceKernel]:
        nest = RowNest(work.builder, work.step, work.limits, work.dialect)
        return [nest.mapped(work.name, mapping)]

    def alike(self, mapping: RowMapping) -> Sequence[Hashable]:
        return [(mapping.team, mapping.rows)]
