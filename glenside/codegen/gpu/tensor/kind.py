"""What kinds of mappings to matrix units have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits
from glenside.codegen.gpu.mapping.kind import Kind, Work
from glenside.codegen.gpu.mapping.solver import Problem
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.tensor.geometry import Geometry, geometry_of, unfit
from glenside.codegen.gpu.tensor.kernel import UnitNest
from glenside.codegen.gpu.tensor.mapping import UnitMapping
from glenside.codegen.gpu.tensor.tiling import UnitTiling


class UnitKind[M: UnitMapping](Kind[ProductSpace, M]):
    """Products whose operands matrix units take, by their geometry."""

    nest: ClassVar[type[UnitNest[Any]]]

    def unfit(self, space: ProductSpace, limits: DeviceLimits) -> str:
        geometry = geometry_of(space, limits)
        return unfit(space, limits) if geometry is None else self.unfit_geometry(geometry, limits)

    def problems(self, space: ProductSpace, limits: DeviceLimits) -> Sequence[Problem[M]]:
        return self.geometry_problems(_geometry(space, limits), limits)

    def predict(
        self, space: ProductSpace, mappings: Sequence[M], limits: DeviceLimits
    ) -> np.ndarray[Any, Any]:
        return self.predict_geometry(_geometry(space, limits), mappings, limits)

    def check(self, space: ProductSpace, mapping: M, limits: DeviceLimits) -> None:
        geometry = geometry_of(space, limits)
        if geometry is not None:
            self.tiling(geometry, mapping, limits).check()

    def kernels(self, work: Work[ProductSpace], mapping: M) -> list[DeviceKernel]:
        nest = self.nest(work.builder, work.step, work.limits, work.space, mapping)
        return nest.kernels(work.name)

    def alike(self, mapping: M) -> Sequence[Hashable]:
        m, form = mapping, getattr(mapping, "apart", False)
        return (
            ("tile", form, m.tile, m.rows, m.groups),
            ("split", form, m.tile, m.split),
            ("depth", form, m.rows, m.groups, m.split, m.chunk),
        )

    @abstractmethod
    def unfit_geometry(self, geometry: Geometry, limits: DeviceLimits) -> str:
        """Why the device's units are not used so; nothing where they are."""

    @abstractmethod
    def geometry_problems(self, geometry: Geometry, limits: DeviceLimits) -> Sequence[Problem[M]]:
        """As :meth:`problems`."""

    @abstractmethod
    def predict_geometry(
        self, geometry: Geometry, mappings: Sequence[M], limits: DeviceLimits
    ) -> np.ndarray[Any, Any]:
        """As :meth:`predict`."""

    @abstractmethod
    def tiling(self, geometry: Geometry, mapping: M, limits: DeviceLimits) -> UnitTiling:
        """The numbers that follow from a mapping."""


def _geometry(space: ProductSpace, limits: DeviceLimits) -> Geometry:
    geometry = geometry_of(space, limits)
    assert geometry is not None
    return geometry
