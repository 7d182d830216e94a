"""Targets: what a program can be optimised for, found by name.

A target adds the rewrites that find its units, the cost model by which programs are chosen, and the
compiler that makes them run. A new one is one module that registers a factory::

    register_target("my-unit", make_my_target, "what it is, how its options are written")

and can live outside this package. Heavy libraries (egglog, TVM) are imported by the methods that
need them, so that listing targets is quick.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from glenside.errors import TargetError
from glenside.language import AccessType, Term

if TYPE_CHECKING:
    from glenside.extraction.cost import CostModel
    from glenside.rewrites.ruleset import RuleSet

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""


class Runnable(Protocol):
    """A compiled program, freshly compiled or loaded."""

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


def check_can_save(target: str | Target) -> None:
    """:raises TargetError: programs for the target need a linker to be saved, and there is none."""
    if getattr(find_target(target), "links", True):
        from glenside.codegen.linking import find_linker

        find_linker()


@dataclass(frozen=True)
class TargetKind:
    """A family of targets: ``make(options)`` gets what follows the colon in the name."""

    name: str
    summary: str
    make: Callable[[str], Target]


_KINDS: dict[str, TargetKind] = {}


def register_target(name: str, make: Callable[[str], Target], summary: str) -> None:
    """Makes a family of targets known; registering a name anew replaces it."""
    _KINDS[name] = TargetKind(name, summary, make)


def targets() -> tuple[TargetKind, ...]:
    """All registered families, by name."""
    return tuple(_KINDS[name] for name in sorted(_KINDS))


def find_target(target: str | Target) -> Target:
    """The target of that name, ``a+b`` having the units of both.

    :raises TargetError: there is none; says which there are.
    """
    if not isinstance(target, str):
        if not hasattr(target, "compile"):
            raise TargetError(f"a target is a name or a Target, got {target!r}")
        return target
    if "+" in target:
        from glenside.hw_targets.offload import joined

        return joined(target)
    name, _, options = target.partition(":")
    kind = _KINDS.get(name)
    if kind is None:
        close = difflib.get_close_matches(name, _KINDS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        known = "; ".join(f"{k.name} ({k.summary})" for k in targets())
        raise TargetError(f"unknown target {target!r}: {hint}the targets are {known}")
    return kind.make(options)
