"""Rules that bring what is computed of items of any shape to rows, as units take it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import Fact, RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.errors import GlensideError
from glenside.language.functions import FUNCTIONS
from glenside.rewrites.ruleset import rewrite_rule
from glenside.rewrites.vocabulary import MAX_RANK, Access, flat, ints, product


def _programs() -> Any:
    from glenside.rewrites.soundness.programs import items_of_any_shape

    return items_of_any_shape()


@rewrite_rule("rows-of", exact=False, example=("softmax",), programs=_programs)
def rows_of(function: str) -> Iterator[RewriteOrRule]:
    """``f X -> [o|](f flatten X)`` for a function f of items, where X has no rows yet.

    Of a ``softmax`` the items stay as they are. A single item is a matrix of one row.
    """
    known = FUNCTIONS.get(function)
    if known is None or known.kind not in ("reduce", "vector") or function == "dot":
        raise GlensideError(f"rows-of takes a function of items such as softmax, got {function!r}")
    x, whole = vars_("x whole", Access)
    s, t = vars_("s t", Vec[i64])
    dtype = var("dtype", String)
    pattern = (
        eq(whole).to(x.compute(function, dtype)),
        eq(s).to(x.outer),
        eq(t).to(x.item),
        t.length() > 0,
        s.length() <= MAX_RANK,
        t.length() <= MAX_RANK,
    )
    item = t if known.kind == "vector" else ints()

    def made(rows: Access, *facts: Fact) -> RewriteOrRule:
        result = rows.compute(function, dtype).reshape(s, item)
        return rule(*pattern, *facts).then(union(whole).with_(result))

    # Means are divided as well (``reassociate-mean``), which adds outer axes of length 1: there is
    # something to flatten only where two are longer, or items have several.
    grown = product(s.map(lambda n: n.min(2).max(1))) + i64(2) * (t.length() - 1) > 2
    yield made(
        x.flatten(),
        s.length() > 0,
        grown if function == "mean" else s.length().max(t.length()) > 1,
    )
    yield made(x.reshape(ints(1), flat(t)), eq(s.length()).to(i64(0)))
