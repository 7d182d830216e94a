"""Compares what lies between inputs and outputs of two programs of one e-graph.

Outputs may hide what goes on before them: behind a saturated softmax nearly any numbers give the
same. Values of the imported program whose e-class the extracted program computes too are therefore
compared as well, and with them what the compiled program holds in memory.

Each value is computed from what it is made of *in the imported program*: a **region** is an
extracted term above values that the imported program has too. So differences do not add up on the
way, what differs is where the fault is, and what was not rewritten is computed once.

Inner values can be worse conditioned than outputs (``x - mean(x)`` of nearly equal numbers is all
rounding). So where they differ, inputs and parameters are changed by a few units in the last place:
a difference not far above what that makes is rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glenside.check.errors import compared
from glenside.check.steps import count_steps, is_stepping
from glenside.explain.regions import COMPUTING
from glenside.language import Model, Term, topological_order, trace
from glenside.language.memory import require
from glenside.language.shape import is_float
from glenside.language.term import rebuild

Array = np.ndarray[Any, Any]
Step = Callable[[int, int], None]

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


@dataclass
class Compared:
    """What came of a comparison: the values of the model's roots, what differs on the way in the
    model's order, and how many elements went the other way where they are rounded to steps."""

    values: dict[Term, Array] = field(default_factory=dict)
    suspects: list[Suspect] = field(default_factory=list)
    steps: int = 0


def compare_inner(
    model: Model,
    counterparts: Mapping[Term, Term],
    meaning: Mapping[Term, Term],
    outputs: Sequence[Term],
    env: Mapping[str, Array],
    compiled: Mapping[Term, Array],
    allowed: Callable[[Array], float],
    allowed_compiled: Callable[[Array], float],
    step: Step | None = None,
) -> Compared:
    """Computes the model, and the regions of the extracted program over its values.

    Values are forgotten as soon as they have been compared.

    :param counterparts: for terms of the model the extracted term of the same e-class.
    :param meaning: what extracted terms mean, without calls of units.
    :param outputs: the extracted program.
    :param compiled: values of extracted terms that the compiled program computed.
    :param allowed: relative error of a rewritten value, given the right one.
    :param allowed_compiled: likewise of a compiled one; floats only are looked at.
    """
    order, pairs, stands_for = _regions(model, counterparts, meaning, outputs)
    partners: dict[Term, list[tuple[Term, Term]]] = {}
    for pair in pairs:
        for each in pair:
            partners.setdefault(each, []).append(pair)
    held: dict[Term, list[Term]] = {}
    for extracted, array in compiled.items():
        if is_float(array.dtype) and extracted.op in COMPUTING and extracted in meaning:
            held.setdefault(stands_for[meaning[extracted]], []).append(extracted)
    order = _interleaved(order, [*(region for _, region in pairs), *held])
    roots = set(model.roots)
    result = Compared()
    waiting: dict[tuple[Term, Term], Array] = {}
    total = len(topological_order(order)) if step else 0
    for done, (term, value) in enumerate(trace(order, env), 1):
        if term in roots:
            require(term.type.nbytes, f"{term.op}: a result of {term.type}")
            result.values[term] = np.array(value, dtype=term.dtype, order="C")
        for pair in partners.get(term, ()):
            first = waiting.pop(pair, None)
            if first is None:
                waiting[pair] = value
                continue
            got, right = (value, first) if term is pair[1] else (first, value)
            difference, scale = compared(got, right)
            if difference > allowed(right) * scale:
                count = count_steps(got, right, allowed(right)) if _is_stepping(pair) else None
                if count is None:
                    result.suspects.append(
                        Suspect(pair[1], pair[0], difference, difference / scale)
                    )
                else:
                    result.steps += count
        for extracted in held.get(term, ()):
            difference, scale = compared(compiled[extracted], value)
            if difference > allowed_compiled(value) * scale:
                result.suspects.append(Suspect(term, None, difference, difference / scale))
        if step:
            step(min(done, total), total)
    return result


