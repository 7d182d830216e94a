"""Programs that every code generator is tried on."""

from __future__ import annotations

import numpy as np

from glenside.language import FUNCTIONS, Term, map_terms, rebuild
from glenside.language.builders import (
    access,
    blocked,
    broadcast,
    cart_prod,
    compute,
    concat,
    constant,
    elementwise,
    host_op,
    pad,
    reshape,
    slice_,
    tensor,
    transpose,
    windows,
)
from glenside.language.shape import FLOATS
from tests.codegen.codegen_help import convolution, weights

Arrays = dict[str, np.ndarray]


def max_pool(x: Term, size: int, stride: int, border: int) -> Term:
    padded = pad(pad(access(x, 2), 2, border, border, "lowest"), 3, border, border, "lowest")
    return compute("max", windows(padded, (size, size), (stride, stride)))


def small_net() -> tuple[Term, Arrays]:
    """Convolutions, an inception-like concat, pools, a dense layer, softmax."""
    x = tensor("x", (2, 3, 17, 19))
    y = elementwise("relu", convolution(x, tensor("w0", (32, 3, 3, 3)), (2, 2), (1, 0, 2, 1)))
    y = max_pool(y, 3, 2, 1)
    left = elementwise("relu", convolution(y, tensor("w1", (24, 32, 1, 1))))
    right = elementwise("relu", convolution(y, tensor("w2", (40, 32, 3, 3)), pads=(1, 1, 1, 1)))
    y = concat(1, left, right, y)
    pooled = compute("mean", access(y, 2))
    scores = compute("dot", cart_prod(access(pooled, 1), access(tensor("w3", (10, 96)), 1)))
    shapes = {"w0": (32, 3, 3, 3), "w1": (24, 32, 1, 1), "w2": (40, 32, 3, 3), "w3": (10, 96)}
    params = {name: weights(*s, seed=k) for k, (name, s) in enumerate(shapes.items())}
    return compute("softmax", access(scores, 1)), params


def a_value_and_what_is_made_of_it() -> list[Term]:
    """Outputs that share memory, the input among them, and constants."""
    x = tensor("x", (3, 4, 5))
    y = elementwise("exp", x)
    flipped = transpose(y, (2, 0, 1))
    views = [y, flipped, reshape(flipped, (15, 4)), slice_(y, 1, 1, 4, 2), x, constant(3.0, (2,))]
    return [*views, pad(y, 0, 1, 2, 7.0), broadcast(constant(1.0, (1,)), (100_000,))]


def of_any_length(shape: tuple[int, ...]) -> list[Term]:
    """What has to work for empty arrays and odd lengths."""
    x = tensor("x", shape)
    first = compute("sum", access(x, 1 if len(shape) > 1 else 0))
    return [elementwise("relu", x), first, pad(x, 0, 1, 2, 5.0), concat(0, x, x)]


def over_nothing() -> dict[Term, object]:
    """What is computed where some axis is empty, and what it is by definition: a sum of nothing is
    0, a product of nothing 1, so a ``dot`` over an empty tuple axis counts the elements behind."""
    tuples, rows = tensor("e", (2, 0, 3)), access(tensor("x", (2, 0)), 1)
    empty, columns = access(tensor("a", (2, 0)), 1), access(tensor("b", (3, 0)), 1)
    product = compute("dot", cart_prod(empty, columns))
    images = access(tensor("i", (1, 0, 4, 4)), 1)
    looks = windows(access(tensor("n", (0, 4)), 1), (2,), (1,))
    return {
        compute("dot", access(tuples, 1)): [3, 3],
        compute("dot", access(tuples, 0)): 0,
        compute("dot", access(tensor("p", (2, 0), "int32"), 1)): [1, 1],
        compute("dot", access(tensor("t", (2, 0, 3), "int8"), 1), "int32"): [3, 3],
        elementwise("neg", compute("dot", access(tuples, 1))): [-3, -3],
        compute("sum", rows): [0, 0],
        compute("prod", rows): [1, 1],
        compute("max", rows): [-np.inf, -np.inf],
        compute("min", rows): [np.inf, np.inf],
        compute("max", access(tensor("m", (2, 0), "int32"), 1)): [-(2**31)] * 2,
        compute("mean", rows): [np.nan, np.nan],
        compute("mean", access(images, 2)): np.zeros((1, 0)),
        elementwise("add", compute("mean", rows), constant(1.0, (2,))): [np.nan, np.nan],
        compute("softmax", rows): np.zeros((2, 0)),
        pad(compute("softmax", rows), 1, 1, 1, 4.0): [[4, 4], [4, 4]],
        pad(compute("argmax", access(tensor("g", (0, 3)), 1)), 0, 1, 0): [0],
        product: np.zeros((2, 3)),
        concat(0, product, pad(tensor("c", (0, 3)), 0, 1, 0, 2.0)): [[0] * 3, [0] * 3, [2] * 3],
        concat(1, tensor("x", (2, 0)), constant(5.0, (2, 1))): [[5], [5]],
        compute("max", looks): np.zeros((0, 3)),
        pad(compute("max", looks), 0, 0, 1, 1.0): [[1, 1, 1]],
        compute("sum", access(compute("max", looks), 0)): 0,
    }


