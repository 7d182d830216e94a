"""Rules for maxima and means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glenside.errors import GlensideError
from glenside.language import Term, builders
from glenside.rewrites import Rule, StopReason, contains, matches, rule_named
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT, MOVES
from glenside.rewrites.rules.pooling import MEANS, POOLING
from glenside.rewrites.soundness import check_fires, check_program
from glenside.rewrites.soundness.programs import pools
from tests.effort import FEW, tries
from tests.rewrites.instances import check, dtypes, leaf, reshaped, tensors
from tests.strategies import environment, shapes


@pytest.mark.parametrize("function", ["max", "sum"])
@FEW
@given(x=reshaped(tensors()).filter(lambda x: x.op == "reshape"))
def test_reshape_out_of(function: str, x: Term) -> None:
    name = f"reshape-out-of-{function}"
    result = check(builders.compute(function, x), name)
    assert result.rules[name] > 0
    moved = builders.reshape(builders.compute(function, x.children[0]), x.outer, ())
    assert contains(result.egraph, moved) == result.egraph.roots[0]


@FEW
@given(shapes(most=2), st.lists(st.integers(1, 2), max_size=3), dtypes())
def test_singleton_max(outer: Sequence[int], item: Sequence[int], dtype: str) -> None:
    x = leaf(outer, item, dtype)
    result = check(builders.compute("max", x), "singleton-max")
    alone = all(n == 1 for n in item)
    assert (result.rules["singleton-max"] > 0) == alone
    if alone:
        expected = builders.reshape(x, outer, ())
        assert contains(result.egraph, expected) == result.egraph.roots[0]


@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 2), (3, 1), (4, 3)])
@FEW
@given(outer=shapes(most=2), length=st.integers(1, 9), dtype=dtypes())
def test_reassociate_max(
    window: int, stride: int, outer: Sequence[int], length: int, dtype: str
) -> None:
    x = builders.access(builders.tensor("x", (*outer, length), dtype), len(outer))
    assume(outer)
    name = f"reassociate-max({window},{stride})"
    result = check(builders.compute("max", x), name)
    assert result.stop_reason is StopReason.SATURATED
    covers = length >= window and (length - window) % stride == 0
    assert (result.rules[name] > 0) == covers
    if covers:
        part = builders.compute("max", builders.windows(x, (window,), (stride,)))
        whole = builders.compute("max", builders.access(part, len(outer)))
        assert contains(result.egraph, whole) == result.egraph.roots[0]


@pytest.mark.parametrize("name", ["reassociate-max(2,3)", "reassociate-max(1,1)"])
def test_windows_that_leave_gaps_or_change_nothing_are_refused(name: str) -> None:
    with pytest.raises(GlensideError, match="takes a window of at least 2"):
        rule_named(name)


@FEW
@given(st.sampled_from((3, 16, 32)), st.integers(2, 7), dtypes())
def test_flex_maxpool(rows: int, length: int, dtype: str) -> None:
    x = leaf((rows,), (length,), dtype)
    result = check(builders.compute("max", builders.windows(x, (2,), (2,))), "flex-maxpool")
    assert (result.rules["flex-maxpool"] > 0) == (length % 2 == 0)


@pytest.mark.parametrize(("window", "stride", "dilation"), [(3, 2, 1), (2, 1, 1), (2, 2, 2)])
def test_other_windows_are_not_given_to_flexasr(window: int, stride: int, dilation: int) -> None:
    x = builders.windows(leaf((16,), (6,), "int32"), (window,), (stride,), (dilation,))
    assert check(builders.compute("max", x), "flex-maxpool").rules["flex-maxpool"] == 0


# --- together ------------------------------------------------------------------------------------

RULES = [IM2COL, LAYOUT, MOVES, POOLING, rule_named("flex-maxpool")]


MEAN_RULES = [IM2COL, LAYOUT, MEANS, rule_named("flex-meanpool")]


def pool(
    shape: Sequence[int], window: Sequence[int], stride: Sequence[int], function: str = "max"
) -> Term:
    dtype = "int32" if function == "max" else "float64"
    x = builders.access(builders.tensor("x", shape, dtype), len(shape) - len(window))
    return builders.compute(function, builders.windows(x, window, stride))


POOLS = {
    "1-D": (pool((2, 8, 6), (2,), (2,)), 1),
    "2-D": (pool((1, 16, 4, 4), (2, 2), (2, 2)), 2),
    "3-D": (pool((2, 4, 4, 2, 2), (2, 2, 2), (2, 2, 2)), 3),
    "4 in a row": (pool((16, 8), (4,), (4,)), 2),
    "overlapping": (pool((16, 5), (2,), (1,)), 1),
    "3 in a row": (pool((16, 7), (3,), (2,)), 2),
    "3 by 3": (pool((1, 4, 7, 7), (3, 3), (2, 2)), 4),
    "means, 1-D": (pool((2, 8, 6), (2,), (2,), "mean"), 1),
    "means, 2-D": (pool((1, 3, 4, 6), (2, 2), (2, 2), "mean"), 2),
    "means, overlapping": (pool((2, 3, 5, 5), (2, 4), (1, 1), "mean"), 3),
    "means, 4 in a row": (pool((3, 8), (4,), (4,), "mean"), 2),
}


@pytest.mark.parametrize(("term", "calls"), POOLS.values(), ids=POOLS)
def test_pools_become_calls(term: Term, calls: int) -> None:
    from glenside.extraction import MaximiseOffload, extract
    from glenside.language import topological_order

    rules = RULES if term["function"] == "max" else MEAN_RULES
    result = check_program([term], rules, environment([term]))
    assert result.stop_reason is StopReason.SATURATED
    (program,) = extract(result.egraph, MaximiseOffload()).terms
    ops = [x.op for x in topological_order([program])]
    assert ops.count("call") == calls
    assert "compute" not in ops


@pytest.mark.parametrize(
    "term",
    [
        pool((1, 4, 6, 6), (3, 3), (3, 3), "mean"),
        # The whole of an array is no pool: a layer norm has such a mean.
        builders.compute("mean", leaf((3,), (8,), "float64")),
    ],
    ids=["three by three", "no windows"],
)
def test_other_means_stay(term: Term) -> None:
    result = check_program([term], MEAN_RULES, environment([term]))
    assert result.stop_reason is StopReason.SATURATED
    assert not any(matches(result.egraph, "(call flex-meanpool ?p ?x)"))


@pytest.mark.parametrize("rule", [*POOLING, *MEANS], ids=lambda rule: rule.name)
def test_every_rule_is_sound_and_fires_on_what_it_looks_for(rule: Rule) -> None:
    check_fires(rule, examples=tries(30))


@FEW
@given(pools())
def test_all_together(term: Term) -> None:
    result = check_program([term], [*RULES, *MEAN_RULES[2:]], environment([term]))
    assert result.stop_reason is StopReason.SATURATED
