"""Invocations of accelerators as operators see them: found by name, in batches, in passes.

What a unit is stands in :mod:`glenside.language.units`; here is the one table of those that are
known. Hardware lives outside the language: whoever knows where more units are found says so once
(:func:`found_by`), and is asked when a name is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from glenside.errors import ShapeError
from glenside.language.shape import AccessType, Shape

Array = np.ndarray[Any, Any]


class Invocable(Protocol):
    """What operators ask of a unit."""

    @property
    def name(self) -> str:
        """By which calls name it."""

    @property
    def simulate(self) -> Callable[[Shape, list[Array]], Array] | None:
        """Computes one invocation on arrays of the unit's own size."""

    @property
    def array(self) -> Callable[[Shape], tuple[int, int]] | None:
        """The size of one weight tile, of units that multiply matrices."""

    def infer(self, parameters: Shape, operands: Sequence[AccessType]) -> AccessType:
        """Type of one invocation."""

    def runner(
        self, parameters: Shape, operands: Sequence[AccessType]
    ) -> Callable[[list[Array]], Array]:
        """What computes invocations on operands of these types."""


_known: dict[str, Invocable] = {}
_look_further: list[Callable[[str | None], None]] = []


def found_by(look: Callable[[str | None], None]) -> None:
    """Says what makes more units known: it gets the name that is missing, or None before all units
    are listed."""
    _look_further[:] = [look]


def put(unit: Invocable) -> None:
    """Makes a unit known under its name, in place of one that has it."""
    _known[unit.name] = unit


def look_up(name: str) -> Invocable | None:
    """The unit of that name, if there is one."""
    if name not in _known:
        for look in _look_further:
            look(name)
    return _known.get(name)


def listed() -> tuple[Invocable, ...]:
    """All units that are known."""
    for look in _look_further:
        look(None)
    return tuple(_known.values())


def is_missing(name: str) -> bool:
    """Whether no unit of that name is known so far."""
    return name not in _known


def find(name: str) -> Invocable:
    """The unit of that name; raises :class:`ShapeError` naming those that exist."""
    unit = look_up(name)
    if unit is None:
        known = ", ".join(sorted(_known)) or "none"
        raise ShapeError(f"no accelerator unit is called {name!r} (registered: {known})")
    return unit


@contextlib.contextmanager
def forgetting() -> Iterator[dict[str, Invocable]]:
    """What becomes known inside is forgotten behind; gives the table itself."""
    listed()
    before = dict(_known)
    try:
        yield _known
    finally:
        _known.clear()
        _known.update(before)


def infer_batch(
    unit: Invocable, parameters: Shape, operands: Sequence[AccessType], batch: int
) -> AccessType:
    """Type of one invocation for each position on the first ``batch`` outer axes, which are shared.

    :raises ShapeError: the operands do not share them, or the unit does not take the rest.
    """
    if not batch:
        return unit.infer(parameters, operands)
    shared = {each.outer[:batch] for each in operands}
    if batch < 0 or len(shared) != 1 or len(next(iter(shared))) != batch:
        shown = ", ".join(map(str, operands))
        raise ShapeError(f"call {unit.name}: {shown} do not share their first {batch} outer axes")
    result = unit.infer(parameters, [without_batch(each, batch) for each in operands])
    return AccessType(shared.pop() + result.outer, result.item, result.dtype)


def run_batch(
    unit: Invocable,
    parameters: Shape,
    operands: Sequence[AccessType],
    arrays: list[Array],
    batch: int,
) -> Array:
    """Value of such invocations, one after the other: the unit sees operands of one only."""
    if not batch:
        return unit.runner(parameters, operands)(arrays)
    each = [without_batch(of, batch) for of in operands]
    result = infer_batch(unit, parameters, operands, batch)
    values = np.empty(result.shape, result.dtype)
    invoke = unit.runner(parameters, each)
    for position in np.ndindex(*result.outer[:batch]):
        values[position] = invoke([np.asarray(array[position], order="C") for array in arrays])
    return values


def without_batch(access: AccessType, batch: int) -> AccessType:
    """What one invocation of a batch sees of an operand."""
    return AccessType(access.outer[batch:], access.item, access.dtype)


def run_blocked(
    unit: Invocable, parameters: Shape, a: Array, b: Array, batch: int, accumulate: str
) -> Array:
    """A matrix product of any size in passes over one array of the unit.

    ``a`` is ``(batch axes, M axes, K)``, ``b`` is ``(batch axes, N axes, K)``; the result is
    ``(batch axes, M axes, N axes)`` in ``accumulate``. Each pass multiplies a stream of ``M`` rows
    with one weight tile of ``rows x columns``; edge tiles are padded with zeros to that size, so
    the simulator never sees another one.
    """
    assert unit.array is not None
    rows, columns = unit.array(parameters)
    shared, depth = a.shape[:batch], a.shape[-1]
    a_outer, b_outer = a.shape[batch:-1], b.shape[batch:-1]
    groups, m, n = math.prod(shared), math.prod(a_outer), math.prod(b_outer)
    stream = _to_multiple(a.reshape(groups, m, depth).astype(accumulate, copy=False), 2, rows)
    weights = b.reshape(groups, n, depth).swapaxes(1, 2).astype(accumulate, copy=False)
    weights = _to_multiple(_to_multiple(weights, 1, rows), 2, columns)
    result = np.zeros((groups, m, weights.shape[2]), accumulate)
    if m:
        for group, low in itertools.product(range(groups), range(0, stream.shape[2], rows)):
            part = np.ascontiguousarray(stream[group, :, low : low + rows])
            for left in range(0, weights.shape[2], columns):
                tile = weights[group, low : low + rows, left : left + columns]
                done = unit.simulate(parameters, [part, tile]) if unit.simulate else part @ tile
                result[group, :, left : left + columns] += done
    return np.ascontiguousarray(result[:, :, :n]).reshape(shared + a_outer + b_outer)


def _to_multiple(array: Array, axis: int, multiple: int) -> Array:
    missing = -array.shape[axis] % multiple
    if not missing:
        return array
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, missing)
    return np.pad(array, widths)
