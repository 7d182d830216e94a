"""The three rules from which im2col is discovered, each by itself and together."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glenside.language import Term, builders, topological_order
from glenside.rewrites import FrozenEGraph, RuleSet, StopReason, matches, saturate
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic_rules
from glenside.rewrites.soundness import check_program
from tests.effort import FEW
from tests.rewrites.instances import Draw, check, dots, leaf, products, reshaped, same_size, tensors
from tests.strategies import environment, shapes

RULES = [IM2COL, LAYOUT, systolic_rules(4, 4)]


@FEW
@given(products())
def test_flatten_unflatten_on_products(term: Term) -> None:
    result = check(term, "flatten-unflatten")
    assert result.stop_reason is StopReason.SATURATED
    wanted = any(
        x.type.split > term["batch"] + 1 or len(x.item) != 1 for x in term.children
    ) or term.type.rank > 2 or len(term.item) > 1  # fmt: skip
    assert (result.rules["flatten-unflatten"] > 0) == wanted


@FEW
@given(tensors().filter(lambda x: max(len(x.outer), len(x.item)) > 1))
def test_flatten_unflatten_on_outputs(term: Term) -> None:
    result = check(term, "flatten-unflatten")
    assert result.rules["flatten-unflatten"] == 1
    assert result.nodes == len(topological_order([term])) + 2


@st.composite
def reshaped_products(draw: Draw) -> Term:
    product = draw(products())
    left, right = product.children
    batch = product["batch"]
    item = draw(same_size(left.item))
    parts = [
        builders.reshape(x, x.outer[:batch] + draw(same_size(x.outer[batch:])), item)
        for x in (left, right)
    ]
    return builders.cart_prod(*parts, batch)


@FEW
@given(reshaped_products())
def test_reshape_out_of_cart_prod(term: Term) -> None:
    result = check(term, "reshape-out-of-cart-prod")
    if all(x.op == "reshape" for x in term.children):
        assert result.rules["reshape-out-of-cart-prod"] > 0


@FEW
@given(products(item=shapes(1, 1), rest=1), st.data())
@pytest.mark.parametrize("side", [0, 1])
def test_reshape_out_of_cart_prod_on_one_side(side: int, term: Term, data: st.DataObject) -> None:
    batch = term["batch"]
    parts = list(term.children)
    x = parts[side]
    outer = x.outer[:batch] + data.draw(
        same_size(x.outer[batch:]).filter(lambda shape: shape != x.outer[batch:])
    )
    parts[side] = builders.reshape(x, outer, x.item)
    result = check(builders.cart_prod(*parts, batch), "reshape-out-of-cart-prod")
    assert result.rules["reshape-out-of-cart-prod"] > 0


def test_reshape_that_mixes_the_batch_stays_inside() -> None:
    a = builders.reshape(leaf((6, 2), (3,), "int32", "a"), (2, 6), (3,))
    b = builders.reshape(leaf((4, 1), (3,), "int32", "b"), (2, 2), (3,))
    result = check(builders.cart_prod(a, b, 1), "reshape-out-of-cart-prod")
    assert result.rules["reshape-out-of-cart-prod"] == 0


@FEW
@given(dots(reshaped(products(), keep=1)))
def test_reshape_out_of_dot(term: Term) -> None:
    result = check(term, "reshape-out-of-dot")
    if term.children[0].op == "reshape":
        assert result.rules["reshape-out-of-dot"] > 0


@FEW
@given(dots(reshaped(products())))
def test_reshape_of_the_tuple_axis_stays_inside_dot(term: Term) -> None:
    result = check(term, "reshape-out-of-dot")
    product = term.children[0]
    if product.op == "reshape" and product.item[0] != 2:
        assert result.rules["reshape-out-of-dot"] == 0


# --- together ------------------------------------------------------------------------------------


def convolution(
    number: int = 0,
    *,
    channels: int = 4,
    filters: int = 8,
    kernel: tuple[int, ...] = (3, 3),
    image: tuple[int, ...] = (6, 7),
    batch: int = 1,
    groups: int = 1,
    stride: int = 1,
    dtype: str = "int32",
) -> Term:
    """A convolution in the paper's form, as front ends write it; any number of axes and groups."""
    axes = len(kernel)
    weights = builders.tensor(f"w{number}", (filters, channels // groups, *kernel), dtype)
    x = builders.tensor(f"x{number}", (batch, channels, *image), dtype)
    for axis in range(axes):
        x = builders.pad(x, 2 + axis, 1, 1)
    if groups == 1:
        x = builders.windows(builders.access(x, 1), (channels, *kernel), (1, *[stride] * axes))
        x = builders.squeeze(x, 1)
        dot = builders.compute("dot", builders.cart_prod(builders.access(weights, 1), x))
        return builders.transpose(dot, (1, 0, *range(2, 2 + axes)))
    each = (channels // groups, *kernel)
    weights = builders.reshape(weights, (groups, filters // groups, *each))
    x = builders.reshape(x, (batch, groups, channels // groups, *x.shape[2:]))
    x = builders.windows(builders.access(x, 2), each, (1, *[stride] * axes))
    x = builders.squeeze(x, 2)
    x = builders.transpose(x, (1, 0, *range(2, x.type.rank)))
    dot = builders.compute("dot", builders.cart_prod(builders.access(weights, 2), x, 1))
    dot = builders.transpose(dot, (2, 0, 1, *range(3, 3 + axes)))
    return builders.reshape(dot, (batch, filters, *dot.shape[3:]))


CONVOLUTIONS = {
    "2-D": convolution(),
    "1-D": convolution(kernel=(3,), image=(9,)),
    "3-D": convolution(kernel=(2, 1, 3), image=(3, 2, 4)),
    "1x1": convolution(kernel=(1, 1)),
    "batch of 2": convolution(batch=2, stride=2),
    "grouped": convolution(groups=2),
    "depthwise": convolution(groups=4),
    "in floats": convolution(dtype="float32"),
}


def array_products(egraph: FrozenEGraph) -> int:
    """How many products were given to the array."""
    return sum(node.op in ("blocked", "call") for nodes in egraph.classes for node in nodes)


@pytest.mark.parametrize("term", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_im2col_is_discovered(term: Term) -> None:
    result = check_program([term], RULES, environment([term]))
    assert result.stop_reason is StopReason.SATURATED
    assert array_products(result.egraph) == 1


@pytest.mark.parametrize("term", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
@pytest.mark.parametrize("rule", [rule.name for rule in IM2COL])
def test_without_any_of_its_rules_it_is_not(rule: str, term: Term) -> None:
    result = saturate([term], [IM2COL.without(rule), *RULES[1:]])
    assert result.stop_reason is StopReason.SATURATED
    assert array_products(result.egraph) == 0


def test_the_matrices_of_a_grouped_convolution() -> None:
    result = saturate([CONVOLUTIONS["grouped"]], RULES)
    ((number, binding),) = matches(result.egraph, "(blocked systolic-array (4 4) :batch 1 ?a ?b)")
    assert result.egraph.types[number].outer == (2, 4, 42)
    assert result.egraph.types[binding["?a"]].shape == (2, 4, 18)
    assert result.egraph.types[binding["?b"]].shape == (2, 42, 18)


@FEW
@given(dots(products()))
def test_every_product_of_whatever_shape_becomes_one_of_matrices(term: Term) -> None:
    result = check_program([term], RULES, environment([term]))
    assert result.stop_reason is StopReason.SATURATED
    assert array_products(result.egraph) >= 1


@pytest.mark.parametrize("names", [("flatten-unflatten",), ("flatten-unflatten", "merge-reshapes")])
def test_exploration_ends(names: tuple[str, ...]) -> None:
    result = check(CONVOLUTIONS["2-D"], *names)
    assert result.stop_reason is StopReason.SATURATED


def test_nodes_grow_linearly_with_the_number_of_layers() -> None:
    def nodes(count: int) -> int:
        rules: list[RuleSet] = RULES
        roots = [convolution(i, filters=8 + i) for i in range(count)]
        return saturate(roots, rules).nodes

    assert nodes(12) == 12 * nodes(1)


def test_a_product_of_matrices_is_matched_as_it_is() -> None:
    a, b = leaf((3,), (5,), "int32", "a"), leaf((4,), (5,), "int32", "b")
    term = builders.compute("dot", builders.cart_prod(a, b))
    result = saturate([term], [systolic_rules(2, 2)])
    assert array_products(result.egraph) == 1
    assert math.prod(result.egraph.types[result.egraph.roots[0]].outer) == 12
