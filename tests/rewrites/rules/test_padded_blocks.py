"""Padding to multiples and blocking meet: a convolution of three channels fills an array of 64."""

import pytest

from glenside.extraction import MaximiseOffload, extract
from glenside.language import parse, topological_order
from glenside.rewrites import StopReason, rule_named, saturate
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.padding import PADDING, pad_then_slice
from glenside.rewrites.ruleset import as_ruleset

FILTERS = "(access 1 (transpose (3 2 0 1) (tensor w (3 3 3 8))))"
LOOKS = """(access 3 (squeeze 1 (windows (3 3 3) (1 1 1) (access 1 (pad zero 3 1 1 (pad zero 2 1 1
    (transpose (0 3 1 2) (tensor x (1 32 32 3)))))))))"""


@pytest.mark.parametrize("widths", [{"multiple": 64}, {"multiples_of": 64, "limit": 64}])
@pytest.mark.parametrize("filters_first", [True, False])
def test_27_deep_and_8_filters_become_64(filters_first, widths) -> None:
    factors = (FILTERS, LOOKS) if filters_first else (LOOKS, FILTERS)
    term = parse(f"(transpose (0 2 3 1) (compute dot (cart-prod {' '.join(factors)})))")
    pads = as_ruleset([pad_then_slice(axis, **widths) for axis in (0, 1)], "pads")
    found = saturate([term], [IM2COL, pads, PADDING, rule_named("systolic-blocked(64,64)")])
    assert found.stop_reason is StopReason.SATURATED
    order = topological_order(extract(found.egraph, MaximiseOffload(), original=[term]).terms)
    assert not any(each.op == "compute" for each in order)
    (blocked,) = (each for each in order if each.op == "blocked")
    rows = [1024, 8] if not filters_first else [8, 1024]
    (m, n), deep = (child.shape[0] for child in blocked.children), blocked.children[0].shape[1]
    assert deep == 64 and n % 64 == 0
    assert [m, n] in ([rows[0], max(rows[1], 64)], [max(rows[0], 64), max(rows[1], 64)])
