"""Overlapped tiling and partial sums."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glenside.errors import GlensideError
from glenside.language import Term, builders
from glenside.rewrites import StopReason, contains, rule_named
from glenside.rewrites.rules.parallel import PARALLEL
from glenside.rewrites.soundness.programs import long_products, windows_of_accesses
from tests.effort import tries
from tests.rewrites.instances import check

FEW = settings(max_examples=tries(14))


@pytest.mark.parametrize(("axis", "count"), [(0, 2), (1, 2), (1, 3)])
@FEW
@given(term=windows_of_accesses())
def test_overlapped_tiling(axis: int, count: int, term: Term) -> None:
    name = f"overlapped-tiling({axis},{count})"
    result = check(term, name)
    assert result.stop_reason is StopReason.SATURATED
    split = term.children[0].type.split
    rank = len(term["shape"])
    places = term.outer[split + axis] if axis < rank else 1
    assert (result.rules[name] > 0) == (places > count and places % count == 0)


def test_tiles_are_as_long_as_their_windows_reach() -> None:
    """Lift's condition: tiles of t elements with kernel k and stride s hold whole windows,
    (t - (k - s)) mod s = 0, and follow each other by as many strides as they hold windows."""
    x = builders.access(builders.tensor("x", (3, 14)), 1)
    term = builders.windows(x, (3,), (2,))
    tile, stride, kernel = 5, 2, 3  # Two windows of 3, two apart.
    assert (tile - (kernel - stride)) % stride == 0
    tiles = builders.windows(x, (tile,), (2 * stride,))
    expected = builders.reshape(builders.windows(tiles, (kernel,), (stride,)), (3, 6), (3,))
    result = check(term, "overlapped-tiling(0,2)")
    regrouped = builders.reshape(
        builders.transpose(expected.children[0], (0, 1, 2, 3)), (3, 6), (3,)
    )
    assert contains(result.egraph, regrouped) == result.egraph.roots[0]


@FEW
@given(term=long_products(), parts=st.sampled_from([2, 3]))
def test_partial_sums(term: Term, parts: int) -> None:
    name = f"partial-sums({parts})"
    result = check(term, name)
    assert result.stop_reason is StopReason.SATURATED
    length = term.children[0].children[0].item[0]
    assert (result.rules[name] > 0) == (length > parts and length % parts == 0)


def test_parameters_are_checked() -> None:
    with pytest.raises(GlensideError, match="at least 2 windows in a tile, got 0 and 1"):
        rule_named("overlapped-tiling(0,1)")
    with pytest.raises(GlensideError, match="at least 2 parts, got 1"):
        rule_named("partial-sums(1)")
    assert [rule.exact for rule in PARALLEL] == [True, False]
