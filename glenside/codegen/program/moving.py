"""Pass: small maps store what they compute as it is moved, so that nothing has to move it."""

from __future__ import annotations

from dataclasses import replace

from glenside.codegen.program.record import Cut
from glenside.codegen.small_maps import small_map
from glenside.language.operators import BIJECTIONS
from glenside.language.term import Term


def move(cut: Cut) -> Cut:
    """What only moves a small map's results is what the map stores: on the way out of the program
    all moves, on the way into a product those up to the last reshape."""
    if not cut.plain or cut.rows_last:
        return cut
    users: dict[Term, list[Term]] = {}
    for term in cut.order:
        for child in term.children:
            users.setdefault(child, []).append(term)
    relaid = set()
    for leaf in cut.order:
        if leaf in cut.outputs or not is_small_map(cut, leaf):
            continue
        chain = [leaf]
        above = users.get(leaf, [])
        while len(above) == 1 and above[0].op in BIJECTIONS | {"slice"}:
            chain.append(above[0])
            above = [] if above[0] in cut.outputs else users.get(above[0], [])
        if chain[-1] not in cut.outputs:
            into_product = len(above) == 1 and above[0].op == "cart_prod"
            while len(chain) > 1 and not (into_product and chain[-1].op == "reshape"):
                chain.pop()
        if len(chain) > 1:
            relaid.add(chain[-1])
    return replace(cut, kept=cut.kept | relaid, relaid=frozenset(relaid))


def is_small_map(cut: Cut, term: Term) -> bool:
    """Whether a device computes the term by a thread for each item of a small map."""
    return cut.plain and not cut.rows_last and small_map(term, cut.weights) is not None
