"""How products of plain matrices are spread over a device's threads.

Where no reduced loop shares a dimension with one over results (no windows), a product is one of
matrices, several of them where there are batch loops. Then nothing is to be found out about what
windows share: a group computes a tile of rows by columns, and what is left to choose are a few
numbers, which are enumerated. The shape is the one that Volkov and Demmel describe ("Benchmarking
GPUs to Tune Dense Linear Algebra", SC 2008): long loops, many sums in registers, two stages in
local memory of which one is filled while the other is multiplied.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import DeviceLimits
    from glenside.codegen.gpu.space import ProductSpace

_WASTE = 1.34
"""Most work, masked work included, by work that counts."""
_DOWN, _LEFT = (8, 4), (8, 4, 7, 6, 5)
"""Rows and columns of a thread."""
_PLACES_DOWN, _PLACES_LEFT = (2, 4, 6, 8, 12, 16, 24, 32), (2, 4, 7, 8, 14, 16, 32)
"""Threads of a group along rows and along columns."""
_NARROW = 16
"""Fewer columns of a group are not looked at where there are more."""
_MOST_MOVED = 32
"""Elements of a stage that a thread fetches ahead."""
_SPARE_REGISTERS = 34
"""Registers for addresses, loops and what is on its way to local memory, beside those counted."""
_READ, _FETCH = 2.7, 2.0
"""Instructions that a wide read of local memory takes the time of, and an element on its way to
it."""
_UNEVEN = 1.14
"""How much longer it takes where the threads along columns are no power of two."""
_FEW_WARPS, _STAGE, _EXCHANGE, _START = 1.2, 315.0, 0.018, 2350.0
"""Warps below which a unit waits; cycles of waiting for a stage, for each sum that threads exchange
and for what a group begins and ends with."""
_APART, _LAUNCH = 0.04, 0.7e-6
"""What of the shorter parts does not overlap; seconds of a launch."""


@dataclass(frozen=True)
class MatrixMapping:
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

    def to_json(self) -> str:
        """Text that :meth:`from_json` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | dict[str, Any]) -> MatrixMapping:
        """A mapping from its text, or from what ``json.loads`` makes of it."""
        given = dict(json.loads(text) if isinstance(text, str) else text)
        given["tile"] = tuple(given["tile"])
        return cls(**given)

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
class Matrices:
    """A product space as matrices: sizes, and how far apart elements of the streamed operand are.

    ``outer`` are the loops over batches and over streamed rows that do not lie next to the others,
    each with its stride; ``columns`` those that do, whose elements follow each other.
    """

    outer: tuple[tuple[int, int], ...]
    """(loop, stride)"""
    columns: tuple[int, ...]
    batches: int
    rows: int
    width: int
    depth: int
    step: int
    """Elements from one reduced step to the next."""
    offset: int


def as_matrices(space: ProductSpace) -> Matrices | None:
    """The space as matrices; None where it is something else.

    The resident operand has to be constant, since it is packed, and the streamed one to lie in
    memory without borders, the columns' elements one after the other.
    """
    streamed, memory = space.streamed, space.streamed.memory
    if not space.resident.constant or memory is None or not space.of("m"):
        return None
    if any(memory.before) or tuple(memory.size) != tuple(streamed.shape):
        return None
    if {space.dtype, space.accumulate, streamed.dtype, space.resident.dtype} != {"float32"}:
        return None
    strides = [
        sum(step * stride for step, stride in zip(steps, memory.strides, strict=True))
        for steps in streamed.steps
    ]
    long = [k for k, axis in enumerate(space.axes) if axis.size > 1]
    for dimension in range(len(streamed.shape)):
        if sum(1 for axis in streamed.axes_of(dimension) if axis in long) > 1:
            return None
    start = zip(streamed.start, memory.strides, strict=True)
    offset = memory.offset + sum(at * stride for at, stride in start)
    depth, step = _run(space, strides, [k for k in space.of("k") if k in long])
    if depth is None:
        return None
    columns: list[int] = []
    rest = [k for k in space.of("n") if k in long]
    reach = 1
    while rest and strides[rest[-1]] == reach:
        columns.insert(0, rest.pop())
        reach *= space.axes[columns[0]].size
    if not columns:
        return None
    batch = [k for k in space.of("batch") if k in long]
    outer = tuple((k, strides[k]) for k in [*batch, *rest])
    return Matrices(
        outer,
        tuple(columns),
        space.size("batch"),
        space.size("m"),
        reach,
        depth,
        step,
        offset,
    )


def _run(
    space: ProductSpace, strides: Sequence[int], loops: Sequence[int]
) -> tuple[int | None, int]:
    """The length and step of loops that together are one; a length of None where they are not."""
    if not loops:
        return None, 0
    size, step = space.axes[loops[-1]].size, strides[loops[-1]]
    for loop in reversed(loops[:-1]):
        if strides[loop] != size * step:
            return None, 0
        size *= space.axes[loop].size
    return size, step


