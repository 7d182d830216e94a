"""What can be written in several ways has one form, known by what it was."""

from glenside.language import builders as b
from tests.codegen.program.passes_help import after

X = b.tensor("x", (4, 6))


def test_reshapes_of_a_product_become_those_of_its_operands():
    y = b.tensor("y", (5, 6))
    pairs = b.cart_prod(b.access(X, 1), b.access(y, 1))
    dot = b.compute("dot", b.reshape(pairs, (4, 5), (2, 2, 3)))
    (made,) = after("canonical", dot).outputs
    product = b.cart_prod(
        b.reshape(b.access(X, 1), (4,), (2, 3)), b.reshape(b.access(y, 1), (5,), (2, 3))
    )
    assert made is b.reshape(b.compute("dot", product), (4, 5), ())


def test_a_reshape_across_the_tuple_axis_stays():
    y = b.tensor("y", (5, 6))
    pairs = b.cart_prod(b.access(X, 1), b.access(y, 1))
    dot = b.compute("dot", b.reshape(pairs, (4, 5), (3, 4)))
    assert after("canonical", dot).outputs == (dot,)


def test_a_long_fold_is_a_reduction():
    nine, eight = (b.access(b.tensor(f"x{n}", (3, n)), 1) for n in (9, 8))
    cut = after("canonical", b.compute("add", nine), b.compute("add", eight))
    long, short = cut.outputs
    assert [t["function"] for t in cut.outputs if t.op == "compute"] == ["sum", "add"]
    assert cut.known_as(long) is b.compute("add", nine)
    assert cut.known_as(short) is short
