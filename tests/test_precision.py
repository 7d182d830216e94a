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
    mean = b.compute("mean", b.access(b.transpose(product, (1, 0, 2, 3)), 2))
    mean = b.outer_only(mean)
    shifted = b.compute("add", b.pair(mean, b.constant(0.25, mean.shape)))
    rng = np.random.default_rng(0)
    if weights is None:
        weights = rng.standard_normal((5, 6, 3, 3)).astype("float32")
    return Model(
        "small",
        {"x": AccessType((2, 6, 8, 8), (), "float32"), "mask": AccessType((2, 5), (), "int64")},
        {"w": weights},
        {"y": shifted, "m": b.compute("add", b.pair(mask, mask))},
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


def test_what_is_beyond_is_refused():
    big = np.full((5, 6, 3, 3), 1e5, np.float32)
    with pytest.raises(InputError, match="'w' holds 100000: float16 ends at 65504"):
        in_precision(model(big), "float16")
    with pytest.raises(InputError, match="precision 'int4' is not known: float16 and bfloat16 are"):
        in_precision(model(), "int4")


def test_a_long_chain():
    x = b.tensor("x", (4,))
    for _ in range(5000):
        x = b.compute("relu", x)
    chain = Model("chain", {"x": AccessType((4,), (), "float32")}, {}, {"y": x})
    made = in_precision(chain, "float16")
    assert len(topological_order(made.roots)) == 5003
