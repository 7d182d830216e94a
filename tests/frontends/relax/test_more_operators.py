"""Bounds, infinities, order, scatters and losses: against NumPy, and TVM's own compiled module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from glenside.errors import InputError, ModelError, UnsupportedOperator
from glenside.frontends.relax import import_relax
from glenside.frontends.relax.operators import OPERATORS, REFUSED

Array = np.ndarray[Any, Any]
ops = relax.op
F = np.float32
X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(F)


def compiled(module: Any, *arrays: Array) -> Array:
    """What TVM itself makes of a module."""
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    return machine["main"](*(tvm.runtime.tensor(each) for each in arrays)).numpy()


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(("low", "high"), [(2, -2), (-2, 2), (-300, 3), (200, 300)])
def test_clip_with_bounds_that_cross_or_lie_outside(
    ask: Any, dtype: str, low: int, high: int
) -> None:
    x = np.array([-5, 0, 5], dtype)
    limits = np.iinfo(dtype) if dtype == "int8" else np.finfo(dtype)
    low_, high_ = (min(max(bound, limits.min), limits.max) for bound in (low, high))

    def build(x: Any) -> Any:
        return ops.clip(x, low, high)

    def wanted(x: Array) -> Array:
        return np.maximum(np.minimum(x.astype("float64"), high_), low_).astype(dtype)

    ask.same(build, wanted, x)
    if low >= -128 and high <= 127:
        np.testing.assert_array_equal(compiled(ask.module_of(build, x), x), wanted(x))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("int32", (2, 3)), ("int8", (1, 200)), ("uint8", (1, 3)), ("int64", (2, 2))],
)
def test_means_of_integers_are_sums_in_their_dtype_divided_toward_zero(
    ask: Any, dtype: str, shape: tuple[int, ...]
) -> None:
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(dtype) + np.array(100, dtype)

    def mean(x: Array) -> Array:
        total = x.sum(1, dtype=dtype).astype("int64")
        return np.trunc(total / x.shape[1]).astype(dtype)

    def variance(x: Array) -> Array:
        centred = x - mean(x)[:, None]
        return mean(centred * centred)

    for build, wanted in ((ops.mean, mean), (ops.variance, variance)):
        ask.same(lambda x, build=build: build(x, 1), wanted, x)
        given = compiled(ask.module_of(lambda x, build=build: build(x, 1), x), x)
        if build is ops.mean:  # TVM's own result is int64, whatever the type that it states.
            np.testing.assert_array_equal(given, wanted(x))


def test_log_add_exp_of_infinities(ask: Any) -> None:
    a = np.array([-np.inf, np.inf, -np.inf, 3, 1000, -1000, np.inf], F)
    b = np.array([-np.inf, np.inf, 2, -np.inf, 1000, -1001, -np.inf], F)
    ask.same(ops.log_add_exp, np.logaddexp, a, b)


@pytest.mark.parametrize("descending", [True, False])
def test_order_of_equal_elements(ask: Any, descending: bool) -> None:
    x = np.array([[3, 1, 3, 2], [0, 0, 5, 5]], F)
    order = np.argsort(-x if descending else x, 1, kind="stable").astype("int32")
    ask.same(lambda x: ops.argsort(x, 1, descending), lambda x: order, x)
    ask.same(lambda x: ops.sort(x, 1, descending), lambda x: np.take_along_axis(x, order, 1), x)
    ask.same(
        lambda x: ops.topk(x, 2, 1, "values", descending),
        lambda x: np.take_along_axis(x, order, 1)[:, :2],
        x,
    )


def test_bucketize(ask: Any) -> None:
    edges = np.array([0, 1, 2], F)
    x = np.array([[-1, 0, 1.5], [2, 3, 0.5]], F)
    for right in (False, True):
        side: Any = "right" if right else "left"
        ask.same(
            lambda x, e, right=right: ops.bucketize(x, e, False, right),
            lambda x, e, side=side: np.searchsorted(e, x, side),
            x,
            edges,
        )


def test_index_tensor_and_index_put(ask: Any) -> None:
    i, j = np.array([[0], [1]]), np.array([[2, 0, -1]])
    ask.same(lambda x, i, j: ops.index_tensor(x, [i, j]), lambda x, i, j: x[i, j], X, i, j)
    plane = X[0].copy()
    i, j = np.array([[0], [1]]), np.array([[2, 0, 3]])
    values = np.arange(6, dtype=F).reshape(2, 3)

    def put(x: Array, i: Array, j: Array, v: Array) -> Array:
        result = x.copy()
        result[i, j] = v
        return result

    ask.same(lambda x, i, j, v: ops.index_put(x, (i, j), v), put, plane, i, j, values)

    def added(x: Array, i: Array, j: Array, v: Array) -> Array:
        result = x.copy()
        np.add.at(result, (i, j), v)
        return result

    twice = np.array([[2, 2, 0]])
    ask.same(lambda x, i, j, v: ops.index_put(x, (i, j), v, True), added, plane, i, twice, values)


def test_scatters(ask: Any) -> None:
    i = np.array([[[0, 2, 1, 0]], [[2, 2, 0, 1]]])
    u = np.arange(8, dtype=F).reshape(2, 1, 4)

    def elements(x: Array, i: Array, u: Array) -> Array:
        result = x.copy()
        np.put_along_axis(result, i, u, 1)
        return result

    ask.same(lambda x, i, u: ops.scatter_elements(x, i, u, 1), elements, X, i, u)
    n, rows = np.array([[0, 1], [0, 1]]), np.arange(8, dtype=F).reshape(2, 4)

    def added(x: Array, n: Array, u: Array) -> Array:
        result = x.copy()
        np.add.at(result, (n[:, 0], n[:, 1]), u)
        return result

    ask.same(lambda x, n, u: ops.scatter_nd(x, n, u, "add"), added, X, n, rows)
    part = np.ones((2, 1, 4), F)

    def sliced(x: Array, p: Array) -> Array:
        result = x.copy()
        result[:, 1:3:2] = p
        return result

    ask.same(lambda x, p: ops.slice_scatter(x, p, 1, 3, 2, 1), sliced, X, part)


OUTSIDE: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "take": (lambda x, i: ops.take(x, i, 1), [3, 0], "-3 to 2 along axis 1"),
    "gather": (lambda x, i: ops.gather_elements(x, i, 2), [[[-5]]], "-4 to 3 along axis 2"),
    "tuples": (lambda x, i: ops.gather_nd(x, i), [[0, 3]], "-3 to 2 along axis 1"),
    "batches": (lambda x, i: ops.gather_nd(x, i, 1), [[[0, 4]], [[2, 3]]], "-4 to 3 along axis 2"),
    "index": (lambda x, i: ops.index_tensor(x, [i, i]), [1, 2], "-2 to 1 along axis 0"),
    "put": (
        lambda x, i: ops.index_put(x, (i, i, i), ops.full((2,), relax.const(F(1)), "float32")),
        [0, 2],
        "-2 to 1 along axis 0",
    ),
    "scatter": (lambda x, i: ops.scatter_elements(x, i, x, 1), [[[3] * 4] * 3] * 2, "-3 to 2"),
    "scatter tuples": (lambda x, i: ops.scatter_nd(x, i, x), [[0], [2]], "-2 to 1 along axis 0"),
    "loss": (
        lambda x, i: ops.nn.nll_loss(x, i, reduction="sum"),
        [[0] * 4, [0, 3, 0, 0]],
        "targets from 0 to 2",
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("known", [False, True])
def test_positions_outside_are_errors(ask: Any, name: str, known: bool) -> None:
    build, positions, says = OUTSIDE[name]
    i = np.array(positions)
    if known:
        module = ask.module_of(lambda x: build(x, relax.const(i, "int64")), X)
        with pytest.raises(ModelError, match=rf"^\w+ \([\w.]+\): takes .*{says}.*, got -?[2-5]"):
            import_relax(module)
        return
    model = import_relax(ask.module_of(build, X, i))
    told = rf"^input 'x1': \w+ \([\w.]+\) takes .*{says}.*, got -?[2-5]"
    with pytest.raises(InputError, match=told):
        for each in model.requirements:
            each.check({"x0": X, "x1": i})


@pytest.mark.parametrize("mode", ["clip", "wrap", "nan"])
def test_modes_say_what_positions_outside_give(ask: Any, mode: str) -> None:
    i = np.array([0, 2, 3, -1, -4, 9])
    module = ask.module_of(lambda x, i: ops.take(x, i, 1, mode=mode), X, i)
    brought = {"clip": np.clip(i, 0, 2), "wrap": i % 3, "nan": np.clip(i, 0, 2)}[mode]
    wanted = X[:, brought]
    if mode == "nan":
        wanted[:, (i < 0) | (i > 2)] = np.nan
    model = import_relax(module)
    assert model.requirements == ()
    np.testing.assert_array_equal(ask.run(model, X, i)[0], wanted)
    np.testing.assert_array_equal(compiled(module, X, i), wanted)


def test_gather_nd_with_batches(ask: Any) -> None:
    i = np.array([[[0, 1], [2, -1]], [[1, 3], [0, 0]]])

    def wanted(x: Array, i: Array) -> Array:
        return np.stack([row[at[:, 0], at[:, 1]] for row, at in zip(x, i, strict=True)])

    ask.same(lambda x, i: ops.gather_nd(x, i, 1), wanted, X, i)


def test_reverse_sequence(ask: Any) -> None:
    lengths = np.array([2, 3])

    def wanted(x: Array, lengths: Array) -> Array:
        result = x.copy()
        for row, length in enumerate(lengths):
            result[row, :length] = x[row, :length][::-1]
        return result

    ask.same(lambda x, n: ops.reverse_sequence(x, n, 1, 0), wanted, X, lengths)


def test_einsum(ask: Any) -> None:
    y = X[:, :, :2].copy()
    ask.same(
        lambda x, y: ops.einsum((x, y), "bij,bik->bjk"),
        lambda x, y: np.einsum("bij,bik->bjk", x, y),
        X,
        y,
    )


def test_losses(ask: Any) -> None:
    y, w = np.array([[0, 2, 1, 1], [2, 1, 0, 2]]), np.array([1, 2, 3], F)

    def loss(x: Array, y: Array, w: Array) -> Array:
        share = np.where(y == 1, 0, w[y])
        return (-np.take_along_axis(x, y[:, None], 1)[:, 0] * share).sum() / share.sum()

    ask.same(lambda x, y, w: ops.nn.nll_loss(x, y, w, "mean", 1), loss, X, y, w)
    p, t = X[0], np.abs(X[1])
    ask.same(ops.nn.cross_entropy_with_logits, lambda p, t: np.asarray(-(p * t).sum() / 3, F), p, t)


def test_resize3d(ask: Any) -> None:
    x = X[None, None].copy()
    ask.same(
        lambda x: ops.image.resize3d(
            x, (4, 3, 4), method="nearest_neighbor", coordinate_transformation_mode="asymmetric"
        ),
        lambda x: x.repeat(2, 2),
        x,
    )


def test_every_operator_is_either_imported_or_refused() -> None:
    names = {str(name) for name in tvm.ir.Op.list_op_names()}
    registered = {name.removeprefix("relax.") for name in names if name.startswith("relax.")}
    # Calls of TIR functions are read by what they say they compute.
    assert OPERATORS.keys() | REFUSED.keys() == registered - {"call_tir"}
    assert not OPERATORS.keys() & REFUSED.keys()


def test_a_refusal_says_why(ask: Any) -> None:
    build: Callable[..., Any] = lambda x: ops.median(x, 1)  # noqa: E731
    with pytest.raises(UnsupportedOperator) as caught:
        import_relax(ask.module_of(build, X))
    assert caught.value.nodes[0].reason == REFUSED["median"]
