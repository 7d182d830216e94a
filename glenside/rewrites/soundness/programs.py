"""Random programs for rules that look for more than is met by building their query at random.

They hold what the rule looks for, often with one thing changed that matters, so that its conditions
are tried as well. Needs Hypothesis; units that the programs call must be registered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from glenside.language import Term, builders
from glenside.language.shape import FLOATS

Draw = Callable[[st.SearchStrategy[Any]], Any]

_DTYPES = st.sampled_from(("int32", "int8", "float64"))
_WIDE = st.sampled_from(("float64", "float32"))
_FEW = st.integers(1, 2)


def _size(most: int) -> st.SearchStrategy[int]:
    """The length of an axis, from 1 up; now and then it is empty."""
    return st.sampled_from((*range(1, most + 1), *range(1, most + 1), *range(1, most + 1), 0))


def _leaf(name: str, outer: tuple[int, ...], item: tuple[int, ...], dtype: str) -> Term:
    return builders.access(builders.tensor(name, outer + item, dtype), len(outer))


@st.composite
def linear_layers(draw: Draw) -> Term:
    """A product of matrices plus a vector, sometimes reshaped, along an axis that fits."""
    m, k, n = (draw(_size(4)) for _ in range(3))
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
def row_biases(draw: Draw) -> Term:
    """A product of matrices, given another shape, plus numbers along one axis or several."""
    m, k, n = (draw(_size(4)) for _ in range(3))
    dtype = draw(_DTYPES)
    product = builders.cart_prod(_leaf("x", (m,), (k,), dtype), _leaf("w", (n,), (k,), dtype))
    result = builders.compute("dot", product)
    shape = draw(st.sampled_from(((m, n), (m, 1, n), (m, n, 1), (m, 1, n, 1), (n, m), (1, m, n))))
    result = builders.reshape(result, shape)
    if draw(st.booleans()):
        result = builders.transpose(result, draw(st.permutations(range(len(shape)))))
    axis = draw(st.integers(0, len(shape) - 1))
    if draw(st.integers(0, 3)) and m in result.shape:
        axis = result.shape.index(m)
    lengths = [length if a == axis else 1 for a, length in enumerate(result.shape)]
    bias = builders.tensor("b", lengths, dtype)
    sides = (result, bias) if draw(st.booleans()) else (bias, result)
    return builders.elementwise("add", *sides)


@st.composite
def spread_rows(draw: Draw) -> Term:
    """A tensor spread over axes of length 1, often a row over rows."""
    shape = tuple(draw(st.sampled_from(((1, 3), (1, 1), (2, 1), (1,), (1, 2, 3)))))
    wider = tuple(draw(_size(4)) if length == 1 else length for length in shape)
    x = builders.tensor("x", shape, draw(_DTYPES))
    return builders.broadcast(builders.access(x, draw(st.sampled_from((len(shape), 1)))), wider)


@st.composite
def batched_products(draw: Draw, tile: tuple[int, int] | None = None) -> Term:
    """A ``dot`` of matrices that share up to three axes, some of them vectors.

    ``tile``: often with a depth and a number of columns of that size.
    """
    dtype = draw(_DTYPES)
    shared = tuple(draw(st.lists(_size(3), max_size=3)))
    rows, columns = (tuple(draw(st.lists(_size(3), max_size=2))) for _ in range(2))
    item = tuple(draw(st.lists(_size(3), min_size=1, max_size=1)))
    if tile is not None and draw(st.booleans()):
        item, columns = tile[:1], tile[1:]
    x, y = _leaf("x", shared + rows, item, dtype), _leaf("y", shared + columns, item, dtype)
    accumulate = draw(st.sampled_from((None, None, "float64")))
    return builders.compute("dot", builders.cart_prod(x, y, len(shared)), accumulate)


@st.composite
def convolutions(draw: Draw, product_only: bool = False) -> Term:
    """A convolution in the paper's form; ``product_only``: of matrices, then given its shape."""
    batch, channels, filters = draw(_size(2)), draw(st.integers(1, 2)), draw(_size(2))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 2)))
    size = tuple(each + draw(st.integers(0, 3)) for each in kernel)
    dtype = draw(_DTYPES)
    w = builders.tensor("w", (filters, channels, *kernel), dtype)
    # The windows may leave channels out, and still be one along them where they go in long steps.
    left_out = 1 if _seldom(draw) else 0
    x = builders.tensor("x", (batch, channels + left_out, *size), dtype)
    for axis in (2, 3):
        if draw(st.booleans()):
            fill = draw(st.sampled_from(("zero", "zero", "zero", "lowest")))
            x = builders.pad(x, axis, draw(st.integers(0, 2)), draw(st.integers(0, 1)), fill)
    along_channels = left_out + 1 if left_out else draw(st.sampled_from((1, 1, 1, 2)))
    stride = (along_channels, draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    dilation = (1, *draw(st.sampled_from(((1, 1), (1, 1), (1, 1), (2, 1)))))
    if (kernel[0] - 1) * dilation[1] + 1 > x.shape[2]:
        dilation = (1, 1, 1)
    looks = builders.windows(builders.access(x, 1), (channels, *kernel), stride, dilation)
    looks = builders.squeeze(looks, 1)
    rows = builders.access(w, 1)
    if not product_only:
        dot = builders.compute("dot", builders.cart_prod(rows, looks))
        return builders.transpose(dot, (1, 0, 2, 3))
    if _seldom(draw):  # Filters of other axes, which are the same matrix.
        depth = channels * math.prod(kernel)
        other = draw(st.sampled_from(((depth,), (channels, math.prod(kernel)), (1, depth))))
        rows = builders.access(builders.tensor("w", (filters, *other), dtype), 1)
    matrices = builders.cart_prod(builders.flatten(rows), builders.flatten(looks))
    dot = builders.compute("dot", matrices)
    n, height, width = looks.outer
    # The last two mix up what belongs to the places.
    shapes = ((filters, n, height, width),) * 2 + ((filters, n, width, height),)
    outer = draw(st.sampled_from((*shapes, (n, filters, height, width))))
    return builders.transpose(builders.reshape(dot, outer), (1, 0, 2, 3))


@st.composite
def channels_last(draw: Draw) -> Term:
    """A convolution over data (N H W C) and filters (O kh kw C), or nearly."""
    batch, channels, filters = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(_FEW)
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 2)))
    size = tuple(each + draw(st.integers(0, 3)) for each in kernel)
    dtype = draw(_DTYPES)
    seen = channels if draw(st.integers(0, 3)) else draw(st.integers(1, channels))
    w = builders.access(builders.tensor("w", (filters, *kernel, seen), dtype), 1)
    x = builders.tensor("x", (batch, *size, channels), dtype)
    for axis in draw(st.permutations((1, 2))):
        if draw(st.booleans()):
            fill = draw(st.sampled_from(("zero", "zero", "zero", "lowest")))
            x = builders.pad(x, axis, draw(st.integers(0, 2)), draw(st.integers(0, 1)), fill)
    stride = tuple(draw(st.integers(1, 2)) for _ in range(3))
    looks = builders.windows(builders.access(x, 1), (*kernel, seen), stride)
    if looks.outer[3] > 1:
        looks = builders.slice_(looks, 3, 0, 1)
    factors = (w, builders.squeeze(looks, 3))
    factors = factors if draw(st.booleans()) else factors[::-1]
    return builders.compute("dot", builders.cart_prod(*factors))


