"""Reductions over the same rows, and the work around them, that become one kernel."""

import pytest

from glenside.frontends.lowering.normalization import log_softmax, standardised
from glenside.language import builders as b
from tests.codegen.program.passes_help import after

X = b.tensor("x", (6, 40))


def chains(*outputs, **style):
    """The functions of each chain, by what it computes."""
    cut = after("rows", *outputs, plain=True, **style)
    return {
        cut.known_as(tail): [each["function"] for each in made.chain]
        for tail, made in cut.rows.items()
    }


def bare(term):
    """A value before it is accessed in other parts."""
    while term.op == "access":
        (term,) = term.children
    return term


def spread(row, shape):
    """A number for each row, repeated along it."""
    return b.broadcast(b.unsqueeze(b.access(row, 1), 1), shape)


def test_a_norm_is_one_chain():
    norm = standardised(X, [1], 1e-5)
    cut = after("rows", norm, plain=True)
    (rows,) = cut.rows.values()
    assert [each["function"] for each in rows.chain] == ["mean", "mean"]
    assert (rows.rows, rows.length, rows.source) == (6, 40, X)
    assert {cut.known_as(each) for each in cut.kept} == {X, bare(norm)}


def test_kernels_are_counted():
    """Layer norm, linear, softmax: three kernels."""
    norm = standardised(X, [1], 1e-5)
    weights = b.tensor("w", (10, 40))
    scores = b.compute("dot", b.cart_prod(b.access(norm, 1), b.access(weights, 1)))
    scaled = b.elementwise("mul", scores, b.constant(0.5, (6, 10)))
    out = b.elementwise("sqrt", b.compute("softmax", b.access(scaled, 1)))
    assert len(after("layout", out, plain=True).steps) == 3


def test_softmax_takes_along_what_is_around_it():
    given = b.elementwise("exp", X)
    out = b.elementwise("neg", b.compute("softmax", b.access(given, 1)))
    assert chains(out) == {bare(out): ["softmax"]}


def test_what_a_product_computes_stays_with_it():
    scores = b.elementwise(
        "relu", b.compute("dot", b.cart_prod(b.access(X, 1), b.access(b.tensor("w", (9, 40)), 1)))
    )
    out = log_softmax(scores, [1])
    cut = after("rows", out, plain=True)
    (rows,) = cut.rows.values()
    assert cut.known_as(rows.source) is bare(scores)
    assert rows.source in cut.kept and rows.source in cut.fused


def test_one_reduction_and_what_goes_through_its_row_again():
    total = b.compute("sum", b.access(X, 1))
    out = b.elementwise("div", X, spread(total, X.shape))
    assert chains(out) == {bare(out): ["sum"]}


def test_one_number_a_row_is_left_to_its_reduction():
    assert not chains(b.elementwise("sqrt", b.compute("sum", b.access(X, 1))))


def test_what_others_read_as_well_is_not_inside():
    mean = b.compute("mean", b.access(X, 1))
    centred = b.elementwise("sub", X, spread(mean, X.shape))
    norm = standardised(X, [1], 1e-5)
    assert bare(norm) in chains(norm, b.elementwise("neg", X))
    assert chains(norm, mean) == {bare(norm): ["mean"]}
    assert not chains(b.elementwise("exp", centred), mean)


def test_other_rows_are_another_kernel():
    rows = standardised(X, [1], 1e-5)
    both = standardised(rows, [0], 1e-5)
    assert chains(both) == {bare(rows): ["mean", "mean"], bare(both): ["mean", "mean"]}


def test_a_number_that_is_spread_over_other_rows_is_not_taken():
    square = b.tensor("s", (8, 8))
    total = b.compute("sum", b.access(square, 1))
    across = b.broadcast(b.unsqueeze(b.access(total, 1), 0), (8, 8))
    assert not chains(b.elementwise("div", square, across))


def test_what_is_spread_along_a_row_is_not_reduced_along_it():
    mean = spread(b.compute("mean", b.access(X, 1)), X.shape)
    again = b.compute("max", b.access(b.elementwise("tanh", mean), 1))
    assert not chains(b.elementwise("neg", again))


@pytest.mark.parametrize("shape", [(6, 5, 8), (2, 3, 40), (240,)])
def test_places_are_known_through_reshapes(shape):
    norm = standardised(b.reshape(X, (6, 5, 8)), [1, 2], 1e-5)
    out = b.reshape(norm, shape)
    out = b.elementwise("relu", out)
    assert chains(out) == {bare(out): ["mean", "mean"]}


def test_what_is_not_every_element_is_not_taken():
    norm = standardised(X, [1], 1e-5)
    out = b.elementwise("relu", b.slice_(norm, 1, 0, 20))
    assert bare(out) not in chains(out)


def test_long_rows_of_few_are_left_apart():
    assert not chains(standardised(b.tensor("y", (2, 1 << 16)), [1], 1e-5))
    assert chains(standardised(b.tensor("y", (64, 1 << 16)), [1], 1e-5))


def test_processors_have_none():
    assert not after("rows", standardised(X, [1], 1e-5)).rows
