"""Signals of the command line, from the first moment on.

Importing it takes a second, in which nobody is there yet to catch an error.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

_EXIT_CODE = 130


def _is_module() -> bool:
    """Whether this process is ``python -m glenside``."""
    words = sys.orig_argv
    return sys.argv[:1] == ["-m"] and "glenside" in words[words.index("-m") + 1 :][:1]


def _is_command() -> bool:
    """Whether this process is ``glenside`` or ``python -m glenside``."""
    return _is_module() or os.path.basename(sys.argv[0] if sys.argv else "") == "glenside"


def _stop(number: int, frame: FrameType | None) -> None:
    os.write(2, b"stopped\n")
    os._exit(_EXIT_CODE)  # Nothing is under way, and imports are not to be unwound.


def over() -> None:
    """The command line is there: Ctrl-C is its own from here on."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command() and threading.current_thread() is threading.main_thread():
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    if hasattr(signal, "SIGPIPE"):
        # A pipe that nobody reads any more ends the command quietly, as it ends others.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)

if _is_module() and not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    # An onnx.py in the current directory is not to be taken for the package.
    sys.path.append(sys.path.pop(0))
