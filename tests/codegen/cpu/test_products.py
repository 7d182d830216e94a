"""Convolutions and matrix products: every shape that makes an edge tile, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from glenside.codegen.cpu import schedule
from glenside.language import AccessType, evaluate
from glenside.language.builders import (
    access,
    cart_prod,
    compute,
    constant,
    elementwise,
    reshape,
    tensor,
    transpose,
)
from tests.codegen.codegen_help import (
    check,
    compare,
    convolution,
    numpy_convolution,
    run,
    weights,
)


@pytest.mark.parametrize(
    ("data", "kernel", "options"),
    [
        ((1, 3, 19, 23), (64, 3, 3, 3), {"stride": (2, 2)}),
        ((3, 5, 9, 11), (40, 5, 3, 3), {"pads": (1, 0, 2, 1)}),
        ((2, 5, 9, 11), (7, 5, 3, 2), {"stride": (2, 1), "pads": (0, 3, 1, 0)}),
        ((1, 16, 8, 8), (33, 16, 1, 1), {}),
        ((1, 16, 9, 9), (64, 16, 1, 1), {"stride": (2, 2)}),
        ((2, 6, 13, 12), (48, 6, 3, 3), {"dilation": (2, 3), "pads": (2, 3, 2, 3)}),
        ((3, 256, 5, 7), (256, 256, 3, 3), {"pads": (1, 1, 1, 1)}),
        ((1, 4, 5, 31), (2, 4, 3, 3), {}),
        ((1, 1, 6, 6), (1, 1, 3, 3), {}),
        ((2, 24, 9, 11), (32, 12, 3, 3), {"groups": 2, "pads": (1, 2, 0, 1)}),
        ((2, 24, 9, 11), (24, 1, 3, 3), {"groups": 24, "stride": (2, 2), "pads": (1, 1, 1, 1)}),
        ((3, 12, 7, 6), (24, 1, 3, 3), {"groups": 12, "dilation": (1, 2)}),
        ((1, 24, 9, 5), (40, 6, 1, 1), {"groups": 4}),
    ],
)
def test_convolution(data, kernel, options):
    w = weights(*kernel)
    term = convolution(tensor("x", data), tensor("w", kernel), **options)
    (got,), given, _ = run(term, {"w": w})
    compare(got, numpy_convolution(given["x"], w, **options).astype("float32"), 1e-3)


def test_convolution_with_weights_given_at_run_time():
    term = convolution(tensor("x", (2, 6, 8, 9)), tensor("w", (20, 6, 3, 3)), pads=(1, 1, 1, 1))
    (got,), given, _ = run(term)
    wanted = numpy_convolution(given["x"], given["w"], pads=(1, 1, 1, 1))
    compare(got, wanted.astype("float32"), 1e-3)


def test_bias_relu_and_residual_are_one_kernel():
    x, w, b = tensor("x", (1, 32, 7, 7)), tensor("w", (32, 32, 3, 3)), tensor("b", (32,))
    y = elementwise("add", convolution(x, w, pads=(1, 1, 1, 1)), reshape(b, (32, 1, 1)))
    y = elementwise("relu", elementwise("add", y, x))
    params = {"w": weights(32, 32, 3, 3), "b": weights(32, seed=1)}
    (got,), given, program = run(y, params)
    wanted = numpy_convolution(given["x"], params["w"], pads=(1, 1, 1, 1))
    wanted = np.maximum(wanted + params["b"][:, None, None] + given["x"], 0)
    compare(got, wanted.astype("float32"), 1e-3)
    # The others write the zeros around x and bring its channels inside.
    assert len(program.plan.steps) == 3


def test_im2col_form_of_a_convolution():
    x, w = tensor("x", (2, 5, 9, 8)), tensor("w", (24, 5, 3, 3))
    direct = convolution(x, w)
    pairs = direct.children[0].children[0]
    left, right = pairs.children
    flat = cart_prod(reshape(left, left.outer, (45,)), reshape(right, (2 * 7 * 6,), (45,)))
    product = reshape(compute("dot", flat), (24, 2, 7, 6))
    reshaped_pairs = compute("dot", reshape(pairs, pairs.outer, (2, 45)))
    params = {"w": weights(24, 5, 3, 3)}
    check([transpose(product, (1, 0, 2, 3)), reshaped_pairs], params)


def test_a_reshape_to_a_row_is_read_by_the_next_product():
    x, w = tensor("x", (3, 8, 5, 5)), tensor("w", (40, 8, 3, 3))
    flat = reshape(elementwise("relu", convolution(x, w)), (3, 40 * 9))
    product = compute("dot", cart_prod(access(flat, 1), access(tensor("v", (10, 360)), 1)))
    check(product, {"w": weights(40, 8, 3, 3), "v": weights(10, 360)}, tolerance=1e-3)


def test_channel_shuffle_between_grouped_convolutions():
    x, w = tensor("x", (2, 24, 6, 7)), tensor("w", (24, 8, 1, 1))
    y = convolution(x, w, groups=3)
    y = reshape(transpose(reshape(y, (2, 3, 8, 6, 7)), (0, 2, 1, 3, 4)), (2, 24, 6, 7))
    z = convolution(y, tensor("v", (24, 1, 3, 3)), groups=24, pads=(1, 1, 1, 1))
    check(z, {"w": weights(24, 8, 1, 1), "v": weights(24, 1, 3, 3)})


@pytest.mark.parametrize(
    ("left", "right", "batch"),
    [
        ((17, 20), (33, 20), 0),
        ((1, 300), (130, 300), 0),
        ((3, 17, 20), (3, 33, 20), 1),
        ((2, 3, 5, 4), (2, 3, 9, 4), 2),
        ((200, 16), (3, 16), 0),
        ((2, 7), (3, 7), 0),
    ],
)
@pytest.mark.parametrize("packed", ["neither", "left", "right", "both"])
def test_matrix_product(left, right, batch, packed):
    a, b = tensor("a", left), tensor("b", right)
    product = compute("dot", cart_prod(access(a, len(left) - 1), access(b, len(right) - 1), batch))
    values = {"a": weights(*left), "b": weights(*right, seed=1)}
    params = {
        name: values[name]
        for name in values
        if packed == "both" or packed == {"a": "left", "b": "right"}[name]
    }
    inputs = {name: value for name, value in values.items() if name not in params}
    (got,), _, _ = run(product, params, inputs)
    compare(got, values["a"] @ values["b"].swapaxes(-1, -2), 1e-3)


def test_matrix_product_of_a_transposed_operand():
    a, b = tensor("a", (3, 17, 20)), tensor("b", (3, 20, 33))
    right = access(transpose(b, (0, 2, 1)), 2)
    (got,), given, _ = run(compute("dot", cart_prod(access(a, 2), right, 1)))
    compare(got, given["a"] @ given["b"], 1e-3)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "float16", "float64"])
def test_product_dtypes(dtype):
    a, b = tensor("a", (19, 40), dtype), tensor("b", (35, 40), dtype)
    pairs = cart_prod(access(a, 1), access(b, 1))
    check([compute("dot", pairs, acc) for acc in (None, "int32", "float32", "float64")])


def test_int8_products_accumulate_in_int32():
    full = np.full((20, 300), -128, "int8")
    a, b = tensor("a", (20, 300), "int8"), tensor("b", (20, 300), "int8")
    product = compute("dot", cart_prod(access(a, 1), access(b, 1)), "int32")
    (got,), _, _ = run(product, {"b": full}, {"a": full})
    assert got.dtype == np.int32 and (got == 300 * 128 * 128).all()


def test_weights_that_are_one_number_stay_one_number():
    w = np.broadcast_to(np.float32(0.01), (64, 64, 3, 3))
    x = tensor("x", (1, 64, 6, 6))
    term = convolution(x, tensor("w", w.shape))
    (got,), given, program = run(term, {"w": w})
    compare(got, numpy_convolution(given["x"], w).astype("float32"), 1e-3)
    assert any(slot.fill is not None and slot.size >= w.size for slot in program.plan.slots)


def test_products_of_parameters_are_folded():
    a, b = tensor("a", (4, 5)), tensor("b", (6, 5))
    product = compute("dot", cart_prod(access(a, 1), access(b, 1)))
    program = check(product, {"a": weights(4, 5), "b": weights(6, 5)})
    assert program.plan.steps == []


def test_an_empty_product_is_zero():
    a, b = tensor("a", (5, 0)), tensor("b", (9, 0))
    check(compute("dot", cart_prod(access(a, 1), access(b, 1))))


def test_a_product_of_one_kernel_structure_is_compiled_once():
    x = tensor("x", (1, 32, 9, 9))
    y, params = x, {}
    for layer in range(6):
        params[f"w{layer}"] = weights(32, 32, 3, 3, seed=layer) / 10
        y = elementwise("relu", convolution(y, tensor(f"w{layer}", (32, 32, 3, 3)), pads=(1,) * 4))
    program = check(y, params, tolerance=1e-3)
    # First, inner and last layer, and two that write margins.
    assert len(program.module.functions) <= 5


def test_all_products_of_a_cart_prod():
    """A tuple axis that is not the last reduced one, and one of other lengths than two."""
    a = tensor("a", (4, 2, 5))
    triple = access(tensor("t", (4, 3, 5)), 1)
    check([compute("dot", access(a, 1)), compute("dot", triple), compute("dot", access(a, 2))])


def test_constant_operand_with_zero_strides():
    a = tensor("a", (9, 12))
    ones = constant(1.0, (16, 12))
    product = compute("dot", cart_prod(access(a, 1), access(ones, 1)))
    inputs = {"a": weights(9, 12)}
    assert evaluate([product], inputs)[0].shape == (9, 16)
    check(product, inputs=inputs)
    assert product.type == AccessType((9, 16), (), "float32")


@pytest.mark.parametrize(
    ("m", "n", "k", "order"),
    [
        (64, 512, 64, "streamed"),  # What is packed stays in the cache.
        (1024, 64, 1024, "resident"),  # What is streamed does: 256 KiB of it.
        (1024, 2, 1024, "resident"),  # Of few rows.
        (1024, 4096, 1024, "blocked"),  # Neither does: 4 and 16 MiB.
    ],
)
def test_the_operand_that_stays_in_the_cache_is_the_inner_loop(m, n, k, order):
    machine = schedule.Machine("any", vector_bytes=64, registers=32, l2_bytes=1 << 20)
    assert schedule.product_tile(machine, "float32", m, n, k, n * k).order == order
