"""Rules that merge and move layout changes; all are exact.

``LAYOUT`` only ever replaces two changes by one or by none, so it costs next to nothing and is
meant to run beside every other family. ``MOVES`` makes new terms; targets that want another layout
add it.
"""

from __future__ import annotations

from collections.abc import Iterator

from egglog import (
    RewriteOrRule,
    String,
    Vec,
    eq,
    i64,
    ne,
    rule,
    union,
    var,
    vars_,
)

from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access, ints, permute


def _parts(outer: Vec[i64], item: Vec[i64]) -> Vec[i64]:
    """Outer and item shape as one list that tells them apart."""
    return outer.append(ints(-1), item)


@rewrite_rule("merge-reshapes", exact=True)
def merge_reshapes() -> Iterator[RewriteOrRule]:
    """``[S1][S0]X -> [S1]X``, and ``X`` itself where S1 is its shape. flatten is a reshape too."""
    x, whole = vars_("x whole", Access)
    s, t, s0, t0 = vars_("s t s0 t0", Vec[i64])
    for inner in (x.reshape(s0, t0), x.flatten()):
        pattern = eq(whole).to(inner.reshape(s, t))
        yield rule(pattern, ne(_parts(s, t)).to(_parts(x.outer, x.item))).then(
            union(whole).with_(x.reshape(s, t))
        )
        yield rule(pattern, eq(s).to(x.outer), eq(t).to(x.item)).then(union(whole).with_(x))


@rewrite_rule("flatten-of-reshape", exact=True)
def flatten_of_reshape() -> Iterator[RewriteOrRule]:
    """``flatten [S]X -> flatten X`` where no part is without axes, which flatten leaves so."""
    x, whole = vars_("x whole", Access)
    s, t = vars_("s t", Vec[i64])
    pattern = (
        eq(whole).to(x.reshape(s, t).flatten()),
        eq(s.length().min(1)).to(x.outer.length().min(1)),
        eq(t.length().min(1)).to(x.item.length().min(1)),
    )
    longest = x.outer.length().max(x.item.length())
    yield rule(*pattern, longest > 1).then(union(whole).with_(x.flatten()))
    yield rule(*pattern, longest <= 1).then(union(whole).with_(x))


@rewrite_rule("drop-identity-reshape", exact=True)
def drop_identity_reshape() -> Iterator[RewriteOrRule]:
    """``[o(X)|i(X)]X -> X``"""
    x, whole = vars_("x whole", Access)
    s, t = vars_("s t", Vec[i64])
    yield rule(eq(whole).to(x.reshape(s, t)), eq(s).to(x.outer), eq(t).to(x.item)).then(
        union(whole).with_(x)
    )


@rewrite_rule("drop-identity-flatten", exact=True)
def drop_identity_flatten() -> Iterator[RewriteOrRule]:
    """``flatten X -> X`` where neither part has more than one axis."""
    x, whole = vars_("x whole", Access)
    yield rule(eq(whole).to(x.flatten()), x.outer.length() <= 1, x.item.length() <= 1).then(
        union(whole).with_(x)
    )


@rewrite_rule("merge-accesses", exact=True)
def merge_accesses() -> Iterator[RewriteOrRule]:
    """``(X@m)@n -> X@n``, and ``X`` itself where n is its split."""
    x, whole = vars_("x whole", Access)
    m, n = vars_("m n", i64)
    pattern = eq(whole).to(x.access(m).access(n))
    yield rule(pattern, ne(n).to(x.outer.length())).then(union(whole).with_(x.access(n)))
    yield rule(pattern, eq(n).to(x.outer.length())).then(union(whole).with_(x))


@rewrite_rule("drop-identity-access", exact=True)
def drop_identity_access() -> Iterator[RewriteOrRule]:
    """``X@n -> X`` where n is its split."""
    x, whole = vars_("x whole", Access)
    n = var("n", i64)
    yield rule(eq(whole).to(x.access(n)), eq(n).to(x.outer.length())).then(union(whole).with_(x))


@rewrite_rule("merge-transposes", exact=True)
def merge_transposes() -> Iterator[RewriteOrRule]:
    """``(X^p)^q -> X^r`` with ``r[j] = p[q[j]]``, and ``X`` itself where r is the identity."""
    x, whole = vars_("x whole", Access)
    p, q, r = vars_("p q r", Vec[i64])
    pattern = (eq(whole).to(x.transpose(p).transpose(q)), eq(r).to(permute(p, q)))
    yield rule(*pattern, ne(r).to(r.length().range())).then(union(whole).with_(x.transpose(r)))
    yield rule(*pattern, eq(r).to(r.length().range())).then(union(whole).with_(x))


@rewrite_rule("cancel-transposes", exact=True)
def cancel_transposes() -> Iterator[RewriteOrRule]:
    """``(X^p)^q -> X`` where q undoes p."""
    x, whole = vars_("x whole", Access)
    p, q = vars_("p q", Vec[i64])
    yield rule(
        eq(whole).to(x.transpose(p).transpose(q)), eq(permute(p, q)).to(p.length().range())
    ).then(union(whole).with_(x))


@rewrite_rule("drop-identity-transpose", exact=True)
def drop_identity_transpose() -> Iterator[RewriteOrRule]:
    """``X^(0 1 ... k) -> X``"""
    x, whole = vars_("x whole", Access)
    p = var("p", Vec[i64])
    yield rule(eq(whole).to(x.transpose(p)), eq(p).to(p.length().range())).then(
        union(whole).with_(x)
    )


@rewrite_rule("access-out-of-transpose", exact=True)
def access_out_of_transpose() -> Iterator[RewriteOrRule]:
    """``(X@n)^p -> (X^p)@n``"""
    x, whole = vars_("x whole", Access)
    p = var("p", Vec[i64])
    n = var("n", i64)
    yield rule(eq(whole).to(x.access(n).transpose(p))).then(
        union(whole).with_(x.transpose(p).access(n))
    )


@rewrite_rule("transpose-out-of-pad", exact=True)
def transpose_out_of_pad() -> Iterator[RewriteOrRule]:
    """``pad(X^p, axis a) -> pad(X, axis p[a])^p``."""
    x, whole = vars_("x whole", Access)
    p = var("p", Vec[i64])
    fill = var("fill", String)
    a, b, c, inside, at = vars_("a b c inside at", i64)
    yield rule(eq(whole).to(x.transpose(p).pad(fill, a, b, c, inside)), eq(at).to(p[a])).then(
        union(whole).with_(x.pad(fill, at, b, c, inside).transpose(p))
    )


LAYOUT = RuleSet(
    "layout",
    (
        merge_reshapes(),
        flatten_of_reshape(),
        drop_identity_reshape(),
        drop_identity_flatten(),
        merge_accesses(),
        drop_identity_access(),
        merge_transposes(),
        drop_identity_transpose(),
    ),
)
"""Two layout changes in a row become one, changes that change nothing vanish."""

MOVES = RuleSet(
    "layout-moves", (access_out_of_transpose(), transpose_out_of_pad(), cancel_transposes())
)
"""Transposes move outwards."""
