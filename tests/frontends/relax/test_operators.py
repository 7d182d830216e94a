"""Every operator against an independent statement of it in NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from glenside.frontends.relax.signature import OPERATORS

Array = np.ndarray[Any, Any]
ops = relax.op
nn = relax.op.nn
const = relax.const
F = np.float32


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def positive(*shape: int) -> Array:
    return np.abs(normal(*shape)) + F(0.5)


def ints(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> Array:
    return np.random.default_rng(1).integers(low, high, shape).astype(dtype)


# --- references ---------------------------------------------------------------------------------


def conv(
    x: Array,
    w: Array,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    """One output element after the other."""
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    kernel = w.shape[2:]
    size = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilation, strict=True)
    ]
    result = np.zeros((x.shape[0], w.shape[0], *size), x.dtype)
    per_group = w.shape[0] // groups
    for n, o, *at in itertools.product(*map(range, result.shape)):
        low = o // per_group * w.shape[1]
        look = tuple(
            slice(a * s, a * s + (k - 1) * d + 1, d)
            for a, s, k, d in zip(at, strides, kernel, dilation, strict=True)
        )
        result[(n, o, *at)] = np.sum(x[(n, slice(low, low + w.shape[1]), *look)] * w[o])
    return result


def conv_transpose(
    x: Array,
    w: Array,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    extra: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    """Every input element scatters a multiple of its filter."""
    kernel, width = w.shape[2:], w.shape[1]
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(x.shape[2:], strides, kernel, dilation, extra, strict=True)
    ]
    result = np.zeros((x.shape[0], width * groups, *full), x.dtype)
    per_group = x.shape[1] // groups
    for n, c, *at in itertools.product(*map(range, x.shape)):
        group = c // per_group
        look = tuple(
            slice(a * s, a * s + (k - 1) * d + 1, d)
            for a, s, k, d in zip(at, strides, kernel, dilation, strict=True)
        )
        result[(n, slice(group * width, (group + 1) * width), *look)] += x[(n, c, *at)] * w[c]
    cut = tuple(slice(b, length - a) for (b, a), length in zip(pads, full, strict=True))
    return result[(slice(None), slice(None), *cut)]


def pool(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    mode: str,
    ceil: bool = False,
) -> Array:
    """``max``, ``mean`` of what is inside, or ``padded`` mean of data and padding."""
    round_up = math.ceil if ceil else math.floor
    size = [
        round_up((n + b + a - k) / s) + 1
        for n, k, s, (b, a) in zip(x.shape[2:], kernel, strides, pads, strict=True)
    ]
    # A window must start before the data ends.
    size = [
        min(m, (n + b - 1) // s + 1)
        for m, n, s, (b, _) in zip(size, x.shape[2:], strides, pads, strict=True)
    ]
    result = np.zeros((*x.shape[:2], *size), x.dtype)
    for at in itertools.product(*map(range, size)):
        inside, counted = [], 1
        for a, s, k, (b, e), n in zip(at, strides, kernel, pads, x.shape[2:], strict=True):
            low = a * s - b
            inside.append(slice(max(low, 0), min(low + k, n)))
            counted *= min(low + k, n + e) - low
        look = x[(slice(None), slice(None), *inside)]
        axes = tuple(range(2, x.ndim))
        place = (slice(None), slice(None), *at)
        if mode == "max":
            result[place] = look.max(axes)
        else:
            result[place] = look.mean(axes) if mode == "mean" else look.sum(axes) / counted
    return result


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[F])(x)


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def standardised(x: Array, axes: tuple[int, ...], epsilon: float = 1e-5) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def column(vector: Array) -> Array:
    return vector[:, None, None]


def attention(q: Array, k: Array, v: Array, mask: Array | float = 0) -> Array:
    scores = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1]) + mask
    return np.einsum("bhij,bjhd->bihd", softmax(scores), v).astype(q.dtype)


# --- elementwise --------------------------------------------------------------------------------

MAPS: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "abs": (np.abs, normal(2, 3)),
    "acos": (np.arccos, np.tanh(normal(2, 3))),
    "acosh": (np.arccosh, positive(2, 3) + 1),
    "asin": (np.arcsin, np.tanh(normal(2, 3))),
    "asinh": (np.arcsinh, normal(2, 3)),
    "atan": (np.arctan, normal(2, 3)),
    "atanh": (np.arctanh, np.tanh(normal(2, 3))),
    "bitwise_not": (np.invert, ints(2, 3)),
    "ceil": (np.ceil, normal(2, 3)),
    "cos": (np.cos, normal(2, 3)),
    "cosh": (np.cosh, normal(2, 3)),
    "erf": (erf, normal(2, 3)),
    "exp": (np.exp, normal(2, 3)),
    "floor": (np.floor, normal(2, 3)),
    "isfinite": (np.isfinite, np.array([1, np.nan, -np.inf, np.inf, 0], F)),
    "isinf": (np.isinf, np.array([1, np.nan, -np.inf, np.inf, 0], F)),
    "isnan": (np.isnan, np.array([1, np.nan, -np.inf, np.inf, 0], F)),
    "log": (np.log, positive(2, 3)),
    "logical_not": (np.logical_not, normal(2, 3) > 0),
    "negative": (np.negative, normal(2, 3)),
    "round": (np.rint, np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.4], F)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), positive(2, 3)),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), normal(2, 3)),
    "sign": (np.sign, np.array([-2, 0, 3], F)),
    "sin": (np.sin, normal(2, 3)),
    "sinh": (np.sinh, normal(2, 3)),
    "sqrt": (np.sqrt, positive(2, 3)),
    "square": (np.square, normal(2, 3)),
    "tan": (np.tan, normal(2, 3)),
    "tanh": (np.tanh, normal(2, 3)),
    "trunc": (np.trunc, np.array([-2.5, -0.5, 0.5, 2.5], F)),
    "nn.relu": (lambda x: np.maximum(x, 0), normal(2, 3)),
    "nn.gelu": (lambda x: x / 2 * (1 + erf(x / np.sqrt(F(2)))), normal(2, 3)),
    "nn.gelu_tanh": (
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(F(2 / np.pi)) * (x + F(0.044715) * x**3))),
        normal(2, 3),
    ),
    "nn.silu": (lambda x: x / (1 + np.exp(-x)), normal(2, 3)),
    "nn.selu": (
        lambda x: F(1.0507009873554805) * np.where(x > 0, x, F(1.6732632423543772) * np.expm1(x)),
        normal(2, 3),
    ),
}


def named(name: str) -> Callable[..., Any]:
    return getattr(nn, name[3:]) if name.startswith("nn.") else getattr(ops, name)


@pytest.mark.parametrize("name", MAPS)
def test_map(ask: Any, name: str) -> None:
    wanted, x = MAPS[name]
    ask.same(named(name), wanted, x)


def logical(function: Any) -> tuple[Callable[..., Array], Array, Array]:
    return function, normal(2, 3) > 0, normal(2, 3, seed=1) > 0


FOLDS: dict[str, tuple[Callable[[Array, Array], Array], Array, Array]] = {
    "add": (np.add, normal(2, 3), normal(3)),
    "bitwise_and": (np.bitwise_and, ints(2, 3), ints(3)),
    "bitwise_or": (np.bitwise_or, ints(2, 3), ints(3)),
    "bitwise_xor": logical(np.logical_xor),
    "divide": (np.divide, normal(2, 3), positive(2, 1)),
    "equal": (np.equal, ints(2, 3), ints(3)),
    "floor_divide": (np.floor_divide, ints(2, 30), ints(30, low=1)),
    "floor_mod": (np.mod, ints(2, 30), ints(30, low=-9, high=0)),
    "greater": (np.greater, normal(2, 3), normal(3)),
    "greater_equal": (np.greater_equal, ints(2, 3), ints(3)),
    "left_shift": (np.left_shift, ints(2, 3), ints(3, low=0, high=5)),
    "less": (np.less, normal(2, 3), normal(3)),
    "less_equal": (np.less_equal, ints(2, 3), ints(3)),
    "log_add_exp": (np.logaddexp, normal(2, 3) * 50, normal(3)),
    "logical_and": logical(np.logical_and),
    "logical_or": logical(np.logical_or),
    "logical_xor": logical(np.logical_xor),
    "maximum": (np.maximum, normal(2, 3), normal(3)),
    "minimum": (np.minimum, normal(2, 3), normal(3)),
    "mod": (np.fmod, ints(2, 30), ints(30, low=1)),
    "multiply": (np.multiply, normal(2, 3), normal(3)),
    "not_equal": (np.not_equal, ints(2, 3), ints(3)),
    "power": (np.power, positive(2, 3), normal(3)),
    "right_shift": (np.right_shift, ints(2, 3), ints(3, low=0, high=5)),
    "subtract": (np.subtract, normal(2, 3), normal(3)),
}


@pytest.mark.parametrize("name", FOLDS)
def test_fold(ask: Any, name: str) -> None:
    wanted, a, b = FOLDS[name]
    ask.same(named(name), wanted, a, b)


X = normal(2, 3, 4)
V = normal(3, seed=5)
CASES: dict[str, tuple[Any, ...]] = {
    # elementwise
    "divide ints": (ops.divide, lambda a, b: np.trunc(a / b).astype("int32"),
                    ints(20), ints(20, low=1)),
    "floor_divide floats": (ops.floor_divide, np.floor_divide, normal(9), positive(9)),
    "add number": (lambda x: ops.add(x, const(2.0)), lambda x: x + 2, X),
    "clip": (lambda x: ops.clip(x, -1, 0.5), lambda x: np.clip(x, -1, F(0.5)), X),
    "ewise_fma": (ops.ewise_fma, lambda a, b, c: a * b + c, X, X, X),
    "where": (ops.where, np.where, X > 0, X, normal(4)),
    "astype": (lambda x: ops.astype(x, "int8"), lambda x: x.astype("int8"), X * 5),
    "nn.leakyrelu": (lambda x: nn.leakyrelu(x, 0.1), lambda x: np.where(x > 0, x, F(0.1) * x), X),
    "nn.prelu": (nn.prelu, lambda x, a: np.where(x > 0, x, x * a[:, None]), X, V),
    "nn.softplus": (lambda x: nn.softplus(x, 2.0, 3.0),
                    lambda x: np.where(2 * x > 3, x, np.log1p(np.exp(2 * x)) / 2), X),
    "nn.dropout": (nn.dropout, lambda x: (x, np.ones_like(x)), X),
    # reductions
    **{
        f"{name} {axis} {keep}": (
            lambda x, name=name, axis=axis, keep=keep: getattr(ops, name)(x, axis, keep),
            lambda x, f=f, axis=axis, keep=keep: f(x, axis=axis, keepdims=keep),
            X,
        )
        for name, f in {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min,
                        "prod": np.prod, "variance": np.var, "std": np.std}.items()
        for axis, keep in ((None, False), ((0, -1), True), (1, False))
    },
    **{
        f"{name} {axis} {keep}": (
            lambda x, name=name, axis=axis, keep=keep: getattr(ops, name)(x, axis, keep),
            lambda x, name=name, axis=axis, keep=keep: getattr(np, name)(x, axis, keepdims=keep),
            X,
        )
        for name in ("argmax", "argmin")
        for axis, keep in ((None, False), (None, True), (-2, True), (0, False))
    },
    "cumsum": (lambda x: ops.cumsum(x, 1), lambda x: np.cumsum(x, 1), X),
    "cumsum flat": (lambda x: ops.cumsum(x, dtype="float64"),
                    lambda x: np.cumsum(x, dtype="float64"), X),
    "cumsum exclusive": (lambda x: ops.cumsum(x, 2, exclusive=True),
                         lambda x: np.cumsum(x, 2) - x, X),
    "cumprod": (lambda x: ops.cumprod(x, 0), lambda x: np.cumprod(x, 0), X),
    # products
    "matmul": (ops.matmul, np.matmul, normal(2, 3, 4), normal(4, 5)),
    "matmul batches": (ops.matmul, np.matmul, normal(2, 1, 3, 4), normal(5, 4, 2)),
    "matmul vectors": (ops.matmul, np.matmul, normal(4), normal(2, 4, 3)),
    "matmul int8": (lambda a, b: ops.matmul(a, b, out_dtype="int32"),
                    lambda a, b: a.astype("int32") @ b.astype("int32"),
                    ints(2, 9, low=-99, high=99, dtype="int8"),
                    ints(9, 3, low=-99, high=99, dtype="int8")),
    "outer": (ops.outer, np.outer, normal(3), normal(4)),
    # shapes
    "reshape": (lambda x: ops.reshape(x, (4, -1)), lambda x: x.reshape(4, 6), X),
    "flatten": (ops.flatten, np.ravel, X),
    "nn.batch_flatten": (nn.batch_flatten, lambda x: x.reshape(2, 12), X),
    "permute_dims": (lambda x: ops.permute_dims(x, [2, 0, -2]),
                     lambda x: x.transpose(2, 0, 1), X),
    "permute_dims reversed": (ops.permute_dims, np.transpose, X),
    "squeeze": (lambda x: ops.squeeze(x, [0, -1]), lambda x: x[0, :, :, 0], normal(1, 3, 1, 1)),
    "squeeze all": (ops.squeeze, np.squeeze, normal(1, 3, 1)),
    "expand_dims": (lambda x: ops.expand_dims(x, [0, -1]), lambda x: x[None, ..., None], X),
    "broadcast_to": (lambda x: ops.broadcast_to(x, (5, 2, 3, 4)),
                     lambda x: np.broadcast_to(x, (5, 2, 3, 4)), normal(2, 1, 4)),
    "collapse_sum_to": (lambda x: ops.collapse_sum_to(x, (3, 1)),
                        lambda x: x.sum((0, 2))[:, None], X),
    "collapse_sum_like": (ops.collapse_sum_like, lambda x, y: x.sum(0), X, normal(3, 4)),
    "concat": (lambda a, b: ops.concat([a, b], -2), lambda a, b: np.concatenate([a, b], 1),
               X, normal(2, 5, 4)),
    "stack": (lambda a, b: ops.stack([a, b], -1), lambda a, b: np.stack([a, b], -1), X, X + 1),
    "split sections": (lambda x: ops.split(x, 3, 1), lambda x: np.split(x, 3, 1), X),
    "split uneven": (lambda x: ops.split(x, 3, 0),
                     lambda x: [x[:3], x[3:6], x[6:]], normal(7, 2)),
    "split indices": (lambda x: ops.split(x, [1, 3], -1), lambda x: np.split(x, [1, 3], 2), X),
    "repeat": (lambda x: ops.repeat(x, 3, 1), lambda x: np.repeat(x, 3, 1), X),
    "repeat flat": (lambda x: ops.repeat(x, 2), lambda x: np.repeat(x, 2), X),
    "tile": (lambda x: ops.tile(x, (2, 1, 3, 2)), lambda x: np.tile(x, (2, 1, 3, 2)), X),
    "tile fewer": (lambda x: ops.tile(x, 2), lambda x: np.tile(x, 2), X),
    "flip": (lambda x: ops.flip(x, 1), lambda x: np.flip(x, 1), X),
    "meshgrid": (lambda a, b: ops.meshgrid([a, b]), lambda a, b: np.meshgrid(a, b, indexing="ij"),
                 normal(3), normal(4)),
    **{
        f"nn.pad {mode}": (
            lambda x, mode=mode: nn.pad(x, (0, 0, 1, 2, 0, 3), mode),
            lambda x, kind=kind: np.pad(x, ((0, 0), (1, 2), (0, 3)), kind),
            X,
        )
        for mode, kind in {"constant": "constant", "reflect": "reflect", "replicate": "edge",
                           "circular": "wrap"}.items()
    },
    "nn.pad value": (lambda x: nn.pad(x, (1, 0), "constant", 7.0),
                     lambda x: np.pad(x, (1, 0), constant_values=7), ints(3)),
    "nn.pixel_shuffle": (
        lambda x: nn.pixel_shuffle(x, 2),
        lambda x: x.reshape(1, 2, 2, 2, 3, 4).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 6, 8),
        normal(1, 8, 3, 4),
    ),
    # filling
    "full": (lambda x: ops.full((2, 3), const(4.5)), lambda x: np.full((2, 3), F(4.5)), X),
    "full_like": (lambda x: ops.full_like(x, const(2, "int32")),
                  lambda x: np.full_like(x, 2), X),
    "ones": (lambda x: ops.ones((2,), "int8"), lambda x: np.ones(2, "int8"), X),
    "zeros_like": (ops.zeros_like, np.zeros_like, X),
    "ones_like": (lambda x: ops.ones_like(x, "bool"), lambda x: np.ones_like(x, bool), X),
    "zeros": (lambda x: ops.zeros((2,), "float32"), lambda x: np.zeros(2, F), X),
    "arange": (lambda x: ops.multiply(x, ops.arange(3, 11, 2, "float32")),
               lambda x: x * np.arange(3, 11, 2, F), X),
    "eye": (lambda x: ops.eye(3, 4, 1), lambda x: np.eye(3, 4, 1, dtype=F), X),
    "eye_like": (lambda x: ops.eye_like(x, -1), lambda x: np.eye(2, 3, -1, dtype=F), normal(2, 3)),
    "tril": (lambda x: ops.tril(x, 1), lambda x: np.tril(x, 1), X),
    "triu": (lambda x: ops.triu(x, -1), lambda x: np.triu(x, -1), X),
    "one_hot": (
        lambda i: ops.one_hot(i, tvm.tirx.FloatImm("float32", 2), tvm.tirx.FloatImm("float32", 1),
                              4, 0),
        lambda i: np.where(np.arange(4)[:, None] == i, F(2), F(1)), np.array([3, 0, -1]),
    ),
    "size": (lambda x: ops.size(x), lambda x: np.int64(24), X),
    "shape_to_tensor": (lambda x: ops.shape_to_tensor(ops.shape_of(x)),
                        lambda x: np.array([2, 3, 4]), X),
    # indexing
    "take": (lambda x, i: ops.take(x, i, 1), lambda x, i: np.take(x, i, 1),
             X, np.array([[2, 0], [1, 1]])),
    "take scalar": (lambda x: ops.take(x, const(1, "int64"), 1), lambda x: x[:, 1], X),
    "take flat": (ops.take, np.take, normal(9), np.array([[8], [0]])),
    "take clip": (lambda x, i: ops.take(x, i, 0, "clip"),
                  lambda x, i: np.take(x, i, 0, mode="clip"), X, np.array([-1, 0, 9])),
    "take wrap": (lambda x, i: ops.take(x, i, 0, "wrap"),
                  lambda x, i: np.take(x, i, 0, mode="wrap"), X, np.array([-1, 0, 9])),
    "strided_slice": (lambda x: ops.strided_slice(x, [2, 0], [1, -1], [99, 2], [2, 1]),
                      lambda x: x[1:, :, 1::2], X),
    "strided_slice back": (lambda x: ops.strided_slice(x, [1], [-1], [-99], [-2]),
                           lambda x: x[:, ::-2], X),
    "dynamic_strided_slice": (
        lambda x: ops.dynamic_strided_slice(
            x, *(const(np.array(v), "int64") for v in ([0, 1, 3], [2, 3, 0], [1, 1, -1]))
        ),
        lambda x: x[0:2, 1:3, 3:0:-1], X,
    ),
    "gather_elements": (lambda x, i: ops.gather_elements(x, i, 1),
                        lambda x, i: np.take_along_axis(x, i, 1),
                        X, ints(2, 5, 4, low=0, high=3, dtype="int64")),
    "gather_nd": (ops.gather_nd, lambda x, i: x[i[..., 0], i[..., 1]],
                  X, np.array([[[1, 2], [0, 0]], [[1, 0], [0, 1]]])),
    # normalisations
    "nn.batch_norm": (
        lambda x, g, b, m, v: nn.batch_norm(x, g, b, m, v, 1, training=False),
        lambda x, g, b, m, v: (
            (x - m[:, None]) / np.sqrt(v[:, None] + F(1e-5)) * g[:, None] + b[:, None], m, v),
        X, V, V + 1, V - 1, positive(3),
    ),
    "nn.batch_norm bare": (
        lambda x, g, b, m, v: nn.batch_norm(x, g, b, m, v, -1, 0.1, False, False, training=False),
        lambda x, g, b, m, v: ((x - m) / np.sqrt(v + F(0.1)), m, v),
        normal(2, 4, 3), V, V + 1, V - 1, positive(3),
    ),
    "nn.layer_norm": (lambda x, g, b: nn.layer_norm(x, g, b, [-2, -1]),
                      lambda x, g, b: standardised(x, (1, 2)) * g + b,
                      X, normal(3, 4), normal(3, 4)),
    "nn.layer_norm front": (lambda x, g, b: nn.layer_norm(x, g, b, 1, 0.1),
                            lambda x, g, b: standardised(x, (1,), 0.1) * g[:, None] + b[:, None],
                            X, V, V),
    "nn.rms_norm": (lambda x, g: nn.rms_norm(x, g, [-1], 1e-3),
                    lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + F(1e-3)) * g,
                    X, normal(4)),
    "nn.group_norm": (
        lambda x, g, b: nn.group_norm(x, g, b, 2, 1, [2, 3]),
        lambda x, g, b: standardised(x.reshape(2, 2, 3, 3, 4), (2, 3, 4)).reshape(x.shape)
        * column(g) + column(b),
        normal(2, 6, 3, 4), normal(6), normal(6),
    ),
    "nn.instance_norm": (
        lambda x, g, b: nn.instance_norm(x, g, b, 1, [2, 3]),
        lambda x, g, b: standardised(x, (2, 3)) * column(g) + column(b),
        normal(2, 3, 5, 4), V, V + 1,
    ),
    "nn.softmax": (lambda x: nn.softmax(x, 1), lambda x: softmax(x, 1), X),
    "nn.log_softmax": (lambda x: nn.log_softmax(x, -1), lambda x: np.log(softmax(x)), X * 10),
    # quantised
    "quantize": (
        lambda x: ops.quantize(x, const(0.5), const(3, "int8"), -1, "int8"),
        lambda x: np.clip(np.rint(x / 0.5) + 3, -128, 127).astype("int8"), normal(4, 5) * 50,
    ),
    "quantize axis": (
        lambda x: ops.quantize(x, const(np.array([0.5, 2], F)), const(np.array([3, 9], "uint8")),
                               0, "uint8"),
        lambda x: np.clip(np.rint(x / [[0.5], [2]]) + np.array([[3], [9]]), 0, 255).astype("uint8"),
        normal(2, 9) * 50,
    ),
    "dequantize": (
        lambda x: ops.dequantize(x, const(0.5), const(-3, "int8"), -1),
        lambda x: ((x.astype(int) + 3) * 0.5).astype(F),
        ints(2, 9, low=-128, high=127, dtype="int8"),
    ),
    # attention
    "nn.attention": (nn.attention, attention, normal(2, 5, 3, 4), normal(2, 6, 3, 4, seed=1),
                     normal(2, 6, 3, 7, seed=2)),
    "nn.attention_bias": (nn.attention, attention, normal(2, 5, 3, 4), normal(2, 6, 3, 4),
                          normal(2, 6, 3, 7), normal(2, 1, 5, 6)),
    **{
        f"nn.attention {mask}": (
            lambda q, k, v, mask=mask: nn.attention(q, k, v, causal_mask=mask),
            lambda q, k, v, shift=shift: attention(
                q, k, v, np.where(np.tril(np.ones((4, 6)), shift), F(0), F(-np.inf))),
            normal(1, 4, 2, 3), normal(1, 6, 2, 3), normal(1, 6, 2, 3),
        )
        for mask, shift in {"TopLeft": 0, "BottomRight": 2}.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(ask: Any, name: str) -> None:
    build, wanted, *arrays = CASES[name]
    ask.same(build, wanted, *arrays, rtol=1e-4 if "norm" in name else 1e-5)


# --- windows ------------------------------------------------------------------------------------

CONVOLUTIONS = {
    "1d": ((2, 3, 9), (4, 3, 3), (2,), ((1, 0),), (2,), 1),
    "2d": ((1, 3, 7, 6), (4, 3, 3, 2), (2, 1), ((1, 1), (0, 1)), (1, 2), 1),
    "2d grouped": ((2, 4, 5, 5), (6, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2),
    "2d depthwise": ((1, 4, 5, 5), (4, 1, 3, 3), (1, 2), ((1, 1), (1, 1)), (1, 1), 4),
    "3d": ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), (1, 2, 1), ((0, 1), (1, 1), (0, 0)), (1, 1, 2), 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(ask: Any, name: str) -> None:
    x, w, strides, pads, dilation, groups = CONVOLUTIONS[name]
    padding = tuple(b for b, _ in pads) + tuple(a for _, a in pads)
    function = getattr(nn, f"conv{name[:2]}")
    ask.same(
        lambda x, w: function(x, w, strides, padding, dilation, groups),
        lambda x, w: conv(x, w, strides, pads, dilation, groups),
        normal(*x),
        normal(*w, seed=1),
    )


def test_convolution_layouts(ask: Any) -> None:
    ask.same(
        lambda x, w: nn.conv2d(
            x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO", out_layout="NCHW"
        ),
        lambda x, w: conv(
            x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (1, 1), ((1, 1), (1, 1)), (1, 1)
        ),
        normal(1, 5, 4, 3),
        normal(3, 3, 3, 2),
    )


TRANSPOSED = {
    "1d": ((2, 3, 5), (3, 4, 3), (2,), ((1, 0),), (1,), (2,), 1),
    "2d": ((1, 3, 4, 3), (3, 2, 3, 2), (2, 1), ((1, 1), (0, 1)), (1, 0), (1, 1), 1),
    "2d grouped": ((1, 4, 3, 3), (4, 3, 2, 2), (3, 2), ((0, 0), (2, 1)), (2, 0), (1, 1), 2),
    "3d": ((1, 2, 2, 3, 2), (2, 3, 2, 2, 1), (1, 2, 2), ((0, 0),) * 3, (0, 1, 0), (1, 1, 1), 1),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution(ask: Any, name: str) -> None:
    x, w, strides, pads, extra, dilation, groups = TRANSPOSED[name]
    padding = tuple(b for b, _ in pads) + tuple(a for _, a in pads)
    function = getattr(nn, f"conv{name[:2]}_transpose")
    ask.same(
        lambda x, w: function(x, w, strides, padding, extra, dilation, groups),
        lambda x, w: conv_transpose(x, w, strides, pads, extra, dilation, groups),
        normal(*x),
        normal(*w, seed=1),
    )


POOLS = {
    "1d": ((2, 3, 9), (3,), (2,), ((1, 0),)),
    "2d": ((1, 2, 7, 6), (3, 2), (2, 2), ((1, 1), (0, 1))),
    "3d": ((1, 2, 5, 4, 4), (2, 3, 2), (2, 1, 2), ((0, 1), (1, 1), (0, 0))),
}


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("mode", ["max", "mean", "padded"])
@pytest.mark.parametrize("name", POOLS)
def test_pool(ask: Any, name: str, mode: str, ceil: bool) -> None:
    x, kernel, strides, pads = POOLS[name]
    padding = tuple(b for b, _ in pads) + tuple(a for _, a in pads)
    function = getattr(nn, f"{'max' if mode == 'max' else 'avg'}_pool{name}")
    ask.same(
        lambda x: function(x, kernel, strides, padding, 1, ceil, mode == "padded"),
        lambda x: pool(x, kernel, strides, pads, mode, ceil),
        normal(*x),
    )


@pytest.mark.parametrize("size", [(1,), (3,), (4,), (6,)])
def test_adaptive_pool(ask: Any, size: tuple[int]) -> None:
    def wanted(x: Array) -> Array:
        n, m = x.shape[2], size[0]
        parts = [x[:, :, i * n // m : -(-(i + 1) * n // m)].mean(2) for i in range(m)]
        return np.stack(parts, 2)

    ask.same(lambda x: nn.adaptive_avg_pool1d(x, size), wanted, normal(2, 3, 6))


def test_adaptive_pool_in_two_and_three_axes(ask: Any) -> None:
    def wanted(x: Array) -> Array:
        rows = np.stack([x[:, :, i : i + 3].mean(2) for i in (0, 2)], 2)
        return rows.reshape(1, 2, 2, 2, 2).mean(4)

    ask.same(lambda x: nn.adaptive_avg_pool2d(x, (2, 2)), wanted, normal(1, 2, 5, 4))
    ask.same(
        lambda x: nn.adaptive_avg_pool3d(x, (1, 1, 1)),
        lambda x: x.mean((2, 3, 4), keepdims=True),
        normal(1, 2, 3, 4, 2),
    )


def place(mode: str, at: int, old: int, new: int) -> float:
    if mode == "align_corners":
        return at * (old - 1) / (new - 1)
    return at * old / new if mode == "asymmetric" else (at + 0.5) * old / new - 0.5


@pytest.mark.parametrize("size", [(5, 9), (14, 2)])
@pytest.mark.parametrize(
    "mode", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
@pytest.mark.parametrize("method", ["linear", "nearest_neighbor"])
def test_resize(ask: Any, method: str, mode: str, size: tuple[int, int]) -> None:
    def along(x: Array, new: int) -> Array:
        """The first axis resized, one pixel after the other."""
        old, rows = len(x), []
        for i in range(new):
            p = place(mode, i, old, new)
            if method == "linear":
                low = math.floor(p)
                a, b = (x[min(max(k, 0), old - 1)] for k in (low, low + 1))
                rows.append(a + (b - a) * F(p - low))
            else:
                rows.append(x[min(max(math.floor(p + 0.5 - 1e-9), 0), old - 1)])
        return np.array(rows)

    def wanted(x: Array) -> Array:
        tall = along(x.transpose(2, 0, 1, 3), size[0])
        return along(tall.transpose(3, 1, 2, 0), size[1]).transpose(1, 2, 3, 0)

    ask.same(
        lambda x: ops.image.resize2d(
            x,
            size,
            method=method,
            coordinate_transformation_mode=mode,
            rounding_method="round_prefer_floor",
        ),
        wanted,
        normal(1, 2, 7, 4),
    )


def test_every_operator_reads_all_of_its_attributes() -> None:
    from tvm_ffi.core import _lookup_or_register_type_info_from_type_key as type_info

    for name, signature in OPERATORS.items():
        key = tvm.ir.Op.get(f"relax.{name}").attrs_type_key
        # StatisticalAttrs and its like are not stated by the operators that have them.
        if key:
            stated = {field.name for field in type_info(str(key)).fields}
            # Relay's convolutions, which are the same, state these two as well.
            relay = {"channels", "kernel_size"} if name.startswith("nn.conv") else set()
            assert stated == set(signature.attributes) - relay, name


def test_every_operator_is_tested() -> None:
    tested = {name.split()[0] for name in (*MAPS, *FOLDS, *CASES)}
    tested |= {f"nn.conv{name[:2]}{t}" for name in CONVOLUTIONS for t in ("", "_transpose")}
    tested |= {f"nn.{kind}_pool{name}" for kind in ("max", "avg") for name in POOLS}
    tested |= {f"nn.adaptive_avg_pool{n}d" for n in (1, 2, 3)} | {"image.resize2d"}
    more = (Path(__file__).parent / "test_more_operators.py").read_text("utf-8")
    tested |= {name for name in OPERATORS if f"ops.{name}" in more}
    # These have no tensor to compare; test_importer has them.
    untested = {"shape_of", "tensor_to_shape", "wrap_param", "null_value"}
    marks = {"to_vdevice", "hint_on_device", "builtin.stop_lift_params"}
    assert OPERATORS.keys() - tested - marks == untested
