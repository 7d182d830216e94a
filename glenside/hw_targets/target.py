"""What targets and compiled programs offer.

A target adds the rewrites that find its units, the cost model by which programs are chosen, and the
compiler that makes them run. Heavy libraries (egglog, TVM) are imported by the methods that need
them, so that listing targets is quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from glenside.language import AccessType, Term

if TYPE_CHECKING:
    from glenside.extraction.cost import CostModel
    from glenside.rewrites.ruleset import RuleSet

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""


class Runnable(Protocol):
    """A compiled program, freshly compiled or loaded.

    One that can be called for less has three more members: ``names``, its inputs in order;
    ``call(values, out)``, which takes values in that order, as the caller gave them and not
    checked, and writes the outputs to the arrays of ``out`` where there are some; and
    ``bind(values, out)``, which gives a function that does so whenever it is called.
    """

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Output arrays for input arrays by name."""


class Executable(Runnable, Protocol):
    """A program compiled in this process, which can also be saved and looked into."""

    def trace(self, inputs: Mapping[str, Array]) -> dict[Term, Array]:
        """The value of every term that is materialised on the way."""

    def save(self, directory: str) -> None:
        """Writes what is needed to run without the compiler."""

    @property
    def module(self) -> Any:
        """The TVM IRModule of its kernels."""

    @property
    def source(self) -> str:
        """The generated code, as text."""


class Target(Protocol):
    """What a program is optimised for.

    One whose programs are saved without a linker says so: ``links`` is False. Two more methods are
    its own choice: ``footprint(outputs, inputs, params, progress)`` tells without compiling what
    memory a program will hold, as a :class:`~glenside.codegen.footprint.Footprint`, which else
    what it compiles has to tell by an attribute of that name; ``with_scratch(bytes)`` gives the
    same target with less memory for partial sums.
    """

    @property
    def name(self) -> str:
        """As the user writes it, with options: ``systolic-array:16x16``."""

    def rules(self) -> Sequence[RuleSet]:
        """The rewrites that are explored for this target."""

    def cost_model(self) -> CostModel:
        """By which the program is chosen unless the user names another."""

    def compile(
        self,
        outputs: Sequence[Term],
        inputs: Mapping[str, AccessType],
        params: Mapping[str, Array],
        progress: Progress | None = None,
    ) -> Executable:
        """Compiles an extracted program."""


def check_can_save(target: Target) -> None:
    """:raises TargetError: programs for the target need a linker to be saved, and there is none."""
    if getattr(target, "links", True):
        from glenside.codegen.linking import find_linker

        find_linker()


@dataclass(frozen=True)
class TargetKind:
    """A family of targets: ``make(options)`` gets what follows the colon in the name."""

    name: str
    summary: str
    make: Callable[[str], Target]
