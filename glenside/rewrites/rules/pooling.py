"""Rules for maxima and means: pools become those of pairs, which FlexASR computes.

A pool over windows of any rank becomes one over a row of elements (``flatten-unflatten`` regroups
it, ``reshape-out-of-max`` carries the shape out), a long maximum becomes maxima of windows of it
(``reassociate-max``), and a maximum of pairs along a row is one call. No rule knows of pools in two
dimensions. Means go the same way where windows divide them evenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import Fact, RewriteOrRule, String, Vec, eq, i64, ne, rule, union, var, vars_

from glenside.errors import GlensideError
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import MAX_RANK, NO_DTYPE, Access, ints, product


def _max(x: Access) -> Access:
    return x.compute("max", NO_DTYPE)


def _reshape_out(function: str, dtype: String | str) -> Iterator[RewriteOrRule]:
    x, whole = vars_("x whole", Access)
    s, t = vars_("s t", Vec[i64])
    pattern = eq(whole).to(x.reshape(s, t).compute(function, dtype))
    inner = x.compute(function, dtype)
    yield rule(pattern, ne(s).to(x.outer)).then(union(whole).with_(inner.reshape(s, ints())))
    yield rule(pattern, eq(s).to(x.outer)).then(union(whole).with_(inner))


@rewrite_rule("reshape-out-of-max", exact=True)
def reshape_out_of_max() -> Iterator[RewriteOrRule]:
    """``max([o|i]X) -> [o|](max X)``: a reshape keeps every item's elements together."""
    yield from _reshape_out("max", NO_DTYPE)


@rewrite_rule("reshape-out-of-sum", exact=False)
def reshape_out_of_sum() -> Iterator[RewriteOrRule]:
    """``sum([o|i]X) -> [o|](sum X)``"""
    yield from _reshape_out("sum", var("dtype", String))


@rewrite_rule("singleton-max", exact=True)
def singleton_max() -> Iterator[RewriteOrRule]:
    """``max X -> [o(X)|]X`` where each item is one element."""
    x, whole = vars_("x whole", Access)
    s, t = vars_("s t", Vec[i64])
    pattern = (eq(whole).to(_max(x)), eq(s).to(x.outer), eq(t).to(x.item))
    yield rule(*pattern, t.length() > 0, eq(product(t)).to(i64(1))).then(
        union(whole).with_(x.reshape(s, ints()))
    )
    yield rule(*pattern, eq(t.length()).to(i64(0))).then(union(whole).with_(x))


@rewrite_rule("reassociate-max", exact=True, example=(2, 2))
def reassociate_max(window: int, stride: int) -> Iterator[RewriteOrRule]:
    """``max X -> max((max windows_(w),(s) X)@n(X))`` where the windows cover every element.

    That is s <= w and s divides len - w. It ends because the new row is shorter, and windows
    themselves are divided only where they are longer than w.
    """
    if not 1 <= stride <= window or window < 2:
        raise GlensideError(
            f"reassociate-max takes a window of at least 2 and a stride from 1 to the window, "
            f"got {window} and {stride}"
        )
    x, inner, whole = vars_("x inner whole", Access)
    n, split, rank = vars_("n split rank", i64)
    v, strides, dilation = vars_("v strides dilation", Vec[i64])
    wide = x.windows(ints(window), ints(stride), ints(1))
    for form, least in (
        (inner.access(split), window),
        (inner.flatten(), window),
        (inner.windows(v, strides, dilation), window + 1),
    ):
        yield rule(
            eq(whole).to(_max(x)),
            eq(x).to(form),
            eq(x.item.length()).to(i64(1)),
            eq(n).to(x.item[0]),
            eq(rank).to(x.outer.length()),
            n >= least,
            eq((n - window) % stride).to(i64(0)),
        ).then(union(whole).with_(_max(_max(wide).access(rank))))


ODD = 49
"""The longest row of odd length whose maximum is divided: that of a pool of 7 x 7."""


def _pools() -> Any:
    from glenside.rewrites.soundness.programs import pools

    return pools()


def _of_windows(x: Access) -> tuple[tuple[Fact, ...], ...]:
    """Ways in which the rows of ``x`` are windows."""
    y = var("y", Access)
    v, strides, dilation = vars_("v strides dilation", Vec[i64])
    looks = y.windows(v, strides, dilation)
    return (eq(x).to(looks),), (eq(x).to(looks.flatten()),)


