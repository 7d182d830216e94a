"""A limit of time that every stage of the pipeline obeys.

Work that may take long asks :func:`check_time` between steps, which raises :class:`TimeIsUp` once
the time that :func:`within` allows is over. Whoever set the limit catches it, and goes on with what
there is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TimeIsUp(Exception):
    """The time allowed for the present work is over."""


class Deadline:
    """A point in time.

    :param seconds: from now; None: never.
    :param clock: tells the time in seconds; by default ``time.perf_counter``.
    """

    def __init__(self, seconds: float | None, clock: Callable[[], float] | None = None) -> None:
        self._clock = time.perf_counter if clock is None else clock
        self._end = math.inf if seconds is None else self._clock() + seconds

    def left(self) -> float:
        """Seconds until then: infinite for never, negative afterwards."""
        return self._end - self._clock()

    def share(self, part: float) -> Deadline:
        """The deadline when that part of what is left is over."""
        left = self.left()
        return Deadline(None if left == math.inf else max(left, 0.0) * part, self._clock)


_PRESENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def within(deadline: Deadline) -> Iterator[None]:
    """The body is to be done by then, and by an earlier deadline around it."""
    around = _PRESENT.get()
    earlier = around is not None and around.left() < deadline.left()
    before = _PRESENT.set(around if earlier else deadline)
    try:
        yield
    finally:
        _PRESENT.reset(before)


def time_left() -> float:
    """Seconds left for the present work: infinite where nothing limits it."""
    deadline = _PRESENT.get()
    return math.inf if deadline is None else deadline.left()


def check_time() -> None:
    """Raises :class:`TimeIsUp` when none is left."""
    if time_left() < 0:
        raise TimeIsUp
