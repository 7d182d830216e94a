"""Limits, reasons to stop, and unsound rules."""

import dataclasses
import functools
import re
from collections.abc import Iterator

import pytest
from egglog import RewriteOrRule, String, Vec, eq, i64, rewrite, rule, union, var, vars_

from glenside.deadline import Deadline, TimeIsUp, within
from glenside.errors import GlensideError, UnsoundRewrite
from glenside.language import Term, builders
from glenside.rewrites import (
    Rule,
    RuleSet,
    StopReason,
    contains,
    rewrite_rule,
    rule_named,
    saturate,
    tile_to,
)
from glenside.rewrites.engine import egraph
from glenside.rewrites.engine.egraph import EGraph
from glenside.rewrites.engine.saturation import Stepper
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic_rules
from glenside.rewrites.vocabulary import Access, ints


def program() -> Term:
    x = builders.tensor("x", (2, 3))
    return builders.transpose(builders.transpose(x, (1, 0)), (1, 0))


@rewrite_rule("grow", exact=True)
def grow() -> Iterator[RewriteOrRule]:
    """A sound rule without end: pads ever more and slices it off again."""
    x = var("x", Access)
    s = var("s", Vec[i64])
    n = var("n", i64)
    padded = x.pad("zero", 0, 0, 1, 0)
    yield rule(eq(s).to(x.outer), eq(n).to(s[0])).then(union(x).with_(padded.slice(0, 0, n, 1)))


GROW = RuleSet("grow", (grow(),))


@rewrite_rule("commute-a-sum", exact=False)
def commute() -> Iterator[RewriteOrRule]:
    """x + y = y + x."""
    x, y = vars_("x y", Access)
    yield rewrite(x.pair(y).compute("add", "")).to(y.pair(x).compute("add", ""))


@rewrite_rule("associate-a-sum", exact=False)
def associate() -> Iterator[RewriteOrRule]:
    """x + (y + z) = (x + y) + z."""
    x, y, z = vars_("x y z", Access)
    right = x.pair(y.pair(z).compute("add", "")).compute("add", "")
    yield rewrite(right).to(x.pair(y).compute("add", "").pair(z).compute("add", ""))


def total(terms: int) -> Term:
    """x0 + (x1 + ...)."""
    leaves = [builders.access(builders.tensor(f"x{i}", (3,)), 0) for i in range(terms)]
    return functools.reduce(
        lambda rest, x: builders.compute("add", builders.pair(x, rest)), reversed(leaves)
    )


def test_a_fixed_point_is_saturated() -> None:
    result = saturate([program()], [LAYOUT])
    assert result.stop_reason is StopReason.SATURATED
    assert not result.iterations[-1].changed
    assert result.rules["merge-transposes"] > 0
    assert result.rules["merge-reshapes"] == 0
    assert (result.nodes, result.classes) == (3, 2)


def product(size: int) -> Term:
    a, b = (builders.access(builders.tensor(name, (size, size)), 1) for name in "ab")
    return builders.compute("dot", builders.cart_prod(a, b))


EXPLOSIVE = {
    "padding": (program(), [GROW]),
    "tiles": (product(256), tile_to(4, 4)),
    "sums": (total(8), [RuleSet("sums", (commute(), associate()))]),
}


@pytest.mark.parametrize(
    ("case", "limit"),
    [
        ("padding", 25),
        ("padding", 100),
        *(("tiles", limit) for limit in (25, 300, 1_000, 4_000, 10_000)),
        *(("sums", limit) for limit in (35, 300, 1_000, 4_000)),
    ],
)
def test_no_step_goes_beyond_the_node_limit(case: str, limit: int) -> None:
    term, rules = EXPLOSIVE[case]
    result = saturate([term], rules, node_limit=limit)
    assert result.stop_reason is StopReason.NODE_LIMIT
    assert result.nodes <= limit
    assert contains(result.egraph, term) == result.egraph.roots[0]
    # What was undone left no trace: the steps that are told make what there is.
    again = EGraph([rule for each in rules for rule in each])
    again.load([term])
    for step in result.steps:
        again.apply(step.rule)
    assert again.size() == (result.nodes, result.classes)
    # Each rule refused would have gone beyond it, so there is no room left for one of its steps.
    assert result.refused
    for own in (own for each in rules for own in each if own.name in result.refused):
        _, nodes = again.tried(own)
        assert nodes > limit
        assert again.size() == (result.nodes, result.classes)


def test_a_rule_that_is_refused_leaves_its_room_to_others() -> None:
    result = saturate([program()], [GROW, LAYOUT], node_limit=5)
    assert result.refused == ("grow",)
    assert result.rules["merge-transposes"] > 0
    assert result.nodes <= 5
    again = saturate([program()], [GROW, LAYOUT], node_limit=5)
    assert (again.egraph, again.refused) == (result.egraph, result.refused)


