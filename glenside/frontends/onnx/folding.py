"""Decides which values are computed while importing.

Folding must settle all shape arithmetic and never blow a small file up: a 2 KB model can describe
gigabytes. So a value is folded only when it stays small, or not larger than what it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glenside.language import TRANSFORMERS, Term, evaluate, topological_order
from glenside.language.shape import HALVES

Array = np.ndarray[Any, Any]

SMALL = 4096
"""Bytes that are folded without a further thought: indices, shapes, per-channel numbers."""


def held_bytes(array: Array) -> int:
    """Memory that an array really takes: a broadcast number takes that of one."""
    kept = (n for n, stride in zip(array.shape, array.strides, strict=True) if stride)
    return math.prod(kept) * array.itemsize


class Folding:
    """Folds terms over known leaves, within a limit on their size."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept: list[str] = []
        """Names of the values that the limit kept as terms."""

    def fold(self, name: str, term: Term, leaves: Mapping[str, Array]) -> Array | None:
        """As :meth:`value`; remembers the name of what is too large.

        What computes in halves stays a term: of it, too, what halves cannot hold is kept in
        float32 (:mod:`glenside.frontends.lowering.half_precision`).
        """
        if any(each.op == "compute" and each.dtype in HALVES for each in topological_order([term])):
            return None
        value = self.value(term, leaves)
        if value is None:
            self.kept.append(name)
        return value

    def value(self, term: Term, leaves: Mapping[str, Array]) -> Array | None:
        """The value of ``term``, whose tensors are all in ``leaves``; None when it is too large."""
        order = topological_order([term])
        used = {each["name"]: leaves[each["name"]] for each in order if each.op == "tensor"}
        held = sum(map(held_bytes, used.values()))
        if not self._worth(term, order, held):
            return None
        (value,) = evaluate([term], used)
        value.setflags(write=False)
        return value

    def _worth(self, term: Term, order: Sequence[Term], held: int) -> bool:
        size = term.type.nbytes
        if size <= max(SMALL, held):
            limit = max(self.limit, 4 * held)
        elif all(each.op in TRANSFORMERS or not each.children for each in order):
            # Repeats what is there already: the term says the same in less space.
            return False
        else:
            limit = self.limit
        # A product under its dot is contracted, never built.
        built = (each for each in order if each.children and each.op != "cart_prod")
        return size <= max(limit, held) and all(each.type.nbytes <= limit for each in built)
