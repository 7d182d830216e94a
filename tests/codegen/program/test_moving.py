"""Small maps store their results as these are moved."""

import numpy as np
import pytest

from glenside.language import builders as b
from tests.codegen.program.passes_help import after

MATRIX = np.eye(4, dtype="float32") - np.eye(4, k=1, dtype="float32")
LOOKS = b.windows(b.access(b.tensor("x", (3, 10)), 1), (4,), (2,))
SMALL = b.compute("dot", b.cart_prod(b.access(b.tensor("m", (4, 4)), 1), LOOKS))
"""Differences of neighbours: ((4 3 4) ())."""


@pytest.mark.parametrize(
    ("style", "moved"),
    [({"plain": True}, True), ({}, False), ({"plain": True, "rows_last": True}, False)],
    ids=["threads", "processor", "matrix units"],
)
def test_moves_on_the_way_out(style, moved):
    out = b.transpose(SMALL, (1, 0, 2))
    cut = after("moving", out, params={"m": MATRIX}, **style)
    assert cut.relaid == ({out} if moved else set())


def test_moves_into_a_product_up_to_the_last_reshape():
    flat = (
        b.reshape(SMALL, (12,), (4,)) if SMALL.item else b.reshape(b.access(SMALL, 2), (12,), (4,))
    )
    operand = b.transpose(b.access(flat, 2), (1, 0))
    product = b.cart_prod(b.access(operand, 1), b.access(b.tensor("y", (5, 12)), 1))
    cut = after("moving", b.compute("dot", product), params={"m": MATRIX}, plain=True)
    assert [term.op for term in cut.relaid] == ["reshape"]
    assert cut.relaid <= cut.kept


def test_what_several_read_is_not_moved():
    turned = b.transpose(SMALL, (1, 0, 2))
    outs = [b.compute("neg", turned), b.compute("exp", turned)]
    assert not after("moving", *outs, params={"m": MATRIX}, plain=True).relaid
