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
def between_steps() -> Iterator[Callable[[], None]]:
    """Holds Ctrl-C back in the body until the function it yields is called, or the body ends.

    A second Ctrl-C acts at once. Outside the main thread, which alone receives signals, and where
    somebody else handles Ctrl-C, nothing is changed.
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

    def check() -> None:
        nonlocal pending
        if pending:
            pending = False
            raise KeyboardInterrupt

    if ours:
        signal.signal(signal.SIGINT, hold)
    try:
        yield check
    finally:
        if ours:
            signal.signal(signal.SIGINT, previous)
    check()
