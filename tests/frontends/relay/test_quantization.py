"""The dialect ``qnn`` against its definition in whole numbers."""

import numpy as np
import pytest

from glenside.errors import ModelError
from tests.frontends.relay.conftest import draw

X = draw(2, 3, dtype="int8") * 20 + 3
Y = draw(2, 3, dtype="int8", seed=1) * 15 - 2
X, Y = X.astype("int8"), Y.astype("int8")


def clip8(x):
    return np.clip(x, -128, 127).astype("int8")


def rescaled(x, factor, rounding="UPWARD"):
    """Exactly rounded: what fixed-point arithmetic of 31 bits gives for numbers this small."""
    exact = x.astype("float64") * factor
    if rounding == "TONEAREST":
        return np.trunc(exact + np.copysign(0.5, exact)).astype("int64")
    return np.floor(exact + 0.5).astype("int64")


def test_quantize_and_dequantize(check):
    r = np.array([[-3, 0.5, 0.25], [100, -100, 1]], "float32")
    wanted = np.clip(np.rint(r / np.float32(0.5)) + 3, 0, 255).astype("uint8")
    check('qnn.quantize(%r, 0.5f, 3, out_dtype="uint8")', wanted, r=r)
    s, z = np.array([0.5, 1, 2], "float32"), np.array([0, 1, -1], "int32")
    wanted = clip8(np.rint(r / s) + z)
    check("qnn.quantize(%r, %s, %z, axis=1)", wanted, r=r, s=s, z=z)
    check("qnn.dequantize(%x, %s, %z, axis=-1)", (X.astype("int32") - z) * s, x=X, s=s, z=z)


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_requantize(check, rounding):
    x = np.array([-7, -5, -3, -1, 0, 1, 3, 5, 1000, -1000], "int32")
    body = f'qnn.requantize(%x, 0.5f, 1, 1f, 2, rounding="{rounding}", out_dtype="int8")'
    check(body, clip8(rescaled(x - 1, 0.5, rounding) + 2), x=x)
    body = f'qnn.requantize(%x, 3f, 0, 1f, 0, rounding="{rounding}", out_dtype="int32")'
    check(body, (x * 3).astype("int32"), x=x)


def test_requantize_by_channel(check):
    x = draw(2, 3, dtype="int32") * 31
    scales = "concatenate((reshape(0.5f, newshape=[1]), reshape(0.125f, newshape=[1]), " \
             "reshape(2f, newshape=[1])))"  # fmt: skip
    wanted = clip8(rescaled(x, np.array([0.5, 0.125, 2])))
    check(f"qnn.requantize(%x, {scales}, 0, 1f, 0, axis=1)", wanted, x=x)
    with pytest.raises(ModelError, match="operand input_scale must be known"):
        check("qnn.requantize(%x, %input_s, 0, 1f, 0)", x=x, input_s=np.float32(1))


def test_sums_and_products(check):
    a, b = X.astype("int64") - 3, Y.astype("int64") + 2
    left, right = rescaled(a, 2) + 5, rescaled(b, 0.25) + 5
    operands = "%x, %y, 0.5f, 3, 0.0625f, -2, 0.25f, 5"
    check(f"qnn.add({operands})", clip8(left + right - 5), x=X, y=Y)
    check(f"qnn.subtract({operands})", clip8(left - right + 5), x=X, y=Y)
    check(f"qnn.mul({operands})", clip8(rescaled(a * b, 0.125) + 5), x=X, y=Y)
    parts = "(%x, %y), (0.5f, 0.0625f), (3, -2), 0.25f, 5"
    body = f"qnn.concatenate({parts}, axis=1)"
    check(body, np.concatenate([clip8(left), clip8(right)], 1), x=X, y=Y)


def test_products_count_from_their_zero_points(check):
    x, w = draw(2, 4, dtype="int8"), draw(3, 4, dtype="int8", seed=1)
    wanted = (x.astype("int32") - 2) @ (w.astype("int32") + 1).T
    check("qnn.dense(%x, %w, 2, -1, 1f, 1f, units=3)", wanted, x=x, w=w)
    a, b = draw(2, 3, 4, dtype="int8"), draw(2, 5, 4, dtype="int8", seed=1)
    wanted = (a.astype("int32") - 2) @ (b.astype("int32") + 1).swapaxes(1, 2)
    check("qnn.batch_matmul(%a, %b, 2, -1, 1f, 1f)", wanted, a=a, b=b)
    x, w = draw(1, 2, 3, 3, dtype="int8"), draw(4, 2, 3, 3, dtype="int8", seed=1)
    wide = np.pad(x.astype("int32") - 2, [(0, 0), (0, 0), (1, 1), (1, 1)])
    looks = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", looks, w.astype("int32"))
    attributes = "padding=[1, 1], channels=4, kernel_size=[3, 3]"
    check(f"qnn.conv2d(%x, %w, 2, 0, 1f, 1f, {attributes})", wanted, x=x, w=w)
    spread = np.zeros((1, 4, 5, 5), "int32")
    t = draw(2, 4, 3, 3, dtype="int8", seed=2)
    for i, j in np.ndindex(3, 3):
        cell = x[0, :, i, j].astype("int32") - 2
        spread[0, :, i : i + 3, j : j + 3] += np.einsum("c,coij->oij", cell, t.astype("int32"))
    body = "qnn.conv2d_transpose(%x, %t, 2, 0, 1f, 1f, channels=4, kernel_size=[3, 3])"
    check(body, spread, x=x, t=t)


UNARY = {
    "qnn.abs": np.abs,
    "qnn.erf": lambda x: x,
    "qnn.exp": np.exp,
    "qnn.hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "qnn.log": np.log,
    "qnn.rsqrt": lambda x: 1 / np.sqrt(x),
    "qnn.sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "qnn.sqrt": np.sqrt,
    "qnn.tanh": np.tanh,
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_the_real_numbers(check, name):
    import math

    x = np.arange(1, 60, 7, dtype="int8")
    real = (x.astype("float64") - -1) * 0.07
    function = np.vectorize(math.erf) if name == "qnn.erf" else UNARY[name]
    wanted = clip8(np.rint(function(real) / 0.11) + 4)
    check(f"{name}(%x, 0.07f, -1, 0.11f, 4)", wanted, x=x)


def test_leaky_relu(check):
    real = (X.astype("float64") - 3) * 0.5
    wanted = clip8(np.rint(np.where(real > 0, real, 0.125 * real) / 0.3) + 1)
    check("qnn.leaky_relu(%x, 0.5f, 3, 0.3f, 1, alpha=0.125f)", wanted, x=X)


def test_fixed_point(check):
    x = np.array([-9, -4, 0, 3, 1000], "int32")
    wanted = np.floor(x * 0.625 + 0.5).astype("int32")
    check(f"fixed_point_multiply(%x, multiplier={5 * 2**28}, shift=-1)",
          np.floor(x * 0.3125 + 0.5).astype("int32"), x=x)  # fmt: skip
    m = np.full(5, 5 * 2**28, "int32")
    z = np.zeros(5, "int32")
    body = "fixed_point_multiply_per_axis(%x, %m, %z, %z, axes=[0])"
    check(body, wanted, x=x, m=m, z=z)
