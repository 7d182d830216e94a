"""Rules for what is cut into steps, or put together from them.

All are exact and replace data movement by less of it. Where general rules would go down a stack of
T steps level by level, these see it whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from egglog import RewriteOrRule, eq, i64, rule, union, var, vars_

from glenside.rewrites.rules.blocking import drop_identity_slice
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access, lengths


@rewrite_rule("join-slices", exact=True, chained=True)
def join_slices() -> Iterator[RewriteOrRule]:
    """``X[a:l..m] ++a X[a:m..h] -> X[a:l..h]``, and ``X`` itself where that is all of it."""
    x, whole = vars_("x whole", Access)
    a, low, middle, high, n = vars_("a low middle high n", i64)
    pattern = (
        eq(whole).to(x.slice(a, low, middle, 1).concat(x.slice(a, middle, high, 1), a)),
        eq(n).to(lengths(x)[a]),
    )
    missing = low + n - high
    yield rule(*pattern, missing > 0).then(union(whole).with_(x.slice(a, low, high, 1)))
    yield rule(*pattern, eq(missing).to(i64(0))).then(union(whole).with_(x))


@rewrite_rule("drop-unsqueeze-of-squeeze", exact=True)
def drop_unsqueeze_of_squeeze() -> Iterator[RewriteOrRule]:
    """``unsqueeze_a squeeze_a X -> X``, the split being where it was."""
    x, whole = vars_("x whole", Access)
    a = var("a", i64)
    yield rule(
        eq(whole).to(x.squeeze(a).unsqueeze(a)), eq(whole.outer.length()).to(x.outer.length())
    ).then(union(whole).with_(x))


@rewrite_rule("concat-out-of-rows", exact=True)
def concat_out_of_rows() -> Iterator[RewriteOrRule]:
    """``(X ++n Y)@n -> X@n ++n Y@n`` for matrices with rows of both: n is the last axis.

    ``concat-out-of-access`` would go down every stack of steps.
    """
    x, y, whole = vars_("x y whole", Access)
    n = var("n", i64)
    yield rule(
        eq(whole).to(x.concat(y, n).access(n)), eq(lengths(x).length()).to(n + 1), n > 0
    ).then(union(whole).with_(x.access(n).concat(y.access(n), n)))


@rewrite_rule("access-into-step", exact=True)
def access_into_step() -> Iterator[RewriteOrRule]:
    """``(squeeze_a X[a:l..h])@n -> squeeze_a (X@m)[a:l..h]`` with m such that the split is n."""
    x, whole = vars_("x whole", Access)
    a, low, high, step, n = vars_("a low high step n", i64)
    pattern = eq(whole).to(x.slice(a, low, high, step).squeeze(a).access(n))
    for fits, m in ((a <= n, n + 1), (a > n, n)):
        made = x.access(m).slice(a, low, high, step).squeeze(a)
        yield rule(pattern, fits).then(union(whole).with_(made))


@rewrite_rule("part-of-concat", exact=True)
def part_of_concat() -> Iterator[RewriteOrRule]:
    """``(X ++a Y)[a:0..n] -> X`` and ``(X ++a Y)[a:n..] -> Y`` where n is the length of X.

    Other slices would be passed down a stack of T steps T times.
    """
    x, y, whole = vars_("x y whole", Access)
    a, low, high, n, m = vars_("a low high n m", i64)
    pattern = (
        eq(whole).to(x.concat(y, a).slice(a, low, high, 1)),
        eq(n).to(lengths(x)[a]),
        eq(m).to(lengths(y)[a]),
    )
    yield rule(*pattern, eq(low).to(i64(0)), eq(high).to(n)).then(union(whole).with_(x))
    yield rule(*pattern, eq(low).to(n), eq(high).to(n + m)).then(union(whole).with_(y))


STEPS = RuleSet(
    "steps",
    (
        concat_out_of_rows(),
        access_into_step(),
        part_of_concat(),
        drop_identity_slice(),
        join_slices(),
        drop_unsqueeze_of_squeeze(),
    ),
)
"""What is cut into steps and put together again is what it was."""
