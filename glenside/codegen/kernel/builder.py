"""What the kernels of one program share: its memory, and parameters as kernels want them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.codegen.program.record import Cut
from glenside.codegen.storage import Memory, Origin
from glenside.codegen.views import View
from glenside.language.term import Term

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Argument:
    """What a kernel is launched with: ``extent`` elements of a buffer from ``base`` on."""

    buffer: int
    base: int
    extent: int


@dataclass
class Launch:
    """A TIR function and its arguments."""

    function: Any
    arguments: list[Argument]
    writes: Term | None = None


class KernelBuilder:
    """Builds the functions of one program; packed weights are added to its memory.

    :param memory: where they are added; a copy of the program's by default.
    """

    def __init__(self, cut: Cut, memory: Memory | None = None) -> None:
        self.cut = cut
        self.memory = cut.memory.copy() if memory is None else memory
        self._packed: dict[tuple[Any, ...], int] = {}
        self._step = 0

    def at_step(self, step: int) -> None:
        """From now on, values are read where they lie before the step of that number."""
        self._step = step

    def packed(
        self, key: tuple[Any, ...], dtype: str, make: Callable[[], tuple[Array, Origin | None]]
    ) -> int:
        """The buffer with a parameter as kernels want it, made once for each key.

        :param key: what the elements and their order depend on.
        :param make: gives the elements, and what they are made of where that is known.
        """
        if key not in self._packed:
            array, origin = make()
            self._packed[key] = self.memory.constant(array, dtype, origin)
        return self._packed[key]

    def view(self, term: Term) -> View | None:
        """The view of a term that lies in memory; folded constants are put there on demand."""
        if term not in self.memory.stored and term in self.cut.weights:
            self.memory.keep(term, self.cut.weights[term])
        stored = self.memory.stored.get(term)
        if stored is None or self.cut.since.get(term, 0) > self._step:
            return None
        return stored.view
