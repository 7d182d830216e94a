"""The rules from which im2col is discovered.

None of them knows of convolutions: an access can be regrouped into a matrix and back, and the way
back moves out through ``cart_prod`` and through ``dot``. What is left inside is a product of
matrices (Glenside, section 5.1).

Regrouping alone would go on for ever. It stops because only operands of a ``cart_prod`` that are
not matrices yet are regrouped, those of a maximum likewise, and each output of the program once.
"""

from __future__ import annotations

from collections.abc import Iterator

from egglog import (
    RewriteOrRule,
    String,
    Vec,
    eq,
    function,
    i64,
    i64Like,
    relation,
    rule,
    union,
    var,
    vars_,
)

from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import MAX_RANK, NO_DTYPE, Access, drop, flat, ints, product, take

root = relation("root", Access, egg_fn="root")
"""The outputs of the program; loading states them."""


@function
def excess_axes(outer: Vec[i64], item: Vec[i64], batch: i64Like) -> i64:
    """Zero for an operand in matrix form: ``((batch axes and at most one), (one))``."""
    beyond = (outer.length() - batch - 1).max(0)
    return beyond + (item.length() - 1) * (item.length() - 1)


@rewrite_rule("flatten-unflatten", exact=True)
def flatten_unflatten() -> Iterator[RewriteOrRule]:
    """``X -> [o|i] flatten X``, or with the shared axes of a batch left apart."""
    x, y = vars_("x y", Access)
    s, t, rows, columns = vars_("s t rows columns", Vec[i64])
    g = var("g", i64)
    shape = (eq(s).to(x.outer), eq(t).to(x.item))
    flattened = union(x).with_(x.flatten().reshape(s, t))
    # Beyond that rank the type of the result could not be derived.
    flattens = (s.length() <= MAX_RANK, t.length() <= MAX_RANK)
    for operation in (x.cart_prod(y, g), y.cart_prod(x, g)):
        explored = (operation, *shape, excess_axes(s, t, g) > 0)
        yield rule(*explored, eq(g).to(i64(0)), t.length() >= 1, *flattens).then(flattened)
        # flatten would merge the batch with the rest, and leave an item without axes as it is.
        yield rule(
            *explored,
            g + (i64(1) - t.length()).max(0) > 0,
            eq(rows).to(take(s, g).append(flat(drop(s, g)))),
            eq(columns).to(ints(product(t))),
        ).then(union(x).with_(x.reshape(rows, columns).reshape(s, t)))
    yield rule(root(x), *shape, s.length().max(t.length()) > 1, *flattens).then(flattened)
    # Operands of maxima too: several item axes, or more than one outer axis that is not of length 1
    # (a pool over windows of a row adds one that is).
    pooled = (x.compute("max", NO_DTYPE), *shape, *flattens, t.length() > 0)
    yield rule(*pooled, t.length() > 1).then(flattened)
    long_axes = product(s.map(lambda n: n.min(2).max(1)))
    yield rule(*pooled, eq(t.length()).to(i64(1)), long_axes > 2).then(flattened)


@rewrite_rule("reshape-out-of-cart-prod", exact=True)
def reshape_out_of_cart_prod() -> Iterator[RewriteOrRule]:
    """``[o1|k]X × [o2|k]Y -> [o1,o2|2,k](X × Y)`` for X, Y with equal items and the same batch."""
    x, y, whole = vars_("x y whole", Access)
    s, s2, t, k = vars_("s s2 t k", Vec[i64])
    g = var("g", i64)
    inner = x.cart_prod(y, g)
    same_items = (eq(k).to(x.item), eq(k).to(y.item))
    same_batch_x = take(s, g) == take(x.outer, g)
    same_batch_y = take(s2, g) == take(y.outer, g)
    result = inner.reshape(s.append(drop(s2, g)), ints(2).append(t))
    yield rule(
        eq(whole).to(x.reshape(s, t).cart_prod(y.reshape(s2, t), g)),
        *same_items,
        same_batch_x,
        same_batch_y,
    ).then(union(whole).with_(result))
    # One operand may be in matrix form as it is.
    yield rule(
        eq(whole).to(x.reshape(s, t).cart_prod(y, g)),
        *same_items,
        eq(t).to(k),
        same_batch_x,
        eq(s2).to(y.outer),
        eq(excess_axes(s2, t, g)).to(i64(0)),
    ).then(union(whole).with_(result))
    yield rule(
        eq(whole).to(x.cart_prod(y.reshape(s2, t), g)),
        *same_items,
        eq(t).to(k),
        same_batch_y,
        eq(s).to(x.outer),
        eq(excess_axes(s, t, g)).to(i64(0)),
    ).then(union(whole).with_(result))


@rewrite_rule("reshape-out-of-dot", exact=False)
def reshape_out_of_dot() -> Iterator[RewriteOrRule]:
    """``dot([o|i]X) -> [o|](dot X)`` where the tuple axis, the first of the item, stays.

    An empty one says nothing of the axes behind it: ``(0 2)`` is a reshape of ``(0)``, and a sum of
    two empty products is 2.
    """
    x, whole = vars_("x whole", Access)
    s, t, k = vars_("s t k", Vec[i64])
    dtype = var("dtype", String)
    yield rule(
        eq(whole).to(x.reshape(s, t).compute("dot", dtype)),
        eq(k).to(x.item),
        eq(k[0]).to(t[0]),
        t[0] > 0,
    ).then(union(whole).with_(x.compute("dot", dtype).reshape(s, ints())))


IM2COL = RuleSet("im2col", (flatten_unflatten(), reshape_out_of_cart_prod(), reshape_out_of_dot()))
"""Regroups the operands of products into matrices."""
