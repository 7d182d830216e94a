"""Arrays that a module holds, and those that lowerings make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from glenside.language import Term, builders, evaluate, memory, topological_order

Array = np.ndarray[Any, Any]

_KNOWN_LIMIT = 1 << 16
"""Elements up to which a value is computed while importing: shape arithmetic is tiny."""


class Arrays(Protocol):
    """Where a lowering puts the arrays that it makes."""

    def parameter(self, array: Array, name: str, /) -> Term:
        """A term that stands for ``array``."""

    def make_room(self, shape: Sequence[float], what: str, /) -> None:
        """Refuses to make an array that does not fit in memory.

        :raises NotEnoughMemory: names what it is for.
        """


class Constants:
    """The constant arrays of one import, by the name of their tensor.

    ``scope`` is what the names of new tensors start with: the variable being bound.
    """

    def __init__(self, taken: set[str]) -> None:
        self.arrays: dict[str, Array] = {}
        self.scope = ""
        self._taken = taken

    def make_room(self, shape: Sequence[float], what: str, /) -> None:
        """Refuses to make an array that does not fit in memory; names what is being bound."""
        memory.require(math.prod(map(float, shape)) * 16, f"{self.scope}: {what}")

    def parameter(self, array: Array, name: str) -> Term:
        """A term that stands for ``array``: a number, or a tensor called ``scope.name``."""
        if array.size == 1:
            return builders.constant(array.item(), array.shape, array.dtype.name)
        stem = f"{self.scope}.{name}" if self.scope else name
        unique, count = stem, 1
        while unique in self._taken:
            unique, count = f"{stem}_{count}", count + 1
        self._taken.add(unique)
        self.arrays[unique] = array
        return builders.tensor(unique, array.shape, array.dtype.name)

    def known(self, term: Term) -> Array | None:
        """The value of a small term that depends on no input; None for any other."""
        for each in topological_order([term]):
            if each.type.size > _KNOWN_LIMIT:
                return None
            if each.op == "tensor" and each["name"] not in self.arrays:
                return None
        return evaluate([term], self.arrays)[0]
