"""Reductions that live in the kernel of what follows them."""

import pytest

from glenside.language import builders as b
from tests.codegen.program.passes_help import after

X, Y = b.access(b.tensor("x", (4, 6)), 1), b.access(b.tensor("y", (5, 6)), 1)
DOT = b.compute("dot", b.cart_prod(X, Y))


def fused(*outputs, **style):
    return {term: each.anchor for term, each in after("fusing", *outputs, **style).fused.items()}


def test_what_follows_a_product_is_in_its_kernel():
    out = b.compute("relu", DOT)
    assert fused(out) == {out: DOT}


def test_results_are_found_through_moves():
    out = b.compute("relu", b.transpose(b.access(DOT, 0), (1, 0)))
    cut = after("fusing", out)
    assert cut.fused[out].over.axes == (((5, 1),), ((4, 5),))
    assert set(cut.inside) == {DOT}


def test_a_product_that_is_a_result_as_well_is_not():
    assert not fused(b.compute("relu", DOT), DOT)


def test_a_product_that_two_read_is_not():
    assert not fused(b.compute("relu", DOT), b.compute("neg", DOT))


def test_the_larger_of_two_reductions_is():
    other = b.compute(
        "dot", b.cart_prod(*(b.access(b.tensor(n, (r, 7)), 1) for n, r in (("z", 4), ("v", 5))))
    )
    out = b.compute("add", b.pair(b.access(DOT, 0), b.access(other, 0)))
    assert fused(out) == {out: other}


@pytest.mark.parametrize("function", ["argmax", "softmax"])
def test_whole_rows_are_not(function):
    rows = b.compute(function, X)
    assert not fused(b.compute("neg", rows))


def test_what_repeats_results_is_not():
    total = b.compute("sum", X)
    spread = b.broadcast(b.unsqueeze(b.access(total, 0), 1), (4, 3))
    assert not fused(b.compute("neg", spread))
