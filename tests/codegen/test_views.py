"""Strided views: each transformer against NumPy's own strides."""

from __future__ import annotations

import numpy as np
import pytest

from glenside.codegen.views import (
    View,
    compose_inverse,
    in_order,
    row_major,
    split_atoms,
)


def read(view: View, memory: np.ndarray) -> np.ndarray:
    """Every element the view addresses."""
    result = np.empty(view.shape, memory.dtype)
    for index in np.ndindex(*view.shape):
        result[index] = memory[view.address(index)]
    return result


MEMORY = np.arange(4 * 6 * 5)
VALUE = MEMORY.reshape(4, 6, 5)


@pytest.mark.parametrize(
    ("name", "view", "wanted"),
    [
        ("transpose", row_major((4, 6, 5)).transpose((2, 0, 1)), VALUE.transpose(2, 0, 1)),
        ("reshape", row_major((4, 6, 5)).reshape((2, 2, 30)), VALUE.reshape(2, 2, 30)),
        ("slice", row_major((4, 6, 5)).slice(1, 1, 6, 2), VALUE[:, 1:6:2]),
        ("unsqueeze", row_major((4, 6, 5)).unsqueeze(1), VALUE[:, None]),
        (
            "broadcast",
            row_major((4, 1, 30)).broadcast((4, 3, 30)),
            np.broadcast_to(MEMORY.reshape(4, 1, 30), (4, 3, 30)),
        ),
        (
            "windows",
            row_major((4, 6, 5)).windows(1, (3, 2), (2, 1), (1, 2), (2, 3)),
            np.lib.stride_tricks.sliding_window_view(VALUE, (3, 3), (1, 2))[:, ::2, :, :, ::2],
        ),
        (
            "merge after a transpose",
            row_major((4, 6, 5)).transpose((1, 0, 2)).reshape((6, 20)),
            VALUE.transpose(1, 0, 2).reshape(6, 20),
        ),
    ],
)
def test_view(name, view, wanted):
    np.testing.assert_array_equal(read(view, MEMORY), wanted)


def test_a_reshape_that_cuts_across_strides_is_no_view():
    assert row_major((4, 6)).transpose((1, 0)).reshape((8, 3)) is None


def test_margins_make_padding_a_view():
    view = in_order((2, 3), (0, 1), [(0, 0), (1, 2)])
    memory = np.zeros(12, int)
    for index in np.ndindex(2, 3):
        memory[view.address(index)] = 1 + index[0] * 3 + index[1]
    padded = view.pad(1, 1, 1, 0, 0)
    np.testing.assert_array_equal(read(padded, memory), [[0, 1, 2, 3, 0], [0, 4, 5, 6, 0]])
    assert view.pad(1, 2, 0, 0, 0) is None  # More than there is room for.
    assert view.pad(1, 1, 0, 7, 0) is None  # Another value.
    assert view.pad(1, 1, 0, 0, 1) is None  # Between the elements.


def test_inverse_of_a_rearrangement():
    """A value stored as its rearrangement is found again by its own index."""
    base = (4, 6, 5)
    over = row_major(base).transpose((2, 0, 1)).reshape((5, 2, 2, 6))
    target = in_order((5, 2, 2, 6), (3, 0, 1, 2), [(0, 0)] * 4)
    view = compose_inverse(over, base, target)
    memory = np.empty(VALUE.size, int)
    rearranged = VALUE.transpose(2, 0, 1).reshape(5, 2, 2, 6)
    for index in np.ndindex(*rearranged.shape):
        memory[target.address(index)] = rearranged[index]
    np.testing.assert_array_equal(read(view, memory), VALUE)


def test_atoms_are_cut_at_axis_bounds():
    assert split_atoms(((12, 2),), [1, 8]) == ((3, 8), (4, 2))
    assert split_atoms(((5, 2),), [1, 6]) is None
