"""Models in half precision: casts at the borders, sums in float32."""

import numpy as np
import pytest

import glenside
from glenside.errors import InputError
from glenside.language import AccessType, Model, evaluate, topological_order
from glenside.language import builders as b
from glenside.precision import in_precision

_NEAR = {"float16": 2e-3, "bfloat16": 1.6e-2}


def model(weights=None):
    x, w = b.tensor("x", (2, 6, 8, 8)), b.tensor("w", (5, 6, 3, 3))
    mask = b.tensor("mask", (2, 5), "int64")
    seen = b.squeeze(b.windows(b.access(x, 1), (6, 3, 3), (1, 1, 1)), 1)
    product = b.compute("dot", b.cart_prod(b.access(w, 1), seen))
    shifted = b.elementwise("add", product, b.constant(0.25))
    mean = b.compute("mean", b.access(b.transpose(shifted, (1, 0, 2, 3)), 2))
    rng = np.random.default_rng(0)
    if weights is None:
        weights = rng.standard_normal((5, 6, 3, 3)).astype("float32")
    return Model(
        "small",
        {"x": AccessType((2, 6, 8, 8), (), "float32"), "mask": AccessType((2, 5), (), "int64")},
        {"w": weights},
        {"y": b.outer_only(mean), "m": b.compute("add", b.pair(mask, mask))},
    )


@pytest.fixture(params=["float16", "bfloat16"])
def precision(request):
    return request.param


def test_inputs_and_outputs_keep_their_dtypes(precision):
    before, after = model(), in_precision(model(), precision)
    assert after.inputs == before.inputs
    assert [t.dtype for t in after.roots] == ["float32", "int64"]
    assert after.params["w"].dtype == precision
    dots = [t for t in after.terms() if t.op == "compute" and t["function"] in ("dot", "mean")]
    assert all(t.children[0].dtype == precision and t["accumulate"] == "float32" for t in dots)
    assert len(dots) == 2
    rest = [t for t in after.terms() if t.op == "compute" and t["function"] == "add"]
    assert {t.dtype for t in rest} == {precision, "int64"}


def test_the_numbers_are_near(precision):
    before, after = model(), in_precision(model(), precision)
    rng = np.random.default_rng(1)
    inputs = {
        "x": rng.standard_normal((2, 6, 8, 8)).astype("float32"),
        "mask": np.arange(10).reshape(2, 5),
    }
    (right, same), (got, kept) = (
        evaluate(m.roots, {**m.params, **inputs}) for m in (before, after)
    )
    assert 0 < np.linalg.norm(got - right) < _NEAR[precision] * np.linalg.norm(right)
    np.testing.assert_array_equal(same, kept)


def test_compiles_and_is_reported(precision):
    program = glenside.optimize(model(), "cpu", precision=precision)
    assert program.report.precision == precision
    error = program.report.max_rel_error
    assert error is not None and error < 10 * _NEAR[precision]
    assert f"{precision} in place of float32" in str(program.report)
    assert glenside.optimize(model(), "cpu").report.precision is None


def test_repetitions_stay_repetitions():
    wide = np.broadcast_to(np.float32(0.5), (5, 6, 3, 3))
    assert in_precision(model(wide), "float16").params["w"].strides == (0, 0, 0, 0)


def test_products_with_numbers_beyond_the_precision_stay_in_float32():
    big = np.full((5, 6, 3, 3), 1e5, np.float32)
    after = in_precision(model(big), "float16")
    assert after.params["w"].dtype == "float32"
    (dot,) = [t for t in after.terms() if t.op == "compute" and t["function"] == "dot"]
    assert dot.children[0].dtype == dot.dtype == "float32"
    inputs = {"x": np.ones((2, 6, 8, 8), "float32"), "mask": np.zeros((2, 5), int)}
    (got, _) = evaluate(after.roots, {**after.params, **inputs})
    np.testing.assert_allclose(got, np.full((2, 5), 54e5), rtol=1e-6)


