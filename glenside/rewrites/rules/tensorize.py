"""Rules that give matrix products to accelerator units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.rewrites.engine.types import typed
from glenside.rewrites.rules.im2col import excess_axes
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access, drop, ints, product

SYSTOLIC_ARRAY = "systolic-array"


def _products() -> Any:
    from glenside.rewrites.soundness.programs import batched_products

    return batched_products()


@rewrite_rule("systolic", exact=False)
def systolic(rows: int | None = None, columns: int | None = None) -> Iterator[RewriteOrRule]:
    """``dot(X × Y) -> systolic-array (K N) X (Y^(1 0))@0`` for matrices, of any size K, N.

    With ``rows`` and ``columns`` only products of that very size match.
    """
    x, y, whole = vars_("x y whole", Access)
    s, t, s2 = vars_("s t s2", Vec[i64])
    dtype = var("dtype", String)
    size = () if rows is None else (eq(t).to(ints(rows)), eq(s2).to(ints(columns)))
    invocation = Access.call(
        Vec(x, y.transpose(ints(1, 0)).access(0)), SYSTOLIC_ARRAY, ints(t[0], s2[0])
    )
    yield rule(
        eq(whole).to(x.cart_prod(y, 0).compute("dot", dtype)),
        eq(dtype).to(x.dtype),
        eq(s).to(x.outer),
        eq(t).to(x.item),
        eq(s2).to(y.outer),
        s.length() <= 1,
        eq(t.length()).to(i64(1)),
        eq(s2.length()).to(i64(1)),
        t[0] >= 1,
        s2[0] >= 1,
        *size,
    ).then(*typed(invocation, s.append(s2), ints(), dtype), union(whole).with_(invocation))


def _tiles() -> Any:
    from glenside.rewrites.soundness.programs import batched_products

    return batched_products((2, 2))


@rewrite_rule("systolic-tile", exact=False, example=(2, 2), programs=_tiles)
def systolic_tile(rows: int, columns: int) -> Iterator[RewriteOrRule]:
    """``dot(X ×g Y) -> systolic-array (R C) X Y`` for weights of that very size.

    Of a batch there is a call for each position: ``:batch g``.
    """
    x, y, whole = vars_("x y whole", Access)
    s, t, s2, order, outer = vars_("s t s2 order outer", Vec[i64])
    g = var("g", i64)
    dtype = var("dtype", String)
    weights = y.transpose(order).access(g)
    invocation = Access.call(Vec(x, weights), SYSTOLIC_ARRAY, ints(rows, columns), g)
    yield rule(
        eq(whole).to(x.cart_prod(y, g).compute("dot", dtype)),
        eq(dtype).to(x.dtype),
        eq(s).to(x.outer),
        eq(t).to(ints(rows)),
        eq(t).to(x.item),
        eq(s2).to(y.outer),
        eq(excess_axes(s, t, g)).to(i64(0)),
        eq(s2.length()).to(g + 1),
        eq(s2[g]).to(i64(columns)),
        eq(order).to(g.range().append(ints(g + 1, g))),
        eq(outer).to(whole.outer),
    ).then(*typed(invocation, outer, ints(), dtype), union(whole).with_(invocation))


@rewrite_rule("systolic-blocked", exact=False, example=(2, 1))
def systolic_blocked(rows: int, columns: int) -> Iterator[RewriteOrRule]:
    """``dot(X × Y) -> blocked systolic-array (R C) X Y`` where R divides K and C divides N."""
    yield from tiled_product(SYSTOLIC_ARRAY, (rows, columns), whole_tiles=(rows, columns))


@rewrite_rule("systolic-padded", exact=False, example=(2, 3))
def systolic_padded(rows: int, columns: int) -> Iterator[RewriteOrRule]:
    """Likewise for any size: tiles at the edges are padded with zeros when the call is expanded."""
    yield from tiled_product(SYSTOLIC_ARRAY, (rows, columns))


def tiled_product(
    unit: str, parameters: tuple[int, ...], whole_tiles: tuple[int, int] | None = None
) -> Iterator[RewriteOrRule]:
    """Cases of a rule that gives products of matrices to ``unit``, a batch of them included.

    :param whole_tiles: what has to divide K and N, if anything.
    """
    x, y, whole = vars_("x y whole", Access)
    s, t, s2 = vars_("s t s2", Vec[i64])
    dtype = var("dtype", String)
    g = var("g", i64)
    conditions = []
    if whole_tiles is not None:
        rows, columns = map(i64, whole_tiles)
        conditions += [eq(t[0] % rows).to(i64(0)), eq(product(drop(s2, g)) % columns).to(i64(0))]
    yield rule(
        eq(whole).to(x.cart_prod(y, g).compute("dot", dtype)),
        eq(s).to(x.outer),
        eq(t).to(x.item),
        eq(s2).to(y.outer),
        eq(excess_axes(s, t, g)).to(i64(0)),
        eq(excess_axes(s2, t, g)).to(i64(0)),
        *conditions,
    ).then(union(whole).with_(x.blocked(y, unit, ints(*parameters), g, dtype)))


def systolic_rules(rows: int, columns: int) -> RuleSet:
    """What a systolic array of this size needs to be found."""
    name = f"{SYSTOLIC_ARRAY}:{rows}x{columns}"
    return RuleSet(name, (systolic_padded(rows, columns),), mapping=True)
