"""The kinds of mapping: how a product is spread over a device, as plain data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class _Json:
    """What is written as JSON and read from it."""

    def to_json(self) -> str:
        """Text that :func:`read_mapping` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """From what JSON made of the fields."""
        rows = {each.name for each in fields(cls) if str(each.type).startswith("tuple")}
        values = given.items()
        return cls(**{k: tuple(v) if k in rows and isinstance(v, list) else v for k, v in values})


@dataclass(frozen=True)
class GpuMapping(_Json):
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
    gathered: bool = False
    """Whether results are brought together in local memory, to be stored in order."""
    buffers: int = 1
    """Stages that have room in local memory; with more than one, the next are brought while one is
    multiplied."""
    predicted: float = 0.0
    """Seconds, by the model."""


@dataclass(frozen=True)
class MatrixMapping(_Json):
    """A group computes ``rows`` of the resident operand by ``columns`` of the streamed one, a
    thread ``tile[0]`` by ``tile[1]`` of them, ``depth`` reduced steps at a time. ``parts`` threads
    share the reduced steps of a stage and add up their sums at the end."""

    rows: int
    columns: int
    depth: int
    tile: tuple[int, int]
    parts: int = 1
    predicted: float = 0.0
    """Seconds, by the model."""

    @property
    def threads(self) -> int:
        """Threads of a group."""
        across, along = self.places
        return across * along * self.parts

    @property
    def places(self) -> tuple[int, int]:
        """Threads along rows and along columns."""
        return self.rows // self.tile[0], self.columns // self.tile[1]

    @property
    def local_elements(self) -> int:
        """Elements in local memory."""
        return 2 * self.depth * (self.rows + self.columns) + self.exchanged_elements

    @property
    def exchanged_elements(self) -> int:
        """Sums of the threads that share reduced steps."""
        return (self.parts - 1) * self.rows * self.columns


@dataclass(frozen=True)
class TensorMapping(_Json):
    """How a product is spread over groups that multiply on matrix units.

    ``tile`` has the results of a group along each loop over positions, ``rows`` those along the
    rows; ``groups`` are the warpgroups (128 threads) along rows and along positions. A step takes
    ``chunk`` elements of the inner reduced loop; ``stages`` steps are in local memory at a time,
    and a product of the previous step may be under way for each ``kept``. The ``split`` groups of a
    cluster share the steps and add up their sums. ``gathered``: all reduced loops are one.

    With ``boxes`` the groups stay, and warps of their own bring operands: so many boxes of the
    streamed operand are in local memory at a time, and for each warpgroup ``stages`` portions of
    rows, a portion for each window offset. ``apart``: each window offset has a box of its own.

    With ``warps`` each warp multiplies alone: ``groups`` are warps (32 threads), and the ``split``
    parts of a product lie in memory until another kernel adds them up.
    """

    tile: tuple[int, ...]
    rows: int
    groups: tuple[int, int]
    chunk: int
    stages: int
    split: int = 1
    kept: int = 0
    gathered: bool = False
    boxes: int = 0
    apart: bool = False
    warps: bool = False
    predicted: float = 0.0
    """Seconds, by the model."""


AnyMapping = GpuMapping | MatrixMapping | TensorMapping
"""How a product is mapped: to threads, one of matrices to threads, or to matrix units."""


def read_mapping(text: str | dict[str, Any]) -> AnyMapping:
    """A mapping of any kind from its text, or from what ``json.loads`` makes of it."""
    given = json.loads(text) if isinstance(text, str) else text
    if "stages" in given:
        return TensorMapping.of(given)
    return MatrixMapping.of(given) if "depth" in given else GpuMapping.of(given)
