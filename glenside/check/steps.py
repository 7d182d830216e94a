"""Rounding to steps: where the last bit of a float decides about a whole step of what follows.

A model that quantises its own activations, rounds or compares them gives other integers when its
float sums are added in another order. That is no fault of a program. So where two programs part
behind such a step, the compiled one is judged kernel by kernel: each is given what the program
itself computed before, and may differ by steps alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.check.errors import STEPS, compared
from glenside.explain.regions import COMPUTING
from glenside.language import Term, builders, topological_order, trace, units
from glenside.language.shape import is_float

Array = np.ndarray[Any, Any]

_STEPPING = frozenset(
    {"round", "floor", "ceil", "sign", "mod", "fmod", "argmax", "argmin"}
    | {"equal", "less", "less_equal", "greater", "greater_equal"}
)
_SHARE = 0.05
"""Of the elements that are rounded, how many may go the other way."""


def is_stepping(term: Term) -> bool:
    """Whether a term takes floats and gives the same for all between two steps."""
    if not term.children or not is_float(np.dtype(term.children[0].dtype)):
        return False
    if term.op == "cast":
        return not is_float(np.dtype(term.dtype))
    return term.op == "compute" and term["function"] in _STEPPING


def count_steps(got: Array, right: Array, tolerance: float) -> int | None:
    """How many elements went the other way; None where that cannot be all that differs."""
    difference, scale = compared(got, right)
    if got.shape != right.shape or not np.isfinite(difference):
        return None
    a, b = got.astype(np.float64), right.astype(np.float64)
    apart = np.abs(np.where(np.isfinite(b), a - b, 0.0)) > tolerance * scale
    count = int(apart.sum())
    if right.dtype == bool:
        return count if count <= _SHARE * right.size else None
    if is_float(right.dtype):
        return count if difference <= STEPS * scale else None
    # Integers that were rounded go by one; sums of such by what one is multiplied with.
    few = difference <= 1 and count <= _SHARE * right.size
    return count if few or difference <= STEPS * scale else None


@dataclass(frozen=True)
class Judged:
    """``culprit`` is the first extracted term that was computed wrongly, None where none was;
    ``steps`` counts elements that went the other way."""

    culprit: Term | None
    steps: int
    error: float = 0.0


def judge_compiled(
    outputs: Sequence[Term],
    env: Mapping[str, Array],
    compiled: Mapping[Term, Array],
    allowed: Callable[[Array], float],
    explained: Callable[[Term, float, Mapping[str, Array]], bool],
    step: Callable[[int, int], None] | None = None,
) -> Judged:
    """Holds every value that a compiled program has in memory against what NumPy computes from
    the values it has for what that is made of.

    :param allowed: relative error, given the right value.
    :param explained: whether a difference is rounding, given the term over those values.
    """
    held = {term: array for term, array in compiled.items() if term.op in COMPUTING}
    leaves: dict[Term, Term] = {}
    given = dict(env)
    fed: dict[Term, Term] = {}
    for number, term in enumerate(topological_order(outputs)):
        # What units mean, not what their simulators compute: those are under suspicion too.
        fed[term] = units.meaning(term, tuple(leaves.get(c, fed[c]) for c in term.children))
        if term in held:
            name = f"computed {number}"
            given[name] = held[term]
            leaves[term] = builders.leaf(name, term.type)
    wanted = {fed[term]: term for term in fed if term in held}
    total = len(topological_order(wanted)) if step else 0
    steps = 0
    for done, (each, right) in enumerate(trace(list(wanted), given), 1):
        if step:
            step(min(done, total), total)
        if each not in wanted:
            continue
        got = held[wanted[each]]
        difference, scale = compared(got, right)
        if difference <= allowed(right) * scale:
            continue
        stepping = any(map(is_stepping, topological_order([each])))
        count = count_steps(got, right, allowed(right)) if stepping else None
        if count is not None:
            steps += count
        elif not explained(each, difference, given):
            return Judged(wanted[each], steps, difference / scale)
    return Judged(None, steps)
