"""Rules for maxima: pools become pairwise maxima, which FlexASR computes.

A pool over windows of any rank becomes one over a row of elements (``flatten-unflatten`` regroups
it, ``reshape-out-of-max`` carries the shape out), a long maximum becomes maxima of windows of it
(``reassociate-max``), and a maximum of pairs along a row is one call. No rule knows of pools in two
dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator

from egglog import RewriteOrRule, String, Vec, eq, i64, ne, rule, union, var, vars_

from glenside.errors import GlensideError
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access, ints, product


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
    for form in (
        (eq(x).to(inner.access(split)),),
        (eq(x).to(inner.flatten()),),
        (eq(x).to(inner.windows(v, strides, dilation)), n > window),
    ):
        yield rule(
            eq(whole).to(_max(x)),
            eq(x.item.length()).to(i64(1)),
            eq(n).to(x.item[0]),
            eq(rank).to(x.outer.length()),
            *form,
            n >= window,
            eq((n - window) % stride).to(i64(0)),
        ).then(union(whole).with_(_max(_max(wide).access(rank))))


POOLING = RuleSet("pooling", (reshape_out_of_max(), singleton_max(), reassociate_max(2, 2)))
"""Pools as maxima of pairs."""
