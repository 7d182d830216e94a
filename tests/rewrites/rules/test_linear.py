"""Rules for linear layers and whole convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glenside.extraction import MaximiseOffload, extract
from glenside.language import Term, builders, topological_order
from glenside.rewrites import RuleSet, Saturation, StopReason, matches, rule_named
from glenside.rewrites.rules.convolution import (
    systolic_conv2d_im2col_nchw,
    systolic_conv2d_im2col_nhwc,
    systolic_conv2d_nchw,
    systolic_conv2d_nhwc,
)
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.linear import LINEAR, bias_of_rows, zero_bias
from glenside.rewrites.soundness import check_fires, check_program
from glenside.rewrites.soundness.programs import convolutions, linear_layers
from tests.effort import FEW, tries
from tests.rewrites.instances import check, dots, dtypes, leaf, products
from tests.strategies import environment, shapes

SIZES = st.integers(1, 4)


def layer(m: int, k: int, n: int, dtype: str = "int32", *, accumulate: str | None = None) -> Term:
    x, w = leaf((m,), (k,), dtype, "x"), leaf((n,), (k,), dtype, "w")
    return builders.compute("dot", builders.cart_prod(x, w), accumulate)


def bias(n: int, dtype: str = "int32") -> Term:
    return builders.tensor("b", (n,), dtype)


def calls(result: Saturation, unit: str, operands: int) -> int:
    names = " ".join(f"?x{i}" for i in range(operands))
    return sum(1 for _ in matches(result.egraph, f"(call {unit} ?p {names})", result.egraph.roots))


@FEW
@given(SIZES, SIZES, SIZES, dtypes())
def test_flex_linear(m: int, k: int, n: int, dtype: str) -> None:
    term = builders.elementwise("add", layer(m, k, n, dtype), bias(n, dtype))
    assert calls(check(term, "flex-linear"), "flex-linear", 3) == 1


@FEW
@given(st.integers(2, 4), SIZES, st.sampled_from(["other axis", "one number", "wider", "matrix"]))
def test_what_is_no_bias_is_not_taken_for_one(n: int, k: int, kind: str) -> None:
    product = layer(n, k, n, accumulate="int64" if kind == "wider" else None)
    other = {
        "other axis": builders.unsqueeze(bias(n), 1),
        "one number": bias(1),
        "wider": bias(n, "int64"),
        "matrix": builders.tensor("b", (n, n), "int32"),
    }[kind]
    term = builders.elementwise("add", product, other)
    # The product alone is taken, with a bias of zero.
    assert calls(check(term, "flex-linear"), "flex-linear", 3) == 0


@FEW
@given(dots(products()))
def test_vta_dense_takes_products_of_two_matrices_in_one_dtype(term: Term) -> None:
    product = term.children[0]
    fits = (
        product["batch"] == 0
        and term["accumulate"] is None
        and all((len(x.outer), len(x.item)) == (1, 1) for x in product.children)
    )
    assert check(term, "vta-dense").rules["vta-dense"] == fits


@FEW
@given(SIZES, SIZES, SIZES, st.integers(0, 3), dtypes())
def test_bias_out_of_reshape(m: int, k: int, n: int, form: int, dtype: str) -> None:
    shape = ((m, n), (1, m, n), (m, 1, n), (1, 1, m, n))[form]
    product = builders.reshape(layer(m, k, n, dtype), shape)
    term = builders.elementwise("add", product, bias(n, dtype))
    result = check(term, "bias-out-of-reshape")
    if product.op == "reshape":
        assert result.rules["bias-out-of-reshape"] == 1
        pattern = "(reshape ?o ?i (access 2 (compute add ?x)))"
        assert any(matches(result.egraph, pattern, result.egraph.roots))


def test_a_reshape_that_breaks_the_rows_stays() -> None:
    product = builders.reshape(layer(6, 2, 4), (8, 3))
    term = builders.elementwise("add", product, bias(3))
    assert check(term, "bias-out-of-reshape").rules["bias-out-of-reshape"] == 0


def test_bias_of_rows() -> None:
    check_fires(bias_of_rows(), examples=tries(25))


@pytest.mark.parametrize("shape", [(5,), (5, 1, 1), (1, 5, 1, 1)])
@pytest.mark.parametrize("left", [False, True])
def test_the_bias_of_a_convolution_is_that_of_a_linear_layer(
    shape: tuple[int, ...], left: bool
) -> None:
    x, w = builders.tensor("x", (2, 3, 4, 5), "int32"), builders.tensor("w", (5, 3, 2, 2), "int32")
    looks = builders.windows(builders.access(x, 1), (3, 2, 2), (1, 1, 2))
    product = builders.cart_prod(builders.access(w, 1), builders.squeeze(looks, 1))
    result = builders.transpose(builders.compute("dot", product), (1, 0, 2, 3))
    b = builders.tensor("b", shape, "int32")
    b = b if len(shape) > 1 else builders.unsqueeze(builders.unsqueeze(b, 1), 1)
    term = builders.elementwise("add", *((b, result) if left else (result, b)))
    rules = [IM2COL, LAYOUT, LINEAR, rule_named("flex-linear")]
    explored = check_program([term], rules, environment([term]))
    assert explored.stop_reason is StopReason.SATURATED
    (best,) = extract(explored.egraph, MaximiseOffload()).terms
    used = topological_order([best])
    assert [t["unit"] for t in used if t.op == "call"] == ["flex-linear"]
    assert not any(t.op == "compute" for t in used)


@FEW
@given(shapes(1, 3), st.integers(1, 3), dtypes())
def test_add_to_bias_add(shape: Sequence[int], n: int, dtype: str) -> None:
    x = builders.tensor("x", (*shape, n), dtype)
    result = check(builders.elementwise("add", bias(n, dtype), x), "add-to-bias-add")
    assert result.rules["add-to-bias-add"] > 0


@FEW
@given(SIZES, SIZES, SIZES, dtypes())
def test_zero_bias(m: int, k: int, n: int, dtype: str) -> None:
    term = layer(m, k, n, dtype)
    result = check_program(
        [term], [RuleSet("zero", (zero_bias(),)), rule_named("flex-linear")], environment([term])
    )
    assert result.stop_reason is StopReason.SATURATED
    assert calls(result, "flex-linear", 3) == 1


@FEW
@given(linear_layers())
def test_all_together(term: Term) -> None:
    rules = [LINEAR, LAYOUT, RuleSet("zero", (zero_bias(),)), rule_named("flex-linear")]
    result = check_program([term], rules, environment([term]))
    assert result.stop_reason is StopReason.SATURATED


def test_layers_behind_other_axes_are_found() -> None:
    """A batch of rows, the bias on the left: regrouped, swapped, moved out of the reshape."""
    x, w = leaf((2, 3), (4,), "int32", "x"), leaf((5,), (4,), "int32", "w")
    product = builders.compute("dot", builders.cart_prod(x, w))
    term = builders.elementwise("add", bias(5), product)
    rules = [IM2COL, LAYOUT, LINEAR, rule_named("flex-linear")]
    result = check_program([term], rules, environment([term]))
    assert result.stop_reason is StopReason.SATURATED
    pattern = "(reshape (2 3 5) () (call flex-linear ?p ?x ?w ?b))"
    assert any(matches(result.egraph, pattern, result.egraph.roots))


# --- convolutions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        systolic_conv2d_nchw(1, 1),
        systolic_conv2d_nchw(2, 1),
        systolic_conv2d_nhwc(1, 1),
        systolic_conv2d_im2col_nchw(2, 3),
        systolic_conv2d_im2col_nhwc(1, 1),
    ],
    ids=lambda rule: rule.name,
)
def test_convolutions_are_given_to_units(rule: object) -> None:
    check_fires(rule, examples=tries(30))


@FEW
@given(convolutions())
def test_only_plain_convolutions_whose_sizes_fit(term: Term) -> None:
    product = term.children[0].children[0]
    looks = product.children[1].children[0]
    filters, channels = term.shape[1], looks.item[0]
    name = "systolic-conv2d-nchw(2,2)"
    fits = looks["dilation"] is None and channels % 2 == 0 and filters % 2 == 0
    assert (check(term, name).rules[name] > 0) == fits


def test_nhwc_goes_to_its_unit() -> None:
    x = builders.tensor("x", (1, 5, 6, 4), "int32")
    w = builders.tensor("w", (3, 3, 4, 2), "int32")
    data = builders.access(builders.transpose(x, (0, 3, 1, 2)), 1)
    looks = builders.squeeze(builders.windows(data, (4, 3, 3), (1, 1, 1)), 1)
    filters = builders.access(builders.transpose(w, (3, 2, 0, 1)), 1)
    dot = builders.compute("dot", builders.cart_prod(filters, looks))
    term = builders.transpose(builders.transpose(dot, (1, 0, 2, 3)), (0, 2, 3, 1))
    rules = [rule_named(f"systolic-conv2d-{layout}(4,2)") for layout in ("nchw", "nhwc")]
    result = check_program([term], rules, environment([term]))
    pattern = "(call systolic-conv2d-nhwc (4 2 3 3 1 1) (tensor w ?s) (tensor x ?t))"
    assert any(matches(result.egraph, pattern, result.egraph.roots))