def matrix_mappings(space: ProductSpace, limits: DeviceLimits, count: int) -> list[MatrixMapping]:
    """Up to ``count`` mappings, best predicted first; none where the space is something else."""
    shape = as_matrices(space)
    if shape is None:
        return []
    outer = math.prod(space.axes[loop].size for loop, _ in shape.outer)
    known = _known.get((shape, outer, limits.name))
    if known is None or known[0] != limits:
        if len(_known) > 256:
            _known.clear()
        known = limits, _ranked(shape, outer, limits)
        _known[shape, outer, limits.name] = known
    return known[1][:count]


def occupies(mapping: MatrixMapping, space: ProductSpace, limits: DeviceLimits) -> bool:
    """Whether there are groups for half of the device's compute units at least.

    For fewer it pays to split the reduction over groups, which these mappings do not.
    """
    rows, width = space.size("m"), space.size("n")
    # Streamed rows that do not lie together make more groups, not fewer.
    tiles = -(-rows // mapping.rows) * -(-width // mapping.columns)
    return space.size("batch") * tiles >= limits.compute_units // 2


_known: dict[tuple[Matrices, int, str], tuple[Any, list[MatrixMapping]]] = {}


def _ranked(shape: Matrices, outer: int, limits: DeviceLimits) -> list[MatrixMapping]:
    found = [
        replace(each, predicted=predict(each, shape, outer, limits)) for each in _all(shape, limits)
    ]
    return sorted(found, key=lambda each: (each.predicted, each.to_json()))


def _all(shape: Matrices, limits: DeviceLimits) -> Iterable[MatrixMapping]:
    """The mappings that the device and the sizes allow."""
    most = limits.threads_per_group
    sizes = itertools.product(_DOWN, _PLACES_DOWN, _LEFT, _PLACES_LEFT)
    for down, up, left, right in sizes:
        rows, columns = down * up, left * right
        if columns < min(_NARROW, shape.width):
            continue
        work = -(-shape.rows // rows) * rows * -(-shape.width // columns) * columns
        if work > _WASTE * shape.rows * shape.width:
            continue
        for depth, parts in itertools.product((8, 16, 32), (1, 2, 4)):
            made = MatrixMapping(rows, columns, depth, (down, left), parts)
            threads = made.threads
            if threads > most or not 64 <= threads <= 512 or threads % limits.warp:
                continue
            if made.local_elements * 4 > min(limits.local_bytes, limits.static_local_bytes):
                continue
            if depth // parts < 4 or depth > max(8, shape.depth) or rows * depth % 4:
                continue
            if _moved(made) > _MOST_MOVED or registers(made) > min(
                limits.thread_registers, limits.unit_registers // threads
            ):
                continue
            yield made


def registers(mapping: MatrixMapping) -> int:
    """Registers of a thread, about."""
    down, left = mapping.tile
    return int(down * left + down + left + _moved(mapping)) + _SPARE_REGISTERS


def _moved(mapping: MatrixMapping) -> float:
    """Elements that a thread holds on their way to local memory."""
    return mapping.depth * (mapping.rows + mapping.columns) / mapping.threads


def predict(mapping: MatrixMapping, shape: Matrices, outer: int, limits: DeviceLimits) -> float:
    """Seconds, by what a compute unit multiplies and waits for and what goes through memory.

    The numbers were fitted to some 230 kernels on one H200, of products that minimal filtering and
    convolutions by 1 x 1 make; the typical error is 11 %.
    """
    groups = outer * -(-shape.rows // mapping.rows) * -(-shape.width // mapping.columns)
    stages = -(-shape.depth // mapping.depth)
    depth = stages * mapping.depth
    held = min(
        limits.unit_threads // mapping.threads,
        limits.unit_groups,
        limits.unit_registers // (mapping.threads * registers(mapping)),
        limits.unit_local_bytes // (4 * mapping.local_elements + 1024),
    )
    turns = -(-groups // limits.compute_units)
    together = min(max(held, 1), turns)
    tile = mapping.rows * mapping.columns
    # Instructions of a warp: multiplications, and reads of local memory, which wait for each other.
    down, left = mapping.tile
    reads = down / 4 + left / (4 if left % 4 == 0 else 1)
    lanes = limits.peak["float32"] / (2 * limits.compute_units * limits.clock)
    fetched = (mapping.rows + mapping.columns) * mapping.parts / mapping.threads
    busy = tile * depth / lanes * (1 + (_READ * reads + _FETCH * fetched) / (down * left))
    _, along = mapping.places
    if along & (along - 1):
        busy *= _UNEVEN
    # Few warps leave a unit waiting for what they depend on.
    busy *= 1 + _FEW_WARPS / (together * mapping.threads / limits.warp)
    cycles = turns * busy + _START
    cycles += turns / together * (stages * _STAGE + (mapping.parts - 1) * tile * _EXCHANGE)
    stored = 4.0 * outer * shape.rows * shape.width
    moved = 4.0 * groups * depth * (mapping.rows + mapping.columns) + 2 * stored
    own = 4.0 * (shape.batches * shape.rows + outer * shape.width) * depth + stored
    parts = cycles / limits.clock, moved / limits.cache_bandwidth, own / limits.bandwidth
    longest = max(parts)
    return longest + _APART * (sum(parts) - longest) + _LAUNCH
