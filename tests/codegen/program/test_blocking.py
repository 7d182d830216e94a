"""Which products are computed in register tiles, and which operand runs along registers."""

import numpy as np
import pytest

from glenside.language import builders as b
from tests.codegen.codegen_help import convolution, weights
from tests.codegen.program.passes_help import after


def product(rows, columns, depth=6):
    """x (rows) by y (columns)."""
    x, y = b.tensor("x", (rows, depth)), b.tensor("y", (columns, depth))
    return b.compute("dot", b.cart_prod(b.access(x, 1), b.access(y, 1)))


def blocked(term, known=(), **style):
    """The tensor whose axes run along registers, and whether it is the first; None: plain loops."""
    params = {name: weights(*shape) for name, shape in known}
    found = after("blocking", term, params=params, **style).products
    assert len(found) <= 1
    for each in found.values():
        return each.vector.children[0]["name"], each.vector_first
    return None


@pytest.mark.parametrize(
    ("rows", "columns", "known", "expected"),
    [
        (16, 16, (), ("y", False)),
        (16, 7, (), ("x", True)),
        (7, 7, (), None),
        (7, 8, (), ("y", False)),
        (3, 100, [("x", (3, 6))], ("x", True)),
        (100, 3, [("y", (3, 6))], ("y", False)),
        (2, 100, [("x", (2, 6))], None),
    ],
)
def test_the_operand_along_registers(rows, columns, known, expected):
    """Eight results are a vector; parameters are packed once, so that three are enough."""
    assert blocked(product(rows, columns), known) == expected


def test_devices_tile_by_themselves():
    assert blocked(product(16, 16), plain=True) is None


def test_nothing_to_add_up():
    assert blocked(product(16, 16, depth=0)) is None


@pytest.mark.parametrize(("groups", "known"), [(1, True), (8, False)])
def test_a_depthwise_convolution_is_plain_loops(groups, known):
    shape = (8, 8 // groups, 3, 3)
    layer = convolution(b.tensor("x", (1, 8, 9, 9)), b.tensor("w", shape), groups=groups)
    products = after("blocking", layer, params={"w": weights(*shape)}).products
    assert bool(products) == known


def test_a_number_is_not_streamed():
    ones = b.broadcast(b.constant(1.0, (1, 1)), (1 << 12, 33))
    w = b.access(b.tensor("w", (16, 33)), 1)
    dot = b.compute("dot", b.cart_prod(w, b.access(ones, 1)))
    assert not after("blocking", dot, params={"w": np.ones((16, 33), "float32")}).products
