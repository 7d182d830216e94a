"""Facts may be written in any order: what computes comes after what binds."""

import itertools
from collections.abc import Iterator

import pytest
from egglog import Fact, RewriteOrRule, Vec, eq, i64, rule, union, var, vars_

from glenside.errors import GlensideError
from glenside.language import builders
from glenside.rewrites import RuleSet, contains, rewrite_rule, saturate
from glenside.rewrites.vocabulary import Access

X, INNER, WHOLE = vars_("x inner whole", Access)
N, M, SPLIT = vars_("n m split", i64)
V = var("v", Vec[i64])


def shortening(*facts: Fact) -> RuleSet:
    @rewrite_rule(f"shorten {id(facts)}", exact=True)
    def cases() -> Iterator[RewriteOrRule]:
        yield rule(*facts).then(union(WHOLE).with_(INNER))

    return RuleSet("own", (cases(),))


FACTS = [
    eq(WHOLE).to(INNER.slice(0, 0, M, 1)),
    N > 2,
    eq(N).to(V[0]),
    eq(V).to(INNER.outer),
    eq(M - N).to(i64(0)),
]


@pytest.mark.parametrize("order", list(itertools.permutations(FACTS))[::35])
def test_any_order_finds_the_same(order: tuple[Fact, ...]) -> None:
    x = builders.tensor("x", (4, 3))
    found = saturate([builders.slice_(x, 0, 0, 4)], [shortening(*order)])
    assert contains(found.egraph, x) == found.egraph.roots[0]
    short = builders.tensor("x", (2, 3))
    found = saturate([builders.slice_(short, 0, 0, 2)], [shortening(*order)])
    assert contains(found.egraph, short) != found.egraph.roots[0]


def test_numbers_that_only_bind_each_other_are_refused() -> None:
    rules = shortening(eq(WHOLE).to(INNER.flatten()), eq(N).to(M + 1), eq(M).to(N - 1))
    with pytest.raises(GlensideError, match=r"test_ordering.py:\d+\) .* _[mn] is ungrounded"):
        saturate([builders.flatten(builders.tensor("x", (2, 3)))], [rules])
