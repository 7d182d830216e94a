"""The kit that proves rules sound, and that it has teeth."""

from collections.abc import Iterator

import pytest
from egglog import (
    RewriteOrRule,
    String,
    Vec,
    birewrite,
    eq,
    i64,
    rewrite,
    rule,
    union,
    var,
    vars_,
)

from glenside.errors import UnsoundRewrite
from glenside.rewrites import Rule, rewrite_rule
from glenside.rewrites.ruleset import all_rules
from glenside.rewrites.soundness import NeverFired, check_fires, check_sound, judge
from glenside.rewrites.vocabulary import Access, ints
from tests.effort import tries


@pytest.mark.parametrize("rule_", all_rules(), ids=lambda rule: rule.name)
def test_every_rule_that_ships_is_sound_and_fires_on_the_programs_it_is_tried_on(
    rule_: Rule,
) -> None:
    check_fires(rule_, examples=tries(16))


def test_rules_in_the_short_form_of_egglog_are_tried_as_well() -> None:
    x = var("x", Access)
    m, n = vars_("m n", i64)
    right = Rule("right", (rewrite(x.access(m).access(n)).to(x.access(n)),), exact=True)
    wrong = Rule("wrong", (birewrite(x.access(m).access(n)).to(x.access(n).access(m)),), exact=True)
    check_fires(right, examples=tries(15))
    with pytest.raises(UnsoundRewrite):
        check_sound(wrong, examples=tries(15))


# --- mutants -------------------------------------------------------------------------------------


@rewrite_rule("mutant-reshape-out-of-dot", exact=False)
def reshape_out_of_dot() -> Iterator[RewriteOrRule]:
    """The tuple axis may change: 2 x 3 becomes 3 x 2, other products are summed up (U3)."""
    x, whole = vars_("x whole", Access)
    s, t = vars_("s t", Vec[i64])
    dtype = var("dtype", String)
    yield rule(eq(whole).to(x.reshape(s, t).compute("dot", dtype)), x.item.length() >= 1).then(
        union(whole).with_(x.compute("dot", dtype).reshape(s, ints()))
    )


@rewrite_rule("mutant-merge-transposes", exact=True)
def merge_transposes() -> Iterator[RewriteOrRule]:
    """The second permutation is applied first; wrong only where they do not commute."""
    from glenside.rewrites.vocabulary import permute

    x, whole = vars_("x whole", Access)
    p, q = vars_("p q", Vec[i64])
    yield rule(eq(whole).to(x.transpose(p).transpose(q))).then(
        union(whole).with_(x.transpose(permute(q, p)))
    )


@rewrite_rule("mutant-pad-value", exact=True)
def pad_value() -> Iterator[RewriteOrRule]:
    """Any padding is zero: right types, wrong values."""
    x, whole = vars_("x whole", Access)
    fill = var("fill", String)
    a, b, c, inside = vars_("a b c inside", i64)
    yield rule(eq(whole).to(x.pad(fill, a, b, c, inside))).then(
        union(whole).with_(x.pad("zero", a, b, c, inside))
    )


@rewrite_rule("mutant-batch", exact=True)
def batch() -> Iterator[RewriteOrRule]:
    """A batch is dropped: the right-hand side has another type."""
    x, y, whole = vars_("x y whole", Access)
    n = var("n", i64)
    yield rule(eq(whole).to(x.cart_prod(y, n))).then(union(whole).with_(x.cart_prod(y, 0)))


@pytest.mark.parametrize("make", [reshape_out_of_dot, merge_transposes, pad_value, batch])
def test_unsound_rules_are_found_out(make: object) -> None:
    with pytest.raises(UnsoundRewrite, match="in \\("):
        check_sound(make())  # type: ignore[operator]


@rewrite_rule("mutant-idle", exact=True)
def idle() -> Iterator[RewriteOrRule]:
    """Its condition never holds."""
    x, whole = vars_("x whole", Access)
    n = var("n", i64)
    yield rule(eq(whole).to(x.access(n)), n > x.outer.length() + 99).then(union(whole).with_(x))


def test_rules_that_never_fire_are_found_out() -> None:
    with pytest.raises(NeverFired, match="never fired in 120 programs each: mutant-idle"):
        check_fires(idle(), examples=12)


def test_a_rule_that_no_program_can_meet_has_never_fired() -> None:
    x, whole = vars_("x whole", Access)
    impossible = rule(eq(whole).to(x.slice(0, 5, 2, 1)), name="impossible").then(
        union(whole).with_(x)
    )
    (verdict,) = judge(Rule("impossible", (impossible,), exact=True), examples=5)
    assert str(verdict) == "never fired" and not verdict.ok
