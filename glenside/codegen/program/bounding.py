"""Pass: no kernel grows beyond what compilers take in reasonable time."""

from __future__ import annotations

from dataclasses import replace

from glenside.codegen.program.kinds import computes
from glenside.codegen.program.leaves import Leaves
from glenside.codegen.program.record import Cut
from glenside.language.term import Term

_MAX_DEPTH = 40
_MAX_NODES = 200


def bound(cut: Cut) -> Cut:
    """Materialises on the way up what is made of too many terms, or of too long a chain."""
    kept = set(cut.kept)
    leaves = Leaves(cut.weights, kept)
    depth: dict[Term, int] = {}
    nodes: dict[Term, int] = {}
    for term in cut.order:
        below = [child for child in term.children if child not in leaves]
        depth[term] = 1 + max((depth[child] for child in below), default=0)
        nodes[term] = 1 + sum(nodes[child] for child in below)
        long = computes(term) and (depth[term] > _MAX_DEPTH or nodes[term] > _MAX_NODES)
        if (long or depth[term] > 4 * _MAX_DEPTH) and term.op not in ("pair", "cart_prod"):
            kept.add(term)
    return replace(cut, kept=frozenset(kept))
