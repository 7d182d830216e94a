"""Ctrl-C between steps, and during long calls of foreign libraries.

Code that runs inside a foreign library must not be left by an exception: TVM, for one, turns a
``KeyboardInterrupt`` that is raised in its callbacks into an error of its own. While a foreign
library computes, Python sees no signal at all: long calls are made by another thread, for which the
main one waits.
"""

from __future__ import annotations

import contextvars
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from glenside.deadline import TimeIsUp, time_left

_POLL = 0.05
"""Seconds between two looks at whether there is a Ctrl-C that is held back."""

_GRACE = 3.0
"""Seconds that a call may still take to end by itself when there is one."""

_OVERTIME = 0.5
"""Likewise when the time for the present work is over (:mod:`glenside.deadline`)."""

_pending: list[Callable[[], bool]] = []
"""Whether there is one, by those who hold Ctrl-C back, the innermost last."""


@contextmanager
def held_back() -> Iterator[Callable[[], bool]]:
    """Holds Ctrl-C back in the body, and raises it when the body ends.

    The function it yields says whether there is one, so that the body can end soon. A second Ctrl-C
    acts at once. Outside the main thread, which alone receives signals, and where somebody else
    handles Ctrl-C, nothing is changed.
    """
    pending = False
    previous = signal.getsignal(signal.SIGINT)
    ours = (
        threading.current_thread() is threading.main_thread()
        and previous is signal.default_int_handler
    )

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal pending
        if pending:
            raise KeyboardInterrupt
        pending = True

    if ours:
        signal.signal(signal.SIGINT, hold)
        _pending.append(lambda: pending)
    try:
        yield lambda: pending
    finally:
        if ours:
            _pending.pop()
            signal.signal(signal.SIGINT, previous)
    if pending:
        raise KeyboardInterrupt


@contextmanager
def between_steps() -> Iterator[Callable[[], None]]:
    """Likewise, but the function it yields raises Ctrl-C where there is one."""
    with held_back() as pending:

        def check() -> None:
            if pending():
                raise KeyboardInterrupt

        yield check


def in_background[T](call: Callable[..., T], *arguments: Any) -> T:
    """``call(*arguments)`` by another thread; raises what it raises, and Ctrl-C while it runs or
    :class:`~glenside.deadline.TimeIsUp`.

    For long calls of foreign libraries that let other threads run meanwhile. A Ctrl-C that is held
    back lets the call end where that takes no more than :data:`_GRACE` seconds. Nobody
    waits for the call after that: the thread ends with it, and nothing that it works on may be used
    again. Python waits for the thread before it exits.

    Outside the main thread, which alone receives signals, the call is simply made.
    """
    if threading.current_thread() is not threading.main_thread():
        return call(*arguments)
    results: list[T] = []
    problems: list[BaseException] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            results.append(context.run(call, *arguments))
        except BaseException as problem:
            problems.append(problem)

    worker = threading.Thread(target=work, name=f"glenside {call!r:.60}")
    worker.start()
    waited = 0.0
    while worker.is_alive():
        worker.join(_POLL)
        if any(pending() for pending in _pending):
            waited += _POLL
            if waited > _GRACE:
                raise KeyboardInterrupt
        if time_left() < -_OVERTIME:
            raise TimeIsUp
    if problems:
        raise problems[0]
    return results[0]


def left_behind() -> bool:
    """Whether calls that Ctrl-C ended the wait for are still running."""
    return any(thread.name.startswith("glenside ") for thread in threading.enumerate())
