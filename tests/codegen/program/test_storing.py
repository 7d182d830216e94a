"""Buffers, and the parameters in them."""

import numpy as np

from glenside.language import builders as b
from tests.codegen.program.passes_help import after


def test_every_value_has_room_and_parameters_are_there():
    w = b.tensor("w", (16, 6))
    dot = b.compute("dot", b.cart_prod(b.access(w, 1), b.access(b.tensor("x", (5, 6)), 1)))
    both = b.compute("neg", dot), w
    array = np.arange(96, dtype="float32").reshape(16, 6)
    cut = after("storing", *both, params={"w": array})
    assert [(each.size, each.dtype) for each in cut.memory.buffers] == [
        (home.size, "float32") for home in cut.homes
    ]
    (number,) = cut.memory.arrays
    assert np.array_equal(cut.memory.arrays[number], array.reshape(-1))
    assert cut.memory.origins[number].term is w
    assert cut.memory.stored[w].buffer == number
    assert cut.memory.stored.keys() == cut.stored.keys()


def test_repetitions_are_stored_once():
    row = np.broadcast_to(np.arange(3, dtype="float32"), (4, 3))
    cut = after("storing", b.tensor("w", (4, 3)), params={"w": row})
    (held,) = cut.memory.arrays.values()
    assert held.tolist() == [0, 1, 2]
    (place,) = cut.memory.stored.values()
    assert place.view.axes == (((4, 0),), ((3, 1),))


def test_a_copy_takes_what_kernels_add():
    memory = after("storing", b.compute("neg", b.tensor("x", (3,)))).memory
    more = memory.copy()
    assert more.add(0, "float16") == len(memory.buffers)
    assert more.buffers[-1].size == 1
    assert len(more.buffers) == len(memory.buffers) + 1
