"""A model: what every front end returns and every later stage takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glenside.errors import InputError
from glenside.language.memory import require
from glenside.language.requirements import Requirement
from glenside.language.shape import FLOATS, AccessType
from glenside.language.term import Term, topological_order

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Model:
    """A program with named inputs, parameters and outputs.

    ``inputs`` and ``params`` are the ``tensor`` leaves of the outputs, by name; parameters keep
    their arrays here, outside any e-graph (they may be zero-strided broadcasts of one number).
    ``names`` gives terms the name their value has in the user's file; ``operators`` counts the
    operators of that file which compute something from its inputs (what folds to a constant is not
    counted). ``requirements`` are what the inputs' values have to meet. ``defaults`` are the inputs
    of the user's file that it holds values of: here they are parameters.
    """

    name: str
    inputs: dict[str, AccessType]
    params: dict[str, Array]
    outputs: dict[str, Term]
    names: dict[Term, str] = field(default_factory=dict)
    operators: dict[str, int] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    defaults: dict[str, AccessType] = field(default_factory=dict)

    @property
    def roots(self) -> list[Term]:
        """The outputs' terms, in order."""
        return list(self.outputs.values())

    def terms(self) -> list[Term]:
        """All terms once, children first."""
        return topological_order(self.roots)

    def __reduce__(self) -> tuple[Any, ...]:
        # All terms in one text, since each by itself would repeat what lies below it.
        from glenside.language.syntax import to_text

        asked = [each.term for each in self.requirements]
        spelled = to_text(*self.outputs.values(), *self.names, *asked)
        return _unpickled, (
            self.name,
            self.inputs,
            self.params,
            spelled,
            list(self.outputs),
            list(self.names.values()),
            self.operators,
            [(each.low, each.high, each.what) for each in self.requirements],
            self.defaults,
        )

    def leaves(self) -> Iterator[Term]:
        """The ``tensor`` terms that the outputs use."""
        return (term for term in self.terms() if term.op == "tensor")


def _unpickled(
    name: str,
    inputs: dict[str, AccessType],
    params: dict[str, Array],
    spelled: str,
    outputs: list[str],
    names: list[str],
    operators: dict[str, int],
    bounds: list[tuple[int, int, str]],
    defaults: dict[str, AccessType],
) -> Model:
    from glenside.language.syntax import parse_all

    terms = parse_all(spelled)
    given = dict(zip(outputs, terms[: len(outputs)], strict=True))
    named = dict(zip(terms[len(outputs) :], names, strict=False))
    asked = zip(terms[len(outputs) + len(names) :], bounds, strict=True)
    requirements = tuple(Requirement(term, *bound) for term, bound in asked)
    return Model(name, inputs, params, given, named, operators, requirements, defaults)


def random_inputs(
    inputs: Mapping[str, AccessType], seed: int = 0, roots: Iterable[Term] = ()
) -> dict[str, Array]:
    """Reproducible inputs: floats standard normal, integers in 0..9, bools fair.

    :param roots: the program they are for; integers that it uses as positions of a ``gather`` are
        kept within what they index.
    :raises InputError: they do not fit in memory.
    """
    rng = np.random.default_rng(seed)
    limits = _index_limits(roots)
    result: dict[str, Array] = {}
    for name, wanted in inputs.items():
        below = 2 if wanted.dtype == "bool" else max(limits.get(name, 10), 1)
        require(wanted.size * 8, f"input {name!r} of {wanted}")
        try:
            if wanted.dtype in FLOATS:
                value: object = rng.standard_normal(wanted.shape)
            else:
                value = rng.integers(0, below, wanted.shape)
            result[name] = np.asarray(value, wanted.dtype)
        except (MemoryError, ValueError) as problem:  # The latter for more than NumPy can count.
            raise InputError(f"input {name!r} of {wanted} does not fit in memory") from problem
    return result


def _index_limits(roots: Iterable[Term]) -> dict[str, int]:
    """The least length that each tensor helps to index, by name; at most 10."""
    limits: dict[str, int] = {}
    for term in topological_order(roots):
        if term.op == "gather":
            data, indices = term.children
            length = data.shape[term["axis"]]
            for leaf in topological_order([indices]):
                if leaf.op == "tensor":
                    name = leaf["name"]
                    limits[name] = min(limits.get(name, 10), length)
    return limits
