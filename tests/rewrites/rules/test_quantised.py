"""Quantised products as products of 8-bit integers: to the bit, whatever the integers are."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glenside.errors import UnsoundRewrite
from glenside.language import Term, builders, topological_order
from glenside.language.shape import FLOATS
from glenside.rewrites import RuleSet, StopReason, matches, saturate
from glenside.rewrites.rules import quantised as quantised_rules
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.matrices import MATRICES
from glenside.rewrites.rules.quantised import (
    BYTE_PRODUCTS,
    DEEPEST,
    SIGNED_PRODUCTS,
    products_of_bytes,
    products_of_signed,
    scale_out_of_dot,
)
from glenside.rewrites.soundness import check_fires, check_program
from glenside.rewrites.soundness.programs import quantised_products
from glenside.rewrites.vocabulary import Access
from tests.effort import tries

FEW = settings(max_examples=tries(14))
BOTH = {"signed": [SIGNED_PRODUCTS], "bytes": [BYTE_PRODUCTS]}


def extremes(roots: list[Term], seed: int = 0) -> dict[str, np.ndarray]:
    """Integers from the whole range of their dtype, the ends often; floats are small halves."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for term in topological_order(roots):
        if term.op != "tensor":
            continue
        if term.dtype in FLOATS:
            values = rng.integers(1, 4, term.shape) / 2
        else:
            limits = np.iinfo(term.dtype)
            least, most = int(limits.min), int(limits.max)
            values = rng.integers(least, most, term.shape, endpoint=True)
            ends = rng.choice([least, most, 0], term.shape)
            values = np.where(rng.random(term.shape) < 0.5, ends, values)
        arrays[term["name"]] = np.asarray(values).astype(term.dtype)
    return arrays


def quantised(name: str, shape, dtype: str, zero=None) -> Term:
    """``int32(q) - int32(z)``, z of the shape ``zero`` where that is given."""
    x = builders.cast(builders.tensor(name, shape, dtype), "int32")
    if zero is None:
        return x
    point = builders.cast(builders.tensor(f"{name}-zero", zero, dtype), "int32")
    return builders.elementwise("sub", x, point)


@pytest.mark.parametrize("rules", [products_of_signed, products_of_bytes, scale_out_of_dot])
def test_each_rule_is_sound_and_fires(rules) -> None:
    check_fires(rules(), examples=tries(15))


@pytest.mark.parametrize("kind", [*BOTH, "together"])
@FEW
@given(quantised_products(), st.integers(0, 99))
def test_all_forms_are_equal_for_all_integers(kind: str, term: Term, seed: int) -> None:
    own = BOTH.get(kind, [SIGNED_PRODUCTS, BYTE_PRODUCTS])
    rules = [*own, IM2COL, MATRICES, LAYOUT]
    result = check_program([term], rules, extremes([term], seed), iter_limit=10, node_limit=5_000)
    assert result.stop_reason is StopReason.SATURATED


@pytest.mark.parametrize("zeros", [(None, None), ((), None), (None, "row"), ("row", ())])
@pytest.mark.parametrize("dtypes", [*itertools.product(("int8", "uint8"), repeat=2)])
@pytest.mark.parametrize("kind", BOTH)
def test_products_of_matrices_become_products_of_bytes(kind, dtypes, zeros) -> None:
    (first, second), shapes = dtypes, ((3, 5), (4, 5))
    left, right = (
        builders.access(quantised(name, shape, dtype, (shape[0], 1) if zero == "row" else zero), 1)
        for name, shape, dtype, zero in zip("xw", shapes, dtypes, zeros, strict=True)
    )
    term = builders.compute("dot", builders.cart_prod(left, right))
    result = check_program([term], [*BOTH[kind], LAYOUT], extremes([term]))
    assert result.stop_reason is StopReason.SATURATED
    products = {
        tuple(result.egraph.types[bound[name]].dtype for name in ("?a", "?b"))
        for _, bound in matches(result.egraph, "(compute dot (cart-prod ?a ?b))")
    }
    if kind == "signed":
        assert ("int8", "int8") in products
    elif first == second:
        assert (first, first) in products
    else:
        cast = "(compute dot (cart-prod (cast int32 ?a) (cast int32 ?b)))"
        found = matches(result.egraph, cast)
        types = result.egraph.types
        assert (first, second) in {(types[m["?a"]].dtype, types[m["?b"]].dtype) for _, m in found}


