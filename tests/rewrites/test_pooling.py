"""Rules for maxima."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import glenside.hw_targets  # noqa: F401  (registers the units)
from glenside.errors import GlensideError
from glenside.language import Term, builders
from glenside.rewrites import StopReason, contains, matches, rule_named
from glenside.rewrites.im2col import IM2COL
from glenside.rewrites.layout import LAYOUT, MOVES
from glenside.rewrites.pooling import POOLING
from glenside.rewrites.soundness import check_program
from tests.rewrites.instances import check, dtypes, leaf, reshaped, tensors
from tests.strategies import environment, shapes

FEW = settings(max_examples=40)


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


def pool(shape: Sequence[int], window: Sequence[int], stride: Sequence[int]) -> Term:
    x = builders.access(builders.tensor("x", shape, "int32"), len(shape) - len(window))
    return builders.compute("max", builders.windows(x, window, stride))


POOLS = {
    "1-D": (pool((2, 8, 6), (2,), (2,)), 1),
    "2-D": (pool((1, 16, 4, 4), (2, 2), (2, 2)), 2),
    "3-D": (pool((2, 4, 4, 2, 2), (2, 2, 2), (2, 2, 2)), 3),
    "4 in a row": (pool((16, 8), (4,), (4,)), 2),
    "overlapping": (pool((16, 5), (2,), (1,)), 1),
}


@pytest.mark.parametrize(("term", "calls"), POOLS.values(), ids=POOLS)
def test_pools_become_calls(term: Term, calls: int) -> None:
    from glenside.extraction import MaximiseOffload, extract
    from glenside.language import topological_order

    result = check_program([term], RULES, environment([term]))
    assert result.stop_reason is StopReason.SATURATED
    (program,) = extract(result.egraph, MaximiseOffload()).terms
    ops = [x.op for x in topological_order([program])]
    assert ops.count("call") == calls
    assert "compute" not in ops


def test_a_pool_of_three_by_three_stays() -> None:
    term = pool((1, 16, 6, 6), (3, 3), (3, 3))
    result = check_program([term], RULES, environment([term]))
    assert result.stop_reason is StopReason.SATURATED
    assert not any(matches(result.egraph, "(call flex-maxpool ?p ?x)"))