@rewrite_rule("reassociate-odd-max", exact=True, programs=_pools)
def reassociate_odd_max() -> Iterator[RewriteOrRule]:
    """``max X -> max((max windows_(2),(1) X)@n(X))`` for a pool over an odd number of elements.

    The elements in between are looked at twice, which changes no maximum; there is one less then.
    """
    x, whole = vars_("x whole", Access)
    n, rank = vars_("n rank", i64)
    wide = x.windows(ints(2), ints(1), ints(1))
    for facts in _of_windows(x):
        yield rule(
            eq(whole).to(_max(x)),
            *facts,
            eq(x.item.length()).to(i64(1)),
            eq(n).to(x.item[0]),
            eq(n % 2).to(i64(1)),
            n > 1,
            n <= ODD,
            eq(rank).to(x.outer.length()),
        ).then(union(whole).with_(_max(_max(wide).access(rank))))


@rewrite_rule("flatten-mean-pool", exact=True, programs=_pools)
def flatten_mean_pool() -> Iterator[RewriteOrRule]:
    """``X -> [o|i] flatten X`` for windows of several axes, or over several, that are averaged."""
    x, y = vars_("x y", Access)
    s, t, v, strides, dilation = vars_("s t v strides dilation", Vec[i64])
    dtype = var("dtype", String)
    long_axes = product(s.map(lambda n: n.min(2).max(1)))
    found = (
        x.compute("mean", dtype),
        eq(x).to(y.windows(v, strides, dilation)),
        eq(s).to(x.outer),
        eq(t).to(x.item),
        s.length() <= MAX_RANK,
    )
    flattened = union(x).with_(x.flatten().reshape(s, t))
    yield rule(*found, t.length() > 1).then(flattened)
    yield rule(*found, eq(t.length()).to(i64(1)), long_axes > 2).then(flattened)


@rewrite_rule("reshape-out-of-mean", exact=False)
def reshape_out_of_mean() -> Iterator[RewriteOrRule]:
    """``mean([o|i]X) -> [o|](mean X)``"""
    yield from _reshape_out("mean", var("dtype", String))


@rewrite_rule("singleton-mean", exact=True, programs=_pools)
def singleton_mean() -> Iterator[RewriteOrRule]:
    """``mean X -> [o(X)|]X`` where each item is one element, in the dtype of X."""
    x, whole = vars_("x whole", Access)
    s, t = vars_("s t", Vec[i64])
    dtype = var("dtype", String)
    yield rule(
        eq(whole).to(x.compute("mean", dtype)),
        eq(dtype).to(x.dtype),
        eq(s).to(x.outer),
        eq(t).to(x.item),
        t.length() > 0,
        eq(product(t)).to(i64(1)),
    ).then(union(whole).with_(x.reshape(s, ints())))


@rewrite_rule("reassociate-mean", exact=False, example=(2,), programs=_pools)
def reassociate_mean(window: int) -> Iterator[RewriteOrRule]:
    """``mean X -> mean((mean windows_(w),(w) X)@n(X))`` for pools, where w divides their size.

    Only pools are divided: the mean of a layer norm, say, would be many small calls.
    """
    if window < 2:
        raise GlensideError(f"reassociate-mean takes a window of at least 2, got {window}")
    x, z, whole = vars_("x z whole", Access)
    n, split = vars_("n split", i64)
    s, t = vars_("s t", Vec[i64])
    dtype = var("dtype", String)
    own = x.windows(ints(window), ints(window), ints(1)).compute("mean", dtype)
    shorter = z.windows(ints(window), ints(window), ints(1)).compute("mean", dtype)
    looks, flat_looks = _of_windows(x)
    for facts in (
        # Windows themselves are divided only where they are longer.
        (*looks, n > window),
        (*flat_looks, n >= window),
        (eq(x).to(shorter.access(split)), n >= window),
    ):
        yield rule(
            eq(whole).to(x.compute("mean", dtype)),
            eq(dtype).to(x.dtype),
            eq(s).to(x.outer),
            eq(t).to(x.item),
            eq(t.length()).to(i64(1)),
            eq(n).to(t[0]),
            *facts,
            eq(n % window).to(i64(0)),
        ).then(union(whole).with_(own.access(s.length()).compute("mean", dtype)))


POOLING = RuleSet(
    "pooling",
    (reshape_out_of_max(), singleton_max(), reassociate_max(2, 2), reassociate_odd_max()),
)
"""Pools as maxima of pairs."""

MEANS = RuleSet(
    "means", (flatten_mean_pool(), reshape_out_of_mean(), singleton_mean(), reassociate_mean(2))
)
"""Pools as means of pairs."""
