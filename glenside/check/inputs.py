"""Inputs for the check: such that the model takes them.

Integers may be positions in something, labels, lengths: a model takes few of all numbers. What it
computes of them before it indexes with them is tried out, which is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from glenside.errors import GlensideError
from glenside.language import Model, Term, evaluate, random_inputs, topological_order
from glenside.language.model import Array
from glenside.language.shape import FLOATS, is_float

_WIDTHS = (9, 7, 5, 3, 2, 1)
"""How far apart the integers of an input may be, at most; the first that the model takes."""
_MOST_INDICES = 100
"""Index computations that are tried out; those of loops that were written out are many and alike.
"""


def drawn_inputs(model: Model, seed: int = 0) -> Iterator[dict[str, Array]]:
    """Inputs that a model may take, the most telling ones first; each draw is reproducible."""
    first = random_inputs(model.inputs, seed, model.roots)
    yield _within_indices(model, first, seed)
    counted = [name for name, of in model.inputs.items() if of.dtype not in (*FLOATS, "bool")]
    for value in (0, 1) if counted else ():
        yield first | {name: np.full_like(first[name], value) for name in counted}
    positive = {name: np.abs(a) for name, a in first.items() if name not in counted}
    yield first | positive | {name: np.ones_like(first[name]) for name in counted}


def _within_indices(model: Model, first: dict[str, Array], seed: int) -> dict[str, Array]:
    """``first`` with integers that are positions changed until they lie within what they index."""
    tried = _Indices(model)
    if not tried.names or not tried.violations(first):
        return first
    rng = np.random.default_rng(seed)
    lowest = dict.fromkeys(tried.names, 0)

    def filled() -> dict[str, Array]:
        return first | {name: np.full_like(first[name], at) for name, at in lowest.items()}

    fewest = tried.violations(filled())
    for name in tried.names * 2:
        for value in tried.values:
            if not fewest:
                break
            before, lowest[name] = lowest[name], value
            count = tried.violations(filled())
            if count < fewest:
                fewest = count
            else:
                lowest[name] = before
    inputs = filled()
    for name in tried.names if not fewest else ():
        for width in _WIDTHS:
            low, shape = lowest[name], first[name].shape
            drawn = rng.integers(low, low + width, shape, endpoint=True)
            wider = inputs | {name: drawn.astype(first[name].dtype)}
            if not tried.violations(wider):
                inputs = wider
                break
    return inputs


class _Indices:
    """The positions that a model computes of integer inputs.

    ``names`` are those inputs, ``values`` numbers that they may be worth trying.
    """

    def __init__(self, model: Model) -> None:
        self._params = model.params
        self._gathers: list[tuple[Term, int]] = []
        leaves: dict[str, None] = {}
        constants: dict[int, None] = {}
        counted: dict[Term, bool] = {}  # Whether integers alone lead to a term.
        for term in model.terms():
            if len(self._gathers) >= _MOST_INDICES:
                break
            counted[term] = (
                not is_float(np.dtype(term.dtype))
                and term.op not in ("host_op", "call", "blocked", "cart_prod")
                and all(counted[child] for child in term.children)
            )
            if term.op != "gather" or not counted[term.children[1]]:
                continue
            below = topological_order([term.children[1]])
            given = [t["name"] for t in below if t.op == "tensor" and t["name"] in model.inputs]
            if given:
                self._gathers.append((term.children[1], term.children[0].shape[term["axis"]]))
                leaves |= dict.fromkeys(given)
                constants |= {int(t["value"]): None for t in below if t.op == "constant"}
        self.names = list(leaves)
        small = [value for value in constants if abs(value) <= 1 << 20][:20]
        offsets = [sign * value for value in small for sign in (1, -1)]
        self.values = list(dict.fromkeys([0, 1, 2, -1, *offsets, *range(3, 10)]))

    def violations(self, inputs: Mapping[str, Array]) -> int:
        """How many of the positions lie outside."""
        env = {**self._params, **inputs}
        count = 0
        for indices, length in self._gathers:
            try:
                (value,) = evaluate([indices], env)
            except GlensideError:
                count += 1
            else:
                count += bool(value.size) and not (-length <= value.min() <= value.max() < length)
        return count
