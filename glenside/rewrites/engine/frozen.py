"""A saturated e-graph as plain Python data: what extraction reads.

E-classes are numbered from 0; an e-node is an operator of the language, its attribute values, and
the classes of its operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glenside.language.operators import OPERATORS
from glenside.language.shape import AccessType
from glenside.language.term import Term, make


@dataclass(frozen=True, slots=True)
class ENode:
    """One way to say the value of a class.

    ``values`` are the attribute values in the order of ``OPERATORS[op].attributes``, as in
    :class:`~glenside.language.term.Term`.
    """

    op: str
    values: tuple[Any, ...]
    children: tuple[int, ...]

    def attributes(self) -> dict[str, Any]:
        """Attribute values by name."""
        declared = OPERATORS[self.op].attributes
        return {a.name: v for a, v in zip(declared, self.values, strict=True)}

    def term(self, children: Sequence[Term]) -> Term:
        """The term this node is over the given operands."""
        return make(self.op, children, **self.attributes())


@dataclass(frozen=True, slots=True)
class FrozenEGraph:
    """E-classes with their nodes and types; ``roots`` are the classes of the program's outputs."""

    classes: tuple[tuple[ENode, ...], ...]
    types: tuple[AccessType, ...]
    roots: tuple[int, ...]

    @property
    def node_count(self) -> int:
        """Number of e-nodes."""
        return sum(map(len, self.classes))
