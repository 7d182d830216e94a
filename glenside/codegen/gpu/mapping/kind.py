"""What a kind of mapping is: one way of computing products, or reductions over rows, from its
constraints to its kernels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect
from glenside.codegen.gpu.mapping.product import ProductMapping
from glenside.codegen.gpu.mapping.solver import Problem
from glenside.codegen.kernel.builder import KernelBuilder
from glenside.codegen.program.record import Kernel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Ranked[M: ProductMapping]:
    """The mappings that were found, best first; ``whole``: none is missing for lack of time."""

    mappings: Sequence[M]
    whole: bool = True


class Space(Protocol):
    """What there is to map: a product, or reductions over rows."""

    def key(self) -> str:
        """Text that tells spaces apart whose mappings may differ."""
        ...


@dataclass(frozen=True)
class Work[S: Space]:
    """A step that is mapped, and what its kernels are made with and for."""

    builder: KernelBuilder
    step: Kernel
    space: S
    name: str
    """What kernels are called, or begin with."""
    limits: DeviceLimits
    dialect: Dialect


class Kind[S: Space, M: ProductMapping](Protocol):
    """A kind of mapping; a class of its own for each, with no state."""

    name: str
    """That of its mappings."""

    def unfit(self, space: S, limits: DeviceLimits) -> str:
        """Why a product cannot be mapped so on a device; nothing where it can."""
        ...

    def problems(self, space: S, limits: DeviceLimits) -> Sequence[Problem[M]]:
        """What mappings of a product that fits have to obey: solutions of any will do."""
        ...

    def predict(self, space: S, mappings: Sequence[M], limits: DeviceLimits) -> Array:
        """Seconds of each mapping."""
        ...

    def check(self, space: S, mapping: M, limits: DeviceLimits) -> None:
        """Refuses a mapping that is none of such a product.

        :raises TargetError: says what does not fit.
        """

    def kernels(self, work: Work[S], mapping: M) -> list[DeviceKernel]:
        """The launches of a product, in order.

        :raises Unprintable: a part of what is computed has no form in the kernel's language.
        """
        ...

    def alike(self, mapping: M) -> Sequence[Hashable]:
        """What mappings that differ in no more than a detail have in common."""
        return ()

    def scratch_bytes(self, space: S, mapping: M) -> int:
        """Bytes of memory that the partial sums of a mapping take."""
        return 0

    def suffices(self, space: S, mapping: M, limits: DeviceLimits) -> bool:
        """Whether the device has enough to do, so that kinds for few results cannot be faster."""
        return True

    def ranked(self, space: S, limits: DeviceLimits) -> Ranked[M]:
        """The mappings that obey all constraints, best first; maybe none."""
        if self.unfit(space, limits):
            return Ranked(())
        problems = self.problems(space, limits)
        found = [mapping for problem in problems for mapping in problem.solutions()]
        whole = all(problem.whole for problem in problems)
        return Ranked(self.timed(space, self.admitted(space, found, limits), limits), whole)

    def admitted(self, space: S, mappings: Sequence[M], limits: DeviceLimits) -> list[M]:
        """Those for whose partial sums there is room."""
        return [m for m in mappings if self.scratch_bytes(space, m) <= limits.scratch_bytes]

    def timed(self, space: S, mappings: Sequence[M], limits: DeviceLimits) -> list[M]:
        """The mappings with their predicted time, best first."""
        if not mappings:
            return []
        times = self.predict(space, mappings, limits)
        made = [replace(m, predicted=float(t)) for m, t in zip(mappings, times, strict=True)]
        return self.sorted(space, made, limits)

    def sorted(self, space: S, mappings: Sequence[M], limits: DeviceLimits) -> list[M]:
        """The mappings by their predicted time, and what their memory is worth."""
        return sorted(
            mappings, key=lambda m: (self.weighed(space, m, limits), m.predicted, m.order)
        )

    def weighed(self, space: S, mapping: M, limits: DeviceLimits) -> float:
        """Seconds that a mapping is predicted to take, and what its scratch memory is worth."""
        if not limits.byte_seconds:
            return mapping.predicted
        return mapping.predicted + limits.byte_seconds * self.scratch_bytes(space, mapping)
