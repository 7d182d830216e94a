"""Pass: reductions move into the kernels of the elementwise work that alone uses them."""

from __future__ import annotations

import math
from dataclasses import replace

from glenside.codegen.program.kinds import computes, is_reduction
from glenside.codegen.program.materialise import Readers, find_readers
from glenside.codegen.program.moving import is_small_map
from glenside.codegen.program.record import Cut, Fused
from glenside.codegen.views import View, row_major
from glenside.language.functions import FUNCTIONS
from glenside.language.term import Term


def fuse(cut: Cut) -> Cut:
    """Finds for each kept elementwise term the largest reduction that its kernel can compute."""
    readers = find_readers(cut, set(cut.kept))
    fused: dict[Term, Fused] = {}
    for term in cut.order:
        if term not in cut.kept or is_reduction(term):
            continue
        if not computes(term) and term not in cut.relaid:
            continue
        best: tuple[int, Fused] | None = None
        for leaf in cut.leaves.region(term):
            if leaf is term or not _fusible(cut, readers, leaf, term):
                continue
            over = cut.leaves.trace(term, leaf, row_major(leaf.shape), exact=True)
            if over is None or not _covers(cut, over, leaf, term):
                continue
            work = leaf.type.size * math.prod(leaf.children[0].item)
            if best is None or work > best[0]:
                best = work, Fused(leaf, over)
        if best is not None:
            fused[term] = best[1]
    return replace(cut, fused=fused)


def _fusible(cut: Cut, readers: Readers, leaf: Term, term: Term) -> bool:
    """Whether a value is a reduction that nothing but ``term``'s kernel reads."""
    return (
        leaf in cut.kept
        and is_reduction(leaf)
        and readers.roots[leaf] == {term}
        and leaf not in readers.observed
        and leaf.type.size > 0
        and FUNCTIONS[leaf["function"]].kind == "reduce"
        and leaf["function"] not in ("argmax", "argmin")
    )


def _covers(cut: Cut, over: View, leaf: Term, term: Term) -> bool:
    """Whether each element of ``term`` is made of another one of ``leaf``, all of them or, of a
    small map, all but some at the edges."""
    if leaf.type.size == term.type.size:
        return True
    return (
        math.prod(over.shape) == leaf.type.size
        and all(whole >= kept for whole, kept in zip(over.shape, term.shape, strict=True))
        and is_small_map(cut, leaf)
    )
