"""Mappings of products to warps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.tensor.geometry import Geometry
from glenside.codegen.gpu.tensor.kind import UnitKind
from glenside.codegen.gpu.tensor.problem import forms
from glenside.codegen.gpu.warps.kernel import WarpNest
from glenside.codegen.gpu.warps.mapping import WarpMapping
from glenside.codegen.gpu.warps.problem import WarpProblem
from glenside.codegen.gpu.warps.tiling import Parts, WarpTiling
from glenside.codegen.gpu.warps.time import predict


class Warps(UnitKind[WarpMapping]):
    """Products that warps multiply, each alone, out of registers."""

    name = WarpMapping.kind
    nest = WarpNest

    def unfit_geometry(self, geometry: Geometry, limits: DeviceLimits) -> str:
        return "whole warpgroups multiply faster" if limits.warpgroups else ""

    def geometry_problems(self, geometry: Geometry, limits: DeviceLimits) -> Sequence[WarpProblem]:
        return [WarpProblem(geometry, limits, form) for form in forms(geometry)]

    def predict_geometry(
        self, geometry: Geometry, mappings: Sequence[WarpMapping], limits: DeviceLimits
    ) -> np.ndarray[Any, Any]:
        return predict(geometry, mappings, limits)

    def tiling(self, geometry: Geometry, mapping: WarpMapping, limits: DeviceLimits) -> WarpTiling:
        return WarpTiling(geometry, mapping)

    def scratch_bytes(self, space: ProductSpace, mapping: WarpMapping) -> int:
        return 4 * Parts(space, mapping.split).elements if mapping.split > 1 else 0
