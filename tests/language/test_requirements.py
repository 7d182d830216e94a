"""What a model asks of its inputs' values, and that only what is cheap is asked."""

import pickle

import numpy as np
import pytest

from glenside.errors import InputError
from glenside.language import (
    Model,
    Requirement,
    builders,
    can_require,
    index_requirements,
)

X = builders.tensor("x", (4, 3), "float32")
AT = builders.tensor("at", (2,), "int64")


@pytest.mark.parametrize(("values", "got"), [([0, 4], 4), ([-5, 0], -5), ([7, -9], -9)])
def test_a_value_outside_is_told_with_who_asks(values, got):
    asked = Requirement(AT, -4, 4, "input 'at': node 'g' (Gather) takes indices from -4 to 3")
    with pytest.raises(InputError, match=rf"^input 'at': node 'g' .*, got {got}$"):
        asked.check({"at": np.array(values)})


@pytest.mark.parametrize("values", [[-4, 3], [0, 0]])
def test_values_inside_pass(values):
    Requirement(AT, -4, 4, "").check({"at": np.array(values)})


def test_no_values_pass():
    Requirement(builders.tensor("at", (0,), "int64"), 0, 0, "").check({"at": np.zeros(0, int)})


def test_what_is_made_of_inputs_is_worked_out():
    term = builders.cast(builders.slice_(AT, 0, 1, 2), "int32")
    asked = Requirement(term, 0, 2, "it")
    asked.check({"at": np.array([9, 1])})
    with pytest.raises(InputError, match="it, got 2"):
        asked.check({"at": np.array([0, 2])})


def test_it_survives_being_written_down():
    asked = Requirement(builders.cast(AT, "int32"), -4, 4, "it")
    assert Requirement.from_json(asked.to_json()) == asked
    model = Model("m", {"at": AT.type}, {}, {"y": AT}, requirements=(asked,))
    assert pickle.loads(pickle.dumps(model)).requirements == (asked,)


def test_only_what_is_cheap_and_exact_can_be_asked():
    assert can_require(AT, {"at"})
    assert can_require(builders.cast(AT, "int32"), {"at"})
    assert not can_require(AT, {"x"})  # A parameter, or another program's input.
    assert not can_require(builders.cast(X, "int64"), {"x"})  # Rounded from floats.
    assert not can_require(builders.constant(1, (), "int64"), {"at"})
    wide = builders.broadcast(builders.reshape(AT, (1, 2)), (2**20, 2))
    assert not can_require(wide, {"at"})


def test_gathers_by_inputs_are_in_range():
    program = builders.gather(X, AT, 0)
    (asked,) = index_requirements([program], {"x", "at"}, {program: "y"})
    assert (asked.term, asked.low, asked.high) == (AT, -4, 4)
    assert asked.what == "input 'at': 'y' takes positions from -4 to 3 of axis 0"
    assert index_requirements([program], {"x"}, {}) == ()
