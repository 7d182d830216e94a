"""Attention comes to the form of one batch, whatever its axes and scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from glenside.extraction import extract
from glenside.hw_targets import find_target
from glenside.language import Term, builders, evaluate, topological_order
from glenside.rewrites import Rule, StopReason, saturate
from glenside.rewrites.rules.attention import ATTENTION
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.matrices import MATRICES
from glenside.rewrites.soundness import check_fires, check_program
from glenside.rewrites.soundness.programs import scaled_attention
from tests.effort import tries
from tests.strategies import environment


@pytest.mark.parametrize("rule", [*ATTENTION], ids=lambda rule: rule.name)
def test_every_rule_is_sound_and_fires_on_what_it_looks_for(rule: Rule) -> None:
    check_fires(rule, examples=tries(15))


@settings(max_examples=tries(15))
@given(scaled_attention())
def test_together(term: Term) -> None:
    result = check_program([term], [LAYOUT, MATRICES, ATTENTION], environment([term]))
    assert result.stop_reason is StopReason.SATURATED


@pytest.mark.parametrize(
    ("batch", "scale", "turned"),
    [
        ((), "none", False),
        ((), "constant", True),
        ((2,), "tensor", False),
        ((2, 3), "none", True),
        ((2, 3), "constant", False),
        ((2, 3), "divided", True),
        ((2, 1, 3), "tensor", True),
    ],
)
def test_attention_is_one_call(batch: tuple[int, ...], scale: str, turned: bool) -> None:
    """As front ends lower ``softmax(q @ k.swapaxes(-1, -2) * c) @ v``."""
    from glenside.frontends.lowering.phrases import along, div, matmul, mul, swap_last

    q, v = builders.tensor("q", (*batch, 3, 4)), builders.tensor("v", (*batch, 5, 6))
    k = builders.tensor("k", (*batch, 4, 5) if turned else (*batch, 5, 4))
    scores = matmul(q, k if turned else swap_last(k))
    scores = {
        "none": lambda: scores,
        "constant": lambda: mul(scores, 0.5),
        "divided": lambda: div(scores, 3.0),
        "tensor": lambda: mul(builders.tensor("c", (1,)), scores),
    }[scale]()
    term = matmul(along("softmax", scores, scores.type.rank - 1), v)
    target = find_target("flexasr")
    explored = saturate([term], target.rules())
    assert explored.stop_reason is StopReason.SATURATED
    (best,) = extract(explored.egraph, target.cost_model(), original=[term]).terms
    used = topological_order([best])
    assert [t["unit"] for t in used if t.op == "call"] == ["flex-attention"]
    computed = [t["function"] for t in used if t.op == "compute"]
    assert computed == {"none": [], "divided": ["div"]}.get(scale, ["mul"])

    rng = np.random.default_rng(0)
    env = {t["name"]: rng.normal(size=t.shape).astype("float32") for t in used if t.op == "tensor"}
    keys = env["k"] if turned else env["k"].swapaxes(-1, -2)
    factor = {"none": 1, "constant": 0.5, "divided": 1 / 3}.get(scale, env.get("c"))
    powers = np.exp(env["q"] @ keys * factor)
    want = powers / powers.sum(axis=-1, keepdims=True) @ env["v"]
    np.testing.assert_allclose(evaluate([best], env)[0], want, rtol=1e-4, atol=1e-6)
