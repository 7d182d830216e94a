"""Rules that bring products of accesses in matrix form to those of plain matrices.

Units take matrices, or one batch of them. Several batch axes become one, and a vector a matrix of
one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.rewrites.rules.im2col import excess_axes
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access, drop, ints, product, take


def _products() -> Any:
    from glenside.rewrites.soundness.programs import batched_products

    return batched_products()


@rewrite_rule("merge-batch-axes", exact=False, programs=_products)
def merge_batch_axes() -> Iterator[RewriteOrRule]:
    """``dot(X ×g Y) -> [o|] dot([g..]X ×1 [g..]Y)`` with the g > 1 shared axes as one."""
    x, y, whole = vars_("x y whole", Access)
    s, t, s2, outer = vars_("s t s2 outer", Vec[i64])
    g, together = vars_("g together", i64)
    dtype = var("dtype", String)

    def merged(of: Access, shape: Vec[i64]) -> Access:
        return of.reshape(ints(together).append(drop(shape, g)), t)

    made = merged(x, s).cart_prod(merged(y, s2), 1).compute("dot", dtype)
    yield rule(
        eq(whole).to(x.cart_prod(y, g).compute("dot", dtype)),
        g > 1,
        eq(s).to(x.outer),
        eq(t).to(x.item),
        eq(s2).to(y.outer),
        eq(excess_axes(s, t, g)).to(i64(0)),
        eq(excess_axes(s2, t, g)).to(i64(0)),
        eq(together).to(product(take(s, g))),
        eq(outer).to(whole.outer),
    ).then(union(whole).with_(made.reshape(outer, ints())))


@rewrite_rule("vector-as-matrix", exact=False, programs=_products)
def vector_as_matrix() -> Iterator[RewriteOrRule]:
    """``dot(X × Y) -> [o|] dot([.. 1]X × Y)`` where X has no axis of its own; for Y likewise."""
    x, y, whole = vars_("x y whole", Access)
    s, t, outer = vars_("s t outer", Vec[i64])
    g = var("g", i64)
    dtype = var("dtype", String)
    row = x.reshape(s.append(ints(1)), t)
    for pattern, made in (
        (x.cart_prod(y, g), row.cart_prod(y, g)),
        (y.cart_prod(x, g), y.cart_prod(row, g)),
    ):
        yield rule(
            eq(whole).to(pattern.compute("dot", dtype)),
            eq(s).to(x.outer),
            eq(s.length()).to(g),
            eq(t).to(x.item),
            eq(t.length()).to(i64(1)),
            eq(outer).to(whole.outer),
        ).then(union(whole).with_(made.compute("dot", dtype).reshape(outer, ints())))


MATRICES = RuleSet("matrices", (merge_batch_axes(), vector_as_matrix()))
"""Plain matrices and single batches."""
