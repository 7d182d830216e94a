"""The NumPy interpreter: values, contraction without building, memory, and wrong environments."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glenside.errors import InputError
from glenside.language import OPERATORS, builders, evaluate, interpreter, topological_order, trace
from glenside.language.builders import access, cart_prod, compute, pair, reshape, tensor
from glenside.language.interpreter import matrix_product
from glenside.language.shape import FLOATS, INTEGERS, NUMBERS
from tests.strategies import environment, shapes, terms

x = tensor("x", (2, 3))
X = np.arange(6, dtype="float32").reshape(2, 3)


def term_by_term(term, env):
    """The value of a term by the operators' own meanings alone: nothing is contracted."""
    values = {}
    for each in topological_order([term]):
        if each.op == "tensor":
            values[each] = np.asarray(env[each["name"]])
            continue
        arrays = [values[child] for child in each.children]
        types = tuple(child.type for child in each.children)
        with np.errstate(all="ignore"):
            values[each] = each.operator.evaluate(arrays, types, each.attributes)
    return values[term]


def assert_close(actual, expected, dtype):
    if dtype in FLOATS:
        eps = float(ml_dtypes.finfo(dtype).eps)
        np.testing.assert_allclose(actual, expected, rtol=50 * eps, atol=50 * eps)
    else:
        np.testing.assert_array_equal(actual, expected)


# --- values -------------------------------------------------------------------------------------


@given(terms(most=8), st.integers(0, 9))
def test_a_value_has_the_type_its_term_says(term, seed):
    (result,) = evaluate([term], environment([term], seed))
    assert result.shape == term.shape
    assert result.dtype == term.dtype
    assert result.flags.c_contiguous
    assert result.flags.writeable


EXACT = [name for name in OPERATORS if name not in ("cast", "compute", "call", "blocked")]


@given(terms([*EXACT, "cart_prod", "reshape", "pair"], most=8), st.integers(0, 9))
def test_transformers_give_the_bits_their_meanings_give(term, seed):
    env = environment([term], seed)
    got, right = evaluate([term], env)[0], term_by_term(term, env)
    if term.dtype == "bfloat16":  # Of which NumPy does not know that NaN is NaN.
        got, right = got.astype("float32"), right.astype("float32")
    np.testing.assert_array_equal(got, right)


def test_several_values_at_once_in_order_and_with_repetitions():
    a, b = compute("neg", x), access(x, 1)
    results = evaluate([a, x, b, a], {"x": X})
    for result, expected in zip(results, (-X, X, X, -X), strict=True):
        np.testing.assert_array_equal(result, expected)
    assert evaluate([], {}) == []


def test_results_are_copies_which_may_be_written_to():
    env = {"x": X.copy()}
    result, other = evaluate([x, access(x, 1)], env)
    result[:] = 7
    np.testing.assert_array_equal(env["x"], X)
    np.testing.assert_array_equal(other, X)


def test_operands_may_be_lists_views_and_broadcasts():
    flags = tensor("b", (2,), "bool")
    np.testing.assert_array_equal(evaluate([flags], {"b": [True, False]})[0], [True, False])
    np.testing.assert_array_equal(evaluate([x], {"x": X.T.copy().T})[0], X)
    np.testing.assert_array_equal(
        evaluate([x], {"x": np.broadcast_to(np.float32(1), (2, 3))})[0], np.ones((2, 3))
    )


def test_shared_terms_are_computed_once():
    term = tensor("s", (), "float64")
    for _ in range(100):
        term = compute("add", pair(term, term))
    seen = []
    (result,) = evaluate(
        [term], {"s": np.float64(1)}, lambda done, total: seen.append((done, total))
    )
    assert result == 2.0**100
    assert seen == [(i, 201) for i in range(1, 202)]


def test_trace_gives_every_value_but_the_products():
    a = access(x, 1)
    term = compute("dot", cart_prod(a, a))
    seen = dict(trace([term], {"x": X}))
    assert set(seen) == {x, a, term}
    np.testing.assert_array_equal(seen[term], X @ X.T)


# --- products -----------------------------------------------------------------------------------


