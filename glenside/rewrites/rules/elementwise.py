"""Rules that carry a reshape out of functions of elements, so that what follows a layer of several
leading axes stands where units look for it: right behind the product of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.errors import GlensideError
from glenside.language.functions import FUNCTIONS
from glenside.rewrites.ruleset import rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access, ints


def _programs() -> Any:
    from glenside.rewrites.soundness.programs import reshaped_elements

    return reshaped_elements()


@rewrite_rule("reshape-out-of", exact=True, example=("mul",), programs=_programs)
def reshape_out_of(function: str) -> Iterator[RewriteOrRule]:
    """``f [s|]X -> [s|](f X)`` for a function f of elements; ``f`` of two, where the other is
    ``[s|]Y`` of the same, or a number everywhere."""
    known = FUNCTIONS.get(function)
    if known is None or known.kind not in ("map", "fold"):
        raise GlensideError(f"reshape-out-of takes a function of elements, got {function!r}")
    x, y, whole = vars_("x y whole", Access)
    s, of_x, v = vars_("s of_x v", Vec[i64])
    value, dtype = vars_("value dtype", String)
    rank = var("rank", i64)
    plain = (eq(of_x).to(x.outer), eq(x.item.length()).to(i64(0)), eq(rank).to(of_x.length()))
    shaped = x.reshape(s, ints()).access(0)

    def back(inner: Access) -> Access:
        return inner.compute(function, NO_DTYPE).access(rank).reshape(s, ints()).access(0)

    own = x.access(0)
    if known.kind == "map":
        yield rule(eq(whole).to(shaped.compute(function, NO_DTYPE)), *plain).then(
            union(whole).with_(back(own))
        )
        return
    other = y.reshape(s, ints()).access(0)
    yield rule(
        eq(whole).to(shaped.pair(other).compute(function, NO_DTYPE)),
        *plain,
        eq(of_x).to(y.outer),
        eq(y.item.length()).to(i64(0)),
    ).then(union(whole).with_(back(own.pair(y.access(0)))))
    number, made = (Access.constant(value, each, dtype).access(0) for each in (v, of_x))
    for found, moved in (
        (shaped.pair(number), own.pair(made)),
        (number.pair(shaped), made.pair(own)),
    ):
        yield rule(eq(whole).to(found.compute(function, NO_DTYPE)), *plain).then(
            union(whole).with_(back(moved))
        )
