"""Ready rule sets that bring products to the size of an array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glenside.errors import GlensideError
from glenside.extraction import MaximiseOffload, extract
from glenside.hw_targets.expansion import tile_calls
from glenside.language import Term, builders, evaluate, topological_order
from glenside.rewrites import RuleSet, StopReason, contains, rule_named, saturate, tile_to
from glenside.rewrites.rules.blocking import BLOCKING, split_into
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.padding import PADDING, pad_then_slice
from glenside.rewrites.rules.tensorize import systolic
from glenside.rewrites.soundness import check_fires, check_program
from tests.effort import tries
from tests.rewrites.instances import Draw, check, dots, leaf, products
from tests.strategies import environment

FEW = settings(max_examples=tries(9))


@st.composite
def matrix_products(draw: Draw) -> Term:
    """A product of matrices of up to seven rows, columns and elements, with any batch."""
    size = st.integers(1, 7)
    dtype = draw(st.sampled_from(("int32", "int8", "float64")))
    shared = tuple(draw(st.lists(st.integers(1, 2), max_size=2)))
    rows = draw(st.just(()) | st.tuples(size))
    k, n = draw(size), draw(size)
    x, y = leaf((*shared, *rows), (k,), dtype, "a"), leaf((*shared, n), (k,), dtype, "b")
    return builders.compute("dot", builders.cart_prod(x, y, len(shared)))


class OnlyArrays(MaximiseOffload):
    """No product on the host."""

    def node_cost(self, op: str, attributes: Any, result: Any, operands: Any) -> Any:
        if op == "compute" and attributes["function"] == "dot":
            return None
        return super().node_cost(op, attributes, result, operands)


def calls(term: Term) -> list[Term]:
    return [each for each in topological_order([term]) if each.op == "call"]


# --- one rule at a time --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "pad-product(2,3)",
        "split-rows(2)",
        "split-columns(2)",
        "split-depth(2,7)",
        "systolic-tile(1,2)",
    ],
)
def test_what_a_rule_finds_computes_the_same(name: str) -> None:
    check_fires(rule_named(name), matrix_products(), examples=tries(25))


def sizes(term: Term) -> tuple[int, int, int, int]:
    """Shared axes, rows (0 for a vector), columns, depth."""
    product = term.children[0]
    x, y = product.children
    g = product["batch"]
    return g, math.prod(x.outer[g:]) if x.type.split > g else 0, y.outer[g], y.item[0]


@FEW
@given(matrix_products(), st.integers(1, 4), st.integers(1, 4))
def test_padding_is_only_where_something_is_missing(term: Term, rows: int, columns: int) -> None:
    _, _, n, k = sizes(term)
    name = f"pad-product({rows},{columns})"
    assert (check(term, name).rules[name] > 0) == bool(k % rows or n % columns)


@FEW
@given(matrix_products(), st.integers(1, 4), st.integers(0, 3))
def test_columns_are_split_at_multiples(term: Term, columns: int, stream: int) -> None:
    _, m, n, _ = sizes(term)
    name = f"split-columns({columns},{stream})"
    fits = n > columns and n % columns == 0 and (not stream or m <= stream)
    assert (check(term, name).rules[name] > 0) == fits


@FEW
@given(matrix_products(), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
def test_the_depth_is_split_when_columns_are(
    term: Term, rows: int, columns: int, stream: int
) -> None:
    _, m, n, k = sizes(term)
    name = f"split-depth({rows},{columns},{stream})"
    fits = k > rows and k % rows == 0 and n <= columns and (not stream or m <= stream)
    assert (check(term, name).rules[name] > 0) == fits


@FEW
@given(matrix_products(), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_rows_are_split_when_nothing_is_to_be_padded(
    term: Term, stream: int, rows: int, columns: int
) -> None:
    _, m, n, k = sizes(term)
    name = f"split-rows({stream},{rows},{columns})"
    fits = m > stream and k % rows == 0 and n % columns == 0
    assert (check(term, name).rules[name] > 0) == fits


@FEW
@given(matrix_products(), st.integers(1, 4), st.integers(1, 4))
def test_an_array_takes_weights_of_its_size(term: Term, rows: int, columns: int) -> None:
    _, _, n, k = sizes(term)
    name = f"systolic-tile({rows},{columns})"
    assert check(term, name).rules[name] == ((k, n) == (rows, columns))


@FEW
@given(dots(products()))
def test_only_products_of_matrices_are_tiled(term: Term) -> None:
    product = term.children[0]
    x, y = product.children
    g = product["batch"]
    fits = (
        len(x.item) == 1
        and x.type.split <= g + 1 == y.type.split
        and x.item[0] % 2 == 1
        and y.outer[g] > 0
    )
    assert (check(term, "pad-product(2,1)").rules["pad-product(2,1)"] > 0) == fits


@pytest.mark.parametrize(
    "name", ["pad-product(0,1)", "split-rows(0)", "split-columns(0)", "split-depth(1,0)"]
)
def test_tiles_of_no_size_are_refused(name: str) -> None:
    with pytest.raises(GlensideError, match="must be at least 1"):
        rule_named(name)


def test_a_negative_stream_is_refused() -> None:
    with pytest.raises(GlensideError, match="stream must be at least 0"):
        rule_named("split-columns(1,-1)")


# --- together ------------------------------------------------------------------------------------


@settings(max_examples=tries(12))
@given(
    term=matrix_products(),
    rows=st.integers(2, 3),
    columns=st.integers(2, 4),
    stream=st.integers(0, 3),
)
def test_every_product_becomes_calls_of_one_array(
    term: Term, rows: int, columns: int, stream: int
) -> None:
    env = environment([term])
    result = check_program([term], tile_to(rows, columns, stream=stream), env)
    assert result.stop_reason is StopReason.SATURATED
    (program,) = extract(result.egraph, OnlyArrays()).terms
    found = calls(program)
    assert {call["parameters"] for call in found} == {(rows, columns)}
    for call in found:
        x = call.children[0]
        assert not stream or math.prod(x.outer[call["batch"] :]) <= stream
    got, right = evaluate([program, term], env)
    np.testing.assert_array_equal(got, right)


# (m, k, n), rows that stream: e-nodes and calls. The rules that move one cut at a time take 49,207
# e-nodes for the first.
GROWTH = {
    ((20, 27, 37), 0): (74, 6),
    ((20, 27, 37), 16): (117, 12),
    ((32, 32, 32), 0): (45, 4),
    ((100, 100, 100), 0): (695, 49),
    ((128, 128, 128), 0): (911, 64),
    ((100, 100, 100), 16): (2_907, 343),
}


@pytest.mark.parametrize(("size", "stream"), GROWTH)
def test_it_ends_with_few_nodes(size: tuple[int, int, int], stream: int) -> None:
    m, k, n = size
    term = builders.compute(
        "dot",
        builders.cart_prod(leaf((m,), (k,), "float32", "a"), leaf((n,), (k,), "float32", "b")),
    )
    result = saturate([term], tile_to(16, 16, stream=stream))
    nodes, tiles = GROWTH[size, stream]
    assert result.stop_reason is StopReason.SATURATED
    assert result.nodes <= nodes
    (program,) = extract(result.egraph, OnlyArrays()).terms
    assert sum(map(tile_calls, calls(program))) == tiles
    got, right = evaluate([program, term], environment([term]))
    np.testing.assert_array_equal(got, right)


def test_convolutions_are_tiled_through_matrices() -> None:
    """3 channels to 8 filters, padded to an array of 64 x 64."""
    x, w = builders.tensor("x", (1, 34, 34, 3)), builders.tensor("w", (3, 3, 3, 8))
    x, w = builders.transpose(x, (0, 3, 1, 2)), builders.transpose(w, (3, 2, 0, 1))
    looks = builders.windows(builders.access(x, 1), (3, 3, 3), (1, 1, 1))
    looks = builders.squeeze(looks, 1)
    term = builders.compute("dot", builders.cart_prod(builders.access(w, 1), looks))
    term = builders.transpose(term, (1, 2, 3, 0))
    result = saturate([term], tile_to(64, 64))
    assert result.stop_reason is StopReason.SATURATED
    assert result.nodes <= 246
    (program,) = extract(result.egraph, OnlyArrays()).terms
    assert sum(map(tile_calls, calls(program))) == 16
    got, right = evaluate([program, term], environment([term]))
    np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)


def test_the_rules_that_move_one_cut_at_a_time_agree() -> None:
    term = builders.compute(
        "dot", builders.cart_prod(leaf((2,), (3,), "int32", "a"), leaf((4,), (3,), "int32", "b"))
    )
    steps = [
        RuleSet("splits", (split_into(0, 2), split_into(1, 2))),
        RuleSet("pads", (pad_then_slice(0, 2), pad_then_slice(1, 2))),
        PADDING,
        BLOCKING,
        LAYOUT,
        RuleSet("unit", (systolic(2, 2),)),
    ]
    slow = saturate([term], steps)
    fast = saturate([term], tile_to(2, 2))
    assert slow.stop_reason is fast.stop_reason is StopReason.SATURATED
    (program,) = extract(fast.egraph, OnlyArrays()).terms
    assert contains(slow.egraph, program) == slow.egraph.roots[0]
    assert 4 * fast.nodes < slow.nodes
