"""Totals of many numbers, added up in blocks.

Numbers added one after another to one total lose a digit whenever the total has grown by one: a
float32 mean of a million is good to five. The total of a block is small, and there are few of them,
so a loop over blocks whose totals are added to totals of blocks loses next to nothing (Higham, The
accuracy of floating point summation, 1993).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.loops import (
    Index,
    Stmt,
    allocate,
    declare,
    get,
    nested,
    put,
    repeat,
    sequence,
)
from glenside.language.shape import FLOATS

BLOCK = 128
"""Terms, or totals of blocks, that are added up one after another."""

Lanes = Callable[[Callable[[Any], Stmt]], Stmt]


class Totals:
    """Totals of ``size`` results, each of ``count`` terms combined by ``step``.

    ``current`` is the buffer that terms are to be added to inside :meth:`loops`, ``final`` the one
    that has the totals behind it. Few terms have one buffer.

    :param lanes: a loop over the results, given what to do at each.
    """

    def __init__(self, name: str, size: int, dtype: str, step: str, count: int, lanes: Lanes):
        self._dtype, self._step, self._lanes = dtype, step, lanes
        levels = 1
        if step == "sum" and dtype in FLOATS:
            while levels < 4 and count > 4 * BLOCK**levels:
                levels += 1
        self._buffers = [
            declare(name if not k else f"{name}_{k}", size, dtype, local=True)
            for k in range(levels)
        ]
        self.final, self.current = self._buffers[0], self._buffers[-1]

    def start(self) -> list[Stmt]:
        """Statements before the loops."""
        return [*map(allocate, self._buffers), self._cleared(self.final)]

    def loops(self, extents: Sequence[int], body: Callable[[Index], Stmt]) -> Stmt:
        """Nested loops over the terms: ``body(index)`` adds one to ``current``."""
        return self._level(len(self._buffers) - 1, extents, body)

    def block(self, body: Stmt) -> Stmt:
        """Terms outside of loops: ``body`` adds them to ``current``."""
        for level in range(len(self._buffers) - 1, 0, -1):
            body = self._block(level, body)
        return body

    def _level(self, level: int, extents: Sequence[int], body: Callable[[Index], Stmt]) -> Stmt:
        if not level:
            return nested(extents, body)
        return in_blocks(
            extents,
            body,
            lambda inside: self._block(level, inside),
            lambda outer, group: self._level(level - 1, outer, group),
        )

    def _block(self, level: int, body: Stmt) -> Stmt:
        buffer, into = self._buffers[level], self._buffers[level - 1]

        def add(lane: Any) -> Stmt:
            return put(into, lane, get(into, lane) + get(buffer, lane))

        return sequence([self._cleared(buffer), body, self._lanes(add)])

    def _cleared(self, buffer: Any) -> Stmt:
        neutral = scalars.identity(self._step, self._dtype)
        return self._lanes(lambda lane: put(buffer, lane, neutral))


def in_blocks(
    extents: Sequence[int],
    body: Callable[[Index], Stmt],
    around: Callable[[Stmt], Stmt],
    outside: Callable[[Sequence[int], Callable[[Index], Stmt]], Stmt],
) -> Stmt:
    """Nested loops of which runs of up to :data:`BLOCK` iterations have ``around`` around them.

    :param outside: the loops over the runs, given their extents and what to do at each.
    """
    first = len(extents)
    while first and math.prod(extents[first - 1 :]) <= BLOCK:
        first -= 1
    if not first:
        return around(nested(extents, body))
    cut = first - 1  # The innermost loop that is too long for one block.
    length = max(1, BLOCK // math.prod(extents[first:]))
    full, rest = divmod(extents[cut], length)

    def run(head: Sequence[Any], start: Any, count: int) -> Stmt:
        def inner(at: Any) -> Stmt:
            return nested(extents[first:], lambda tail: body([*head, start + at, *tail]))

        return around(repeat(count, inner))

    parts = []
    if full:
        parts.append(
            outside(
                [*extents[:cut], full],
                lambda index: run(index[:-1], index[-1] * length, length),
            )
        )
    if rest:
        parts.append(outside(extents[:cut], lambda index: run(index, full * length, rest)))
    return sequence(parts)
