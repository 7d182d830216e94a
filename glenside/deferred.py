"""A program that is compiled when it is first used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from glenside.hw_targets.target import Executable


class Deferred:
    """Does whatever is asked of it by the executable that ``compile_`` makes, once."""

    def __init__(self, compile_: Callable[[], Executable]) -> None:
        self._compile = compile_
        self._turn = threading.Lock()
        self._compiled: Executable | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # Python asks for those to copy and the like.
        with self._turn:
            if self._compiled is None:
                self._compiled = self._compile()
        return getattr(self._compiled, name)
