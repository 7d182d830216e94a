"""A rewrite rule of one's own: tried on random programs, proved for all sizes, then used.

The wrong one beside it differs in one letter, and is refuted by a program that shows it.
"""

from collections.abc import Iterator

from egglog import RewriteOrRule, eq, i64, rule, union, var, vars_

import glenside
from glenside.language import builders as b
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.soundness import check_fires
from glenside.rewrites.soundness.proofs import prove
from glenside.rewrites.vocabulary import Access


@rewrite_rule("slice-of-slice", exact=True)
def slice_of_slice() -> Iterator[RewriteOrRule]:
    """``X[a: l..h][a: m..n] -> X[a: l+m..l+n]``: a part of a part is a part."""
    x, whole = var("x", Access), var("whole", Access)
    axis, low, high, m, n = vars_("axis low high m n", i64)
    part = x.slice(axis, low, high, 1).slice(axis, m, n, 1)
    yield rule(eq(whole).to(part)).then(union(whole).with_(x.slice(axis, low + m, low + n, 1)))


@rewrite_rule("slice-of-slice-wrong", exact=True)
def wrong() -> Iterator[RewriteOrRule]:
    """The same with the inner bounds left as they are."""
    x, whole = var("x", Access), var("whole", Access)
    axis, low, high, m, n = vars_("axis low high m n", i64)
    part = x.slice(axis, low, high, 1).slice(axis, m, n, 1)
    yield rule(eq(whole).to(part)).then(union(whole).with_(x.slice(axis, m, n, 1)))


def main() -> None:
    """Checks, proves and uses the rule; shows what is said of the wrong one."""
    check_fires(slice_of_slice(), examples=20)
    print("proved for", prove(slice_of_slice()).holds)
    verdict = prove(wrong())
    print("the other one is", verdict.verdict)

    program = b.slice_(b.slice_(b.tensor("x", (10,)), 0, 2, 9), 0, 1, 4)
    own = RuleSet("own", (slice_of_slice(),))
    chosen = glenside.optimize(program, "systolic-array:4x4", rules=[own], check=False)
    print(chosen.text)


if __name__ == "__main__":
    main()
