"""What operators are to a kernel: work, reductions, repetition."""

from __future__ import annotations

from glenside.language.functions import FUNCTIONS
from glenside.language.term import Term


def computes(term: Term) -> bool:
    """Whether a term is more than data movement."""
    return term.op in ("compute", "cast", "where", "gather")


def is_reduction(term: Term) -> bool:
    """Whether a term needs a loop of its own inside a kernel."""
    if term.op != "compute":
        return False
    kind = FUNCTIONS[term["function"]].kind
    return kind == "vector" or (kind == "reduce" and not is_tuple_only(term))


def is_tuple_only(term: Term) -> bool:
    """Whether a reduction has no more to reduce than a short tuple axis, so it acts elementwise."""
    (child,) = term.children
    return (
        FUNCTIONS[term["function"]].kind == "reduce"
        and term["function"] not in ("argmax", "argmin")
        and len(child.item) == 1
        and 1 <= child.item[0] <= 2
    )


def repeats(term: Term) -> bool:
    """Whether a lazy term reads elements of its operands several times."""
    if term.op == "windows":
        dilation = term["dilation"] or (1,) * len(term["shape"])
        return any(
            k > s or (d > 1 and k > 1)
            for k, s, d in zip(term["shape"], term["stride"], dilation, strict=True)
        )
    if term.op == "broadcast":
        return term.type.size > term.children[0].type.size
    return term.op in ("cart_prod", "gather")
