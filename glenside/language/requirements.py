"""What a model asks of the values it is given: indices within bounds, a branch that fits.

Compiled kernels cannot stop at a bad index: a ``gather`` out of range reads the nearest slice. So
what can be told from the inputs before a program runs is checked then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import InputError
from glenside.language.interpreter import evaluate
from glenside.language.operators import TRANSFORMERS
from glenside.language.shape import FLOATS, INTEGERS
from glenside.language.syntax import parse, to_text
from glenside.language.term import Term, topological_order

Array = np.ndarray[Any, Any]

LARGEST = 2**20
"""Bytes of all values that are worked out for one requirement, beside the inputs."""

_CHEAP = TRANSFORMERS - {"cart_prod", "windows"} | {"compute", "cast", "where", "constant"}


@dataclass(frozen=True)
class Requirement:
    """A value made of inputs alone that must be from ``low`` up and below ``high``.

    ``what`` begins the error where it is not: who asks for it, and for what.
    """

    term: Term
    low: int
    high: int
    what: str

    def to_json(self) -> dict[str, Any]:
        """All of it in JSON's types, as :meth:`from_json` reads it."""
        bounds = {"from": self.low, "below": self.high}
        return {"value": to_text(self.term), **bounds, "what": self.what}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Requirement:
        """What :meth:`to_json` gave."""
        return cls(parse(data["value"]), int(data["from"]), int(data["below"]), str(data["what"]))

    def check(self, inputs: Mapping[str, Array]) -> None:
        """
        :raises InputError: an element of the value is outside.
        """
        if self.term.op == "tensor":
            value = inputs[self.term["name"]]
        else:
            (value,) = evaluate([self.term], inputs)
        wrong = outside(value, self.low, self.high)
        if wrong is not None:
            raise InputError(f"{self.what}, got {wrong}")


def outside(value: Array, low: int, high: int) -> Any:
    """An element, as a Python number, that is not from ``low`` up and below ``high``, or None."""
    if not value.size:
        return None
    least, most = value.min(), value.max()
    if least < low or most >= high:
        return (least if least < low else most).item()
    return None


def can_require(term: Term, inputs: Collection[str]) -> bool:
    """Whether a value depends on (some of) these inputs only and is cheaply worked out.

    Values that floats were rounded to do not count: they may differ from what is compiled.
    """
    order = topological_order([term])
    leaves = [each for each in order if each.op == "tensor"]
    made = [each for each in order if each.op != "tensor"]
    return (
        bool(leaves)
        and all(each["name"] in inputs for each in leaves)
        and all(each.op in _CHEAP and each.dtype not in FLOATS for each in made)
        and all(each.dtype not in FLOATS for each in leaves)
        and sum(each.type.nbytes for each in made) <= LARGEST
    )


def index_requirements(
    roots: Iterable[Term], inputs: Collection[str], names: Mapping[Term, str]
) -> tuple[Requirement, ...]:
    """Of every ``gather`` whose positions are made of inputs alone, that they are in range.

    :param names: what the user calls the values of terms.
    """
    return tuple(dict.fromkeys(_index_requirements(roots, inputs, names)))


def _index_requirements(
    roots: Iterable[Term], inputs: Collection[str], names: Mapping[Term, str]
) -> Iterator[Requirement]:
    for term in topological_order(roots):
        if term.op != "gather" or term.children[1].dtype not in INTEGERS:
            continue
        data, indices = term.children
        if can_require(indices, inputs):
            length, axis = data.shape[term["axis"]], term["axis"]
            which = repr(names[term]) if term in names else "a gather"
            yield Requirement(
                indices,
                -length,
                length,
                f"{sources_of(indices)}: {which} takes positions from {-length} to {length - 1} "
                f"of axis {axis}",
            )


def sources(term: Term) -> set[str]:
    """The tensors that a value is made of."""
    return {each["name"] for each in topological_order([term]) if each.op == "tensor"}


def sources_of(term: Term) -> str:
    """The inputs that a value is made of, as errors spell them."""
    leaves = sources(term)
    return f"input{'s' * (len(leaves) > 1)} {', '.join(map(repr, sorted(leaves)))}"
