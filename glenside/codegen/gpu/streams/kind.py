"""Mappings of large products to groups that stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.streams.kernel import StreamNest
from glenside.codegen.gpu.streams.mapping import StreamMapping
from glenside.codegen.gpu.streams.problem import StreamProblem, fills
from glenside.codegen.gpu.streams.tiling import StreamTiling
from glenside.codegen.gpu.streams.time import predict
from glenside.codegen.gpu.tensor.boxes import boxes_of
from glenside.codegen.gpu.tensor.geometry import Geometry
from glenside.codegen.gpu.tensor.kind import UnitKind


class Streams(UnitKind[StreamMapping]):
    """Products with groups for most of the device, operands brought by the copy engine."""

    name = StreamMapping.kind
    nest = StreamNest

    def unfit_geometry(self, geometry: Geometry, limits: DeviceLimits) -> str:
        if not limits.warpgroups:
            return "it has no engine that copies boxes"
        if geometry.inner is None:
            return "no reduced loop can be cut while the others stay apart"
        if not any(boxes_of(geometry, apart) for apart in (False, True)):
            return "the copy engine cannot bring its boxes"
        return "" if fills(geometry, limits) else "it does not fill the device"

    def geometry_problems(
        self, geometry: Geometry, limits: DeviceLimits
    ) -> Sequence[StreamProblem]:
        return [StreamProblem(geometry, limits)]

    def predict_geometry(
        self, geometry: Geometry, mappings: Sequence[StreamMapping], limits: DeviceLimits
    ) -> np.ndarray[Any, Any]:
        return predict(geometry, mappings, limits)

    def tiling(
        self, geometry: Geometry, mapping: StreamMapping, limits: DeviceLimits
    ) -> StreamTiling:
        return StreamTiling(geometry, mapping, limits)
