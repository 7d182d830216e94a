"""Runs a call of any size on a unit of a fixed one: operands padded, cut into tiles, put together.

How a size variable may be cut depends on the term. It is argued on the structure of the term
(:mod:`~glenside.hw_targets.declare.cutting`) and tried on small integers as well, once, when the
unit is declared:

- *outer*: the result has an axis of that length, and a part of the operands gives that part of it;
- *sum*: the result is the sum over the parts, operands without that axis (a bias) being zero in all
  but the first;
- *max*: the result is the greatest of the parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import ShapeError, TargetError
from glenside.hw_targets.declare import cutting, template
from glenside.hw_targets.declare.samples import samples, varied
from glenside.hw_targets.declare.sizes import Condition, Size
from glenside.hw_targets.declare.template import OperandType, Template
from glenside.language import builders
from glenside.language.shape import FLOATS, lowest
from glenside.language.term import Term

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
Compute = Callable[[Sizes, list[Array]], Array]
"""The unit's term, or its simulator, on operands of these sizes."""


SMALL = 1 << 20
"""Elements of operands up to which a cut is tried, and lengths up to which one is looked for."""
DRAWS = 8
"""Operands that are drawn for sizes at which a cut may fail."""


_LENGTHS = 1 << 12
"""Lengths that are looked through for one that is no multiple."""


@dataclass(frozen=True)
class Role:
    """What a size variable is to the result: ``outer`` (then its axis), ``sum`` or ``max``."""

    kind: str
    axis: int = -1


@dataclass(frozen=True)
class Tiling:
    """The unit's own sizes.

    ``tile``: the length of one pass; longer operands take several. ``lanes``: lengths are padded to
    a multiple, in one pass. ``roles``: of the variables in ``tile``. ``padded``: the
    variables along which there may be padding; ``lowest``: those along which it is the dtype's
    lowest value, not zero.
    """

    operands: Mapping[str, OperandType]
    tile: Mapping[str, int]
    lanes: Mapping[str, int]
    roles: Mapping[str, Role]
    lowest: frozenset[str]
    padded: tuple[str, ...] = ()

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
        return np.asarray(result[tuple(slice(0, length) for length in shape)], order="C")

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
        part = np.asarray(array[tuple(where)], order="C")
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
class Declaration:
    """What a cut is decided by.

    ``meaning`` computes the term; ``dtype`` is that of operands without one of their own.
    """

    operands: Mapping[str, OperandType]
    term: Template
    names: Sequence[str]
    conditions: Sequence[Condition]
    meaning: Compute
    dtype: str

    def arrays(self, sizes: Sizes, low: int = -4, high: int = 4, seed: int = 0) -> list[Array]:
        """Whole numbers as operands, always the same."""
        rng = np.random.default_rng(seed)
        result = []
        for declared in self.operands.values():
            wanted = declared.of(sizes, self.dtype)
            least = max(low, int(lowest(wanted.dtype))) if wanted.dtype not in FLOATS else low
            values = rng.integers(least, max(high, least) + 1, wanted.shape)
            result.append(values.astype(wanted.dtype))
        return result

    def same(self, tiling: Tiling, sizes: Sizes, draws: int = 1) -> bool:
        """Whether passes give the whole: of mixed signs, below zero (where a zero is greatest), and
        above, each drawn so many times."""
        ranges = ((-4, 4), (-9, -1), (1, 9))
        for (low, high), seed in itertools.product(ranges, range(draws)):
            arrays = self.arrays(sizes, low, high, seed)
            whole = self.meaning(sizes, arrays)
            try:
                if not _same(tiling.run(self.meaning, sizes, arrays, whole.shape), whole):
                    return False
            except ValueError:
                return False
        return True

    def holding(self, found: Iterable[Sizes]) -> Iterator[Sizes]:
        """Of these sizes, those at which the term has elements: empty arrays are always equal."""
        for sizes in found:
            leaves = self._leaves(sizes)
            try:
                made = template.build(self.term, sizes, leaves)
            except ShapeError:
                continue
            if made.type.size and all(leaf.type.size for leaf in leaves.values()):
                yield sizes

    def small(self, sizes: Sizes) -> bool:
        """Whether operands of these sizes are tried: the argument on the term holds for all."""
        return sum(leaf.type.size for leaf in self._leaves(sizes).values()) <= SMALL

    def sizes(self, fixed: Sizes) -> Sizes | None:
        """Sizes that the unit takes; other than the given ones they differ from each other."""
        return next(self.holding(varied(self.names, self.conditions, fixed)), None)

    def types(self) -> list[cutting.Types]:
        """Types of the parts of the term at sizes that tell axes apart: twice, since an argument
        on lengths is none where they agree by chance."""
        above = [
            Condition.parse(f"{name} >= 2")[0]
            for name in self.names
            if any(name == size.text for each in self.operands.values() for size in each.axes)
        ]
        found: list[Sizes] = []
        for conditions in ((*self.conditions, *above), self.conditions):
            for sizes in self.holding(varied(self.names, conditions)):
                if sizes not in found:
                    found.append(sizes)
                if len(found) == 2:
                    break
            if found:
                break
        return [cutting.types_of(self.term, sizes, self._leaves(sizes)) for sizes in found]

    def _leaves(self, sizes: Sizes) -> dict[str, Term]:
        return {
            name: builders.leaf(name, each.of(sizes, self.dtype))
            for name, each in self.operands.items()
        }