@st.composite
def reshaped_elements(draw: Draw) -> Term:
    """A function of the elements of one array or two, of which one at least is reshaped."""
    old, new = draw(st.sampled_from((((6,), (2, 3)), ((2, 3), (6,)), ((2, 2), (2, 1, 2)))))
    dtype = draw(_DTYPES)

    def reshaped(name: str) -> Term:
        return builders.reshape(builders.tensor(name, old, dtype), new)

    x = reshaped("x")
    others = (reshaped("y"), x, builders.constant(3, new, dtype), builders.tensor("y", new, dtype))
    pair = (x, draw(st.sampled_from(others)))
    pair = pair if draw(st.booleans()) else pair[::-1]
    function = draw(st.sampled_from(("mul", "mul", "add", "neg")))
    return builders.elementwise(function, *(pair if function != "neg" else (x,)))


@st.composite
def items_of_any_shape(draw: Draw) -> Term:
    """A reduction, or a softmax of rows, of items behind any number of outer axes."""
    name = draw(st.sampled_from(("softmax", "softmax", "sum", "argmax")))
    rank = 1 if name in ("softmax", "argmax") else draw(st.integers(0, 2))
    outer, item = (
        tuple(draw(st.integers(0 if name == "sum" else 1, 3)) for _ in range(n))
        for n in (draw(st.integers(0, 3)), rank)
    )
    dtype = "float64" if name == "softmax" else draw(_DTYPES)
    return builders.compute(name, _leaf("x", outer, item, dtype))