def test_an_unknown_precision_is_refused():
    with pytest.raises(InputError, match="precision 'int4' is not known: float16 and bfloat16 are"):
        in_precision(model(), "int4")


def test_what_masks_scores_is_kept_beyond_the_precision():
    """(1 - mask) * -1e9 is no product with infinity, which would be NaN where the mask is 1."""
    scores, mask, v = b.tensor("scores", (3, 4)), b.tensor("mask", (1, 4)), b.tensor("v", (5, 4))
    away = b.elementwise("mul", b.elementwise("sub", b.constant(1.0), mask), b.constant(-1e9))
    added = b.compute("softmax", b.access(b.elementwise("add", scores, away), 1))
    result = b.compute("dot", b.cart_prod(added, b.access(v, 1)))
    inputs = {name: t.type for name, t in {"scores": scores, "mask": mask, "v": v}.items()}
    before = Model("masked", inputs, {}, {"y": result})
    after = in_precision(before, "float16")
    (product,) = [t for t in after.terms() if t.op == "compute" and t["function"] == "dot"]
    assert product.children[0].dtype == "float16"
    rng = np.random.default_rng(0)
    values = {name: rng.standard_normal(t.shape).astype("float32") for name, t in inputs.items()}
    for masked in ([1, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]):
        values["mask"] = np.array([masked], "float32")
        with np.errstate(all="raise", under="ignore"):
            (right,), (got,) = (evaluate(m.roots, values) for m in (before, after))
        np.testing.assert_allclose(got, right, rtol=2e-3, atol=2e-3)
    program = glenside.optimize(before, "cpu", precision="float16")
    values["mask"] = np.array([[1, 1, 0, 1]], "float32")
    (right,) = evaluate(before.roots, values)
    np.testing.assert_allclose(program(**values), right, rtol=2e-3, atol=2e-3)


def test_bounds_that_nothing_reaches_become_infinities():
    x = b.tensor("x", (6,))
    one = b.access(b.constant(1.0, (1, 1)), 1)
    made = b.squeeze(b.compute("dot", b.cart_prod(b.access(b.unsqueeze(x, 1), 1), one)), 1)
    least, most = b.constant(-3.4e38), b.constant(3.4e38)
    clipped = b.elementwise("minimum", b.elementwise("maximum", made, least), most)
    raised = b.elementwise("maximum", made, b.constant(1e6))
    before = Model("clips", {"x": AccessType((6,), (), "float32")}, {}, {"y": clipped, "z": raised})
    after = in_precision(before, "float16")
    found = {(t["value"], t.dtype) for t in after.terms() if t.op == "constant"}
    kept = {(1e6, "float32"), (1.0, "float16")}
    assert found == {(-np.inf, "float16"), (np.inf, "float16")} | kept
    values = {"x": np.array([-60000, -1, 0, 1, 2, 60000], "float32")}
    with np.errstate(all="raise"):
        for got, right in zip(*(evaluate(m.roots, values) for m in (after, before)), strict=True):
            np.testing.assert_array_equal(got, right)


def test_a_border_beyond_the_precision_is_kept():
    x = b.tensor("x", (3,))
    before = Model(
        "border",
        {"x": AccessType((3,), (), "float32")},
        {},
        {"y": b.elementwise("mul", b.pad(x, 0, 1, 0, -1e9), b.constant(0.5))},
    )
    values = {"x": np.array([1, 2, 3], "float32")}
    (got,) = evaluate(in_precision(before, "float16").roots, values)
    np.testing.assert_array_equal(got, np.float32([-5e8, 0.5, 1, 1.5]))


def test_a_long_chain():
    x, w = b.tensor("x", (4, 4)), b.tensor("w", (4, 4))
    y = b.compute("dot", b.cart_prod(b.access(x, 1), b.access(w, 1)))
    for _ in range(5000):
        y = b.compute("relu", y)
    chain = Model("chain", {"x": x.type, "w": w.type}, {}, {"y": y})
    made = in_precision(chain, "float16")
    assert len(topological_order(made.roots)) == len(chain.terms()) + 4  # Casts in and out.