def tiling(
    what: str, declared: Declaration, tile: Mapping[str, int], lanes: Mapping[str, int]
) -> Tiling:
    """How the term is cut along ``tile`` and padded along ``tile`` and ``lanes``.

    :param what: that is declared, for the message.
    :raises TargetError: it cannot be: names the size, the reason, and the least sizes at which the
        result differs.
    """
    plain = {size.text for each in declared.operands.values() for size in each.axes}
    for name, length in (*tile.items(), *lanes.items()):
        if name not in plain:
            raise TargetError(f"{what}: {name} has a tile or lanes, but no operand has that axis")
        if length < 1:
            raise TargetError(f"{what}: {name} must have a positive tile or lanes, got {length}")
    if not (tile or lanes):
        return Tiling(declared.operands, tile, lanes, {}, frozenset())
    types = declared.types()
    roles = {name: _role(what, declared, types, name, length) for name, length in tile.items()}
    if {"sum", "max"} <= {role.kind for role in roles.values()}:
        raise TargetError(f"{what}: parts along one tile are added up, along another a maximum")
    steps = {**tile, **lanes}
    padding = {n: _padding(what, declared, types, n, m) for n, m in steps.items()}
    low = frozenset(n for n, how in padding.items() if how == "lowest")
    padded = tuple(n for n, how in padding.items() if how is not None)
    result = Tiling(declared.operands, tile, lanes, roles, low, padded)
    _try(what, declared, result)
    return result


def _try(what: str, declared: Declaration, tiling: Tiling) -> None:
    """Computes what was argued: whole blocks, several with a rest, less than one, all at once."""
    steps = {**tiling.lanes, **tiling.tile}
    for fixed in (
        {name: 2 * length for name, length in steps.items()},
        {name: 2 * length + (length + 1) // 2 for name, length in steps.items()},
        {name: max(length - 1, 1) for name, length in steps.items()},
    ):
        sizes = declared.sizes(fixed)
        if sizes is None or not declared.small(sizes):
            continue
        if not declared.same(tiling, sizes):
            names = ", ".join(steps)
            raise TargetError(
                f"{what}: cut and padded along {names} the result differs for {_shown(sizes)}"
            )


def _same(a: Array, b: Array) -> bool:
    exact = a.dtype.name not in FLOATS
    return a.shape == b.shape and bool(
        np.array_equal(a, b) if exact else np.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True)
    )