@st.composite
def nhwc_calls(draw: Draw, form: str) -> Term:
    """The unit for NCHW, used for NHWC."""
    kernel = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    channels, filters = draw(st.integers(1, 3)), draw(_size(3))
    size = tuple(each + draw(st.integers(0, 2)) for each in kernel)
    w = builders.tensor("w", (*kernel, channels, filters), "int32")
    x = builders.tensor("x", (draw(_size(2)), *size, channels), "int32")
    operands = builders.transpose(w, (3, 2, 0, 1)), builders.transpose(x, (0, 3, 1, 2))
    stride = draw(st.sampled_from(((1, 1), (1, 2), (2, 1))))
    call = builders.call(f"systolic-conv2d-{form}", (1, 1, *kernel, *stride), *operands)
    return builders.transpose(call, (0, 2, 3, 1))


@st.composite
def long_products(draw: Draw) -> Term:
    """A ``dot`` over one to three axes, the first of them of an even length or not."""
    dtype = draw(_DTYPES)
    shared = tuple(draw(st.lists(_size(2), max_size=1)))
    rows, columns = (tuple(draw(st.lists(_size(3), max_size=2))) for _ in range(2))
    item = (draw(st.sampled_from((4, 6, 2, 3))), *draw(st.lists(_size(3), max_size=2)))
    x, y = _leaf("x", shared + rows, item, dtype), _leaf("y", shared + columns, item, dtype)
    accumulate = draw(st.sampled_from((None, None, "float64")))
    return builders.compute("dot", builders.cart_prod(x, y, len(shared)), accumulate)


@st.composite
def windows_of_accesses(draw: Draw) -> Term:
    """Windows along one to three axes, often in even numbers, strided and dilated."""
    outer = tuple(draw(st.lists(_size(3), max_size=2)))
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
    m, n = draw(_size(3)), draw(_size(3))
    item = tuple(draw(st.lists(_size(3), min_size=1, max_size=2)))
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


@st.composite
def quantised_products(draw: Draw) -> Term:
    """A ``dot`` of quantised operands, moved about on the way, or of the floats they stand for."""
    floats = draw(st.booleans())
    batch = tuple(draw(st.lists(_size(2), max_size=1)))
    depth = draw(_size(3))
    sides = [_quantised(draw, name, batch, depth, floats) for name in "xw"]
    product = builders.cart_prod(sides[0], sides[1], len(batch))
    return builders.compute("dot", product, "float64" if _seldom(draw) else None)


def _seldom(draw: Draw) -> bool:
    return draw(st.integers(0, 9)) == 9