def test_a_program_beyond_the_node_limit_is_left_as_it_is() -> None:
    result = saturate([program()], [LAYOUT], node_limit=1)
    assert result.stop_reason is StopReason.NODE_LIMIT
    assert result.nodes == 3
    assert contains(result.egraph, program()) == result.egraph.roots[0]


def test_the_iteration_limit_counts_passes() -> None:
    result = saturate([program()], [GROW], iter_limit=4)
    assert result.stop_reason is StopReason.ITER_LIMIT
    assert len(result.iterations) == 4
    assert [i.nodes for i in result.iterations] == sorted(i.nodes for i in result.iterations)


def test_the_time_limit() -> None:
    result = saturate([program()], [GROW], time_limit=0.0)
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert contains(result.egraph, program()) == result.egraph.roots[0]


def test_growing_ends_while_there_is_time_to_read_the_e_graph_out() -> None:
    run = Stepper([GROW], node_limit=10_000, iter_limit=1_000, time_limit=3_600)
    run.reading = 36.0  # Seconds an e-node: a hundred of them can be read.
    grown = EGraph([grow()])
    grown.load([program()])
    for _ in run.passes(grown):
        pass
    assert run.stop_reason is StopReason.TIME_LIMIT
    assert 50 < grown.size()[0] < 300


def test_reading_out_ends_when_the_time_is_over() -> None:
    grown = EGraph([grow()])
    grown.load([program()])
    with pytest.raises(TimeIsUp), within(Deadline(-10.0)):
        grown.freeze()
    assert grown.freeze().node_count > 0


def test_the_reason_is_the_worst_of_the_stages_and_later_stages_still_run() -> None:
    later = dataclasses.replace(LAYOUT, stage=1)
    result = saturate([program()], [GROW, later], iter_limit=2)
    assert result.stop_reason is StopReason.ITER_LIMIT
    assert {i.stage for i in result.iterations} == {0, 1}
    assert result.rules["merge-transposes"] > 0


def test_stages_run_until_a_whole_round_changes_nothing() -> None:
    # What the second stage does gives the first more to do.
    first = dataclasses.replace(rule_named("merge-transposes"), stage=1)
    second = dataclasses.replace(rule_named("transpose-out-of-pad"), stage=2)
    x = builders.transpose(builders.tensor("x", (2, 3)), (1, 0))
    term = builders.transpose(builders.pad(x, 0, 1, 1), (1, 0))
    result = saturate([term], [first, second])
    assert result.stop_reason is StopReason.SATURATED
    merged = builders.pad(builders.tensor("x", (2, 3)), 1, 1, 1)
    assert contains(result.egraph, merged) == result.egraph.roots[0]


def test_progress_is_told_after_each_pass() -> None:
    told: list[tuple[int, int]] = []
    result = saturate([program()], [LAYOUT], iter_limit=9, progress=lambda *at: told.append(at))
    assert told == [(n + 1, 9) for n in range(len(result.iterations))]


