"""What the check of a program finds beside wrong outputs."""

from dataclasses import dataclass

import numpy as np
import pytest
from egglog import eq, rule, union, vars_

import glenside
from glenside import check as checking
from glenside.errors import CheckFailed, NotOptimised
from glenside.inner_values import compare_inner, unexplained
from glenside.language import Model, Term, builders, evaluate, random_inputs
from glenside.rewrites import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access

X = builders.tensor("x", (4, 16))
W = builders.tensor("w", (3, 16))


def saturated(function: str = "exp", last: str = "softmax") -> Model:
    """The first score is far ahead of the others whatever the input: one answer for all."""
    made = builders.elementwise(function, X)
    scores = builders.compute("dot", builders.cart_prod(builders.access(made, 1), rows(W)))
    result = scores
    if last == "softmax":
        result = builders.compute("softmax", builders.access(scores, 1))
    else:
        result = builders.elementwise(last, scores)
    weights = np.zeros((3, 16), "float32")
    weights[0] = 1e4
    outputs = {"y": builders.outer_only(result)}
    names = {made: "positive", scores: "scores"}
    return Model("saturated", {"x": X.type}, {"w": weights}, outputs, names)


def rows(x: Term) -> Term:
    return builders.access(x, 1)


@rewrite_rule("wrong-exp", exact=True)
def wrong_exp():
    """exp(x) is not |x|."""
    x, whole = vars_("x whole", Access)
    yield rule(eq(whole).to(x.compute("exp", NO_DTYPE))).then(
        union(whole).with_(x.compute("abs", NO_DTYPE))
    )


@dataclass(frozen=True)
class NoExp:
    name = "no exp"

    def node_cost(self, op, attributes, result, operands):
        return (1e6 if attributes.get("function") == "exp" else 1.0,)


@pytest.mark.parametrize("last", ["softmax", "tanh"])
def test_a_wrong_rewrite_behind_a_saturated_function_is_found(last):
    model = saturated(last=last)
    given = {**model.params, **random_inputs(model.inputs, 0)}
    (right,), (wrong,) = (evaluate(saturated(f, last).roots, given) for f in ("exp", "abs"))
    np.testing.assert_allclose(right, wrong, atol=1e-3)  # The output shows nothing.
    options = {"rules": [RuleSet("wrong", (wrong_exp(),))], "cost_model": NoExp()}
    program = glenside.optimize(model, "cpu", check=False, **options)
    assert "abs" in program.text
    said = r"value 'positive' of saturated .* rewrite is unsound"
    with pytest.warns(NotOptimised, match=f"as it was imported: CheckFailed: {said}"):
        imported = glenside.optimize(model, "cpu", **options)
    assert "abs" not in imported.text and "rewrite is unsound" in imported.report.failure
    np.testing.assert_allclose(imported(**random_inputs(model.inputs, 0)), right, rtol=1e-5)


def test_compiled_code_that_is_wrong_before_a_saturated_softmax_is_found(monkeypatch):
    model = saturated()
    program = glenside.optimize(model, "cpu")
    traced = program.trace

    def wrong(inputs):
        values = traced(inputs)
        return {t: v * 2 if t.op == "compute" and t["function"] == "dot" else v
                for t, v in values.items()}  # fmt: skip

    monkeypatch.setattr(program, "trace", wrong)
    with pytest.raises(CheckFailed, match=r"of saturated .*compiled code is wrong"):
        checking.check(program, model)


def test_what_is_all_rounding_is_not_blamed():
    x = builders.tensor("x", (4, 15))
    mean, total = (builders.compute(name, rows(x)) for name in ("mean", "sum"))
    spread = [
        builders.broadcast(builders.unsqueeze(builders.access(m, 0), 1), (4, 15))
        for m in (mean, builders.elementwise("mul", total, builders.constant(1 / 15, (4,))))
    ]
    centred, same = (builders.elementwise("sub", x, s) for s in spread)
    wrong = builders.elementwise("add", x, spread[1])
    values = np.full((4, 15), 0.1, "float32") * (1 + np.arange(4, dtype="float32")[:, None])
    model = Model("centred", {"x": x.type}, {}, {"y": centred}, {centred: "centred"})
    for other, blamed in ((same, 0), (wrong, 1)):
        _, suspects = compare_inner(
            model,
            {centred: other},
            {other: other},
            [other],
            {"x": values},
            {},
            lambda _: 1e-3,
            1e-3,
        )
        assert len(suspects) == 1
        assert len(unexplained(suspects, {"x": values})) == blamed
