"""Rules that misbehave."""

from egglog import Vec, eq, i64, rewrite, rule, union, vars_

from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access


@rewrite_rule("flatten-anything", exact=True)
def _flatten_anything():
    (x,) = vars_("x", Access)
    outer, item = vars_("outer item", Vec[i64])
    yield rule(eq(outer).to(x.outer), eq(item).to(x.item)).then(
        union(x).with_(x.flatten().reshape(outer, item))
    )


@rewrite_rule("forget-transpose", exact=True)
def _forget_transpose():
    (x,) = vars_("x", Access)
    (order,) = vars_("order", Vec[i64])
    yield rewrite(x.transpose(order)).to(x)


UNGUARDED = RuleSet("unguarded", (_flatten_anything(),))
"""Always finds something more."""

UNSOUND = RuleSet("unsound", (_forget_transpose(),))
"""Equates accesses of different shapes."""
