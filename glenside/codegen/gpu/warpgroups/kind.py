"""Mappings of products to warpgroups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.tensor.geometry import Geometry
from glenside.codegen.gpu.tensor.kind import UnitKind
from glenside.codegen.gpu.tensor.problem import forms
from glenside.codegen.gpu.warpgroups.kernel import WarpgroupNest
from glenside.codegen.gpu.warpgroups.mapping import WarpgroupMapping
from glenside.codegen.gpu.warpgroups.problem import WarpgroupProblem
from glenside.codegen.gpu.warpgroups.tiling import WarpgroupTiling
from glenside.codegen.gpu.warpgroups.time import predict


class Warpgroups(UnitKind[WarpgroupMapping]):
    """Products that warpgroups multiply as they lie in local memory."""

    name = WarpgroupMapping.kind
    nest = WarpgroupNest

    def unfit_geometry(self, geometry: Geometry, limits: DeviceLimits) -> str:
        return "" if limits.warpgroups else "its matrix units do not read local memory"

    def geometry_problems(
        self, geometry: Geometry, limits: DeviceLimits
    ) -> Sequence[WarpgroupProblem]:
        return [WarpgroupProblem(geometry, limits, form) for form in forms(geometry)]

    def predict_geometry(
        self, geometry: Geometry, mappings: Sequence[WarpgroupMapping], limits: DeviceLimits
    ) -> np.ndarray[Any, Any]:
        return predict(geometry, mappings, limits)

    def tiling(
        self, geometry: Geometry, mapping: WarpgroupMapping, limits: DeviceLimits
    ) -> WarpgroupTiling:
        return WarpgroupTiling(geometry, mapping)
