"""A declaration that was looked through, and what is read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from glenside.hw_targets.declare.sizes import Condition
from glenside.hw_targets.declare.template import OperandType, Template
from glenside.hw_targets.declare.tiling import Tiling


@dataclass(frozen=True)
class CheckedDeclaration:
    """A declaration that holds together."""

    operands: Mapping[str, OperandType]
    template: Template
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    """All size variables."""
    conditions: tuple[Condition, ...]
    others: tuple[Template, ...]
    """Other ways to say the term."""
    splits: dict[Template, int]
    """How many outer axes each part of the term has."""
    dtypes: tuple[str, ...]
    tiling: Tiling


class Declared(Protocol):
    """What an accelerator says of itself, as far as its own sizes are concerned."""

    @property
    def name(self) -> str: ...
    @property
    def operands(self) -> Mapping[str, str]: ...
    @property
    def computes(self) -> str: ...
    @property
    def constraints(self) -> Sequence[str]: ...
    @property
    def dtypes(self) -> Sequence[str] | None: ...
    @property
    def tile(self) -> Mapping[str, int]: ...
    @property
    def lanes(self) -> Mapping[str, int]: ...
    @property
    def tiling(self) -> Tiling: ...
    @property
    def checked(self) -> CheckedDeclaration: ...
