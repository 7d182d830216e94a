"""Lift's two moves, from the e-graph to kernels: chosen by a cost model, right on OpenCL."""

from __future__ import annotations

import math

import numpy as np
import pytest

import glenside
from glenside.language import evaluate
from glenside.language.builders import tensor
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.parallel import PARALLEL
from tests.codegen.codegen_help import convolution, weights

pytest.importorskip("pyopencl")


class ShortSums:
    """Dearer by the square of how many products one result sums."""

    name = "short-sums"

    def node_cost(self, op, attributes, result, operands):
        summed = op == "compute" and attributes["function"] == "dot"
        return (1.0 + (math.prod(operands[0].item) ** 2 if summed else 0),)


class FewPlaces:
    """Dearer by the cubes of how many windows lie along the axes."""

    name = "few-places"

    def node_cost(self, op, attributes, result, operands):
        return (1.0 + (sum(n**3 for n in result.outer) if op == "windows" else 0),)


@pytest.mark.parametrize(
    ("costs", "move", "operators"),
    [
        (ShortSums(), "partial-sums(2)", {"dot": 1, "sum": 1, "windows": 1}),
        (FewPlaces(), "overlapped-tiling(1,2)", {"dot": 1, "sum": 0, "windows": 2}),
    ],
)
def test_a_cost_model_can_choose_the_move(costs, move, operators):
    images, filters = tensor("x", (1, 8, 10, 12)), tensor("w", (6, 8, 3, 3))
    term = convolution(images, filters, pads=(1, 1, 1, 1))
    params = {"w": weights(6, 8, 3, 3)}
    program = glenside.optimize(
        term, "opencl", rules=[LAYOUT, PARALLEL], cost_model=costs, params=params
    )
    assert {rule.name: rule.matches for rule in program.report.rules}[move] > 0
    assert program.report.cost_after < program.report.cost_before
    (chosen,) = program.terms
    assert {name: str(chosen).count(f"{name} ") for name in operators} == operators
    x = np.random.default_rng(0).standard_normal((1, 8, 10, 12)).astype("float32")
    (got,), (expected,) = program.run({"x": x}), evaluate([term], {"x": x, **params})
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
