"""Winograd's minimal filtering, as matrices and as a rule."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from glenside.errors import GlensideError
from glenside.extraction import Roofline, extract
from glenside.language import Term, builders, evaluate, topological_order
from glenside.rewrites import StopReason, rule_named, saturate
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.winograd import WINOGRAD, matrices
from glenside.rewrites.soundness import check_fires
from glenside.rewrites.soundness.programs import square_filters

NAMES = [rule.name for rule in WINOGRAD]


@settings(max_examples=40)
@given(data=st.data(), m=st.integers(1, 6), r=st.integers(1, 5))
def test_the_matrices_filter_exactly(data: st.DataObject, m: int, r: int) -> None:
    n = m + r - 1
    if not 2 <= n <= 10:
        return
    a, g, b = matrices(m, r)
    numbers = st.integers(-99, 99)
    taps = data.draw(st.lists(numbers, min_size=r, max_size=r))
    values = data.draw(st.lists(numbers, min_size=n, max_size=n))
    products = [
        sum((x * y for x, y in zip(known, taps, strict=True)), Fraction())
        * sum((x * y for x, y in zip(seen, values, strict=True)), Fraction())
        for known, seen in zip(g, b, strict=True)
    ]
    for k in range(m):
        result = sum(row[k] * each for row, each in zip(a, products, strict=True))
        assert result == sum(taps[j] * values[k + j] for j in range(r))


def test_sound_and_found() -> None:
    check_fires(rule_named("winograd(2,3)"), examples=12)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6)
@given(term=square_filters(exact=True))
def test_whole_numbers_come_out(name: str, term: Term) -> None:
    """Filters are multiples of what the transforms divide by, so that results are exact."""
    rng = np.random.default_rng(1)
    leaves = {t["name"]: t for t in topological_order([term]) if t.op == "tensor"}
    assume(all(each.type.size for each in leaves.values()))  # Of nothing there is nothing to save.
    scale = 1 if name == "winograd(2,3)" else 225
    env = {
        "w": (scale * rng.integers(-4, 5, leaves["w"].shape)).astype("float32"),
        "x": rng.integers(-9, 10, leaves["x"].shape).astype("float32"),
    }
    explored = saturate([term], [rule_named(name)])
    assert explored.stop_reason is StopReason.SATURATED
    assert explored.rules[name] == 1
    (made,) = extract(explored.egraph, _Multiplications(), original=[term]).terms
    assert made is not term
    (got,), (right,) = evaluate([made], env), evaluate([term], env)
    assert np.array_equal(np.rint(got), right)


class _Multiplications(Roofline):
    """Windows as long as the filter are dear, so that the other form is chosen."""

    def __init__(self) -> None:
        super().__init__(1e12, 1e11, 1e-6)

    def node_cost(self, op, attributes, result, operands):  # type: ignore[no-untyped-def]
        price = super().node_cost(op, attributes, result, operands)
        return (1.0, *price[1:]) if op == "windows" and 3 in attributes["shape"] else price


def _convolution(
    dtype: str = "float32",
    kernel: tuple[int, int] = (3, 3),
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
) -> Term:
    x = builders.tensor("x", (2, 2 * groups, 9, 8), dtype)
    w = builders.tensor("w", (groups, 3, 2, *kernel), dtype)
    grouped = builders.reshape(x, (2, groups, 2, 9, 8))
    data = builders.access(builders.transpose(grouped, (1, 0, 2, 3, 4)), 2)
    if groups == 1:
        data = builders.access(x, 1)
        w = builders.tensor("w", (3, 2, *kernel), dtype)
    looks = builders.windows(data, (2, *kernel), (1, stride, stride), (1, dilation, dilation))
    looks = builders.squeeze(looks, data.type.split)
    split = 1 if groups == 1 else 2
    return builders.compute("dot", builders.cart_prod(builders.access(w, split), looks, split - 1))


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, True),
        ({"dtype": "float16"}, False),
        ({"dtype": "int32"}, False),
        ({"dtype": "float64"}, False),
        ({"kernel": (3, 1)}, False),
        ({"kernel": (1, 3)}, False),
        ({"kernel": (5, 5)}, False),
        ({"stride": 2}, False),
        ({"dilation": 2}, False),
        ({"groups": 2}, False),
    ],
    ids=str,
)
def test_only_where_it_is_right(changed: dict[str, object], found: bool) -> None:
    explored = saturate([_convolution(**changed)], [LAYOUT, WINOGRAD])  # type: ignore[arg-type]
    assert {explored.rules[name] for name in NAMES} == {int(found)}


def test_windows_of_five() -> None:
    term = _convolution(kernel=(5, 5))
    assert saturate([term], [rule_named("winograd(2,5)")]).rules["winograd(2,5)"] == 1


def test_parameters_are_checked() -> None:
    with pytest.raises(GlensideError, match="together 3 to 11, got 8 and 4"):
        rule_named("winograd(8,4)")
