"""Real networks: im2col is discovered in each, and only where all its rules are there."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from glenside.frontends.onnx import import_model
from glenside.language import Term
from glenside.rewrites import FrozenEGraph, StopReason, saturate
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic_rules
from tests.models import LIGHT

RULES = [IM2COL, LAYOUT, systolic_rules(16, 16)]
NETWORKS = {"squeezenet": 26, "resnet50": 54, "shufflenet": 50}
"""Convolutions and matrix products in each."""


@pytest.fixture(params=NETWORKS, scope="module")
def network(request: pytest.FixtureRequest) -> tuple[list[Term], int]:
    model = import_model(str(Path(LIGHT, f"light_{request.param}.onnx")))
    return model.roots, NETWORKS[request.param]


def on_array(egraph: FrozenEGraph) -> int:
    """How many values the array computes."""
    units = ("blocked", "call")
    return sum(any(node.op in units for node in nodes) for nodes in egraph.classes)


def convolutions(terms: Iterable[Term]) -> int:
    """Products over items of several axes, as those of windows are."""
    return sum(
        term.op == "compute" and term["function"] == "dot" and len(term.children[0].item) > 2
        for term in terms
    )


def test_every_product_is_given_to_the_array(network: tuple[list[Term], int]) -> None:
    roots, count = network
    result = saturate(roots, RULES)
    assert result.stop_reason is StopReason.SATURATED
    assert on_array(result.egraph) == count
    assert result.nodes < 2 * len(result.term_classes)


def test_without_reshape_out_of_dot_not_one_convolution_is(
    network: tuple[list[Term], int],
) -> None:
    roots, count = network
    result = saturate(roots, [IM2COL.without("reshape-out-of-dot"), *RULES[1:]])
    assert result.stop_reason is StopReason.SATURATED
    matrix_products = count - convolutions(result.term_classes)
    assert matrix_products <= 1
    assert on_array(result.egraph) == matrix_products