@st.composite
def products(draw, dtypes=NUMBERS):
    """A dot of a cart_prod, perhaps through a reshape that keeps the tuple axis in front."""
    dtype = draw(st.sampled_from(dtypes))
    item, batch = draw(shapes(most=2)), draw(shapes(most=1))
    p, q = draw(shapes(most=2)), draw(shapes(most=2))
    left = access(tensor("left", batch + p + item, dtype), len(batch + p))
    right = access(tensor("right", batch + q + item, dtype), len(batch + q))
    product = cart_prod(left, right, len(batch))
    for _ in range(draw(st.integers(0, 2))):
        outer = draw(st.permutations(product.outer))
        product = reshape(product, outer, (2, *draw(st.permutations(product.item[1:])), 1))
    accumulate = draw(st.sampled_from((None, *dtypes)))
    return compute("dot", product, accumulate)


@given(products(), st.integers(0, 9))
def test_a_contracted_product_is_the_dot_of_the_built_one(term, seed):
    env = environment([term], seed)
    assert_close(evaluate([term], env)[0], term_by_term(term, env), term.dtype)


@given(products(INTEGERS), st.integers(0, 9))
def test_integer_products_wrap_around_alike_at_any_size(term, seed):
    rng = np.random.default_rng(seed)
    leaves = [each for each in topological_order([term]) if each.op == "tensor"]
    env = {
        leaf["name"]: rng.integers(0, 2**64, leaf.shape, "uint64").astype(leaf.dtype)
        for leaf in leaves
    }
    got, right = evaluate([term], env)[0], term_by_term(term, env)
    if term.dtype == "bfloat16":  # Of which NumPy does not know that NaN is NaN.
        got, right = got.astype("float32"), right.astype("float32")
    np.testing.assert_array_equal(got, right)


def test_a_product_that_is_asked_for_is_built():
    a, b = access(x, 1), access(tensor("y", (4, 3)), 1)
    product = cart_prod(a, b)
    again = reshape(product, (8,), (2, 3))
    env = {"x": X, "y": np.arange(12, dtype="float32").reshape(4, 3)}
    built, flat, dot = evaluate([product, again, compute("dot", again)], env)
    assert built.shape == (2, 4, 2, 3)
    np.testing.assert_array_equal(built.reshape(8, 2, 3), flat)
    np.testing.assert_allclose(flat.prod(1).sum(1), dot)


def test_a_product_under_another_operator_is_built():
    a = access(x, 1)
    product = cart_prod(a, a)
    env = {"x": X}
    built = evaluate([product], env)[0]
    sums = compute("sum", product)
    np.testing.assert_array_equal(evaluate([sums], env)[0], built.sum((2, 3)))
    crossing = reshape(product, (2, 2), (3, 2))
    np.testing.assert_array_equal(evaluate([crossing], env)[0], built.reshape(2, 2, 3, 2))
    dot = compute("dot", crossing)
    np.testing.assert_array_equal(evaluate([dot], env)[0], term_by_term(dot, env))
    nested = cart_prod(product, product)
    np.testing.assert_array_equal(evaluate([nested], env)[0], term_by_term(nested, env))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_the_dot_of_a_product_is_never_built(dtype):
    a = access(tensor("a", (1000, 4000), dtype), 1)
    b = access(tensor("b", (1000, 4000), dtype), 1)
    product = reshape(cart_prod(a, b), (10, 100, 1000), (2, 4, 1000))
    assert product.type.size == 8 * 10**9
    env = {name: np.ones((1000, 4000), dtype) for name in "ab"}
    tracemalloc.start()
    (result,) = evaluate([compute("dot", product, "int32" if dtype == "int8" else None)], env)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.shape == (10, 100, 1000)
    assert (result == 4000).all()
    assert peak < 200 * 10**6


def test_matrix_product_of_large_integers_wraps_around():
    a = np.array([[2**62, 3], [-(2**63), 2**40]], "int64")
    exact = [
        [sum(p * q for p, q in zip(r, c, strict=True)) for c in a.T.tolist()] for r in a.tolist()
    ]
    wrapped = [[(n + 2**63) % 2**64 - 2**63 for n in row] for row in exact]
    np.testing.assert_array_equal(matrix_product(a, a, "int64"), wrapped)