def _role(
    what: str, declared: Declaration, types: Sequence[cutting.Types], name: str, length: int
) -> Role:
    """What the size is to the result, by the structure of the term."""
    if declared.sizes({name: 2 * length}) is None:
        raise TargetError(f"{what}: its constraints leave no sizes with {name} = {2 * length}")
    reasons = []
    for how in cutting.CUTS:
        try:
            axes = {
                cutting.cut(declared.term, declared.operands, name, how, each) for each in types
            }
            (axis,) = axes
            return Role(how, -1 if axis is None else axis)
        except cutting.NotCuttable as problem:
            reasons.append((problem.reached, how, problem))
    # That by which the argument came furthest.
    _, how, reason = max(reasons, key=lambda each: each[0])
    fails = _least(declared, name, range(length + 1, 3 * length + 2), how, {name: length}, {})
    raise TargetError(
        f"{what}: {name} cannot be cut into tiles of {length}, the parts do not give the whole: "
        f"{reason}{fails}"
    )


def _padding(
    what: str, declared: Declaration, types: Sequence[cutting.Types], name: str, multiple: int
) -> str | None:
    """``zero`` or ``lowest``, by the structure of the term; None where there is no padding."""
    lengths = [n for n in range(1, min(2 * multiple, _LENGTHS)) if n % multiple]
    multiples = Condition.parse(f"{name} % {multiple} == 0")
    if set(multiples) <= set(declared.conditions) or (
        2 * multiple <= _LENGTHS and all(declared.sizes({name: n}) is None for n in lengths)
    ):
        return None  # Other lengths than multiples are excluded.
    reasons = []
    for how in cutting.PADDINGS:
        try:
            for each in types:
                cutting.pad(declared.term, declared.operands, name, how, each)
            return how
        except cutting.NotCuttable as problem:
            reasons.append((problem.reached, how, problem))
    _, how, reason = max(reasons, key=lambda each: each[0])
    fails = _least(declared, name, lengths, how, {}, {name: multiple})
    raise TargetError(
        f"{what}: {name} cannot be padded to a multiple of {multiple}, neither with zeros nor "
        f"with the lowest value behind: {reason}{fails}; ask for multiples with the constraint "
        f"'{name} % {multiple} == 0'"
    )


def _least(
    declared: Declaration,
    name: str,
    lengths: Iterable[int],
    how: str,
    tile: Mapping[str, int],
    lanes: Mapping[str, int],
) -> str:
    """The least sizes at which cutting or padding gives something else, for a message."""
    # The last part of a maximum is filled with what no maximum is.
    low = frozenset({name} if how in ("lowest", "max") else ())
    for length in itertools.takewhile(lambda each: each <= SMALL, lengths):
        small = samples(declared.names, declared.conditions, {name: length}, distinct=False)
        least = sorted(itertools.islice(small, 64), key=lambda each: sum(each.values()))
        for sizes in itertools.islice(filter(declared.small, declared.holding(least)), 4):
            for role in _runnable(declared, name, sizes, how) if tile else (None,):
                roles = {} if role is None else {name: role}
                tried = Tiling(declared.operands, tile, lanes, roles, low)
                if not declared.same(tried, sizes, DRAWS):
                    return f"; the result differs for {_shown(sizes)}"
    return ""


def least_failing(declared: Declaration, tiling: Tiling, name: str, how: str) -> str:
    """Likewise of a size that is thought to be cut or padded so; empty where nothing is found."""
    if name in tiling.tile and how in cutting.CUTS:
        length = tiling.tile[name]
        return _least(declared, name, range(length + 1, 3 * length + 2), how, {name: length}, {})
    multiple = {**tiling.tile, **tiling.lanes}[name]
    lengths = (n for n in range(1, min(2 * multiple, _LENGTHS)) if n % multiple)
    return _least(declared, name, lengths, how, {}, {name: multiple})


def _runnable(declared: Declaration, name: str, sizes: Sizes, how: str) -> list[Role]:
    """The roles that can be tried: parts side by side only where the result has such an axis."""
    if how != "outer":
        return [Role(how)]
    shape = declared.meaning(sizes, declared.arrays(sizes)).shape
    along = [Role("outer", axis) for axis, n in enumerate(shape) if n == sizes[name]]
    return along or [Role("sum")]


def _shown(sizes: Sizes) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())
