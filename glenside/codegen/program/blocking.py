"""Pass: which products are computed in register tiles, and which operand runs along registers."""

from __future__ import annotations

import math
from dataclasses import replace

from glenside.codegen.program.kinds import is_reduction
from glenside.codegen.program.record import Cut, Product
from glenside.language.operators import VIEWS
from glenside.language.term import Term

_MIN_LANES = 8
"""A product needs at least this many results along its vector side to be blocked as a GEMM;"""
_MIN_FIXED = 3
"""or this many where that side is a parameter, which is packed once."""


def block(cut: Cut) -> Cut:
    """Finds how each ``dot`` of a ``cart_prod`` is blocked; others are plain loops."""
    if cut.plain:
        return cut
    products = {
        term: product
        for term in cut.order
        if term in cut.kept and is_reduction(term) and (product := _blocked(cut, term)) is not None
    }
    return replace(cut, products=products)


def _blocked(cut: Cut, anchor: Term) -> Product | None:
    if anchor["function"] != "dot" or anchor.children[0].op != "cart_prod":
        return None
    pairs = anchor.children[0]
    a, b = pairs.children
    batch = pairs["batch"]
    rows, columns = math.prod(a.outer[batch:]), math.prod(b.outer[batch:])
    if not math.prod(a.item) or not anchor.type.size:
        return None
    fixed = [each for each in (a, b) if each in cut.weights]
    if len(fixed) == 1 and (rows if fixed[0] is a else columns) >= _MIN_FIXED:
        first = fixed[0] is a
    elif max(rows, columns) < _MIN_LANES or len(fixed) == 1:
        # Depthwise convolution and the like: plain loops, vectorised along the batch axes.
        return None
    else:
        first = columns < _MIN_LANES
    vector, pixels = (a, b) if first else (b, a)
    if cut.leaves.descend(pixels, VIEWS)[0] in cut.constants:
        return None  # A number is no operand to stream.
    return Product(vector, pixels, first, batch)
