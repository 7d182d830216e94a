"""Mappings of products of plain matrices to threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits
from glenside.codegen.gpu.mapping.kind import Kind, Work
from glenside.codegen.gpu.matrices.kernel import MatrixNest
from glenside.codegen.gpu.matrices.mapping import MatrixMapping
from glenside.codegen.gpu.matrices.problem import MatrixProblem
from glenside.codegen.gpu.matrices.tiling import MatrixShape, as_matrices
from glenside.codegen.gpu.matrices.time import predict
from glenside.codegen.gpu.space import ProductSpace
from glenside.errors import TargetError


class Matrices(Kind[ProductSpace, MatrixMapping]):
    """Products of constant matrices with what lies in memory, in float32."""

    name = MatrixMapping.kind

    def unfit(self, space: ProductSpace, limits: DeviceLimits) -> str:
        if as_matrices(space) is not None:
            return ""
        return "not a constant float32 matrix by columns that lie in memory without borders"

    def problems(self, space: ProductSpace, limits: DeviceLimits) -> Sequence[MatrixProblem]:
        return [MatrixProblem(_shape(space), limits)]

    def predict(
        self, space: ProductSpace, mappings: Sequence[MatrixMapping], limits: DeviceLimits
    ) -> np.ndarray[Any, Any]:
        shape = _shape(space)
        outer = math.prod(space.axes[loop].size for loop, _ in shape.outer)
        return np.array([predict(each, shape, outer, limits) for each in mappings])

    def check(self, space: ProductSpace, mapping: MatrixMapping, limits: DeviceLimits) -> None:
        if as_matrices(space) is None:
            raise TargetError("the product is not one of plain matrices")

    def kernels(self, work: Work[ProductSpace], mapping: MatrixMapping) -> list[DeviceKernel]:
        w = work
        nest = MatrixNest(w.builder, w.step, w.limits, w.space, mapping, w.dialect)
        return [nest.device_kernel(w.name)]

    def suffices(self, space: ProductSpace, mapping: MatrixMapping, limits: DeviceLimits) -> bool:
        """Whether there are groups for half of the device's compute units at least.

        For fewer it pays to split the reduction over groups, which these mappings do not.
        """
        # Streamed rows that do not lie together make more groups, not fewer.
        tiles = -(-space.size("m") // mapping.rows) * -(-space.size("n") // mapping.columns)
        return space.size("batch") * tiles >= limits.compute_units // 2


def _shape(space: ProductSpace) -> MatrixShape:
    shape = as_matrices(space)
    assert shape is not None
    return shape
