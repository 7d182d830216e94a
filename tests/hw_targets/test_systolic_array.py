"""The systolic array as a unit of the language."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glenside.errors import ShapeError
from glenside.hw_targets.units.systolic_array import NAME, UNIT
from glenside.language import evaluate, find_unit
from glenside.language.builders import access, blocked, call, cart_prod, compute, tensor, transpose
from glenside.language.shape import FLOATS, NUMBERS
from tests.strategies import environment, shapes


def matrix(name, shape, split, dtype="float32"):
    return access(tensor(name, shape, dtype), split)


def test_it_is_registered_under_its_name():
    assert NAME == "systolic-array"
    assert find_unit(NAME) is UNIT


@pytest.mark.parametrize("dtype", NUMBERS)
@given(m=st.none() | st.integers(0, 4), rows=st.integers(1, 5), columns=st.integers(1, 5))
def test_a_pass_is_a_matrix_product_and_what_its_term_says(dtype, m, rows, columns):
    outer = () if m is None else (m,)
    stream = matrix("x", (*outer, rows), len(outer), dtype)
    weights = matrix("w", (rows, columns), 0, dtype)
    term = call(NAME, (rows, columns), stream, weights)
    meaning = compute("dot", cart_prod(stream, access(transpose(weights, (1, 0)), 1)))
    assert term.type == meaning.type
    assert (term.outer, term.item) == ((*outer, columns), ())
    env = environment([term])
    simulated, interpreted = evaluate([term, meaning], env)
    np.testing.assert_array_equal(simulated, env["x"] @ env["w"])
    np.testing.assert_array_equal(simulated, interpreted)


@pytest.mark.parametrize(
    ("parameters", "stream", "weights", "says"),
    [
        ((), ((2, 3), 1), ((3, 4), 0), "two positive parameters, rows and columns; got ()"),
        ((3,), ((2, 3), 1), ((3, 4), 0), "two positive parameters"),
        ((3, 4, 5), ((2, 3), 1), ((3, 4), 0), "two positive parameters"),
        ((0, 4), ((2, 0), 1), ((0, 4), 0), "two positive parameters"),
        ((3, -4), ((2, 3), 1), ((3, 4), 0), "two positive parameters"),
        ((3, 4), ((2, 4), 1), ((3, 4), 0), "the stream must be ((M) (3)) or (() (3)), got"),
        ((3, 4), ((2, 2, 3), 2), ((3, 4), 0), "the stream must be"),
        ((3, 4), ((2, 3), 0), ((3, 4), 0), "the stream must be"),
        ((3, 4), ((2, 3), 1), ((4, 3), 0), "the weights must be (() (3 4)), got"),
        ((3, 4), ((2, 3), 1), ((3, 4), 1), "the weights must be"),
    ],
)
def test_a_pass_refuses_operands_of_another_size(parameters, stream, weights, says):
    with pytest.raises(ShapeError) as caught:
        call(NAME, parameters, matrix("x", *stream), matrix("w", *weights))
    assert says in str(caught.value)


def test_a_pass_takes_two_operands_of_one_dtype():
    x, w = matrix("x", (2, 3), 1), matrix("w", (3, 4), 0, "float16")
    with pytest.raises(ShapeError, match="two operands, the stream and the weights; got 1"):
        call(NAME, (3, 4), x)
    with pytest.raises(ShapeError, match="dtypes differ: float32, float16"):
        call(NAME, (3, 4), x, w)


def test_the_simulator_itself_refuses_operands_of_another_size():
    for stream, weights in (((2, 4), (3, 4)), ((2, 3), (4, 3)), ((2, 3), (3, 5))):
        with pytest.raises(ShapeError, match="a pass takes rows of 3 and a 3x4 tile"):
            UNIT.simulate((3, 4), [np.zeros(stream), np.zeros(weights)])


@given(
    dtype=st.sampled_from(NUMBERS),
    batch=shapes(most=1),
    p=shapes(most=2),
    q=shapes(most=2),
    depth=st.integers(0, 7),
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_a_blocked_product_is_the_product(dtype, batch, p, q, depth, size):
    a = matrix("a", (*batch, *p, depth), len(batch + p), dtype)
    b = matrix("b", (*batch, *q, depth), len(batch + q), dtype)
    terms = [
        blocked(NAME, size, a, b, len(batch)),
        compute("dot", cart_prod(a, b, len(batch))),
    ]
    in_passes, whole = evaluate(terms, environment(terms))
    if dtype in FLOATS:  # Small halves: every sum is exact.
        np.testing.assert_allclose(in_passes, whole, rtol=0)
    else:
        np.testing.assert_array_equal(in_passes, whole)