def test_matrix_product_of_integers_is_exact_beyond_the_integers_of_float64():
    a = np.array([[2**28 + 1]], "int64")
    assert matrix_product(a, a, "int64") == 2**56 + 2**29 + 1


def test_matrix_product_of_halves_rounds_once():
    a = np.array([[300.0, 300.0]], "float16")
    b = np.array([[300.0], [-299.0]], "float16")
    assert matrix_product(a, b, "float16") == 300


def test_no_warning_comes_of_overflow_or_nan(recwarn):
    a = access(x, 1)
    large = np.full((2, 3), 1e38, "float32")
    nothing = np.full((2, 3), np.nan, "float32")
    evaluate([compute("dot", cart_prod(a, a)), compute("exp", x)], {"x": large})
    evaluate([compute("dot", cart_prod(a, a), "int8"), builders.cast(x, "int8")], {"x": nothing})
    evaluate([builders.constant(1e300), builders.pad(x, 0, 1, 1, 1e300)], {"x": X})
    assert not recwarn.list


# --- memory -------------------------------------------------------------------------------------


def test_values_are_freed_after_their_last_use():
    big = tensor("big", (1_000_000,))
    term = big
    for _ in range(30):
        term = compute("neg", term)
    env = {"big": np.ones(1_000_000, "float32")}
    tracemalloc.start()
    evaluate([term], env)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * big.type.nbytes


def test_values_nobody_uses_are_freed_while_tracing():
    big = tensor("big", (1_000_000,))
    roots = [compute("neg", builders.pad(big, 0, 0, i)) for i in range(1, 20)]
    env = {"big": np.ones(1_000_000, "float32")}
    tracemalloc.start()
    for _ in trace(roots, env):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * big.type.nbytes


# --- wrong environments -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({}, "no value was given for tensor 'x' of ((2 3) ()) float32"),
        ({"y": X}, "no value was given for tensor 'x'"),
        ({"x": X.T}, "tensor 'x' is float32 of shape (2, 3), got float32 of shape (3, 2)"),
        ({"x": X[0]}, "got float32 of shape (3,)"),
        ({"x": X.astype("float64")}, "tensor 'x' is float32 of shape (2, 3), got float64"),
        ({"x": X > 0}, "got bool of shape (2, 3)"),
        ({"x": [[1, 2], [3]]}, "tensor 'x': not an array"),
        ({"x": None}, "got object of shape ()"),
        ({"x": "abc"}, "tensor 'x' is float32 of shape (2, 3), got str"),
    ],
)
def test_a_wrong_value_is_an_input_error_naming_the_tensor(env, says):
    with pytest.raises(InputError) as caught:
        evaluate([compute("neg", x)], env)
    assert says in str(caught.value)


def test_other_values_in_the_environment_do_not_matter():
    np.testing.assert_array_equal(evaluate([x], {"x": X, "more": object()})[0], X)


@pytest.mark.parametrize("dtype", ["float64", "int8"])
@pytest.mark.parametrize("long", ["left", "right"])
def test_a_product_of_large_windows_is_formed_a_few_rows_at_a_time(dtype, long, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (2, 3, 9, 8)).astype(dtype)
    w = rng.integers(-128, 128, (2, 5, 3, 2, 2)).astype(dtype)
    looks = builders.windows(
        builders.access(builders.tensor("x", x.shape, dtype), 1), (3, 2, 2), (1, 1, 1)
    )
    operands = [access(tensor("w", w.shape, dtype), 2), builders.squeeze(looks, 1)]
    if long == "left":
        operands.reverse()
    accumulate = "int16" if dtype == "int8" else None  # Which wraps around.
    term = builders.compute("dot", builders.cart_prod(*operands, batch=1), accumulate)
    env = {"x": x, "w": w}
    seen = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))  # (g, c, h, w, 2, 2)
    right = np.einsum("gochw,gcyxhw->goyx", w.astype("int64"), seen.astype("int64"))
    right = (right if long == "right" else right.transpose(0, 2, 3, 1)).astype(term.dtype)
    for at_once in (1, 200, 1 << 25):
        monkeypatch.setattr(interpreter, "_AT_ONCE", at_once)
        np.testing.assert_array_equal(evaluate([term], env)[0], right)
