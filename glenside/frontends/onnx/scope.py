"""What a node asks of the import that it is part of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import onnx

from glenside.errors import ModelError
from glenside.language import Term

Array = np.ndarray[Any, Any]


class Scope(Protocol):
    """Values by name, and what is known of them while importing."""

    def value(self, name: str) -> Term | tuple[Term, ...] | None:
        """What a name stands for; None where it is left out."""

    def declared(self, name: str) -> onnx.TypeProto | None:
        """What the graph says of the type of a value, if anything."""

    def known(self, term: Term) -> Array | None:
        """The array of a term whose value is known while importing."""

    def sources(self, term: Term) -> frozenset[str]:
        """The inputs on which a term depends."""

    def parameter(self, name: str, array: Array) -> Term:
        """A new constant of the program."""

    def fold(self, name: str, term: Term) -> Term:
        """``term`` as a parameter called ``name`` where it is constant and small enough."""

    def narrow(self, term: Term) -> str | None:
        """The type of 8, 4 or 2 bits that a term is of, held in a wider one."""

    def store(self, term: Term, kind: str) -> None:
        """Notes that ``term`` is of such a type."""

    def require(self, term: Term, low: int, high: int, what: str) -> bool:
        """Has every call check that ``low <= term < high``; False where it cannot."""

    def inline(self, graph: onnx.GraphProto, operands: Mapping[str, Term]) -> list[Any]:
        """The outputs of a subgraph."""

    def attempt(self, graph: onnx.GraphProto) -> list[Any] | ModelError:
        """The same, or why it does not fit the shapes at hand."""
