"""What depends on parameters alone is known before the program runs."""

import numpy as np
import pytest

from glenside.errors import InputError
from glenside.language import builders as b
from tests.codegen.program.passes_help import after

X, W = b.tensor("x", (2, 3)), b.tensor("w", (2, 3))
PARAMS = {"w": np.arange(6, dtype="float32").reshape(2, 3)}


def test_only_what_inputs_reach_is_left():
    doubled = b.elementwise("add", W, W)
    out = b.elementwise("mul", X, doubled)
    cut = after("folding", out, params=PARAMS)
    assert cut.order[-1] is out
    assert X in cut.order and W not in cut.order
    (known,) = (term for term in cut.weights if term.op != "constant")
    assert np.array_equal(np.ravel(cut.weights[known]), 2 * np.ravel(PARAMS["w"]))
    assert not cut.constants


def test_one_number_throughout_is_a_constant():
    ones = b.broadcast(b.constant(1.5, (1, 1)), (2, 3))
    cut = after("folding", b.elementwise("mul", X, ones))
    assert set(cut.constants.values()) == {1.5}


def test_what_grows_too_much_is_computed_at_run_time():
    wide = b.broadcast(b.tensor("v", (1 << 14, 1)), (1 << 14, 5))
    values = {"v": np.ones((1 << 14, 1), "float32")}
    cut = after("folding", wide, params=values)
    assert cut.order == (wide,)


def test_an_unknown_tensor_is_named():
    with pytest.raises(InputError, match="'y' is neither an input nor a parameter"):
        from glenside.codegen.program.cut import cut_program

        cut_program([b.tensor("y", (2,))], {}, {})