@pytest.mark.parametrize("groups", [1, 2])
def test_the_padding_of_a_convolution_is_the_zero_point(groups: int) -> None:
    x = quantised("x", (2, 4, 5, 4), "uint8", ())
    w = quantised("w", (4, 4 // groups, 3, 2), "uint8", (4, 1, 1, 1))
    for axis in (2, 3):
        x = builders.pad(x, axis, 1, 1)
    if groups == 1:
        looks = builders.windows(builders.access(x, 1), (4, 3, 2), (1, 2, 1))
        product = builders.cart_prod(builders.access(w, 1), builders.squeeze(looks, 1))
    else:
        x = builders.transpose(builders.reshape(x, (2, 2, 2, *x.shape[2:])), (1, 0, 2, 3, 4))
        looks = builders.windows(builders.access(x, 2), (2, 3, 2), (1, 2, 1))
        w = builders.reshape(w, (2, 2, 2, 3, 2))
        product = builders.cart_prod(builders.access(w, 2), builders.squeeze(looks, 2), 1)
    term = builders.compute("dot", product)
    rules = [SIGNED_PRODUCTS, IM2COL, MATRICES, LAYOUT]
    result = check_program([term], rules, extremes([term]), iter_limit=20, node_limit=20_000)
    assert result.stop_reason is StopReason.SATURATED
    assert result.rules["products-of-signed"] > 0


@pytest.mark.parametrize(
    ("left", "zero"),
    [
        (quantised("x", (3, 5), "int16"), None),
        (quantised("x", (3, 5), "uint8", (1, 5)), "along the items"),
        (
            builders.elementwise(
                "sub", quantised("x", (3, 5), "int8"), builders.tensor("z", (), "int32")
            ),
            "any integer",
        ),
    ],
)
def test_what_is_no_difference_of_bytes_is_left(left: Term, zero: object) -> None:
    right = builders.access(quantised("w", (4, 5), "int8"), 1)
    term = builders.compute("dot", builders.cart_prod(builders.access(left, 1), right))
    result = check_program([term], [SIGNED_PRODUCTS, LAYOUT], extremes([term]))
    assert result.rules["products-of-signed"] == 0


def scaled(name: str, shape, scale) -> Term:
    real = builders.cast(quantised(name, shape, "uint8", ()), "float32")
    return builders.access(
        builders.elementwise("mul", real, builders.tensor(f"{name}-s", scale)), 1
    )


@pytest.mark.parametrize("depth", [5, DEEPEST, DEEPEST + 1])
def test_a_scale_leaves_sums_that_int32_holds(depth: int) -> None:
    product = builders.cart_prod(scaled("x", (1, depth), ()), scaled("w", (2, depth), (2, 1)))
    term = builders.compute("dot", product)
    result = saturate([term], [SIGNED_PRODUCTS, LAYOUT])
    assert result.rules["scale-out-of-dot"] == (depth <= DEEPEST) == (255**2 * depth < 2**31)


BROKEN = {
    "another shift": ("_shifted", lambda q, shape, rank: q.cast("int8")),
    "a sum is left out": ("_combined", lambda a, v, b, w, rank: Access.constant("0", v, "int32")),
}


@pytest.mark.parametrize("how", BROKEN)
def test_wrong_corrections_are_found_out(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantised_rules, *BROKEN[how])
    cases = tuple(quantised_rules._expanded(True, (True, True)))
    common = (
        *quantised_rules._origins(),
        *quantised_rules._through_moves(),
        *quantised_rules._through_padding(),
        *quantised_rules._operands(),
    )
    analyses = (*common, *quantised_rules._unsigned(shift=True))
    mutant = replace(products_of_signed(), name="broken", cases=cases, analyses=analyses)
    left, right = (builders.access(quantised(name, (2, 3), "uint8"), 1) for name in "xw")
    term = builders.compute("dot", builders.cart_prod(left, right))
    with pytest.raises(UnsoundRewrite):
        check_program([term], [RuleSet("broken", (mutant,))], extremes([term]))