def _regions(
    model: Model,
    counterparts: Mapping[Term, Term],
    meaning: Mapping[Term, Term],
    outputs: Sequence[Term],
) -> tuple[list[Term], list[tuple[Term, Term]], dict[Term, Term]]:
    """The model's terms, pairs of a term of it and the region that gives the same, and for all
    that extracted terms mean the model's term or the region."""
    order = model.terms()
    known: dict[Term, Term] = {}
    found: list[tuple[Term, Term]] = []
    for term in order:
        # A class may have been picked a term for without the program's having a use for it.
        other = meaning.get(counterparts.get(term, term))
        if other is not None and (term.op in COMPUTING or term in model.names):
            known.setdefault(other, term)
            found.append((term, other))
    found += [(root, meaning[t]) for root, t in zip(model.roots, outputs, strict=True)]
    region: dict[Term, Term] = {}
    for each in topological_order(meaning.values()):
        region[each] = rebuild(each, [known.get(c, region[c]) for c in each.children])
    pairs = dict.fromkeys((term, region[other]) for term, other in found)
    stands_for = {each: known.get(each, made) for each, made in region.items()}
    return order, [pair for pair in pairs if pair[0] is not pair[1]], stands_for


def _interleaved(order: Sequence[Term], regions: Iterable[Term]) -> list[Term]:
    """The model's terms with each region behind the last of them that it is made of."""
    position = {term: k for k, term in enumerate(order)}
    behind: dict[int, dict[Term, None]] = {}
    regions = list(regions)
    for term in topological_order(regions):
        if term not in position:
            position[term] = max((position[child] for child in term.children), default=0)
    for region in regions:
        behind.setdefault(position[region], {})[region] = None
    result: list[Term] = []
    for k, term in enumerate(order):
        result += [term, *behind.get(k, ())]
    return result


def _is_stepping(pair: tuple[Term, Term]) -> bool:
    """Whether one of two ways to a value rounds to steps, above what both are made of."""
    first, second = (set(topological_order([each])) for each in pair)
    return any(map(is_stepping, first ^ second)) or any(map(is_stepping, pair))


def unexplained(
    suspects: Iterable[Suspect], env: Mapping[str, Array], step: Step | None = None
) -> list[Suspect]:
    """Those that differ by more than rounding does: see the module."""
    pending: dict[Term, list[Suspect]] = {}
    for each in suspects:
        pending.setdefault(each.term, []).append(each)
    terms = list(pending)
    total = len(topological_order(terms)) if step else 0
    noise: dict[Term, float] = {}
    for done, ((term, right), (_, other)) in enumerate(
        zip(trace(terms, env), trace(terms, changed(env)), strict=True), 1
    ):
        if term in pending:
            noise[term] = compared(other, right)[0]
        if step:
            step(min(done, total), total)
    return [
        suspect
        for term in terms
        for suspect in pending[term]
        if not is_noise(suspect.difference, noise.get(term, 0.0), term)
    ]


def is_noise(difference: float, noise: float, term: Term) -> bool:
    """Whether a difference is rounding where a change of the last digits makes ``noise``. Where
    that makes steps of integers, they are no larger."""
    return difference <= (NOISE if is_float(np.dtype(term.dtype)) else 1) * noise < np.inf


def changed(env: Mapping[str, Array], seed: int = 0) -> dict[str, Array]:
    """Every float by up to :data:`UNITS` in its last place; arrays that repeat one number stay."""
    rng = np.random.default_rng(seed)
    result = {}
    for name, array in env.items():
        array = np.asarray(array)
        if is_float(array.dtype) and array.flags.c_contiguous:
            last = EPSILON.get(array.dtype.name) or np.finfo(array.dtype).eps
            by = rng.uniform(-UNITS, UNITS, array.shape) * last
            with np.errstate(over="ignore"):
                array = (array.astype(np.float64) * (1 + by)).astype(array.dtype)
        result[name] = array
    return result
