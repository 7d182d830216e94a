"""Ctrl-C between steps.

Code that runs inside a foreign library must not be left by an exception: TVM, for one, turns a
``KeyboardInterrupt`` that is raised in its callbacks into an error of its own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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
    try:
        yield lambda: pending
    finally:
        if ours:
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