def _quantised(draw: Draw, name: str, batch: tuple[int, ...], depth: int, floats: bool) -> Term:
    """``((batch, rows), (depth))``"""
    dtype = "int16" if _seldom(draw) else draw(st.sampled_from(("int8", "uint8")))
    form = draw(st.sampled_from(("matrix", "matrix", "turned", "padded", "windows", "split")))
    rows = draw(_size(3))
    form = form if rows else "matrix"
    shape = {
        "turned": (depth, *batch, rows),
        "padded": (*batch, rows, max(depth - 1, 1)),
        "windows": (*batch, rows + depth - 1),
        "split": (*(batch or (1,)), rows, depth),
    }.get(form, (*batch, rows, depth))
    if form == "split":
        shape = (shape[0] * rows, depth)
    x = _centred(draw, name, shape, dtype)
    if floats:
        scale = builders.tensor(f"{name}-scale", _beside(draw, shape))
        x = builders.elementwise("mul", builders.cast(x, "float32"), scale)
    if form == "turned":
        x = builders.transpose(x, (*range(1, len(shape)), 0))
    elif form == "padded":
        value = "lowest" if _seldom(draw) else "zero"
        x = builders.pad(x, len(shape) - 1, draw(st.integers(0, 1)), 0, value)
        x = builders.pad(x, len(shape) - 1, 0, depth - x.shape[-1]) if depth >= x.shape[-1] else x
        x = builders.slice_(x, len(shape) - 1, 0, depth)
    elif form == "windows":
        looks = builders.windows(builders.access(x, len(batch)), (depth,), (1,))
        return builders.reshape(looks, (*batch, rows), (depth,))
    elif form == "split":
        x = builders.reshape(x, (shape[0] // rows, rows, depth))
        x = x if batch else builders.squeeze(x, 0)
    return builders.access(x, len(batch) + 1)


def _centred(draw: Draw, name: str, shape: tuple[int, ...], dtype: str) -> Term:
    x = builders.cast(builders.tensor(name, shape, dtype), "int32")
    if draw(st.integers(0, 3)) == 0:
        return x
    kind = draw(st.sampled_from(("int8", "uint8", "int32"))) if _seldom(draw) else dtype
    zero = builders.tensor(f"{name}-zero", _beside(draw, shape), kind)
    return builders.elementwise("sub", x, builders.cast(zero, "int32"))


def _beside(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is spread to ``shape``: of one number, along one axis, or of all."""
    if draw(st.booleans()) or not shape:
        return ()
    axis, everywhere = draw(st.integers(0, len(shape) - 1)), _seldom(draw)
    return tuple(n if everywhere or i == axis else 1 for i, n in enumerate(shape))


@st.composite
def pools(draw: Draw) -> Term:
    """A maximum or mean over windows, flat or not, or of pairs of such, or of something else."""
    function = draw(st.sampled_from(("mean", "max")))
    dtype = "float64" if function == "mean" else draw(_DTYPES)
    outer = tuple(draw(st.lists(_size(3), max_size=2)))
    size = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=2)))
    looks = tuple(min(n, draw(st.sampled_from((2, 4, 3, 6, 1)))) for n in size)
    x = _leaf("x", outer, size, dtype)
    if draw(st.integers(0, 3)):
        x = builders.windows(x, looks, tuple(draw(st.integers(1, 2)) for _ in looks))
    if draw(st.booleans()):
        x = builders.flatten(x)
    return builders.compute(function, x)


@st.composite
def reshaped_softmaxes(draw: Draw) -> Term:
    """A softmax of an array that was given another shape."""
    shape = tuple(draw(st.lists(_size(3), min_size=1, max_size=3)))
    rows, n = math.prod(shape[:-1]), shape[-1]
    if len(shape) > 1 and draw(st.booleans()):
        x = builders.access(builders.tensor("x", shape, "float64"), len(shape) - 1)
        others = ((rows,), (1, rows), (rows, 1)) if rows else ((0,), (0, 2), (1, 0))
        return builders.compute("softmax", builders.reshape(x, draw(st.sampled_from(others)), (n,)))
    items = draw(st.sampled_from(((), (), (1,), (1, 1))))
    x = builders.access(builders.tensor("x", (*shape, *items), "float64"), len(shape))
    shapes: tuple[tuple[int, ...], ...]
    shapes = ((rows, n), (1, rows, n), (rows, 1, n), (rows * n, 1), (n, rows))
    if not rows * n:
        shapes = ((rows, n), (0, n), (2, 0), (0, 0), (0, 2, n), (1, 2, 0))
    reshaped = builders.reshape(x, draw(st.sampled_from(shapes)))
    return builders.compute("softmax", builders.access(reshaped, reshaped.type.rank - 1))


@st.composite
def scaled_attention(draw: Draw, most_batches: int = 2) -> Term:
    """``softmax(q kᵀ * c) v``, perhaps without the scale or with something else there."""
    batch = tuple(draw(st.lists(_size(2), max_size=most_batches)))
    m, n, k, d = (draw(_size(3)) for _ in range(4))
    shared = len(batch)
    q, key, v = (
        builders.access(builders.tensor(name, (*batch, *rest), "float64"), shared + 1)
        for name, rest in (("q", (m, k)), ("k", (n, k)), ("v", (d, n)))
    )
    scores = builders.compute("dot", builders.cart_prod(q, key, shared))
    kind = draw(st.sampled_from(("", "", "number", "number", "scalar", "scalar", "vector")))
    if kind:
        scalars = st.sampled_from(((), (1,), (1, 1), (1,) * len(scores.shape)))
        shape = {"vector": (1,) * (len(scores.shape) - 1) + (n,), "scalar": draw(scalars)}
        scale = (
            builders.constant(0.25, scores.shape, "float64")
            if kind == "number"
            else builders.tensor("c", shape[kind], "float64")
        )
        if kind != "number" and draw(st.booleans()):
            # Whatever of it are items: it is one number for all or it is not.
            while scale.type.rank < len(scores.shape):
                scale = builders.unsqueeze(scale, 0)
            scale = builders.access(scale, draw(st.integers(0, scale.type.rank)))
            scale = builders.broadcast(scale, scores.shape)
        # Not by what may be zero.
        function = draw(st.sampled_from(("mul", "div"))) if kind == "number" else "mul"
        swap = function == "mul" and draw(st.booleans())
        scores = _fold(function, *((scale, scores) if swap else (scores, scale)))
    last = scores.children[0] if scores.op == "access" else scores
    rows = builders.compute("softmax", builders.access(last, shared + 1))
    return builders.compute("dot", builders.cart_prod(rows, v, shared))


# --- cascades of reductions -----------------------------------------------------------------------


def _along(row: Term, length: int) -> Term:
    """``((o), ())`` repeated along an item axis."""
    return builders.broadcast(builders.reshape(row, row.outer, (1,)), (*row.outer, length))


def _pointwise(function: str, *operands: Term) -> Term:
    """Of operands of one type, their items as they are."""
    return builders.compute(function, builders.pair(*operands))


@st.composite
def softmaxes_of_rows(draw: Draw) -> Term:
    """A softmax of rows, of any dtype it takes."""
    outer = tuple(draw(st.lists(_size(3), max_size=3)))
    x = _leaf("x", outer, (draw(_size(5)),), draw(st.sampled_from(("float64", *FLOATS))))
    return builders.compute("softmax", x)


def _with_factor(draw: Draw, x: Term) -> Term:
    """Rows times a number each, or over it; now and then each number has its own."""
    f = _leaf("f", x.outer, (), x.dtype)
    if x.dtype in FLOATS and draw(st.booleans()):
        powers = builders.compute("exp", f)  # Not by what may be zero.
        return _pointwise("div", x, _along(powers, x.item[0]))
    if len(x.item) == 1 and draw(st.integers(0, 3)):
        factors = _along(f, x.item[0])
    else:
        factors = _leaf("f", x.outer, x.item, x.dtype)
    sides = (x, factors) if draw(st.booleans()) else (factors, x)
    function = "mul" if x.dtype in FLOATS or draw(st.integers(0, 3)) else "div"
    return _pointwise(function, *sides)


@st.composite
def sums_with_factors(draw: Draw) -> Term:
    """A sum of rows that are scaled each by its own number."""
    outer, dtype = tuple(draw(st.lists(_size(3), max_size=2))), draw(_DTYPES)
    scaled = _with_factor(draw, _leaf("x", outer, (draw(_size(4)),), dtype))
    return builders.compute("sum", scaled, draw(st.sampled_from((None, None, "float64"))))


@st.composite
def products_with_factors(draw: Draw) -> Term:
    """A ``dot`` whose first operand's rows are scaled each by its own number, then reordered."""
    dtype = draw(_DTYPES)
    shared = tuple(draw(st.lists(_size(2), max_size=2)))
    rows, columns = (tuple(draw(st.lists(_size(3), max_size=2))) for _ in range(2))
    k = draw(_size(4))
    y = _leaf("y", shared + columns, (k,), dtype)
    if draw(st.booleans()):
        x = _with_factor(draw, _leaf("x", shared + rows, (k,), dtype))
    else:
        wanted = (*shared, *rows, k)
        last = len(wanted) - 1
        order = (*draw(st.permutations(range(last))), last)
        if _seldom(draw) and last and wanted[last - 1] == k:  # The item comes from elsewhere.
            order = (*range(last - 1), last, last - 1)
        given = [0] * len(wanted)
        for axis, at in enumerate(order):
            given[at] = wanted[axis]
        plain = _leaf("x", tuple(given[:last]), tuple(given[last:]), dtype)
        x = builders.transpose(_with_factor(draw, plain), order)
    return builders.compute("dot", builders.cart_prod(x, y, len(shared)))


@st.composite
def reductions_of_rows(draw: Draw) -> Term:
    """A reduction along one axis or several, of a length that has equal parts or not."""
    outer, dtype = tuple(draw(st.lists(_size(3), max_size=3))), draw(_DTYPES)
    item = (draw(st.sampled_from((4, 6, 9, 2, 3, 1))), *((2,) if _seldom(draw) else ()))
    function = draw(st.sampled_from(("max", "sum", "min", "prod")))
    return builders.compute(function, _leaf("x", outer, item, dtype))


@st.composite
def powers_in_blocks(draw: Draw) -> Term:
    """Powers against one reference a row, seen in blocks beside the maxima of the blocks."""
    outer, dtype = tuple(draw(st.lists(_size(3), max_size=2))), draw(_WIDE)
    blocks, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    x, m = _leaf("x", outer, (blocks * width,), dtype), _leaf("m", outer, (), dtype)
    if draw(st.booleans()):
        m = builders.compute("max", x)
    powers = builders.compute("exp", _pointwise("sub", x, _along(m, blocks * width)))
    parts = (blocks, width) if draw(st.integers(0, 3)) else (width, blocks)

    def cut(of: Term, parts: tuple[int, int]) -> Term:
        return builders.access(builders.reshape(of, outer, parts), len(outer) + 1)

    tops = builders.compute("max", cut(x, parts))
    sums = builders.compute("sum", cut(powers, (blocks, width)))
    return builders.concat(len(outer), tops, sums)


# --- layers in parts, and over steps -------------------------------------------------------------


def _item(x: Term) -> Term:
    """``x`` as one item, without an access of an access."""
    return builders.item_only(x.children[0] if x.op == "access" else x)


def _map(function: str, x: Term) -> Term:
    return builders.outer_only(builders.compute(function, _item(x)))


def _fold(function: str, x: Term, y: Term) -> Term:
    """Of two operands that NumPy would broadcast; one that has the shape stays what it is."""
    shape = builders.broadcast_shapes(x.shape, y.shape)
    sides = (z if z.shape == shape else builders.broadcast_to(z, shape) for z in (x, y))
    return builders.outer_only(builders.compute(function, builders.pair(*map(_item, sides))))


def _either(draw: Draw, function: str, x: Term, y: Term) -> Term:
    return _fold(function, x, y) if draw(st.booleans()) else _fold(function, y, x)


def _matmul(x: Term, w: Term) -> Term:
    """``x Wᵀ`` for all rows of x."""
    sides = builders.access(x, x.type.rank - 1), builders.access(w, 1)
    return builders.compute("dot", builders.cart_prod(*sides))


@st.composite
def sums_of_layers(draw: Draw) -> Term:
    """Two or three summands, products of matrices, biases and others, in any order."""
    m, n = draw(_size(3)), draw(_size(3))
    dtype = draw(_DTYPES)

    def summand(name: str) -> Term:
        kind = draw(st.sampled_from(("product", "product", "layer", "layer", "bias", "other")))
        if kind == "bias":
            return builders.tensor(f"b{name}", (n,), dtype)
        if kind == "other":
            shape = draw(st.sampled_from(((m, n), (m, 1), (n,))))
            return builders.tensor(f"y{name}", shape, dtype)
        k = draw(_size(3))
        x, w = (
            builders.tensor(f"x{name}", (m, k), dtype),
            builders.tensor(f"w{name}", (n, k), dtype),
        )
        product = _matmul(x, w)
        return product if kind == "product" else _fold("add", product, summand_bias(name))

    def summand_bias(name: str) -> Term:
        return builders.tensor(f"c{name}", (n,), dtype)

    total = summand("0")
    for i in range(draw(st.integers(1, 2))):
        total = _fold("add", total, summand(str(i + 1)))
    return total


@st.composite
def steps_of_layers(draw: Draw) -> Term:
    """One step of a layer over several, perhaps with a bias along some axis."""
    dtype = draw(_DTYPES)
    outer = tuple(draw(st.lists(_size(3), min_size=2, max_size=3)))
    k, n = draw(_size(3)), draw(_size(3))
    result = _matmul(builders.tensor("x", (*outer, k), dtype), builders.tensor("w", (n, k), dtype))
    if draw(st.booleans()):
        axes = [a for a, size in enumerate(result.shape) if size == n]
        axis = draw(st.sampled_from((axes[-1], axes[-1], axes[0])))
        bias = builders.tensor("b", (n,), dtype)
        for _ in range(result.type.rank - 1 - axis):
            bias = builders.unsqueeze(bias, bias.type.rank)
        result = _fold("add", result, bias)
    axis = draw(st.integers(0, result.type.rank - 1))
    low = draw(st.integers(0, max(result.shape[axis] - 1, 0)))
    if result.shape[axis] > 1 or draw(st.booleans()):
        result = builders.slice_(result, axis, low, low + 1)
    return builders.squeeze(result, axis)


@st.composite
def unrolled_lstms(draw: Draw, most: int = 3) -> Term:
    """Up to ``most`` steps of an LSTM, said in any of many ways, and sometimes not quite one.

    The result has the hidden states or the last states, or both.
    """
    rows, depth, size = (draw(_size(2)) for _ in range(3))
    count = draw(st.integers(1, most))
    choose = draw(
        st.fixed_dictionaries(
            {
                "order": st.permutations("ifgo"),
                "joined": st.booleans(),
                "h first": st.booleans(),
                "separate": st.booleans(),
                "bias": st.sampled_from(("none", "one", "two")),
                "wrong": st.sampled_from(
                    ("", "", "", "", "gate", "weights", "cell", "state", "cuts")
                ),
            }
        )
    )
    wrong_at = draw(st.integers(0, count - 1))

    def tensor(name: str, *shape: int) -> Term:
        return builders.tensor(name, shape, "float64")

    def parameters(name: str) -> tuple[Term, Term, list[Term]]:
        m = size if choose["separate"] else 4 * size
        biases = {"none": 0, "one": 1, "two": 2}[choose["bias"]]
        return (
            tensor(f"w{name}", m, depth),
            tensor(f"r{name}", m, size),
            [tensor(f"b{i}{name}", m) for i in range(biases)],
        )

    def layer(x: Term, h: Term, name: str) -> Term:
        w, r, biases = parameters(name)
        pairs = [(x, w), (h, r)][:: -1 if choose["h first"] else 1]
        if choose["joined"]:
            parts = (
                builders.concat(1, *(builders.access(y, 1) for y in each))
                for each in zip(*pairs, strict=True)
            )
            inputs, weights = parts
            total = builders.compute("dot", builders.cart_prod(inputs, weights))
        else:
            total = _fold("add", *(_matmul(*each) for each in pairs))
        for bias in biases:
            total = _fold("add", total, bias)
        return total

    data = tensor("x", count, rows, depth)
    h, c = tensor("h", rows, size), tensor("c", rows, size)
    states = []
    for t in range(count):
        x = builders.squeeze(builders.slice_(data, 0, t, t + 1), 0)
        wrong = choose["wrong"] if t == wrong_at else ""
        name = "other" if wrong == "weights" else ""
        if choose["separate"]:
            gates = {k: layer(x, h, k + name) for k in "ifgo"}
        else:
            whole = layer(x, h, name)
            cuts = {k: at * size for at, k in enumerate(choose["order"])}
            if wrong == "cuts":
                cuts["i"] = cuts["f"]
            gates = {k: builders.slice_(whole, 1, at, at + size) for k, at in cuts.items()}
        fresh = _map("sigmoid" if wrong == "gate" else "tanh", gates["g"])
        old = h if wrong == "cell" else c
        c = _either(
            draw,
            "add",
            _either(draw, "mul", _map("sigmoid", gates["f"]), old),
            _either(draw, "mul", _map("sigmoid", gates["i"]), fresh),
        )
        new = _either(draw, "mul", _map("sigmoid", gates["o"]), _map("tanh", c))
        h = c if wrong == "state" else new
        states.append(new)
    stack = builders.concat(0, *(builders.unsqueeze(each, 0) for each in states))
    last = (builders.unsqueeze(each, 0) for each in (h, c))
    return draw(st.sampled_from((stack, h, c, builders.concat(0, stack, *last))))


@st.composite
def square_filters(draw: Draw, exact: bool = False) -> Term:
    """A product of filters and windows over all channels, in float32 and mostly 3 x 3; ``exact``:
    nothing changed that keeps minimal filtering from being found."""

    def rarely(usual: Any, other: Any) -> Any:
        return usual if exact or draw(st.integers(0, 5)) else other

    batch, channels, filters = draw(_size(3)), draw(st.integers(1, 3)), draw(_size(3))
    dtype = rarely("float32", "int32")
    kernel = (3, rarely(3, 2))
    size = tuple(each + draw(st.integers(0, 5)) for each in kernel)
    last = draw(st.booleans())
    taps, places = (filters, channels, *kernel), (batch, channels, *size)
    window, stride, dilation = (channels, *kernel), (1, 1, rarely(1, 2)), (1, 1, 1)
    if max(size) > 4:
        dilation = (1, 1, rarely(1, 2))
    if last:
        taps, places = (filters, *kernel, channels), (batch, *size, channels)
        window, stride, dilation = (*kernel, channels), (*stride[1:], 1), (*dilation[1:], 1)
    w, x = builders.tensor("w", taps, dtype), builders.tensor("x", places, dtype)
    for axis in (1, 2) if last else (2, 3):
        x = builders.pad(x, axis, draw(st.integers(0, 2)), draw(st.integers(0, 1)))
    rows = builders.access(w, 1)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    if any(n < k for n, k in zip(x.shape[1:], reach, strict=True)):
        dilation = (1, 1, 1)
    looks = builders.windows(builders.access(x, 1), window, stride, dilation)
    looks = builders.squeeze(looks, 3 if last else 1)
    sides = (looks, rows) if last else (rows, looks)
    return builders.compute("dot", builders.cart_prod(*sides))
