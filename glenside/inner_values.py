"""Compares what lies between inputs and outputs of two programs of one e-graph.

Outputs may hide what goes on before them: behind a saturated softmax nearly any numbers give the
same. Values of the imported program whose e-class the extracted program computes too are therefore
compared as well, and with them what the compiled program holds in memory.

Inner values can be worse conditioned than outputs (``x - mean(x)`` of nearly equal numbers is all
rounding). So where they differ, inputs and parameters are changed by a few units in the last place:
a difference not far above what that makes is rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.explain.regions import COMPUTING
from glenside.language import Model, Term, topological_order, trace
from glenside.language.memory import require
from glenside.language.shape import is_float

Array = np.ndarray[Any, Any]

NOISE = 32
"""How many times what the change of inputs makes is still rounding."""

UNITS = 4
"""Units in the last place by which inputs and parameters are changed, at most."""

EPSILON = {"bfloat16": 2.0**-7}
"""Of dtypes that NumPy does not know of itself."""


@dataclass(frozen=True)
class Suspect:
    """A value that differs more than is allowed.

    ``imported`` is the term of the model that has it; None where only the compiled program is under
    suspicion. ``term`` is what NumPy computes, ``difference`` the largest, ``error`` that relative
    to the largest magnitude.
    """

    term: Term
    imported: Term | None
    difference: float
    error: float


def compare_inner(
    model: Model,
    counterparts: Mapping[Term, Term],
    meaning: Mapping[Term, Term],
    outputs: Sequence[Term],
    env: Mapping[str, Array],
    compiled: Mapping[Term, Array],
    allowed: Callable[[Array], float],
    allowed_compiled: float,
    step: Callable[[int, int], None] | None = None,
) -> tuple[dict[Term, Array], list[Suspect]]:
    """The values of the model's roots, and what differs on the way, in the model's order.

    Both programs are computed in one walk, what they share once, and values are forgotten as soon
    as they have been compared.

    :param counterparts: for terms of the model the extracted term of the same e-class.
    :param meaning: what extracted terms mean, without calls of units.
    :param outputs: the extracted program.
    :param compiled: values of extracted terms that the compiled program computed.
    :param allowed: relative error of a rewritten value, given the right one.
    :param allowed_compiled: relative error of a compiled one; floats only are looked at.
    """
    partners: dict[Term, list[tuple[Term, Term]]] = {}
    order: list[Term] = []
    for term in model.terms():
        # A class may have been picked a term for without the program's having a use for it.
        other = meaning.get(counterparts.get(term, term))
        order.append(term)
        if (
            other is not None
            and other is not term
            and (term.op in COMPUTING or term in model.names)
        ):
            order.append(other)
            for each in (term, other):
                partners.setdefault(each, []).append((term, other))
    held: dict[Term, list[Term]] = {}
    for extracted, array in compiled.items():
        if is_float(array.dtype) and extracted.op in COMPUTING and extracted in meaning:
            held.setdefault(meaning[extracted], []).append(extracted)
    order += [meaning[term] for term in outputs]
    roots = set(model.roots)
    results: dict[Term, Array] = {}
    waiting: dict[tuple[Term, Term], Array] = {}
    suspects: list[Suspect] = []
    total = len(topological_order(order)) if step else 0
    for done, (term, value) in enumerate(trace(order, env), 1):
        if term in roots:
            require(term.type.nbytes, f"{term.op}: a result of {term.type}")
            results[term] = np.array(value, dtype=term.dtype, order="C")
        for pair in partners.get(term, ()):
            first = waiting.pop(pair, None)
            if first is None:
                waiting[pair] = value
                continue
            got, right = (first, value) if term is pair[0] else (value, first)
            difference, scale = compared(got, right)
            if difference > allowed(right) * scale:
                suspects.append(Suspect(pair[0], pair[0], difference, difference / scale))
        for extracted in held.get(term, ()):
            difference, scale = compared(compiled[extracted], value)
            if difference > allowed_compiled * scale:
                suspects.append(Suspect(term, None, difference, difference / scale))
        if step:
            step(min(done, total), total)
    return results, suspects


def compared(got: Array, right: Array) -> tuple[float, float]:
    """The largest difference, and the largest magnitude of what is right (1 where that is 0);
    infinite where shapes, NaNs or infinities differ."""
    if got.shape != right.shape:
        return float("inf"), 1.0
    if not right.size:
        return 0.0, 1.0
    if right.dtype.kind != "f":
        got, right = got.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        scale = float(np.abs(right).max())
        difference = float(np.abs(got - right).max())
        if not np.isfinite(difference) or not np.isfinite(scale):
            finite = np.isfinite(right)
            if not np.array_equal(got[~finite], right[~finite], equal_nan=True):
                return float("inf"), 1.0
            if not finite.any():
                return 0.0, 1.0
            scale = float(np.abs(right[finite]).max())
            difference = float(np.abs(got[finite] - right[finite]).max())
    return difference, scale or 1.0


def unexplained(suspects: Iterable[Suspect], env: Mapping[str, Array]) -> list[Suspect]:
    """Those that differ by more than rounding does: see the module."""
    pending: dict[Term, list[Suspect]] = {}
    for each in suspects:
        pending.setdefault(each.term, []).append(each)
    terms = list(pending)
    noise: dict[Term, float] = {}
    for (term, right), (_, other) in zip(
        trace(terms, env), trace(terms, _changed(env)), strict=True
    ):
        if term in pending:
            noise[term] = compared(other, right)[0]
    return [
        suspect
        for term in terms
        for suspect in pending[term]
        if suspect.difference > NOISE * noise.get(term, 0.0)
    ]


def _changed(env: Mapping[str, Array], seed: int = 0) -> dict[str, Array]:
    """Every float by up to :data:`UNITS` in its last place; arrays that repeat one number stay."""
    rng = np.random.default_rng(seed)
    result = {}
    for name, array in env.items():
        array = np.asarray(array)
        if is_float(array.dtype) and array.flags.c_contiguous:
            last = EPSILON.get(array.dtype.name) or np.finfo(array.dtype).eps
            by = rng.uniform(-UNITS, UNITS, array.shape) * last
            array = (array.astype(np.float64) * (1 + by)).astype(array.dtype)
        result[name] = array
    return result
