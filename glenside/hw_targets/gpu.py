"""What the OpenCL and CUDA targets share: rules, cost model, compilation by one device's limits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import TargetError
from glenside.hw_targets.target import Executable, Progress
from glenside.language import AccessType, Term

if TYPE_CHECKING:
    from glenside.codegen.device.device import Code
    from glenside.codegen.footprint import Footprint
    from glenside.codegen.gpu.interface import DeviceLimits, Dialect
    from glenside.extraction.cost import CostModel
    from glenside.rewrites.ruleset import RuleSet

Array = np.ndarray[Any, Any]


class GpuTarget:
    """A device, the machine's own or one known by its profile."""

    dialect: Dialect
    links = False
    """Its programs are source, or machine code that is linked already."""

    def __init__(self, option: str = "") -> None:
        """The machine's device, or with ``option`` the profile of that name; ``tf32``, alone or
        after the profile and a colon, lets matrix units round what products of float32 multiply.

        :raises TargetError: there is no such profile, or the device has no such units.
        """
        self.option = option
        self._limits: DeviceLimits | None = None
        words = option.split(":") if option else []
        self.tf32 = words[-1:] == ["tf32"]
        profile = ":".join(words[:-1] if self.tf32 else words)
        if profile:
            from glenside.codegen.device.limits import named_limits

            self._limits = self._rounding(named_limits(self.dialect, profile))

    def admitted(self, limits: DeviceLimits) -> DeviceLimits:
        """What of a device's limits kernels can be made for here."""
        return limits

    def _rounding(self, limits: DeviceLimits) -> DeviceLimits:
        limits = self.admitted(limits)
        if not self.tf32:
            return limits
        if not limits.has_matrix_units:
            raise TargetError(
                f"{limits.name}: no matrix units that take tf32, or no nvcc to compile for them"
            )
        return replace(limits, name=f"{limits.name}:tf32", tf32=True)

    @property
    def name(self) -> str:
        """``opencl``, ``cuda:sm_90`` and the like."""
        return f"{self.dialect}:{self.option}" if self.option else self.dialect

    @property
    def limits(self) -> DeviceLimits:
        """What the device allows.

        :raises TargetError: no profile was named and there is no device.
        """
        if self._limits is None:
            self._limits = self._rounding(self.read_limits())
        return self._limits

    @limits.setter
    def limits(self, limits: DeviceLimits) -> None:
        self._limits = limits

    def read_limits(self) -> DeviceLimits:
        """From the machine's device."""
        raise NotImplementedError

    def builder(self) -> Callable[[str], Code] | None:
        """What makes machine code of a source text; None: the device does when it runs."""
        return None

    def rules(self) -> Sequence[RuleSet]:
        """The layout simplifications, and minimal filtering; how a product is computed is its
        kernel's mapping."""
        from glenside.rewrites.rules.layout import LAYOUT
        from glenside.rewrites.rules.winograd import WINOGRAD

        # Matrix units multiply so fast that transforms would take longer than what they save.
        return [LAYOUT] if self.tf32 else [LAYOUT, WINOGRAD]

    def cost_model(self) -> CostModel:
        """Time by the roofline model; where memory is scarce also what that is worth."""
        from glenside.extraction.cost import Roofline
        from glenside.extraction.memory import WeighedMemory

        limits = self.limits
        time = Roofline(
            peak_flops=limits.peak["float32"],
            bandwidth=limits.bandwidth,
            launch_seconds=limits.launch_seconds,
        )
        if not limits.byte_seconds:
            return time
        return WeighedMemory(time, limits.byte_seconds, "roofline-and-memory")

    def with_scratch(self, scratch_bytes: int) -> GpuTarget:
        """The same, split reductions having no more than that for their partial sums."""
        found = copy.copy(self)
        found.limits = replace(self.limits, scratch_bytes=scratch_bytes)
        return found

    def footprint(
        self,
        outputs: Sequence[Term],
        inputs: Mapping[str, AccessType],
        params: Mapping[str, Array],
        progress: Progress | None = None,
    ) -> Footprint:
        """The memory that the compiled program will hold."""
        from glenside.codegen.device.compile import plan_for_device
        from glenside.codegen.gpu.mapping.tuning import chooser

        choose = chooser(self.limits)
        planned = plan_for_device(
            outputs, inputs, params, self.limits, self.dialect, choose, progress
        )
        return planned.footprint

    def compile(
        self,
        outputs: Sequence[Term],
        inputs: Mapping[str, AccessType],
        params: Mapping[str, Array],
        progress: Progress | None = None,
    ) -> Executable:
        """Compiles for the device, with the mappings of its tuning file where it has some."""
        from glenside.codegen.device.compile import compile_for_device
        from glenside.codegen.gpu.mapping.tuning import chooser

        return compile_for_device(
            outputs,
            inputs,
            params,
            self.limits,
            self.dialect,
            choose=chooser(self.limits),
            build=self.builder(),
            progress=progress,
        )
