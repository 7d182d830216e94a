"""Pass: a product of softmaxed rows is computed while the rows are, and they are never stored.

What the rows are made of is a product too, and what comes between is elementwise. Reductions over
one axis whose later members use the earlier ones only through a factor that can be taken against
another reference may share one loop over blocks of that axis: the rules of
``rewrites.rules.cascade`` say so one by one. Whether it pays is for the device to say.
"""

from __future__ import annotations

import math
from dataclasses import replace

from glenside.codegen.program.kinds import is_reduction
from glenside.codegen.program.leaves import Leaves
from glenside.codegen.program.materialise import find_readers
from glenside.codegen.program.record import Cut, Streamed
from glenside.codegen.views import normal, row_major
from glenside.language.operators import APART, RENUMBERING
from glenside.language.shape import FLOATS
from glenside.language.term import Term


def stream(cut: Cut) -> Cut:
    """Finds the products that are computed so; what they alone read is kept no more."""
    if cut.streams is None:
        return cut
    users: dict[Term, set[Term]] = {}
    for term in cut.order:
        for child in term.children:
            users.setdefault(child, set()).add(term)
    observed = find_readers(cut, set(cut.kept)).observed
    found: dict[Term, Streamed] = {}
    kept = set(cut.kept)
    for term in cut.order:
        if term not in cut.kept or not _is_product(term):
            continue
        streamed = _streamed(cut, term)
        if streamed is None or any(
            each in observed or not users[each] <= streamed.inside | {term.children[0], term}
            for each in streamed.inside
        ):
            continue
        if cut.streams(streamed):
            found[term] = streamed
            kept -= streamed.inside
    return replace(cut, streamed=found, kept=frozenset(kept))


def _is_product(term: Term) -> bool:
    return is_reduction(term) and term["function"] == "dot" and term.children[0].op == "cart_prod"


def _streamed(cut: Cut, product: Term) -> Streamed | None:
    """What a product is computed together with; None where there is nothing of the kind."""
    pairs = product.children[0]
    first, second = pairs.children
    inside: set[Term] = set()
    below = first
    while below not in cut.weights and (below.op in RENUMBERING or below.op == "cast"):
        inside.add(below)
        below = below.children[0]
    softmax = below
    if softmax in cut.weights or softmax.op != "compute" or softmax["function"] != "softmax":
        return None
    if first.item != softmax.item or len(first.outer) < pairs["batch"]:
        return None
    inside.add(softmax)
    scores = _scores(cut, softmax, inside)
    if scores is None:
        return None
    # Position by position the rows are what the first product gives.
    (x,) = softmax.children
    leaves = Leaves(cut.weights, (cut.kept - inside) | {scores})
    if any(each.dtype not in FLOATS for each in (softmax, scores, first, second)):
        return None
    over = leaves.trace(x, scores, row_major(scores.shape), exact=True)
    if over is None or [normal(axis) for axis in over.axes] != list(row_major(x.shape).axes):
        return None
    own = scores.children[0]
    a, b = own.children
    shared = own["batch"]
    batches = math.prod(first.outer[: pairs["batch"]])
    if math.prod(b.outer[shared:]) != softmax.item[0] or not product.type.size:
        return None
    groups = math.prod(a.outer[:shared])
    if not groups or not batches or batches % groups or not math.prod(a.item):
        return None
    return Streamed(product, softmax, scores, frozenset(inside))


def _scores(cut: Cut, softmax: Term, inside: set[Term]) -> Term | None:
    """The one product that rows are made of; adds what stands between to ``inside``."""
    found: list[Term] = []
    stack = list(softmax.children)
    while stack:
        term = stack.pop()
        if term in inside or term in cut.weights or term in cut.constants:
            continue
        if term in cut.kept and (is_reduction(term) or term.op in APART or not term.children):
            if _is_product(term):
                inside.add(term)
                found.append(term)
            continue
        if term in cut.kept and term.op not in ("compute", "cast", "where"):
            continue
        if not _leads_to_product(cut, term):
            continue
        inside.add(term)
        stack.extend(term.children)
    return found[0] if len(found) == 1 else None


def _leads_to_product(cut: Cut, term: Term) -> bool:
    """Whether a product is below that is read position by position; masks and the like are read
    where they lie, or computed as they are read."""
    leaves = Leaves(cut.weights, {t for t in cut.kept if is_reduction(t) or not t.children})
    return any(each in cut.kept and _is_product(each) for each in leaves.region(term))
