"""The processor of this machine as a target."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import TargetError
from glenside.hw_targets.target import Executable, Progress, TargetKind
from glenside.language import AccessType, Term

if TYPE_CHECKING:
    from glenside.codegen.footprint import Footprint
    from glenside.extraction.cost import CostModel
    from glenside.rewrites.ruleset import RuleSet

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CpuTarget:
    """This machine's processor, through TVM and LLVM."""

    threads: int

    @property
    def name(self) -> str:
        """``cpu``."""
        return "cpu"

    def rules(self) -> Sequence[RuleSet]:
        """im2col and the layout simplifications; no unit is ever called."""
        from glenside.rewrites.rules.im2col import IM2COL
        from glenside.rewrites.rules.layout import LAYOUT

        return [IM2COL, LAYOUT]

    def cost_model(self) -> CostModel:
        """Time by the roofline model."""
        from glenside.extraction import cpu_roofline

        return cpu_roofline(self.threads)

    def footprint(
        self,
        outputs: Sequence[Term],
        inputs: Mapping[str, AccessType],
        params: Mapping[str, Array],
        progress: Progress | None = None,
    ) -> Footprint:
        """The memory that the compiled program will hold."""
        from glenside.codegen.compile import planned_footprint

        return planned_footprint(outputs, inputs, params, progress)

    def compile(
        self,
        outputs: Sequence[Term],
        inputs: Mapping[str, AccessType],
        params: Mapping[str, Array],
        progress: Progress | None = None,
    ) -> Executable:
        """Compiles for ``threads`` threads."""
        from glenside.codegen.compile import compile_terms

        return compile_terms(outputs, inputs, params, threads=self.threads, progress=progress)


def _target(options: str) -> CpuTarget:
    if not re.fullmatch(r"|[1-9]\d*", options):
        raise TargetError(f"cpu takes a number of threads, as cpu:2, or nothing; got {options!r}")
    return CpuTarget(int(options) if options else len(os.sched_getaffinity(0)))


DECLARED = (
    TargetKind("cpu", "this processor, compiled by TVM and LLVM; cpu:N for N threads", _target),
)
