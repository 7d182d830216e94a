"""Pass: which values are written to memory, and which are computed wherever they are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from glenside.codegen.program.kinds import computes, is_reduction, repeats
from glenside.codegen.program.leaves import Leaves
from glenside.codegen.program.record import Cut
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import APART, VIEWS
from glenside.language.shape import FLOATS
from glenside.language.term import Term

_MAX_GUARDED = 4
"""Computing nodes of a kernel that may stand under a guard, where all is one expression."""


def materialise(cut: Cut) -> Cut:
    """Keeps results and inputs, what reductions compute, what several kernels read or one reads
    several times, and long work under a guard."""
    kept: set[Term] = set()
    find_readers(cut, kept, decide=True)
    _keep_guarded(cut, kept)
    return replace(cut, kept=frozenset(kept))


@dataclass(frozen=True)
class Readers:
    """The kernels (by their results) that each term is read in, and the terms whose elements are
    needed outside of kernels."""

    roots: dict[Term, set[Term]]
    observed: set[Term]


def find_readers(cut: Cut, kept: set[Term], decide: bool = False) -> Readers:
    """Finds what reads every term, given what is kept.

    With ``decide`` what has to be is added to ``kept``, each term once all that reads it is known.
    """
    roots: dict[Term, set[Term]] = {term: set() for term in cut.order}
    repeated: set[Term] = set()
    bare: set[Term] = set()
    observed = set(cut.outputs)
    for term in reversed(cut.order):
        rounds = term.op in ("compute", "cast") and term.dtype == "bfloat16"
        if decide and (
            (rounds and term in bare) or _must_keep(term, roots[term], term in observed, repeated)
        ):
            kept.add(term)
        without_cells = _without_cells(term) or (term in bare and term not in kept)
        if term in kept:
            mine = {term}
            again = term.op == "compute" and FUNCTIONS[term["function"]].kind == "vector"
        else:
            mine, again = roots[term], term in repeated or repeats(term)
        seen = term in observed and term not in kept
        for child in term.children:
            if child in cut.weights:
                continue
            roots[child] |= mine
            if again or (term.op == "pad" and child.dtype not in FLOATS):
                repeated.add(child)
            if without_cells:
                bare.add(child)
            if seen or term.op in APART:
                observed.add(child)
    return Readers(roots, observed)


def _must_keep(term: Term, roots: set[Term], observed: bool, repeated: set[Term]) -> bool:
    if term.op in ("tensor", "concat") or term.op in APART or is_reduction(term):
        return True
    if not computes(term):
        return observed and term.op not in VIEWS
    if observed or term in repeated or len(roots) > 1:
        return True
    return any(root.op == "concat" for root in roots)


def _keep_guarded(cut: Cut, kept: set[Term]) -> None:
    """Materialises what takes long to compute where a guard decides whether it is computed.

    There is no place for statements there: values can only be named within one expression,
    which compilers take more than linear time for.
    """
    leaves = Leaves(cut.weights, kept)
    work: dict[Term, int] = {}
    for term in cut.order:
        below = sum(work[child] for child in term.children if child not in leaves)
        work[term] = min(computes(term) + below, _MAX_GUARDED + 1)
    guarded: set[Term] = set()
    for term in reversed(cut.order):
        if term in guarded and computes(term) and work[term] > _MAX_GUARDED:
            kept.add(term)
        guards = _without_cells(term) or (term in guarded and term not in kept)
        if guards or (is_reduction(term) and term["function"] != "dot"):
            # A pair whose tuple axis is run over by a loop decides between two values, too.
            guarded.update(c for c in term.children if guards or c.op == "pair")


def _without_cells(term: Term) -> bool:
    """Whether a kernel reads the operands where no value can be kept in a cell: under a guard, or
    in a comparison. A rounding to bfloat16 names its operand five times, so that a chain of them
    would be written out without end there; each is stored instead."""
    if term.op == "compute":
        return term["function"] in ("argmax", "argmin")
    return term.op == "pad"
