"""Every function of ``compute`` on every dtype, through onnxruntime, against the interpreter."""

import warnings

import numpy as np
import pytest

from glenside.language import FUNCTIONS, Term, builders
from glenside.language.builders import access, compute, tensor
from glenside.language.shape import FLOATS
from tests.exporters.running import assert_same

EDGES = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.46875, 1e-5, -1e-30,
    7.0, 6e4, -1e10,
)  # fmt: skip
BY_KIND = {
    kind: [f.name for f in FUNCTIONS.values() if f.kind == kind]
    for kind in ("map", "fold", "reduce", "vector")
}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Overflow is what is being tested.
        yield


def edges(dtype: str, size: int, seed: int = 0) -> np.ndarray:
    """The extremes of a dtype, then small and large values mixed."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, size).astype(bool)
    if dtype in FLOATS:
        values = 3 * rng.standard_normal(size)
        values[: len(EDGES)] = EDGES[:size]
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    small = rng.integers(-6 if limits.min else 0, 9, size)
    large = rng.integers(limits.min, limits.max, size, dtype=dtype, endpoint=True)
    values = np.where(rng.integers(0, 2, size) == 1, small.astype(dtype), large)
    values[:5] = [limits.min, limits.max, 0, 1, np.array(-1).astype(dtype)]
    return values


def plain(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Floats without infinities, so that sums in another order agree; other dtypes as edges."""
    if dtype in FLOATS:
        return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return edges(dtype, int(np.prod(shape)), seed).reshape(shape)


@pytest.mark.parametrize("name", BY_KIND["map"])
def test_map(name: str) -> None:
    for dtype in FUNCTIONS[name].domain:
        term = compute(name, access(tensor("x", (40,), dtype), 0))
        assert_same([term], {"x": edges(dtype, 40)})


@pytest.mark.parametrize("name", BY_KIND["fold"])
def test_fold_of_a_pair(name: str) -> None:
    for dtype in FUNCTIONS[name].domain:
        a, b = edges(dtype, 18), edges(dtype, 18, 1)
        x, y = (access(tensor(each, (18, 18), dtype), 1) for each in "ab")
        env = {"a": np.repeat(a, 18).reshape(18, 18), "b": np.tile(b, (18, 1))}
        model = assert_same([compute(name, builders.pair(x, y))], env)
        assert not any(node.op_type == "Concat" for node in model.graph.node)


@pytest.mark.parametrize("name", [n for n in BY_KIND["fold"] if FUNCTIONS[n].arity is None])
@pytest.mark.parametrize("count", [1, 3])
def test_fold_of_any_number_of_slices(name: str, count: int) -> None:
    for dtype in FUNCTIONS[name].domain:
        term = compute(name, access(tensor("x", (2, count, 20), dtype), 1))
        assert_same([term], {"x": edges(dtype, 40 * count).reshape(2, count, 20)})


@pytest.mark.parametrize("name", ["div", "mod", "fmod", "pow", "mul", "maximum", "less"])
@pytest.mark.parametrize("number", [0, 1, 2, 7])
def test_fold_with_a_number(name: str, number: int) -> None:
    for dtype in FUNCTIONS[name].domain:
        if dtype == "bool":
            continue
        term = builders.elementwise(
            name, tensor("x", (2, 20), dtype), builders.constant(number, (), dtype)
        )
        model = assert_same([term], {"x": edges(dtype, 40).reshape(2, 20)})
        assert "Expand" not in [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("name", BY_KIND["reduce"])
def test_reduction(name: str) -> None:
    function = FUNCTIONS[name]
    for dtype in function.domain:
        if name == "dot":
            x, array = access(tensor("x", (3, 3, 5), dtype), 1), plain(dtype, (3, 3, 5))
        else:
            x, array = access(tensor("x", (5, 9), dtype), 1), plain(dtype, (5, 9))
        terms = [compute(name, x)]
        if function.accumulates:
            terms += [compute(name, x, each) for each in function.domain if _exact(dtype, each)]
        assert_same(terms, {"x": array})


def _exact(dtype: str, accumulate: str) -> bool:
    """Floats outside an integer type have no value there, large integers cancel in floats."""
    small = dtype in ("int8", "uint8") and accumulate in ("float32", "float64")
    return small or (dtype in FLOATS) == (accumulate in FLOATS)


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
def test_extremes_of_floats_with_nan_and_of_the_widest_integers(name: str) -> None:
    for dtype in (*FLOATS, "int64", "uint64"):
        array = edges(dtype, 64).reshape(8, 8)
        assert_same([compute(name, access(tensor("x", (8, 8), dtype), 1))], {"x": array})


@pytest.mark.parametrize("name", BY_KIND["vector"])
def test_vector(name: str) -> None:
    for dtype in FUNCTIONS[name].domain:
        term = compute(name, access(tensor("x", (3, 6), dtype), 1))
        assert_same([term], {"x": plain(dtype, (3, 6)) * np.array(20, dtype)})


@pytest.mark.parametrize("dtype", FUNCTIONS["dot"].domain)
def test_dot_of_a_product_is_a_matrix_product(dtype: str) -> None:
    def operands(batch: int) -> tuple[Term, Term]:
        return (
            access(tensor("a", (2, 3, 4), dtype), 2),
            access(tensor("b", (2, 5, 4)[1 - batch :], dtype), 1 + batch),
        )

    for batch in (0, 1):
        a, b = operands(batch)
        terms = [
            compute("dot", builders.cart_prod(a, b, batch), each)
            for each in (None, *FUNCTIONS["dot"].domain)
            if each is None or _exact(dtype, each)
        ]
        env = {"a": plain(dtype, a.shape), "b": plain(dtype, b.shape, 1)}
        model = assert_same(terms, env)
        used = [node.op_type for node in model.graph.node]
        assert used.count("MatMul") == len(set(terms))
        assert "Expand" not in used and "Concat" not in used


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "dot"])
def test_reduction_of_nothing(name: str) -> None:
    for dtype in FUNCTIONS[name].domain:
        shape = (3, 2, 0, 2) if name == "dot" else (3, 0, 2)
        term = compute(name, access(tensor("x", shape, dtype), 1))
        assert_same([term], {"x": np.zeros(shape, dtype)})
