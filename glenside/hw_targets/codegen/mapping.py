"""Parallel mappings of products as a constraint problem."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class GpuMapping:
    """How the loops of a product space are spread over a device, one number a loop.

    A loop over results is cut into ``ceil(size / (threads * registers))`` groups of the grid,
    ``threads`` neighbouring threads and ``registers`` results in each thread, which are ``vector``
    neighbours at a time (the threads of a group take turns, ``vector`` results each). A reduced
    loop is cut into ``split`` groups of the grid, whose partial sums a second kernel adds up, into
    stages of ``chunk`` steps, and each stage into ``threads`` threads, whose sums are added up in
    local memory.
    """

    threads: tuple[int, ...]
    registers: tuple[int, ...]
    vector: tuple[int, ...]
    chunk: tuple[int, ...]
    split: tuple[int, ...]
    resident_fast: bool = True
    """Whether neighbouring threads lie along the resident operand's rows."""
    staged: tuple[bool, bool] = (True, True)
    """Whether the resident and the streamed operand are read through local memory."""
    ahead: bool = False
    """Whether the next stage is fetched while one is computed with."""
    predicted: float = 0.0
    """Seconds, by the model."""

    def to_json(self) -> str:
        """Text that :meth:`from_json` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | dict[str, Any]) -> GpuMapping:
        """A mapping from its text, or from what ``json.loads`` makes of it."""
        given = json.loads(text) if isinstance(text, str) else text
        lists = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        return cls(**lists)


def best_mapping(space, limits):
    return None
