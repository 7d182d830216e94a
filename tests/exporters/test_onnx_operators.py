"""Every operator, and random programs of all of them, through onnxruntime."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from glenside.language import DTYPES, OPERATORS, Term, builders, evaluate, topological_order
from glenside.language.builders import access, compute, tensor
from glenside.language.shape import FLOATS, HALVES, INTEGERS, is_float
from tests.effort import tries
from tests.exporters.running import assert_same, export, operator_types, run
from tests.strategies import INDEX, environment, terms

X = tensor("x", (2, 6, 5))


def _product(dtype: str) -> Term:
    a = access(tensor("a", (2, 3, 4), dtype), 2)
    return builders.cart_prod(a, access(tensor("b", (2, 2, 4), dtype), 2), 1)


EXAMPLES = {
    "tensor": lambda d: [tensor("x", (2, 6, 5), d)],
    "constant": lambda d: [builders.constant(1, (), d), builders.constant(1, (7, 9), d)],
    "access": lambda d: [access(tensor("x", (2, 6, 5), d), n) for n in range(4)],
    "transpose": lambda d: [builders.transpose(tensor("x", (2, 6, 5), d), (2, 0, 1))],
    "cart_prod": lambda d: [_product(d)],
    "pair": lambda d: [builders.pair(*(access(tensor(n, (2, 3), d), 1) for n in "ab"))],
    "windows": lambda d: [
        builders.windows(access(tensor("x", (2, 6, 5), d), 1), *each)
        for each in (
            ((3, 2), (1, 2)),
            ((2, 3), (2, 1), (2, 2)),
            ((3, 5), (3, 1)),  # Tiles one axis, takes the other whole.
            ((1, 2), (4, 2)),
            ((6, 1), (1, 1)),
            ((1, 2), (4, 5), (1, 3)),
        )
    ],
    "slice": lambda d: [builders.slice_(tensor("x", (2, 6, 5), d), 1, 1, 6, 2)],
    "concat": lambda d: [
        builders.concat(1, *(tensor(n, (2, i), d) for i, n in enumerate("abcd"))),
    ],
    "pad": lambda d: [
        builders.pad(tensor("x", (2, 6, 5), d), 1, *each)
        for each in ((1, 2), (0, 3, "lowest"), (1, 0, 1, 2), (0, 0, "zero", 1))
    ]
    + [builders.pad(tensor("empty", (2, 0), d), 1, 1, 1, 1)],
    "squeeze": lambda d: [builders.squeeze(tensor("x", (2, 1, 5), d), 1)],
    "unsqueeze": lambda d: [builders.unsqueeze(tensor("x", (2, 6), d), 1)],
    "broadcast": lambda d: [builders.broadcast(tensor("x", (2, 1, 5), d), (2, 3, 5))],
    "flatten": lambda d: [builders.flatten(access(tensor("x", (2, 6, 5), d), 2))],
    "reshape": lambda d: [builders.reshape(access(tensor("x", (2, 6, 5), d), 1), (2,), (3, 10))],
    "gather": lambda d: [
        builders.gather(tensor("x", (2, 6, 5), d), tensor(f"{INDEX}6-{i}", (2, 3), i), 1)
        for i in INTEGERS
    ],
    "cast": lambda d: [builders.cast(tensor("x", (2, 6), d), each) for each in DTYPES],
    "where": lambda d: [
        builders.where(tensor("c", (2, 3), "bool"), *(tensor(n, (2, 3), d) for n in "ab"))
    ],
    "compute": lambda d: [compute("max", access(tensor("x", (2, 6), d), 1))],
    "call": lambda d: [
        builders.call(
            "systolic-array", (4, 3),
            access(tensor("x", (5, 4), d), 1), access(tensor("w", (4, 3), d), 0),
        )
    ],
    "blocked": lambda d: [
        builders.blocked("systolic-array", (4, 3), *_product(d).children, batch=1)
    ],
    "host_op": lambda d: [builders.host_op("Identity", [tensor("x", (2, 3), d)], (2, 3), d,
                                           version=14)],
}  # fmt: skip


def test_every_operator_has_an_example() -> None:
    assert EXAMPLES.keys() == OPERATORS.keys()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", EXAMPLES)
def test_operator(operator: str, dtype: str) -> None:
    if dtype == "bool" and operator in ("call", "blocked"):
        pytest.skip("units do not multiply bools")
    roots = EXAMPLES[operator](dtype)
    assert_same(roots, environment(roots))


@settings(max_examples=tries(150), suppress_health_check=list(HealthCheck))
@given(terms())
def test_random_programs(term: Term) -> None:
    # Rounding grows when a sum cancels or a float16 overflows on the way; both are looked past.
    env = environment([term])
    right = evaluate([term], env)[0]
    (got,) = run(export(term), env)
    assert (got.dtype, got.shape) == (right.dtype, right.shape)
    if not is_float(right.dtype):
        # An error before a rounding to integers or a comparison may be one step of it.
        exact = all(each.dtype not in FLOATS for each in topological_order([term]))
        assert not right.size or np.mean(got == right) >= (1.0 if exact else 0.9)
        return
    finite = np.isfinite(right) & np.isfinite(got)
    assert np.array_equal(np.isnan(got), np.isnan(right)) or right.dtype.name in HALVES
    scale = float(np.abs(right[finite].astype("float64")).max(initial=1.0))
    worst = np.abs(got[finite].astype("float64") - right[finite].astype("float64"))
    worst = worst.max(initial=0.0)
    assert worst <= scale * {"float16": 3e-2, "bfloat16": 2e-1}.get(right.dtype.name, 1e-4)


def test_windows_do_not_gather_what_reshape_and_slice_do() -> None:
    tiles = builders.windows(access(X, 1), (3, 5), (3, 1))
    assert operator_types(export(tiles)) == ["Reshape", "Transpose"]
    points = builders.windows(access(X, 1), (1, 1), (2, 2))
    assert "Gather" not in operator_types(export(points))


def test_chains_of_reshapes_are_one() -> None:
    x = builders.flatten(access(X, 1))
    x = builders.unsqueeze(builders.reshape(x, (2,), (5, 6)), 0)
    assert operator_types(export(x)) == ["Reshape"]
    assert operator_types(export(builders.squeeze(builders.unsqueeze(X, 0), 0))) == ["Identity"]


def test_a_product_is_seen_through_reshapes_and_transposes() -> None:
    a, b = access(tensor("a", (2, 3, 4, 2)), 2), access(tensor("b", (5, 4, 2)), 1)
    product = builders.cart_prod(a, b)
    moved = builders.transpose(product, (2, 0, 1, 3, 5, 4))
    flat = builders.reshape(moved, (10, 3), (2, 8))
    roots = [compute("dot", flat)]
    model = assert_same(roots, environment(roots))
    assert "Concat" not in operator_types(model)
    assert operator_types(model).count("MatMul") == 1
    # Here the tuple axis moves, so the product has to be built.
    mixed = builders.transpose(product, (0, 1, 2, 4, 3, 5))
    roots = [compute("dot", mixed)]
    assert "Concat" in operator_types(assert_same(roots, environment(roots)))


def test_bias_is_broadcast_by_the_addition() -> None:
    total = builders.elementwise("add", X, builders.unsqueeze(tensor("b", (6,)), 1))
    assert operator_types(assert_same([total], environment([total]))) == ["Reshape", "Add"]


def test_a_pair_of_broadcasts_keeps_its_shape() -> None:
    one = builders.broadcast(tensor("a", (1, 3)), (4, 3))
    other = builders.broadcast(tensor("b", (1, 1)), (4, 3))
    sums = [
        compute(f, builders.pair(access(one, 0), access(other, 0)))
        for f in ("add", "less", "div", "mod")
    ]
    assert_same(sums, environment(sums))


def test_nested_concatenations_are_one() -> None:
    whole = builders.concat(1, *(tensor(f"x{i}", (2, 2)) for i in range(50)))
    assert operator_types(assert_same([whole], environment([whole]))) == ["Concat"]


def test_max_pool() -> None:
    padded = builders.pad(builders.pad(X, 1, 1, 1, "lowest"), 2, 1, 1, "lowest")
    pooled = compute("max", builders.windows(access(padded, 1), (3, 3), (2, 2)))
    assert_same([pooled], environment([pooled]))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolution(groups: int) -> None:
    data, weights = tensor("x", (2, 4, 7, 6)), tensor("w", (8, 4 // groups, 3, 2))
    padded = builders.pad(builders.pad(data, 2, 1, 1), 3, 0, 1)
    split = builders.reshape(padded, (2, groups, 4 // groups, 9, 7))
    windows = builders.windows(
        access(builders.transpose(split, (1, 0, 2, 3, 4)), 2), (4 // groups, 3, 2), (1, 2, 1)
    )
    windows = builders.squeeze(windows, 2)
    by_group = builders.reshape(weights, (groups, 8 // groups, 4 // groups, 3, 2))
    dot = compute("dot", builders.cart_prod(access(by_group, 2), windows, 1))
    out = builders.reshape(builders.transpose(dot, (2, 0, 1, 3, 4)), (2, 8, 4, 6))
    env = environment([out])
    model = assert_same([out], env)
    assert "Concat" not in operator_types(model)
    reference = builders.host_op(
        "Conv", [data, weights], (2, 8, 4, 6), version=11,
        attributes=f'{{"group": {groups}, "pads": [1, 0, 1, 1], "strides": [2, 1]}}',
    )  # fmt: skip
    np.testing.assert_allclose(run(model, env)[0], evaluate([reference], env)[0], rtol=1e-5)


def test_large_product_is_not_built() -> None:
    # The pairs would take 8 GB.
    a, b = access(tensor("a", (1000, 1000)), 1), access(tensor("b", (1000, 1000)), 1)
    model = export(compute("dot", builders.cart_prod(a, b)))
    assert operator_types(model) == ["Gemm"]
    ones = np.ones((1000, 1000), "float32")
    assert (run(model, {"a": ones, "b": ones})[0] == 1000).all()


def test_chain_of_ten_thousand() -> None:
    x = tensor("x", (3,))
    for i in range(10_000):
        x = compute("neg" if i % 3 else "relu", access(x, i % 2))
    model = export(x)
    assert len(model.graph.node) == 10_000
    assert math.isfinite(float(run(model, {"x": np.ones(3, "float32")})[0].sum()))