def test_an_interrupt_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(egraph.EGraph, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            saturate([program()], [LAYOUT])
    assert saturate([program()], [LAYOUT]).stop_reason is StopReason.SATURATED


def test_every_term_of_the_program_has_its_class() -> None:
    term = program()
    result = saturate([term], [LAYOUT])
    assert result.term_classes[term] == result.term_classes[builders.tensor("x", (2, 3))]


def test_the_same_run_gives_the_same_growth() -> None:
    x = builders.tensor("x", (4, 5))
    dot = builders.compute("dot", builders.pair(builders.access(x, 1), builders.access(x, 1)))
    first, second = (saturate([dot], [IM2COL, LAYOUT, systolic_rules(2, 2)]) for _ in range(2))
    assert first.egraph == second.egraph
    assert [i.nodes for i in first.iterations] == [i.nodes for i in second.iterations]


# --- unsound rules -------------------------------------------------------------------------------


@rewrite_rule("drop-any-transpose", exact=True)
def drop_any_transpose() -> Iterator[RewriteOrRule]:
    """Unsound: the shapes differ."""
    x, whole = vars_("x whole", Access)
    p = var("p", Vec[i64])
    yield rule(eq(whole).to(x.transpose(p))).then(union(whole).with_(x))


@rewrite_rule("make-ill-typed", exact=True)
def make_ill_typed() -> Iterator[RewriteOrRule]:
    """Unsound: what it makes has no type at all."""
    x, whole = vars_("x whole", Access)
    p = var("p", Vec[i64])
    yield rule(eq(whole).to(x.transpose(p))).then(union(whole).with_(x.reshape(ints(7), ints())))


@rewrite_rule("drop-transpose-as-a-rewrite", exact=True)
def drop_as_a_rewrite() -> Iterator[RewriteOrRule]:
    """The same as one of egglog's rewrites, once a side condition holds."""
    x = var("x", Access)
    p = var("p", Vec[i64])
    yield rewrite(x.transpose(p)).to(x, eq(p.length()).to(i64(2)))


@rewrite_rule("one-is-two", exact=True)
def one_is_two() -> Iterator[RewriteOrRule]:
    """Unsound: the types are equal, the numbers are not."""
    whole = var("whole", Access)
    s, d = var("s", Vec[i64]), var("d", String)
    two = Access.constant("2.0", s, d)
    yield rule(eq(whole).to(Access.constant("1.0", s, d))).then(union(whole).with_(two))


@rewrite_rule("first-of-pair-is-second", exact=True)
def halves_are_one() -> Iterator[RewriteOrRule]:
    """Unsound: two inputs are equated."""
    x, y, whole = vars_("x y whole", Access)
    n = var("n", i64)
    yield rule(eq(whole).to(x.access(n).pair(y.access(n)))).then(union(x).with_(y))


FLAT = r"\(transpose \(1 0\) \(tensor x \(2 3\)\)\) of type \(\(3 2\) \(\)\) float32"
X = r"\(tensor x \(2 3\)\) of type \(\(2 3\) \(\)\) float32"


@pytest.mark.parametrize(
    ("rule_", "equates"),
    [
        (drop_any_transpose(), f"{FLAT} with {X}"),
        (drop_as_a_rewrite(), f"{FLAT} with {X}"),
        (make_ill_typed(), rf"{FLAT} with \(reshape \(7\) \(\) \(tensor x .*\) of no type"),
        (one_is_two(), r"\(constant 1.0 .*\) of type .* with \(constant 2.0 .*\) of type "),
        (halves_are_one(), r"\(tensor a .*\) of type .* with \(tensor b .*\) of type "),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_an_unsound_rule_is_named_with_the_two_values_it_equates(rule_: Rule, equates: str) -> None:
    mixed = RuleSet("mixed", (*LAYOUT.rules, rule_))
    x = builders.transpose(builders.tensor("x", (2, 3)), (1, 0))
    one = builders.elementwise("add", builders.tensor("a", (2,)), builders.constant(1.0, (2,)))
    both = builders.elementwise("mul", builders.tensor("a", (2,)), builders.tensor("b", (2,)))
    found = rf"rule {re.escape(rule_.name)} \(.*test_saturation.py:\d+\) is unsound: it equates "
    with pytest.raises(UnsoundRewrite, match=found + equates):
        saturate([x, one, both], [mixed])
    assert saturate([x], [LAYOUT]).stop_reason is StopReason.SATURATED


def test_values_that_are_told_are_not_longer_than_a_line_or_two() -> None:
    x = builders.tensor("x", (2, 3))
    for _ in range(400):
        x = builders.compute("neg", x)
    with pytest.raises(UnsoundRewrite, match=r"\.\.\. of type") as caught:
        saturate([builders.transpose(x, (1, 0))], [RuleSet("mine", (drop_any_transpose(),))])
    assert len(str(caught.value)) < 1000


# --- rules by name -------------------------------------------------------------------------------


def test_rules_are_found_by_name_and_parameters() -> None:
    assert rule_named("systolic-blocked(16,8)").rules[0].name == "systolic-blocked(16,8)"
    assert rule_named("merge-reshapes").rules == LAYOUT.only("merge-reshapes").rules
    assert systolic_rules(2, 2).only("systolic-padded").rules == systolic_rules(2, 2).rules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such-rule", "no rule is called 'no-such-rule'; there are .*merge-reshapes"),
        ("merge-reshapes(3)", "takes other parameters"),
        ("systolic-blocked", "takes other parameters"),
    ],
)
def test_wrong_names_are_told(name: str, message: str) -> None:
    with pytest.raises(GlensideError, match=message):
        rule_named(name)


def test_wrong_names_in_a_set_are_told() -> None:
    with pytest.raises(GlensideError, match=r"layout has no rule 'x', it has .*merge-reshapes"):
        LAYOUT.without("x")


def test_a_rule_that_egglog_refuses_is_named_with_file_and_line() -> None:
    x = var("x", Access)

    @rewrite_rule("bare-variable", exact=True)
    def bare_variable() -> Iterator[RewriteOrRule]:
        yield rewrite(x).to(x.flatten().reshape(x.outer, x.item))

    program = builders.access(builders.tensor("t", (2, 3)), 1)
    with pytest.raises(GlensideError, match=r"bare-variable \(.*test_saturation.py:\d+\).*bound"):
        saturate([program], [RuleSet("mine", (bare_variable(),))])
