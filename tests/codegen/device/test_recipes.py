"""Parameters made anew from the model's own, by the recipes that the compiler gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glenside.codegen.device.compile import compile_for_device
from glenside.codegen.device.recipes import decoded, encoded, recipe_of
from glenside.codegen.gpu.devices import device_profile
from glenside.frontends import load_model
from glenside.language import builders as b
from glenside.language import evaluate
from tests.models import small_network


@given(st.lists(st.integers(0, 2**31 - 1), max_size=50))
def test_an_order_is_what_it_was(order: list[int]) -> None:
    array = np.array(order, np.int32)
    assert np.array_equal(decoded(encoded(array)), array)


def halves(dtype: str) -> tuple[list, dict, dict]:
    """A product for matrix units, of sizes that tiles do not divide, and a repeated bias."""
    x, w = b.tensor("x", (50, 72), dtype), b.tensor("w", (70, 72), dtype)
    bias = b.tensor("bias", (1, 70), dtype)
    product = b.compute("dot", b.cart_prod(b.access(x, 1), b.access(w, 1)))
    rows = b.outer_only(product)
    wide = b.broadcast(bias, rows.shape)
    rng = np.random.default_rng(0)
    params = {n: rng.standard_normal(t.shape).astype(dtype) for n, t in
              (("w", w), ("bias", bias))}  # fmt: skip
    return [b.elementwise("add", rows, wide)], {"x": x.type}, params


@pytest.mark.parametrize("precision", ["float32", "float16", "tf32"])
def test_recipes_give_the_parameters(precision: str) -> None:
    limits = replace(device_profile("cuda:sm_90"), tf32=precision == "tf32")
    if precision == "float32":
        model = load_model(small_network())
        outputs, inputs, params = model.roots, model.inputs, model.params
    else:
        outputs, inputs, params = halves("float32" if precision == "tf32" else precision)
    made = compile_for_device(outputs, inputs, params, limits, "cuda")
    assert made.products and all(number < len(made.plan.steps) for number in made.products)
    assert made.origins.keys() == made._parameters.keys() != set()
    assert any(each.rounded for each in made.origins.values()) == (precision == "tf32")
    packed = 0
    for number, origin in made.origins.items():
        (value,) = evaluate([origin.term], params)
        recipe = recipe_of(origin)
        packed += bool(recipe.order)
        again = recipe.apply(value)
        assert again.dtype == value.dtype
        np.testing.assert_array_equal(again, made._parameters[number])
    assert packed
