"""Random programs for rules that look for more than is met by building their query at random.

They hold what the rule looks for, often with one thing changed that matters, so that its conditions
are tried as well. Needs Hypothesis; units that the programs call must be registered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from glenside.language import Term, builders

Draw = Callable[[st.SearchStrategy[Any]], Any]

_DTYPES = st.sampled_from(("int32", "int8", "float64"))


def _leaf(name: str, outer: tuple[int, ...], item: tuple[int, ...], dtype: str) -> Term:
    return builders.access(builders.tensor(name, outer + item, dtype), len(outer))


@st.composite
def linear_layers(draw: Draw) -> Term:
    """A product of matrices plus a vector, sometimes reshaped, along an axis that fits."""
    m, k, n = (draw(st.integers(1, 4)) for _ in range(3))
    n = m if draw(st.booleans()) else n
    dtype = draw(_DTYPES)
    x, w = _leaf("x", (m,), (k,), dtype), _leaf("w", (n,), (k,), dtype)
    accumulate = draw(st.sampled_from((None, None, None, "int64" if dtype != "float64" else None)))
    result = builders.compute("dot", builders.cart_prod(x, w), accumulate)
    if draw(st.booleans()):
        shape = draw(st.sampled_from(((1, m, n), (m, 1, n), (1, m, 1, n), (m, n, 1), (n, m))))
        result = builders.reshape(result, shape)
    length = draw(st.sampled_from((n, n, n, 1)))
    bias = builders.tensor("b", (length,), result.dtype)
    along = [a for a, size in enumerate(result.shape) if length in (1, size)] or [-1]
    axis = along[-1] if draw(st.integers(0, 2)) else along[0]
    for _ in range(result.type.rank - 1 - axis if axis >= 0 else 0):
        bias = builders.unsqueeze(bias, bias.type.rank)
    if axis < 0:
        return result
    sides = (result, bias) if draw(st.integers(0, 2)) else (bias, result)
    return builders.elementwise("add", *sides)


@st.composite
def batched_products(draw: Draw) -> Term:
    """A ``dot`` of matrices that share up to three axes, some of them vectors."""
    dtype = draw(_DTYPES)
    shared = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    rows, columns = (tuple(draw(st.lists(st.integers(1, 3), max_size=2))) for _ in range(2))
    item = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=1)))
    x, y = _leaf("x", shared + rows, item, dtype), _leaf("y", shared + columns, item, dtype)
    accumulate = draw(st.sampled_from((None, None, "float64")))
    return builders.compute("dot", builders.cart_prod(x, y, len(shared)), accumulate)


@st.composite
def convolutions(draw: Draw, product_only: bool = False) -> Term:
    """A convolution in the paper's form; ``product_only``: of matrices, then given its shape."""
    batch, channels, filters = (draw(st.integers(1, 2)) for _ in range(3))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 2)))
    size = tuple(each + draw(st.integers(0, 3)) for each in kernel)
    dtype = draw(_DTYPES)
    w = builders.tensor("w", (filters, channels, *kernel), dtype)
    x = builders.tensor("x", (batch, channels, *size), dtype)
    for axis in (2, 3):
        if draw(st.booleans()):
            fill = draw(st.sampled_from(("zero", "zero", "zero", "lowest")))
            x = builders.pad(x, axis, draw(st.integers(0, 2)), draw(st.integers(0, 1)), fill)
    stride = (1, draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    dilation = (1, *draw(st.sampled_from(((1, 1), (1, 1), (1, 1), (2, 1)))))
    if (kernel[0] - 1) * dilation[1] + 1 > x.shape[2]:
        dilation = (1, 1, 1)
    looks = builders.windows(builders.access(x, 1), (channels, *kernel), stride, dilation)
    looks = builders.squeeze(looks, 1)
    rows = builders.access(w, 1)
    if not product_only:
        dot = builders.compute("dot", builders.cart_prod(rows, looks))
        return builders.transpose(dot, (1, 0, 2, 3))
    matrices = builders.cart_prod(builders.flatten(rows), builders.flatten(looks))
    dot = builders.compute("dot", matrices)
    n, height, width = looks.outer
    # The last two mix up what belongs to the places.
    shapes = ((filters, n, height, width),) * 2 + ((filters, n, width, height),)
    outer = draw(st.sampled_from((*shapes, (n, filters, height, width))))
    return builders.transpose(builders.reshape(dot, outer), (1, 0, 2, 3))


@st.composite
def nhwc_calls(draw: Draw, form: str) -> Term:
    """The unit for NCHW, used for NHWC."""
    kernel = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    channels, filters = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    size = tuple(each + draw(st.integers(0, 2)) for each in kernel)
    w = builders.tensor("w", (*kernel, channels, filters), "int32")
    x = builders.tensor("x", (draw(st.integers(1, 2)), *size, channels), "int32")
    operands = builders.transpose(w, (3, 2, 0, 1)), builders.transpose(x, (0, 3, 1, 2))
    stride = draw(st.sampled_from(((1, 1), (1, 2), (2, 1))))
    call = builders.call(f"systolic-conv2d-{form}", (1, 1, *kernel, *stride), *operands)
    return builders.transpose(call, (0, 2, 3, 1))


@st.composite
def long_products(draw: Draw) -> Term:
    """A ``dot`` over one to three axes, the first of them of an even length or not."""
    dtype = draw(_DTYPES)
    shared = tuple(draw(st.lists(st.integers(1, 2), max_size=1)))
    rows, columns = (tuple(draw(st.lists(st.integers(1, 3), max_size=2))) for _ in range(2))
    item = (draw(st.sampled_from((4, 6, 2, 3))), *draw(st.lists(st.integers(1, 3), max_size=2)))
    x, y = _leaf("x", shared + rows, item, dtype), _leaf("y", shared + columns, item, dtype)
    accumulate = draw(st.sampled_from((None, None, "float64")))
    return builders.compute("dot", builders.cart_prod(x, y, len(shared)), accumulate)


@st.composite
def windows_of_accesses(draw: Draw) -> Term:
    """Windows along one to three axes, often in even numbers, strided and dilated."""
    outer = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    rank = draw(st.sampled_from((2, 2, 1, 3)))
    sizes, strides, dilations, lengths = [], [], [], []
    for _ in range(rank):
        size, stride, dilation = (draw(st.integers(1, most)) for most in (3, 3, 2))
        count = draw(st.sampled_from((4, 6, 1, 2, 3) if rank < 3 else (4, 2, 6, 1)))
        reach = (count - 1) * stride + (size - 1) * dilation + 1
        sizes.append(size)
        strides.append(stride)
        dilations.append(dilation)
        lengths.append(reach + draw(st.integers(0, stride - 1)))
    x = _leaf("x", outer, tuple(lengths), draw(_DTYPES))
    return builders.windows(x, tuple(sizes), tuple(strides), tuple(dilations))


@st.composite
def pools_of_pairs(draw: Draw) -> Term:
    """Maxima of pairs along rows, whose number is a multiple of 16 or is not."""
    rows, length = draw(st.sampled_from((16, 16, 32, 8))), draw(st.integers(2, 7))
    x = _leaf("x", (rows,), (length,), draw(_DTYPES))
    return builders.compute("max", builders.windows(x, (2,), (2,)))


@st.composite
def padded_dots(draw: Draw) -> Term:
    """``dot`` of a slice of a product whose items are padded, between operators that may not keep
    the zeros."""
    dtype = draw(_DTYPES)
    m, n = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    item = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
    axis = draw(st.integers(1, len(item)))
    sides = []
    for name, length in (("a", m), ("b", n)):
        x = _leaf(name, (length,), item, dtype)
        for _ in range(draw(st.integers(1, 2))):
            x = builders.pad(x, axis, draw(st.integers(0, 2)), draw(st.integers(0, 2)))
        if dtype == "float64":
            function = draw(st.sampled_from(("relu", "sqrt", "exp", "cos", "neg")))
            x = builders.compute(function, x) if draw(st.booleans()) else x
        sides.append(x)
    longest = max(x.shape[axis] for x in sides)
    sides = [builders.pad(x, axis, 0, longest - x.shape[axis]) for x in sides]
    product = builders.cart_prod(sides[0], sides[1])
    at = draw(st.sampled_from((axis + 2, axis + 2, axis + 2, 2, 0)))
    low = draw(st.integers(0, min(2, product.shape[at])))
    high = draw(st.integers(low, product.shape[at]))
    return builders.compute("dot", builders.slice_(product, at, low, high))
