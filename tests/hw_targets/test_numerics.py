"""Units in their own numbers: formats, errors near the published ones, nothing of it by default."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glenside
from glenside.errors import TargetError
from glenside.hw_targets.numerics import adaptivfloat, fixed_point
from glenside.language import builders as b
from glenside.language import evaluate, find_unit
from tests.models import onnxruntime_answers, small_network

floats = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20).map(
    lambda values: np.array(values, "float32")
)


@given(floats)
def test_adaptivfloat_holds_what_it_gives_and_at_most_its_codes(array):
    rounded = adaptivfloat(array)
    np.testing.assert_array_equal(adaptivfloat(rounded), rounded)
    assert np.abs(rounded).max() <= np.abs(array).max() * (1 + 2**-5)
    big = np.abs(array) >= np.abs(array).max() / 64
    np.testing.assert_allclose(rounded[big], array[big], rtol=2**-4)


def test_adaptivfloat_by_hand():
    # exp_max 1, so exponents -6 to 1; four mantissa bits.
    least = 2.0**-6 * (1 + 2**-4)
    array = np.array([3.0, 3.97, -1.03, 1.04, 0.0, least * 0.49, -least * 0.51], "float32")
    want = np.array([3.0, 3.875, -1.0, 1.0625, 0.0, 0.0, -least], "float32")
    np.testing.assert_array_equal(adaptivfloat(array), want)
    codes = adaptivfloat(np.linspace(-3.9, 3.9, 100_001))
    assert len(np.unique(codes)) == 255, "256 codes, of which two are zero"


@given(floats, st.sampled_from((4, 8, 16)))
def test_fixed_point_is_integers_of_so_many_bits(array, bits):
    rounded = fixed_point(array, bits).astype(np.float64)
    greatest = np.abs(array).max()
    if greatest:
        step = 2.0 ** (np.floor(np.log2(greatest)) + 2 - bits)
        assert np.all(rounded / step == np.rint(rounded / step))
        assert np.abs(rounded / step).max() <= 2 ** (bits - 1)
        assert np.abs(rounded - array).max() <= step


def relative(unit, exact, *arrays):
    got = find_unit(unit).simulate((), list(arrays))
    return np.linalg.norm(got - exact(*arrays)) / np.linalg.norm(exact(*arrays))


def test_errors_of_flexasr_are_of_the_published_size():
    # Huang et al.: linear 0.84 % (0.29), max-pool 0, mean-pool 1.79 % (0.28).
    rng = np.random.default_rng(0)

    def numbers(*shape):
        return adaptivfloat(rng.standard_normal(shape).astype("float32"))

    linear = [
        relative(
            "flex-linear-af",
            lambda x, w, bias: x @ w.T + bias,
            numbers(16, 64), numbers(64, 64), numbers(64),
        )
        for _ in range(20)
    ]  # fmt: skip
    assert 0.005 < np.mean(linear) < 0.018
    x = numbers(16, 64)
    assert relative("flex-maxpool-af", lambda x: np.maximum(x[::2], x[1::2]), x) == 0
    assert 0.01 < relative("flex-meanpool-af", lambda x: (x[::2] + x[1::2]) / 2, x) < 0.022


def test_wider_weights_repair_hlscnn():
    # Huang et al.: 1.78 % with 8-bit weights.
    x, w = b.tensor("x", (1, 8, 9, 9)), b.tensor("w", (8, 8, 3, 3))
    parameters = (2, 1, 1, 0, 1, 2)
    units = ("hlscnn-conv2d", "hlscnn-conv2d-fixed", "hlscnn-conv2d-fixed16")
    rng = np.random.default_rng(0)
    arrays = {t["name"]: rng.standard_normal(t.shape).astype("float32") for t in (x, w)}
    right, narrow, wide = evaluate([b.call(unit, parameters, x, w) for unit in units], arrays)
    assert right.shape == narrow.shape == wide.shape

    def error(got):
        return np.linalg.norm(got - right) / np.linalg.norm(right)

    assert 0.004 < error(narrow) < 0.025
    assert error(wide) < 1e-3


@pytest.mark.parametrize("target", ["flexasr", "flexasr:adaptivfloat"])
def test_numerics_are_asked_for(target):
    image = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")
    (expected,) = onnxruntime_answers(small_network(), image=image)
    program = glenside.optimize(small_network(), target)
    error = np.abs(program(image) - expected).max() / np.abs(expected).max()
    assert program.report.offloads == {"flexasr": 2}  # The convolution in two groups, too.
    if target == "flexasr":
        assert error < 1e-5
    else:
        assert 1e-4 < error < 0.1
        assert 1e-4 < program.report.max_rel_error < 0.1
        assert "AdaptivFloat<8,3>" in str(program.report)


def test_vta_int8_is_exact_and_takes_nothing_else():
    x, w = (b.access(b.tensor(n, s, "int8"), 1) for n, s in (("x", (3, 40)), ("w", (21, 40))))
    product = b.compute("dot", b.cart_prod(x, w), "int32")
    program = glenside.optimize(product, "vta:int8")
    assert program.report.offloads == {"vta": 1}
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.integers(-128, 128, (3, 40), "int8"),
        "w": rng.integers(-128, 128, (21, 40), "int8"),
    }
    right = arrays["x"].astype("int32") @ arrays["w"].astype("int32").T
    np.testing.assert_array_equal(program(**arrays), right)
    assert glenside.optimize(small_network(), "vta:int8").report.offloads == {}


def test_unknown_numerics_are_refused():
    with pytest.raises(TargetError, match="hlscnn has no numerics 'int8': there is hlscnn"):
        glenside.optimize(small_network(), "hlscnn:int8")
