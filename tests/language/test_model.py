"""What a front end returns, and inputs to try it on."""

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
