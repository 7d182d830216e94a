"""Terms as functions of some of their subterms."""

import numpy as np
import pytest

from glenside.errors import TextError
from glenside.language import builders as b
from glenside.language import evaluate
from glenside.language.abstraction import apply_function, spell_function

X, Y = b.tensor("x", (2, 3)), b.tensor("y", (4, 3))


def test_a_function_applied_to_its_own_parameters_is_the_term():
    left, right = b.access(X, 1), b.access(b.compute("neg", Y), 1)
    pairs = b.cart_prod(left, right)
    product = b.compute("dot", pairs)
    text = spell_function([pairs, product], [left, right], {})
    assert "in0" in text and "neg" not in text and "x" not in text.split()
    again = apply_function(text, [X, b.compute("neg", Y)])
    env = {"x": np.arange(6.0).reshape(2, 3), "y": np.ones((4, 3))}
    env = {name: array.astype("float32") for name, array in env.items()}
    np.testing.assert_array_equal(*(evaluate([t], env)[0] for t in (again, product)))


def test_what_is_one_number_is_no_parameter():
    both = b.pair(b.access(X, 0), b.access(b.tensor("scale", (2, 3)), 0))
    scaled = b.compute("mul", both)
    text = spell_function([both, scaled], [both.children[0]], {both.children[1]: 0.5})
    assert "in1" not in text and "0.5" in text
    x = np.arange(6, dtype="float32").reshape(2, 3)
    (got,) = evaluate([apply_function(text, [X])], {"x": x})
    np.testing.assert_array_equal(got, x / 2)


def test_a_deep_function():
    body = [b.compute("neg", X)]
    for _ in range(10_000):
        body.append(b.compute("neg", body[-1]))
    assert apply_function(spell_function(body, [X], {}), [X]) is b.outer_only(body[-1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(tensor in2 (2 3))", "'in2' is none of 2 operands"),
        ("(tensor x (2 3))", "'x' is none of 2 operands"),
        ("(tensor in1 (2 3))", "operand 1 is .*4 3.* must be .*2 3"),
        ("(tensor in0", "not closed"),
    ],
)
def test_what_does_not_fit_is_refused(text, said):
    with pytest.raises(TextError, match=said):
        apply_function(text, [X, Y])
