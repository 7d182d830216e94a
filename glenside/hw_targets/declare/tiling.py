"""Runs a call of any size on a unit of a fixed one: operands padded, cut into tiles, put together.

How a size variable may be cut depends on the term. It is found out by computing the term on
small integers, once, when the unit is declared:

- *outer*: the result has an axis of that length, and a part of the operands gives that part of it;
- *sum*: the result is the sum over the parts, operands without that axis (a bias) being zero in all
  but the first;
- *max*: the result is the greatest of the parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import TargetError
from glenside.hw_targets.declare.samples import varied
from glenside.hw_targets.declare.sizes import Condition, Size
from glenside.hw_targets.declare.template import OperandType
from glenside.language.shape import FLOATS, lowest

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
Compute = Callable[[Sizes, list[Array]], Array]
"""The unit's term, or its simulator, on operands of these sizes."""


@dataclass(frozen=True)
class Role:
    """What a size variable is to the result: ``outer`` (then its axis), ``sum`` or ``max``."""

    kind: str
    axis: int = -1


@dataclass(frozen=True)
class Tiling:
    """The unit's own sizes.

    ``tile``: the length of one pass; longer operands take several. ``lanes``: lengths are padded to
    a multiple, in one pass. ``roles``: of the variables in ``tile``. ``lowest``: the variables
    along which padding is the dtype's lowest value, not zero.
    """

    operands: Mapping[str, OperandType]
    tile: Mapping[str, int]
    lanes: Mapping[str, int]
    roles: Mapping[str, Role]
    lowest: frozenset[str]

    def run(self, compute: Compute, sizes: Sizes, arrays: Sequence[Array], shape: Any) -> Array:
        """The result of shape ``shape``, computed in passes."""
        padded, arrays = self._padded(sizes, arrays)
        steps = [
            [(name, low, length) for low in range(0, max(padded[name], 1), length)]
            for name, length in self.tile.items()
        ]
        result: Array | None = None
        for cuts in itertools.product(*steps):
            own = {**padded, **{name: length for name, _, length in cuts}}
            done = compute(own, [self._cut(*each, cuts) for each in self._by_type(arrays)])
            result = self._add(result, done, cuts, padded)
        assert result is not None
        return np.ascontiguousarray(result[tuple(slice(0, length) for length in shape)])

    def covered(self, sizes: Sizes) -> dict[str, int]:
        """The sizes that are padded to."""
        longer = dict(sizes)
        for name, multiple in (*self.lanes.items(), *self.tile.items()):
            # A tile is never left out, even where there is nothing to compute.
            longer[name] = max(-(-sizes[name] // multiple), 1 if name in self.tile else 0)
            longer[name] *= multiple
        return longer

    def own(self, sizes: Sizes) -> dict[str, int]:
        """The sizes of one pass."""
        return {**self.covered(sizes), **self.tile}

    def pads_low(self, size: Size) -> bool:
        """Whether an axis of that length is padded with the lowest value."""
        return self.lowest.issuperset(size.names)

    def _by_type(self, arrays: Sequence[Array]) -> Iterator[tuple[OperandType, Array]]:
        return zip(self.operands.values(), arrays, strict=True)

    def _padded(self, sizes: Sizes, arrays: Sequence[Array]) -> tuple[dict[str, int], list[Array]]:
        longer = self.covered(sizes)
        result = []
        for declared, array in self._by_type(arrays):
            for axis, size in enumerate(declared.axes):
                missing = size.of(longer) - array.shape[axis]
                if missing:
                    widths = [(0, 0)] * array.ndim
                    widths[axis] = (0, missing)
                    fill = lowest(array.dtype.name) if self.pads_low(size) else 0
                    array = np.pad(array, widths, constant_values=fill)
            result.append(array)
        return longer, result

    def _cut(
        self, declared: OperandType, array: Array, cuts: Sequence[tuple[str, int, int]]
    ) -> Array:
        """The part of one operand that a pass gets."""
        where = [slice(None)] * array.ndim
        blank = False
        for name, low, length in cuts:
            axes = [axis for axis, size in enumerate(declared.axes) if size.text == name]
            for axis in axes:
                where[axis] = slice(low, low + length)
            blank = blank or (not axes and low > 0 and self.roles[name].kind == "sum")
        part = np.ascontiguousarray(array[tuple(where)])
        return np.zeros_like(part) if blank else part

    def _add(
        self,
        result: Array | None,
        done: Array,
        cuts: Sequence[tuple[str, int, int]],
        padded: Sizes,
    ) -> Array:
        where = [slice(None)] * done.ndim
        shape = list(done.shape)
        first = True
        combine: np.ufunc = np.add
        for name, low, length in cuts:
            role = self.roles[name]
            if role.kind == "outer":
                where[role.axis] = slice(low, low + length)
                shape[role.axis] = padded[name]
            else:
                first = first and low == 0
                combine = np.add if role.kind == "sum" else np.maximum
        if result is None:
            result = np.zeros(shape, done.dtype)
        at = tuple(where)
        result[at] = done if first else combine(result[at], done)
        return result


@dataclass(frozen=True)
class _Trial:
    """What roles are found out with."""

    operands: Mapping[str, OperandType]
    conditions: Sequence[Condition]
    names: Sequence[str]
    meaning: Compute
    dtype: str

    def arrays(self, sizes: Sizes, low: int = -4, high: int = 4) -> list[Array]:
        rng = np.random.default_rng(len(sizes))
        result = []
        for declared in self.operands.values():
            wanted = declared.of(sizes, self.dtype)
            least = max(low, int(lowest(wanted.dtype))) if wanted.dtype not in FLOATS else low
            values = rng.integers(least, max(high, least) + 1, wanted.shape)
            result.append(values.astype(wanted.dtype))
        return result

    def same(self, tiling: Tiling, sizes: Sizes) -> bool:
        """Whether passes give the whole: of mixed signs, below zero (where a zero is greatest), and
        above."""
        for low, high in ((-4, 4), (-9, -1), (1, 9)):
            arrays = self.arrays(sizes, low, high)
            whole = self.meaning(sizes, arrays)
            try:
                if not _same(tiling.run(self.meaning, sizes, arrays, whole.shape), whole):
                    return False
            except ValueError:
                return False
        return True

    def sizes(self, fixed: Sizes) -> dict[str, int] | None:
        """Sizes that the unit takes, other than the given ones as small as may be."""
        for found in varied(self.names, self.conditions, fixed):
            try:
                self.meaning(found, self.arrays(found))
            except ValueError:
                continue
            return found
        return None


def tiling(
    what: str,
    operands: Mapping[str, OperandType],
    names: Sequence[str],
    conditions: Sequence[Condition],
    tile: Mapping[str, int],
    lanes: Mapping[str, int],
    meaning: Compute,
    dtype: str,
) -> Tiling:
    """How the term is cut along ``tile`` and padded along ``tile`` and ``lanes``.

    :raises TargetError: it cannot be, with the reason.
    """
    trial = _Trial(operands, conditions, names, meaning, dtype)
    plain = {size.text for each in operands.values() for size in each.axes}
    for name, length in (*tile.items(), *lanes.items()):
        if name not in plain:
            raise TargetError(f"{what}: {name} has a tile or lanes, but no operand has that axis")
        if length < 1:
            raise TargetError(f"{what}: {name} must have a positive tile or lanes, got {length}")
    roles = {name: _role(what, trial, name, length) for name, length in tile.items()}
    if {"sum", "max"} <= {role.kind for role in roles.values()}:
        raise TargetError(f"{what}: parts along one tile are added up, along another a maximum")
    low = frozenset(n for n, m in (*tile.items(), *lanes.items()) if _pad(what, trial, n, m))
    result = Tiling(operands, tile, lanes, roles, low)
    together = trial.sizes({name: 2 * length for name, length in tile.items()})
    if len(tile) > 1 and together is not None and not trial.same(result, together):
        raise TargetError(f"{what}: {', '.join(tile)} can be cut singly, but not all at once")
    return result


def _same(a: Array, b: Array) -> bool:
    exact = a.dtype.name not in FLOATS
    return a.shape == b.shape and bool(
        np.array_equal(a, b) if exact else np.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True)
    )


def _role(what: str, trial: _Trial, name: str, length: int) -> Role:
    """Tries each role on operands of two tiles."""
    sizes = trial.sizes({name: 2 * length})
    if sizes is None:
        raise TargetError(f"{what}: its constraints leave no sizes with {name} = {2 * length}")
    whole = trial.meaning(sizes, trial.arrays(sizes))
    lengths = trial.meaning({**sizes, name: length}, trial.arrays({**sizes, name: length})).shape
    longer = [a for a, n in enumerate(whole.shape) if n == 2 * length and lengths[a] == length]
    roles = [Role("outer", axis) for axis in longer] or [Role("sum"), Role("max")]
    for role in roles:
        if trial.same(Tiling(trial.operands, {name: length}, {}, {name: role}, frozenset()), sizes):
            return role
    raise TargetError(
        f"{what}: {name} cannot be cut into tiles of {length}: the parts do not give the whole, "
        "neither side by side nor added up nor as a maximum"
    )


def _pad(what: str, trial: _Trial, name: str, multiple: int) -> bool:
    """Whether padding is the lowest value; tries one element less than a multiple."""
    sizes = next(filter(None, (trial.sizes({name: multiple - n}) for n in (1, 2, 4))), None)
    if sizes is None or multiple == 1:
        return False  # Other lengths than multiples are excluded.
    for low in (False, True):
        names = frozenset({name}) if low else frozenset[str]()
        if trial.same(Tiling(trial.operands, {}, {name: multiple}, {}, names), sizes):
            return low
    raise TargetError(
        f"{what}: {name} cannot be padded to a multiple of {multiple}: with zeros or the lowest "
        f"value behind, the result differs; ask for it with the constraint '{name} % {multiple} "
        "== 0'"
    )
