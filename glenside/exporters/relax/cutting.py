"""Cuts a program into kernels: which terms are computed into memory, which are known beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.codegen.program.folding import live
from glenside.codegen.program.kinds import is_reduction
from glenside.language import Term, topological_order
from glenside.language.operators import RENUMBERING, Moves, transformers

Array = np.ndarray[Any, Any]

_FREE = transformers(~Moves.ADDS)
"""Moves whose result has no elements but its operand's, so that it takes no memory of its own."""
_LARGEST_EXPRESSION = 60
"""Operators, counted as often as they are written, in one kernel's expression."""
_DEEPEST = 40
_FOLD_FREELY = 1 << 16


@dataclass(frozen=True)
class Cut:
    """Terms in order; those in ``kept`` are kernels, ``known`` hold arrays from the beginning."""

    order: list[Term]
    kept: set[Term]
    known: dict[Term, Array]

    def is_leaf(self, term: Term) -> bool:
        """Whether a kernel reads this term from memory, or as one number."""
        return term in self.kept or term in self.known or term.op in ("tensor", "constant")

    def inside(self, term: Term) -> tuple[list[Term], list[Term]]:
        """The leaves that the kernel of ``term`` reads, and its other terms, children first."""
        leaves: list[Term] = []
        below: list[Term] = []
        seen: set[Term] = set()
        stack: list[tuple[Term, bool]] = [(term, False)]
        while stack:
            top, done = stack.pop()
            if done:
                below.append(top)
            elif top in seen:
                continue
            elif top is not term and self.is_leaf(top):
                seen.add(top)
                leaves.append(top)
            else:
                seen.add(top)
                stack.append((top, True))
                stack.extend((child, False) for child in top.children)
        return leaves, below


def cut(outputs: Sequence[Term], forced: Iterable[Term], params: Mapping[str, Array]) -> Cut:
    """Decides what is materialised; ``forced`` terms are, if they compute anything."""
    known = _fold(outputs, params)
    order = live(outputs, known)
    wanted = {plain_source(term) for term in outputs} | set(forced)
    result = Cut(order, set(), known)
    _keep_what_is_shared(result, wanted)
    _keep_what_is_large(result)
    return result


def plain_source(term: Term) -> Term:
    """What ``term`` is a mere reshape of."""
    while term.op in RENUMBERING:
        term = term.children[0]
    return term


def _computes(term: Term) -> bool:
    return term.op in ("compute", "cast", "where")


def _keep_what_is_shared(result: Cut, wanted: set[Term]) -> None:
    """Keeps reductions, and work that several kernels or one kernel many times would repeat."""
    readers: dict[Term, set[Term]] = {term: set() for term in result.order}
    repeated: set[Term] = set()
    for term in reversed(result.order):
        if term.op in ("tensor", "constant"):
            continue
        if (
            term in wanted
            or term.op == "concat"
            or is_reduction(term)
            or (_computes(term) and (term in repeated or len(readers[term]) > 1))
        ):
            result.kept.add(term)
            roots, again = {term}, is_reduction(term) and term["function"] != "dot"
        else:
            roots, again = readers[term], term in repeated
        for child in term.children:
            if child in readers:
                readers[child] |= roots
                if again or term.operator.may(Moves.REPEATS):
                    repeated.add(child)


def _keep_what_is_large(result: Cut) -> None:
    """Keeps terms so that no expression grows large or deep: nothing is shared inside of one."""
    size: dict[Term, int] = {}
    depth: dict[Term, int] = {}
    for term in result.order:
        below = [child for child in term.children if not result.is_leaf(child)]
        size[term] = 1 + sum(size[child] for child in below)
        depth[term] = 1 + max((depth[child] for child in below), default=0)
        large = size[term] > _LARGEST_EXPRESSION or depth[term] > _DEEPEST
        if large and not result.is_leaf(term) and term.op not in ("pair", "cart_prod", "windows"):
            result.kept.add(term)


# --- what is known beforehand -------------------------------------------------------------------


def _fold(outputs: Sequence[Term], params: Mapping[str, Array]) -> dict[Term, Array]:
    """Parameters, and what is computed from them alone unless that would be much larger.

    Kernels read these; what only moves their elements stays in the kernels that need it.
    """
    values: dict[Term, Array] = {}
    weight: dict[Term, int] = {}
    for term in topological_order(outputs):
        if term.op == "tensor":
            if term["name"] in params:
                values[term], weight[term] = np.asarray(params[term["name"]]), term.type.size
            continue
        if term.op == "constant":
            values[term], weight[term] = _evaluate(term, values), 1
            continue
        if any(child not in values for child in term.children):
            continue
        total = sum(weight[child] for child in term.children)
        # Repeated elements take no memory, and nobody asks a product of parameters for all pairs.
        free = term.op in _FREE
        if term.op != "cart_prod" and (free or term.type.size <= max(4 * total, _FOLD_FREELY)):
            values[term], weight[term] = _evaluate(term, values), total
    readers: dict[Term, bool] = {}
    for term in topological_order(outputs):
        for child in term.children:
            readers[child] = readers.get(child, False) or term not in values
    needed = {term for term, live in readers.items() if live and term in values}
    needed |= {term for term in outputs if term in values}
    known: dict[Term, Array] = {}
    for term in needed:
        source = term
        while source.op in _FREE and source not in outputs:
            source = source.children[0]
        if source.op != "constant":
            known[source] = values[source]
    return known


def _evaluate(term: Term, values: Mapping[Term, Array]) -> Array:
    arrays = [values[child] for child in term.children]
    types = tuple(child.type for child in term.children)
    return np.asarray(term.operator.evaluate(arrays, types, term.attributes))
