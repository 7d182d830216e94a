"""What a front end returns, and inputs to try it on."""

import pickle

import numpy as np
import pytest

from glenside.language import DTYPES, AccessType, Model, builders, random_inputs

x, w = builders.tensor("x", (2, 3)), builders.tensor("w", (2, 3))
MODEL = Model(
    "tiny",
    {"x": x.type},
    {"w": np.ones((2, 3), "float32")},
    {"sum": builders.elementwise("add", x, w), "x": x},
    {x: "data"},
)


def test_a_model_knows_its_roots_terms_and_leaves():
    assert MODEL.roots == [builders.elementwise("add", x, w), x]
    assert MODEL.terms()[-1] is MODEL.roots[0]
    assert set(MODEL.leaves()) == {x, w}


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_inputs_are_reproducible_and_of_the_type_asked_for(dtype):
    wanted = {"a": AccessType((2, 3), (4,), dtype), "b": AccessType((), (), dtype)}
    first, second, other = (random_inputs(wanted, seed) for seed in (1, 1, 2))
    for name, access in wanted.items():
        assert first[name].shape == access.shape
        assert first[name].dtype == dtype
        np.testing.assert_array_equal(first[name], second[name])
    assert not np.array_equal(first["a"], other["a"])
    if dtype.startswith(("int", "uint")):
        assert first["a"].min() >= 0
        assert first["a"].max() <= 9


def named_chain(length: int) -> Model:
    """A chain in which every value has a name."""
    terms = [x]
    for _ in range(length):
        terms.append(builders.elementwise("relu", builders.outer_only(terms[-1])))
    names = {term: f"value {number}" for number, term in enumerate(terms)}
    return Model("chain", {"x": x.type}, {}, {"y": terms[-1], "x": x}, names, {"Relu": length})


def test_a_pickled_model_is_the_same():
    for model in (MODEL, named_chain(4), Model("none", {}, {}, {})):
        again = pickle.loads(pickle.dumps(model))
        assert again.params.keys() == model.params.keys()
        for name, array in model.params.items():
            np.testing.assert_array_equal(again.params[name], array)
        assert (again.name, again.inputs, again.operators) == (
            (model.name, model.inputs, model.operators)
        )
        assert list(again.outputs.items()) == list(model.outputs.items())
        assert list(again.names.items()) == list(model.names.items())


def test_a_model_of_twice_the_length_pickles_to_twice_the_bytes():
    short, long = (len(pickle.dumps(named_chain(length))) for length in (200, 400))
    assert long < 2.2 * short
