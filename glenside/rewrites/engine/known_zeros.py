"""The known-zero analysis: stretches of an axis on which all elements are zero.

A fact ``(X, axis, low, high)`` says that every element of X whose position on ``axis`` is in
``low .. high-1`` is zero. Facts belong to e-classes: what was proved of any form of a value holds
for all, and stretches that touch are joined. So what is found does not depend on the order in which
rules fire.

Nothing is known of an operator that is not named here. A function of elements keeps zeros if it
maps zero to zero in every dtype it takes (``relu`` does, ``exp`` and ``clip`` to [1, 6] do not); a
product keeps those of both factors only, since zero times infinity is not zero.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from egglog import (
    Fact,
    RewriteOrRule,
    String,
    Vec,
    eq,
    i64,
    i64Like,
    ne,
    relation,
    rule,
    var,
    vars_,
)

from glenside.language.functions import FUNCTIONS, Function
from glenside.rewrites.vocabulary import Access, index_of, lengths, product

known_zero = relation("known_zero", Access, i64, i64, i64, egg_fn="known_zero")
"""Access, axis, low, high."""

ZEROS = ("0", "0.0", "False")
"""How the numbers of fillings and constants are spelled that are zero."""


@functools.cache
def known_zeros() -> tuple[RewriteOrRule, ...]:
    """The rules of the analysis; always the same objects."""
    return tuple(itertools.chain(_rules(), _rules_of_functions()))


def _rules() -> Iterator[RewriteOrRule]:
    x, y, z, node = vars_("x y z node", Access)
    a, low, high = vars_("a low high", i64)
    b, low2, high2 = vars_("b low2 high2", i64)
    at, first, last = vars_("at first last", i64)
    c, before, after, inside, n, g = vars_("c before after inside n g", i64)
    v, w, u = vars_("v w u", Vec[i64])
    fill, dtype = vars_("fill dtype", String)
    of_x = known_zero(x, a, low, high)
    of_y = known_zero(y, b, low2, high2)
    split = x.outer.length()

    def derive(
        title: str,
        *facts: Fact,
        axis: i64Like = a,
        start: i64Like = low,
        stop: i64Like = high,
    ) -> RewriteOrRule:
        # Computed in the query: what fails there does not match, and empty stretches say nothing.
        known = (eq(at).to(_i64(axis)), eq(first).to(_i64(start)), eq(last).to(_i64(stop)))
        return rule(*facts, *known, first < last, name=f"known zeros: {title}").then(
            known_zero(node, at, first, last)
        )

    def one(title: str, made: Access, *facts: Fact, **stretch: i64Like) -> RewriteOrRule:
        """``made`` of x, of which a stretch is known."""
        return derive(title, eq(node).to(made), of_x, *facts, **stretch)

    def both(title: str, made: Access, *facts: Fact, axis: i64Like = a) -> RewriteOrRule:
        """``made`` of x and y: what is known of both."""
        overlap = {"start": low.max(low2), "stop": high.min(high2)}
        return derive(title, eq(node).to(made), of_x, of_y, *facts, axis=axis, **overlap)

    yield derive(
        "touching stretches",
        known_zero(node, a, low, high),
        known_zero(node, a, low2, high2),
        low2 <= high,
        low <= low2,
        high2 > high,
        stop=high2,
    )
    # Zero all over: of one axis, so of its neighbours.
    for step in (1, -1):
        yield derive(
            f"all of the axis, {step}",
            known_zero(node, a, low, high),
            eq(low).to(i64(0)),
            eq(high).to(lengths(node)[a]),
            eq(n).to(lengths(node)[a + step]),
            axis=a + step,
            stop=n,
        )
    for value in ZEROS:
        constant = Access.constant(value, v, dtype)
        yield derive(f"constant {value}", eq(node).to(constant), axis=0, start=0, stop=v[0])

    for zero in ("zero", *ZEROS):
        padded = x.pad(zero, b, before, after, inside)
        made = eq(node).to(padded)
        total = lengths(node)[b]
        yield derive(f"before {zero}", made, axis=b, start=0, stop=before)
        yield derive(f"after {zero}", made, axis=b, start=total - after, stop=total)
        yield one(f"beside {zero}", padded, ne(a).to(b))
        spaced = before + low * (inside + 1), before + (high - 1) * (inside + 1) + 1
        yield one(f"between {zero}", padded, eq(a).to(b), start=spaced[0], stop=spaced[1])
    padded = x.pad(fill, b, before, after, 0)
    yield one("pad", padded, eq(a).to(b), start=low + before, stop=high + before)

    yield one("access", x.access(n))
    yield one("transpose", x.transpose(v), axis=index_of(v, a))
    sliced = x.slice(b, low2, high2, n)
    yield one("slice beside", sliced, ne(a).to(b))
    yield one(
        "slice",
        sliced,
        eq(a).to(b),
        low < high2,
        low2 < high,
        start=((low - low2).max(0) + n - 1) / n,
        stop=(high.min(high2) - low2 + n - 1) / n,
    )
    yield one("concat, left", x.concat(y, b), eq(a).to(b))
    yield one(
        "concat, right",
        y.concat(x, b),
        eq(a).to(b),
        eq(n).to(lengths(y)[b]),
        start=low + n,
        stop=high + n,
    )
    yield both("concat beside", x.concat(y, c), eq(a).to(b), ne(a).to(c))
    yield one("squeeze behind", x.squeeze(b), a < b)
    yield one("squeeze before", x.squeeze(b), a > b, axis=a - 1)
    yield one("unsqueeze behind", x.unsqueeze(b), a < b)
    yield one("unsqueeze before", x.unsqueeze(b), a >= b, axis=a + 1)
    yield one("broadcast", x.broadcast(v), eq(v[a]).to(lengths(x)[a]))
    yield one("broadcast along", x.broadcast(v), eq(lengths(x)[a]).to(i64(1)), stop=v[a])
    yield one("windows", x.windows(v, w, u), a < split)
    yield one("gather behind", x.gather(y, b), a < b)
    rank_of_indices = y.outer.length() + y.item.length()
    yield one("gather before", x.gather(y, b), a > b, axis=a + rank_of_indices - 1)
    yield one("cast", x.cast(dtype))

    product_of = x.cart_prod(y, g)
    same_item_axis = (a >= split, eq(a - split).to(b - y.outer.length()))
    yield both("cart_prod, item", product_of, *same_item_axis, axis=a + y.outer.length() - g + 1)
    yield both("cart_prod, batch", product_of, a < g, eq(a).to(b))
    yield both("pair, outer", x.pair(y), eq(a).to(b), a < split)
    yield both("pair, item", x.pair(y), eq(a).to(b), a >= split, axis=a + 1)
    yield both("where", z.where(x, y), eq(a).to(b))


def _rules_of_functions() -> Iterator[RewriteOrRule]:
    x, node = vars_("x node", Access)
    a, low, high = vars_("a low high", i64)
    dtype = var("dtype", String)
    split = x.outer.length()
    not_empty = product(x.item) > 0  # The greatest of no elements is not zero.
    for name, declared in FUNCTIONS.items():
        if not keeps_zero(declared):
            continue
        by_kind: dict[str, list[tuple[i64, tuple[Fact, ...]]]] = {
            "map": [(a, ())],
            "fold": [(a, (a < split,)), (a - 1, (a > split,))],
            "reduce": [(a, (a < split, not_empty))],
        }
        for number, (axis, facts) in enumerate(by_kind[declared.kind]):
            computed = eq(node).to(x.compute(name, dtype))
            yield rule(
                computed, known_zero(x, a, low, high), *facts, name=f"known zeros: {name} {number}"
            ).then(known_zero(node, axis, low, high))


def _i64(value: i64Like) -> i64:
    return i64(value) if isinstance(value, int) else value


def keeps_zero(declared: Function) -> bool:
    """Whether zeros give zero in every dtype the function takes."""

    def value(dtype: str) -> Any:
        zero = np.zeros((1, 1), dtype)
        match declared.kind:
            case "map":
                return declared.numpy(zero)
            case "fold":
                return declared.numpy(zero, zero)
            case "reduce":
                return declared.numpy(zero, (1,))
        return 1

    with np.errstate(all="ignore"):
        return not any(np.any(value(dtype) != 0) for dtype in declared.domain)
