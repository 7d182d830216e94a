"""Arrays that a module holds, and those that lowerings make."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from glenside.errors import ModelError
from glenside.language import (
    Requirement,
    Term,
    builders,
    can_require,
    evaluate,
    memory,
    topological_order,
)
from glenside.language.requirements import outside, sources, sources_of

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

    def require(self, term: Term, low: int, high: int, what: str, /) -> bool:
        """Has ``low <= term < high`` hold: now where it is known, else at every call.

        False where it cannot be told, since the program computes it of more than its inputs, or of
        floats. ``what`` is a clause that says what the operator asks of the value.

        :raises ModelError: it is known and outside.
        """


class Constants:
    """The constant arrays of one import, by the name of their tensor.

    ``scope`` is what the names of new tensors start with: the variable being bound; ``caller`` is
    what errors call the operator that is being lowered.
    """

    def __init__(self, taken: set[str]) -> None:
        self.arrays: dict[str, Array] = {}
        self.scope = ""
        self.caller = ""
        self._taken = taken
        self._asked: list[Requirement] = []

    def make_room(self, shape: Sequence[float], what: str, /) -> None:
        """Refuses to make an array that does not fit in memory; names what is being bound."""
        memory.require(math.prod(map(float, shape)) * 16, f"{self.scope}: {what}")

    def require(self, term: Term, low: int, high: int, what: str, /) -> bool:
        """As :meth:`Arrays.require`; what depends on weights that nobody gave is not asked."""
        known = self.known(term)
        if known is None:
            self._asked.append(Requirement(term, low, high, f"{self.caller} {what}"))
            return can_require(term, sources(term) - self.arrays.keys())
        wrong = outside(known, low, high)
        if wrong is not None:
            raise ModelError(f"{what}, got {wrong}")
        return True

    def requirements(
        self, outputs: Iterable[Term], inputs: Collection[str]
    ) -> tuple[Requirement, ...]:
        """What the operators that ``outputs`` are made of ask of the inputs, at every call."""
        used = set(topological_order(outputs))
        return tuple(
            dict.fromkeys(
                replace(each, what=f"{sources_of(each.term)}: {each.what}")
                for each in self._asked
                if each.term in used and can_require(each.term, inputs)
            )
        )

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
