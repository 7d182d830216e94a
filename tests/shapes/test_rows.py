"""Programs that treat rows one by one are told from those that do not."""

import numpy as np
import pytest

from glenside.language import builders as b
from glenside.language import evaluate, parse
from glenside.shapes.rows import Digit, NotByRows, by_rows, plain

RNG = np.random.default_rng(0)


def x(*shape, name="x"):
    return b.tensor(name, shape)


def dense(rows):
    """A product with weights, a bias that is the same for all rows, and a softmax."""
    product = b.compute("dot", b.cart_prod(b.access(x(rows, 4), 1), b.access(x(3, 4, name="w"), 1)))
    bias = b.broadcast_to(x(3, name="bias"), (rows, 3))
    return b.compute("softmax", b.access(b.elementwise("add", product, bias), 1))


def merged(rows):
    """Rows of two entries become one axis, and the features come first."""
    flat = b.reshape(x(rows, 2, 3), (rows * 2, 3))
    return b.transpose(b.outer_only(flat), (1, 0))


def windowed(rows):
    """A sum over windows along another axis than that of rows."""
    windows = b.windows(b.access(x(rows, 6), 1), (3,), (1,))
    return b.compute("sum", windows)


def chosen(rows):
    """Rows are positions in a table."""
    ids = b.tensor("ids", (rows,), "int64")
    return b.gather(x(5, 2, name="w"), ids, 0)


def of_nothing_given(rows):
    """What is added depends on no input but is said for every row: the first step of an LSTM."""
    state = b.constant(0.5, (rows, 4))
    step = b.compute("dot", b.cart_prod(b.access(state, 1), b.access(x(4, 4, name="w"), 1)))
    return b.elementwise("add", b.outer_only(step), x(rows, 4))


@pytest.mark.parametrize(
    ("make", "axes", "digit"),
    [
        (dense, {"x": 0}, Digit(0)),
        (merged, {"x": 0}, Digit(1, 2)),
        (windowed, {"x": 0}, Digit(0)),
        (chosen, {"ids": 0}, Digit(0)),
        (of_nothing_given, {"x": 0}, Digit(0)),
    ],
)
@pytest.mark.parametrize(("old", "new"), [(2, 5), (3, 1), (2, 0)])
def test_a_program_by_rows_is_that_for_another_number_of_them(make, axes, digit, old, new):
    found = by_rows([make(old)], axes, old, new)
    assert found.digits == (digit,)
    assert plain(found.terms) == plain([make(new)])


@pytest.mark.parametrize(
    ("program", "axes", "told"),
    [
        (b.compute("sum", b.access(x(2, 3), 0)), {"x": 0}, "sum over rows"),
        (b.slice_(x(2, 3), 0, 0, 1), {"x": 0}, "slice along the axis of rows"),
        (b.concat(0, x(2, 3), x(2, 3)), {"x": 0}, "concat along the axis of rows"),
        (b.reshape(x(2, 3), (3, 2)), {"x": 0}, "cuts rows"),
        (b.compute("softmax", b.access(b.transpose(x(2, 3), (1, 0)), 1)), {"x": 0}, "softmax"),
        (b.cart_prod(b.access(x(2, 3), 1), b.access(x(2, 3), 1)), {"x": 0}, "rows with rows"),
        (b.windows(b.access(x(2, 3), 0), (1, 1), (1, 1)), {"x": 0}, "windows over"),
        (
            b.elementwise("add", x(2, 3), b.transpose(x(3, 2, name="y"), (1, 0))),
            {"x": 0},
            "differs",
        ),
        (b.elementwise("add", x(2, 2), b.transpose(x(2, 2), (1, 0))), {"x": 0}, "different places"),
        (b.gather(x(2, 3), b.tensor("i", (4,), "int64"), 0), {"x": 0}, "among rows"),
    ],
)
def test_what_mixes_rows_is_refused_by_operator(program, axes, told):
    with pytest.raises(NotByRows, match=told):
        by_rows([program], axes, 2, 3)


def test_weights_of_one_row_each_are_no_weights_of_all():
    """A table with an entry for each row gives another result for each of them."""
    table = b.elementwise("add", x(2, 3), x(2, 3, name="table"))
    with pytest.raises(NotByRows, match="tensor differs from row to row"):
        by_rows([table], {"x": 0}, 2, 4)


def test_no_rows_tell_nothing():
    with pytest.raises(NotByRows, match="no rows"):
        by_rows([dense(0)], {"x": 0}, 0, 4)


def test_rows_are_followed_through_calls_of_units():
    import glenside.hw_targets  # noqa: F401  (Units are looked for there.)

    text = "(blocked systolic-array (4 4) (access 1 (tensor x ({} 8))) (access 1 (tensor w (3 8))))"
    found = by_rows([parse(text.format(2))], {"x": 0}, 2, 7)
    assert found.terms == (parse(text.format(7)),)


@pytest.mark.parametrize("make", [dense, windowed, of_nothing_given])
def test_each_row_alone_has_the_result_that_it_has_among_others(make):
    """What is claimed of the programs above holds of their values."""
    arrays = {"w": RNG.integers(-3, 4, (3, 4)), "bias": RNG.integers(-3, 4, 3)}
    if make is of_nothing_given:
        arrays["w"] = RNG.integers(-3, 4, (4, 4))
    width = 6 if make is windowed else 4
    rows = RNG.integers(-3, 4, (5, width)).astype("float32")
    arrays = {name: array.astype("float32") for name, array in arrays.items()}
    (whole,) = evaluate([make(5)], {**arrays, "x": rows})
    (one,) = by_rows([make(5)], {"x": 0}, 5, 1).terms
    for number in range(5):
        (alone,) = evaluate([one], {**arrays, "x": rows[number : number + 1]})
        np.testing.assert_allclose(alone, whole[number : number + 1], rtol=1e-6)
