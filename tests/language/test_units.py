"""Accelerator units: the registry, one invocation, and products in passes of any size."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glenside.errors import ShapeError
from glenside.language import Unit, builders, evaluate, find_unit, invocation, register_unit, units
from glenside.language.builders import access, blocked, call, cart_prod, compute, tensor
from glenside.language.shape import FLOATS, INTEGERS, NUMBERS
from tests.strategies import environment, shapes


@pytest.fixture(autouse=True)
def known():
    """What a test registers is gone after it; all begin with a multiplier."""
    with invocation.forgetting() as known:
        multiplier()
        yield known


def multiplier(simulate=None, name="multiplier"):
    """A matrix unit of parameters (rows, columns)."""

    def meaning(parameters, operands):
        stream, weights = operands
        return compute("dot", cart_prod(stream, access(builders.transpose(weights, (1, 0)), 1)))

    return register_unit(Unit(name, meaning, simulate, array=lambda p: (p[0], p[1])))


def matmul(parameters, arrays):
    """A simulator that is exact for integers."""
    return arrays[0] @ arrays[1]


# --- the registry -------------------------------------------------------------------------------


def test_a_unit_is_found_by_its_name():
    unit = multiplier()
    assert find_unit("multiplier") is unit
    replaced = multiplier()
    assert find_unit("multiplier") is replaced is not unit


def test_calls_are_of_the_unit_that_is_registered_now():
    a = access(tensor("a", (2, 3), "int8"), 1)
    adder()
    before = call("adder", (), a, a)
    register_unit(Unit("adder", lambda parameters, operands: compute("sum", operands[0])))
    after = call("adder", (), a, a)
    assert (before.type.item, after.type.item) == ((3,), ())
    assert call("adder", (), a, a) is after is not before


def test_an_unknown_unit_is_named_with_those_there_are(known):
    with pytest.raises(ShapeError, match=r"'divider' \(registered: .*multiplier.*\)"):
        find_unit("divider")
    known.clear()
    with pytest.raises(ShapeError, match=r"\(registered: none\)"):
        find_unit("divider")


# --- one invocation -----------------------------------------------------------------------------


def adder(simulate=None):
    def meaning(parameters, operands):
        if len(operands) != 2:
            raise ShapeError(f"adder takes two operands, got {len(operands)}")
        return compute("add", builders.pair(*operands))

    return register_unit(Unit("adder", meaning, simulate))


def test_a_call_has_the_type_of_what_the_unit_means():
    adder()
    a = access(tensor("a", (2, 3), "int8"), 1)
    term = call("adder", (), a, a)
    assert (term.outer, term.item, term.dtype) == ((2,), (3,), "int8")
    with pytest.raises(ShapeError, match="adder takes two operands, got 1"):
        call("adder", (), a)
    with pytest.raises(ShapeError, match="pair of"):
        call("adder", (), a, tensor("b", (2, 3), "int8"))


def test_without_a_simulator_the_meaning_is_interpreted():
    adder()
    a, b = access(tensor("a", (2, 3)), 1), access(tensor("b", (2, 3)), 1)
    one, two = np.ones((2, 3), "float32"), np.full((2, 3), 2, "float32")
    (result,) = evaluate([call("adder", (), a, b)], {"a": one, "b": two})
    np.testing.assert_array_equal(result, one + two)


def test_with_a_simulator_the_value_is_the_simulators():
    seen = []

    def simulate(parameters, arrays):
        seen.append((parameters, [array.shape for array in arrays]))
        return arrays[0] + arrays[1] + 100

    adder(simulate)
    a = access(tensor("a", (2, 3), "int32"), 1)
    (result,) = evaluate([call("adder", (7,), a, a)], {"a": np.ones((2, 3), "int32")})
    np.testing.assert_array_equal(result, np.full((2, 3), 102))
    assert seen == [((7,), [(2, 3), (2, 3)])]


def test_a_unit_without_a_matrix_product_is_not_blocked():
    adder()
    a = access(tensor("a", (2, 3)), 1)
    with pytest.raises(
        ShapeError, match=r"blocked adder .* the unit has no matrix product to tile"
    ):
        blocked("adder", (2, 2), a, a)


# --- blocked products ---------------------------------------------------------------------------


@st.composite
def blocked_products(draw, dtypes=NUMBERS):
    """The same product twice: blocked, and as the dot of a cart_prod."""
    dtype = draw(st.sampled_from(dtypes))
    batch, p, q = draw(shapes(most=2)), draw(shapes(most=2)), draw(shapes(most=2))
    depth = draw(st.integers(0, 9))
    a = access(tensor("a", (*batch, *p, depth), dtype), len(batch + p))
    b = access(tensor("b", (*batch, *q, depth), dtype), len(batch + q))
    parameters = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    accumulate = draw(st.sampled_from((None, *dtypes)))
    plain = compute("dot", cart_prod(a, b, len(batch)), accumulate)
    return blocked("multiplier", parameters, a, b, len(batch), accumulate), plain


@pytest.mark.parametrize("simulated", [False, True])
@given(terms=blocked_products(INTEGERS), seed=st.integers(0, 9))
def test_a_blocked_product_of_integers_is_the_product(simulated, terms, seed):
    multiplier(matmul if simulated else None)
    rng = np.random.default_rng(seed)
    env = {
        name: rng.integers(0, 2**64, array.shape, "uint64").astype(array.dtype)
        for name, array in environment(terms).items()
    }
    in_passes, whole = evaluate(terms, env)
    assert terms[0].type == terms[1].type
    np.testing.assert_array_equal(in_passes, whole)


@given(blocked_products(FLOATS), st.integers(0, 9))
def test_a_blocked_product_of_floats_is_the_product_up_to_rounding(terms, seed):
    in_passes, whole = evaluate(terms, environment(terms, seed))
    eps = float(ml_dtypes.finfo(terms[0].dtype).eps)
    np.testing.assert_allclose(in_passes, whole, rtol=50 * eps, atol=50 * eps)


@given(blocked_products())
def test_the_simulator_sees_operands_of_the_units_own_size_only(terms):
    seen = []

    def simulate(parameters, arrays):
        stream, tile = arrays
        seen.append((parameters, stream, tile))
        return stream @ tile

    multiplier(simulate)
    term, _ = terms
    a, b = term.children
    evaluate([term], environment([term]))
    rows, columns = term["parameters"]
    shared = term["batch"]
    groups, m = math.prod(a.outer[:shared]), math.prod(a.outer[shared:])
    n, depth = math.prod(b.outer[shared:]), a.item[0]
    for parameters, stream, tile in seen:
        assert parameters == (rows, columns)
        assert stream.shape == (m, rows)
        assert tile.shape == (rows, columns)
        assert stream.dtype == tile.dtype == term.dtype
    passes = groups * -(-depth // rows) * -(-n // columns) if m else 0
    assert len(seen) == passes


def test_edge_tiles_are_padded_with_zeros():
    tiles = []

    def simulate(parameters, arrays):
        tiles.append([array.copy() for array in arrays])
        return arrays[0] @ arrays[1]

    multiplier(simulate)
    a, b = access(tensor("a", (2, 3), "int8"), 1), access(tensor("b", (1, 3), "int8"), 1)
    evaluate(
        [blocked("multiplier", (2, 2), a, b)],
        {"a": np.int8([[1, 2, 3], [4, 5, 6]]), "b": np.int8([[7, 8, 9]])},
    )
    expected = [
        ([[1, 2], [4, 5]], [[7, 0], [8, 0]]),
        ([[3, 0], [6, 0]], [[9, 0], [0, 0]]),
    ]
    for (stream, tile), (rows, weights) in zip(tiles, expected, strict=True):
        np.testing.assert_array_equal(stream, rows)
        np.testing.assert_array_equal(tile, weights)


@pytest.mark.parametrize("broken", range(8))
def test_a_fault_in_any_one_pass_is_seen_in_the_result(broken):
    passes = []

    def simulate(parameters, arrays):
        passes.append(arrays)
        result = arrays[0] @ arrays[1]
        return result + (len(passes) - 1 == broken)

    multiplier(simulate)
    a, b = access(tensor("a", (2, 3, 3), "int32"), 2), access(tensor("b", (2, 3, 3), "int32"), 2)
    env = {"a": np.ones((2, 3, 3), "int32"), "b": np.ones((2, 3, 3), "int32")}
    terms = [blocked("multiplier", (2, 2), a, b, 1), compute("dot", cart_prod(a, b, 1))]
    in_passes, whole = evaluate(terms, env)
    assert len(passes) == 8
    wrong = in_passes - whole
    # One tile of one group: three rows by two columns, or the one column that was not padding.
    assert wrong.sum() in (3, 6)
    assert set(np.nonzero(wrong)[0]) == {broken // 4}


# --- what units stand for -----------------------------------------------------------------------


@given(blocked_products())
def test_the_meaning_of_a_blocked_product_is_the_dot_of_the_cart_prod(terms):
    in_passes, whole = terms
    assert units.meaning(in_passes, in_passes.children) is whole


def test_the_meaning_of_a_call_is_its_units_and_of_all_else_itself():
    stream, weights = access(tensor("x", (2, 3)), 1), access(tensor("w", (3, 4)), 0)
    term = call("multiplier", (3, 4), stream, weights)
    by_column = access(builders.transpose(weights, (1, 0)), 1)
    assert units.meaning(term, term.children) is compute("dot", cart_prod(stream, by_column))
    assert units.meaning(stream, stream.children) is stream