def a_call_and_a_host_operator() -> tuple[Term, Arrays]:
    """Two steps in Python with kernels before, between and after them."""
    a, b = tensor("a", (7, 5)), tensor("b", (6, 5))
    product = blocked("systolic-array", (4, 4), access(elementwise("neg", a), 1), access(b, 1))
    swapped = elementwise("exp", transpose(product, (1, 0)))
    hosted = host_op("Elu", [swapped], (6, 7), version=17)
    return elementwise("add", hosted, swapped), {"b": weights(6, 5)}


def eight_layers() -> tuple[Term, Arrays]:
    """Layers whose values are alive one after the other, each of 32 * 40 * 40 floats."""
    y = tensor("x", (1, 32, 40, 40))
    for layer in range(8):
        y = elementwise("relu", convolution(y, tensor(f"w{layer}", (32, 32, 1, 1))))
    return y, {f"w{layer}": weights(32, 32, 1, 1, seed=layer) for layer in range(8)}


def terms_of(name: str, dtype: str) -> list[Term]:
    """A function of ``compute`` on tensors a and b, in every form a generator tells apart."""
    kind, rank = FUNCTIONS[name].kind, FUNCTIONS[name].item_rank
    if kind == "fold":
        return [elementwise(name, tensor("a", (5, 37), dtype), tensor("b", (5, 37), dtype))]
    if kind == "map":
        return [elementwise(name, tensor("a", (5, 37), dtype))]
    a = tensor("a", (4, 3, 23), dtype)
    if rank == 1:
        return [compute(name, access(a, 2)), compute(name, access(transpose(a, (2, 1, 0)), 2))]
    return [
        compute(name, access(a, 1)),
        compute(name, access(transpose(a, (2, 0, 1)), 1)),
        compute(name, access(a, 0)),
    ]


def values_for(name: str, dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers the function is defined on, with special values where their results are."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype not in FLOATS:
        limits = np.iinfo(dtype)
        values = rng.integers(-9 if limits.min else 0, 10, shape).astype(dtype)
        values.flat[1:3] = limits.min, limits.max
        return values
    values = rng.standard_normal(shape) * 2
    if name in ("asin", "acos", "atanh"):
        values = np.clip(values / 4, -1, 1)
    if name in ("log", "sqrt", "pow", "acosh"):
        values = np.abs(values) + (name == "acosh")
    values = values.astype(dtype)
    if name not in ("dot", "sum", "mean", "prod", "softmax"):
        values.flat[3:6] = np.nan, np.inf, -np.inf
    return values


def renamed(term: Term, suffix: str) -> Term:
    """The term with its tensors named after their dtype."""

    def rename(old: Term, children: tuple[Term, ...]) -> Term:
        if old.op == "tensor":
            return tensor(f"{old['name']}-{suffix}", old.shape, old.dtype)
        return rebuild(old, children)

    return map_terms([term], rename)[term]
