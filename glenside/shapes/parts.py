"""Calls of one size as several of others, where rows are treated one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glenside.shapes.rows import Digit
from glenside.shapes.specialise import Split

Array = np.ndarray[Any, Any]


def cut(rows: int, lengths: Sequence[int]) -> list[int]:
    """The lengths of the calls that do so many rows; the last one may do more.

    A longer one is taken where more than half of its rows are there to be done.
    """
    found = []
    while rows > 0:
        below = max((each for each in lengths if 0 < each <= rows), default=None)
        above = min((each for each in lengths if each > rows), default=None)
        if below is None or (above is not None and 2 * rows > above and below != rows):
            assert above is not None
            below = above
        found.append(below)
        rows -= below
    return found


def run_in_parts(
    split: Split,
    rows: int,
    lengths: Sequence[int],
    given: Mapping[str, Any],
    run: Callable[[int, Mapping[str, Array]], list[Array]],
) -> list[Array]:
    """The outputs of a call, by calls of other numbers of rows.

    Rows that are missing in the last one are the last row again, whose results are left out.

    :param run: runs the program of one length on the inputs that it takes.
    """
    whole = {name: np.asarray(value) for name, value in given.items()}
    pieces: list[list[Array]] = []
    done = 0
    for length in cut(rows, lengths):
        here = min(length, rows - done)
        inputs = dict(whole)
        for name, axis in split.axes.items():
            at = np.minimum(np.arange(done, done + length), rows - 1)
            full = here == length
            index = (slice(None),) * axis + (slice(done, done + length) if full else at,)
            inputs[name] = np.ascontiguousarray(whole[name][index])
        results = run(length, inputs)
        pieces.append(
            [
                _first(array, digit, length, here)
                for array, digit in zip(results, split.digits, strict=True)
            ]
        )
        done += here
    return [
        parts[0] if digit is None else _joined(parts, digit, rows)
        for parts, digit in zip(zip(*pieces, strict=True), split.digits, strict=True)
    ]


def _by_rows(array: Array, digit: Digit, rows: int) -> Array:
    """An output with its rows as an axis of their own, behind those in front of them."""
    shape, axis = array.shape, digit.axis
    before = shape[axis] // (rows * digit.inner)
    return array.reshape(*shape[:axis], before, rows, digit.inner, *shape[axis + 1 :])


def _first(array: Array, digit: Digit | None, rows: int, kept: int) -> Array:
    if digit is None:
        return array
    index = (slice(None),) * (digit.axis + 1) + (slice(0, kept),)
    return _by_rows(array, digit, rows)[index]


def _joined(parts: Sequence[Array], digit: Digit, rows: int) -> Array:
    whole = np.concatenate(parts, axis=digit.axis + 1)
    axis, shape = digit.axis, whole.shape
    joined = shape[axis] * rows * digit.inner
    return whole.reshape(*shape[:axis], joined, *shape[axis + 3 :])
