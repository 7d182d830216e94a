"""What operators and functions declare of themselves, against what they compute."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from glenside.language import FUNCTIONS, TRANSFORMERS, builders, evaluate
from glenside.language.builders import access, tensor
from glenside.language.operators import (
    BIJECTIONS,
    OPERATORS,
    RENUMBERING,
    VIEWS,
    Moves,
    transformers,
)
from glenside.language.shape import FLOATS

FOLDS = [f for f in FUNCTIONS.values() if f.kind == "fold"]
MAPS = [f for f in FUNCTIONS.values() if f.kind == "map"]
NUMBERS = np.array([-np.inf, -50, -2.5, -1, -0.75, -1e-3, 0, 1e-3, 0.5, 1, 1.5, 3, 60, np.inf])


def named(functions):
    return pytest.mark.parametrize("function", functions, ids=lambda f: f.name)


def operand(function):
    """Numbers of a dtype that the function takes."""
    dtype = "float64" if "float64" in function.domain else function.domain[0]
    if dtype == "float64":
        return NUMBERS
    return np.array([0, 1], bool) if dtype == "bool" else np.arange(-4, 5).astype(dtype)


def computed(function, *arrays):
    with np.errstate(all="ignore"):
        return function.numpy(*arrays)


@named(FOLDS)
def test_a_fold_commutes_exactly_where_it_says_so(function):
    a, b = np.meshgrid(operand(function), operand(function))
    same = np.array_equal(
        computed(function, a, b), computed(function, b, a), equal_nan=a.dtype.kind == "f"
    )
    assert same == function.commutes


@named([f for f in FOLDS if f.neutral is not None])
def test_the_neutral_element_leaves_the_first_operand_and_the_second_if_it_commutes(function):
    kept = operand(function)
    gone = np.full_like(kept, function.neutral)
    np.testing.assert_array_equal(computed(function, kept, gone), kept)
    other = np.array_equal(computed(function, gone, kept), kept)
    assert other == function.commutes


@named([f for f in FUNCTIONS.values() if f.step])
def test_a_reduction_is_its_step_again_and_again(function):
    items = np.array([3.0, -2.0, 5.0, 0.5])
    step = FUNCTIONS[function.step].numpy
    assert computed(function, items, (0,)) == functools.reduce(step, items)


@named([f for f in MAPS if "float64" in f.domain and f.result is None])
def test_bounds_and_order_hold_of_maps(function):
    results = computed(function, np.sort(np.concatenate([NUMBERS, np.linspace(-9, 9, 181)])))
    if function.bounds:
        assert (function.bounds[0] <= results[np.isfinite(results)]).all()
        assert (results[np.isfinite(results)] <= function.bounds[1]).all()
    if function.monotone:
        assert not np.isnan(results).any() and (results[:-1] <= results[1:]).all()
    grown = np.abs(computed(function, np.array([12.0, -12.0]))).max() > 65504
    assert grown == function.grows


@named([f for f in MAPS if f.exact and f.domain[0] in (*FLOATS, "int8") and f.result is None])
def test_exact_maps_give_numbers_that_were_there(function):
    given = NUMBERS.astype("float16")
    known = {*given.tolist(), *(-given).tolist(), 0.0, 1.0, -1.0}
    assert {*computed(function, given).tolist()} <= known


# One of each kind of transformer, with sizes at which what it may do shows.
X, Y = tensor("x", (3, 1, 4), "int64"), tensor("y", (3, 1, 4), "int64")
EXAMPLES = {
    "access": access(X, 1),
    "transpose": builders.transpose(X, (2, 1, 0)),
    "windows": builders.windows(access(X, 2), (2,), (1,)),
    "slice": builders.slice_(X, 0, 0, 2),
    "pad": builders.pad(X, 0, 1, 0),
    "squeeze": builders.squeeze(X, 1),
    "unsqueeze": builders.unsqueeze(X, 0),
    "broadcast": builders.broadcast(X, (3, 2, 4)),
    "flatten": builders.flatten(access(X, 1)),
    "reshape": builders.reshape(X, (4, 3)),
    "gather": builders.gather(X, tensor("i", (3,), "int64"), 0),
    "concat": builders.concat(0, X, Y),
    "pair": builders.pair(X, Y),
    "cart_prod": builders.cart_prod(access(X, 2), access(Y, 2)),
}


@pytest.mark.parametrize("name", sorted(TRANSFORMERS))
def test_transformers_do_to_elements_what_they_say(name):
    x = np.arange(1, 13).reshape(3, 1, 4)
    values = {"x": x, "y": x + 12, "i": np.array([2, 0, 2])}
    (result,) = evaluate([EXAMPLES[name]], values)
    found = result.ravel().tolist()
    both = OPERATORS[name].arity == 2 and name != "gather"
    given = [*range(1, 25 if both else 13)]
    moves = OPERATORS[name].moves
    assert moves is not None
    kept = [element for element in found if element in given]
    assert (len({*kept}) < len(kept)) == (Moves.REPEATS in moves)
    assert bool({*found} - {*given}) == (Moves.ADDS in moves)
    drops = Moves.DROPS in moves and name != "windows"  # These leave out at a stride only.
    assert bool({*given} - {*found}) == drops
    joined = Moves.JOINS in moves or Moves.PAIRS in moves
    assert joined == both
    if name in RENUMBERING:
        assert found == given
    if name in BIJECTIONS:
        assert sorted(found) == given


def test_sets_of_transformers():
    assert {name for name, o in OPERATORS.items() if o.arity == 1 and o.moves is not None} == VIEWS
    assert RENUMBERING < BIJECTIONS < transformers(Moves.REORDERS | Moves.DROPS) < VIEWS
    assert VIEWS - transformers(~Moves.ADDS) == {"pad"}
    assert not OPERATORS["compute"].may(Moves.NOTHING)
