"""What the nodes of a term read, and what is known of a program before the first is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.exporters.onnx.graph import Graph, Value
from glenside.language import Term, topological_order
from glenside.language.operators import RENUMBERING

Array = np.ndarray[Any, Any]

Emit = Callable[[Graph, list[Value]], Value]


@dataclass(frozen=True)
class Step:
    """How one term is computed: ``emit`` gets the values of ``reads``."""

    reads: tuple[Term, ...]
    emit: Emit


class Program:
    """What is known of all terms before the first node is written.

    ``source[t]`` is the term whose elements ``t`` holds in the same order: operators that change
    nothing but the shape or the split are passed over. ``uses[t]`` counts the readers. ``params``
    are the arrays of tensors that are no operands of the program, ``opset`` what it is written in.
    """

    def __init__(
        self, roots: Iterable[Term], opset: int, params: Mapping[str, Array] | None = None
    ) -> None:
        self.opset = opset
        self.params = params or {}
        self.order = topological_order(roots)
        self.source: dict[Term, Term] = {}
        self.uses: dict[Term, int] = {}
        for term in self.order:
            same = term.op in RENUMBERING or _does_nothing(term)
            self.source[term] = self.source[term.children[0]] if same else term
            for child in term.children:
                self.uses[child] = self.uses.get(child, 0) + 1

    def compact(self, term: Term) -> Term:
        """What stands in for ``term`` where NumPy broadcasting follows."""
        source = self.source[term]
        if source.shape != term.shape or source.op != "broadcast":
            return source if source.shape == term.shape else term
        narrow = source.children[0]
        below = self.source[narrow]
        if narrow.shape == (1,) * (narrow.type.rank - below.type.rank) + below.shape:
            return below
        return narrow


def _does_nothing(term: Term) -> bool:
    if term.op == "transpose":
        return list(term["permutation"]) == list(range(term.type.rank))
    if term.op in ("slice", "pad", "broadcast"):
        return term.shape == term.children[0].shape
    return term.op == "cast" and term.dtype == term.children[0].dtype
