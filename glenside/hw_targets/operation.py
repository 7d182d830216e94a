"""One operation of an accelerator as targets, reports and drivers see it, and where to find it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from glenside.language.shape import AccessType, Shape
from glenside.language.units import Unit, known_unit

if TYPE_CHECKING:
    from glenside.rewrites.ruleset import Rule


class Operation(Protocol):
    """One operation of an accelerator, as it is declared."""

    @property
    def name(self) -> str:
        """Of its unit."""

    @property
    def target(self) -> str:
        """The target that has it, with options."""

    @property
    def unit(self) -> Unit:
        """What the language knows of it."""

    @property
    def joins(self) -> bool:
        """Whether it names the target that has it, which others may have units of too."""

    @property
    def summary(self) -> str:
        """What is said of the target."""

    @property
    def numerics(self) -> str:
        """The number format of its simulator, if that rounds."""

    @property
    def functions(self) -> frozenset[str]:
        """What it computes: the rule families that bring programs to its form follow from it."""

    @property
    def operands(self) -> Mapping[str, str]:
        """What each operand has to be, by name."""

    @property
    def area(self) -> float | None:
        """Of its hardware, where known."""

    def sizes(self, parameters: Shape, operands: Sequence[AccessType]) -> dict[str, int]:
        """The sizes of one call by name; raises :class:`ShapeError`."""

    def cycles_of(self, parameters: Shape, operands: Sequence[AccessType]) -> float | None:
        """Cycles of one call, where known."""

    def description(self) -> list[str]:
        """The declaration in lines of text."""

    def rule(self) -> Rule:
        """The rewrite that finds it."""


def accelerator_of(unit: str) -> Operation | None:
    """The declaration of a unit, if it was declared."""
    known = known_unit(unit)
    return None if known is None else cast("Operation | None", known.declaration)


def target_of(unit: str) -> str:
    """The name of the target that has a unit, without options: under it reports count calls."""
    known = known_unit(unit)
    return divide(known.target)[0] if known is not None and known.target else unit


def cycles_of_calls(
    operation: Operation,
) -> Callable[[str, Shape, int, Sequence[AccessType]], float | None]:
    """What :attr:`Unit.cycles` is of a declaration that tells those of one call: a call of a batch
    is one for each position on the shared axes."""

    def cycles(
        op: str, parameters: Shape, batch: int, operands: Sequence[AccessType]
    ) -> float | None:
        if op != "call":
            return None
        one = [AccessType(each.outer[batch:], each.item, each.dtype) for each in operands]
        once = operation.cycles_of(parameters, one)
        return None if once is None else once * math.prod(operands[0].outer[:batch])

    return cycles


def divide(target: str) -> tuple[str, str]:
    """A target's name and what follows the colon behind it."""
    name, _, options = target.partition(":")
    return name, options
