"""Expands tiled work into the invocations that the hardware makes.

An extracted program holds products of any size as one ``blocked`` term, and calls of declared
accelerators whose operands exceed the unit's own size. Expanded, each becomes padding, a
``call`` on operands of that very size for every tile, and what puts the results together. All tiles
are one term, ``(call UNIT (...) :batch n ...)``, the loops being axes of its operands: a product of
512 x 512 x 512 in tiles of 16 x 16 x 16, 32,768 of them, is as long as a small one. ``unrolled``
spells every tile as a term of its own.

Tiles at the edges are padded: with zeros, or with the lowest value under a maximum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import CheckFailed, ShapeError, TargetError
from glenside.hw_targets.accelerator import Accelerator
from glenside.hw_targets.declare.tiling import Role
from glenside.hw_targets.operation import accelerator_of
from glenside.language import CALLS, builders, evaluate, find_unit, map_terms, rebuild, units
from glenside.language.shape import FLOATS, AccessType, Shape
from glenside.language.term import Term, topological_order

Array = np.ndarray[Any, Any]


def expand(terms: Iterable[Term], *, unrolled: bool = False, check: bool = True) -> list[Term]:
    """The same values in calls on the units' own sizes.

    :param unrolled: spell each tile as a term of its own, instead of loops over tiles.
    :param check: compute every expansion that differs from the others in more than the names of its
        operands, on small whole numbers, and compare with what it stands for.
    :raises CheckFailed: an expansion computes something else.
    :raises TargetError: a unit does not take operands of its own size.
    """
    terms = list(terms)
    checked: set[tuple[Any, ...]] = set()

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        tiles = _tiles(term, children)
        if tiles is None:
            return rebuild(term, children)
        result = tiles.unrolled() if unrolled else tiles.as_loops()
        key = term.op, term.values, tuple(child.type for child in children)
        if check and key not in checked:
            _check(rebuild(term, children), unrolled)
            checked.add(key)
        return result

    lowered = map_terms(terms, _in_products)
    terms = [lowered[term] for term in terms]
    new = map_terms(terms, change)
    return [new[term] for term in terms]


def tile_calls(term: Term) -> int:
    """How many invocations on its unit's own size a ``call`` or ``blocked`` term takes."""
    alone = rebuild(term, _leaves([child.type for child in term.children]))
    lowered = topological_order([_in_products(alone, alone.children)])
    return sum(_count(each) for each in lowered if each.op in CALLS)


def _count(term: Term) -> int:
    """Nothing is built, so that units which do not take their own size are counted as well."""
    tiles = _tiles(term, term.children)
    counts = () if tiles is None else tiles.counts.values()
    return math.prod(term.outer[: term["batch"]]) * math.prod(counts)


def _in_products(term: Term, children: Sequence[Term]) -> Term:
    """A call of a unit that works by products of matrices, as these; others as they are."""
    if term.op == "call" and not term["batch"]:
        tiled = find_unit(term["unit"]).in_products
        if tiled is not None:
            return tiled(term["parameters"], tuple(children))
    return rebuild(term, children)


@dataclass(frozen=True)
class _Operand:
    """One operand and how its axes, those of the batch left out, are cut.

    ``axes``: the size along which each is cut, or "". ``lengths`` and ``fills``: to what they are
    padded, with what. ``order`` is that in which the unit takes them, ``split`` of them outer.
    """

    term: Term
    axes: tuple[str, ...]
    lengths: Shape
    fills: tuple[str, ...]
    order: tuple[int, ...]
    split: int

    def padded(self, batch: int) -> Term:
        x = self.term
        for axis, (length, fill) in enumerate(zip(self.lengths, self.fills, strict=True), batch):
            x = builders.pad(x, axis, 0, length - x.shape[axis], fill)
        return x

    def arranged(self, x: Term, batch: int) -> Term:
        """One tile, as the unit takes it."""
        order = (*range(batch), *(batch + axis for axis in self.order))
        if order != tuple(range(len(order))):
            x = builders.transpose(x, order)
        return builders.access(x, batch + self.split)


@dataclass(frozen=True)
class _Tiles:
    """Invocations for every position on ``batch`` shared axes and for every tile.

    ``tile``: the unit's own length along sizes. ``counts``: how many tiles there are, of those of
    which there are several. ``wanted``: the axes of the result, without the batch and padding.
    """

    unit: str
    parameters: Shape
    operands: tuple[_Operand, ...]
    batch: int
    tile: Mapping[str, int]
    counts: Mapping[str, int]
    roles: Mapping[str, Role]
    wanted: Shape
    result: AccessType

    def _call(self, operands: Sequence[Term], batch: int) -> Term:
        try:
            return builders.call(self.unit, self.parameters, *operands, batch=batch)
        except ShapeError as problem:
            raise TargetError(f"{self.unit} does not take its own size: {problem}") from None

    # --- loops ------------------------------------------------------------------------------------

    def as_loops(self) -> Term:
        """One ``call`` with the tiles as batch axes."""
        operands = [self._looped(each) for each in self.operands]
        return self._finish(self._gather(self._call(operands, self.batch + len(self.counts))))

    def _looped(self, operand: _Operand) -> Term:
        """``((batch, tiles, own outer axes), (own item axes))``; what is not cut is repeated."""
        x = builders.outer_only(operand.padded(self.batch))
        shape = list(x.shape[: self.batch])
        tiles: dict[str, int] = {}
        own: list[int] = []
        for name, length in zip(operand.axes, x.shape[self.batch :], strict=True):
            if name in self.counts:
                if name in tiles:
                    raise TargetError(
                        f"{self.unit} has {name} twice in one operand, which no loop can cut: "
                        "expand it unrolled"
                    )
                tiles[name] = len(shape)
                shape.append(self.counts[name])
                length = self.tile[name]
            own.append(len(shape))
            shape.append(length)
        x = builders.reshape(x, shape)
        order = [*range(self.batch), *(tiles[name] for name in self.counts if name in tiles)]
        order += [own[axis] for axis in operand.order]
        if order != list(range(len(order))):
            x = builders.transpose(x, order)
        for axis, (name, count) in enumerate(self.counts.items(), self.batch):
            if name in tiles:
                continue
            x = builders.unsqueeze(x, axis)
            if self.roles[name].kind == "sum":  # Of what is added up, it belongs to the first.
                x = builders.pad(x, axis, 0, count - 1)
        before, after = self.batch + len(self.counts), x.shape[self.batch + len(self.counts) :]
        x = builders.broadcast(x, (*x.shape[: self.batch], *self.counts.values(), *after))
        return builders.access(x, before + operand.split)

    def _gather(self, calls: Term) -> Term:
        """The result of all tiles, padded as it is, from ``((batch, tiles, own ...), ...)``."""
        x = builders.outer_only(calls)
        position = {name: self.batch + i for i, name in enumerate(self.counts)}
        own = self.batch + len(self.counts)
        order = list(range(self.batch))
        for axis in range(x.type.rank - own):
            order += [
                position[name]
                for name in self.counts
                if self.roles[name].kind == "outer" and self.roles[name].axis == axis
            ]
            order.append(own + axis)
        kept = len(order)
        order += [position[name] for name in self.counts if self.roles[name].kind != "outer"]
        if order != list(range(len(order))):
            x = builders.transpose(x, order)
        if kept < len(order):
            x = builders.compute(self._reduction, builders.access(x, kept))
        shape = list(calls.shape[own:])
        for name, count in self.counts.items():
            if self.roles[name].kind == "outer":
                shape[self.roles[name].axis] *= count
        shared = calls.shape[: self.batch]
        return builders.reshape(builders.outer_only(x), (*shared, *shape))

    @property
    def _reduction(self) -> str:
        kinds = {self.roles[name].kind for name in self.counts}
        return "max" if "max" in kinds else "sum"

    def _finish(self, x: Term) -> Term:
        """Padding taken away, in the type of the term that was expanded."""
        for axis, length in enumerate(self.wanted, self.batch):
            if length != x.shape[axis]:
                x = builders.slice_(x, axis, 0, length)
        if x.shape != self.result.shape:
            x = builders.reshape(builders.outer_only(x), self.result.shape)
        return builders.access(x, self.result.split)

    # --- one term for each tile -------------------------------------------------------------------

    def unrolled(self) -> Term:
        """A ``call`` for each tile; the results joined, or added up from the left."""
        padded = [(each, each.padded(self.batch)) for each in self.operands]
        steps = [range(count) for count in self.counts.values()]
        results = {
            at: self._call([self._cut(o, x, at) for o, x in padded], self.batch)
            for at in itertools.product(*steps)
        }
        for name in reversed(list(self.counts)):
            together: dict[tuple[int, ...], Term] = {}
            for at, result in results.items():
                so_far = together.get(at[:-1])
                together[at[:-1]] = result if so_far is None else self._join(name, so_far, result)
            results = together
        return self._finish(results[()])

    def _cut(self, operand: _Operand, x: Term, at: tuple[int, ...]) -> Term:
        blank = False
        for name, number in zip(self.counts, at, strict=True):
            axes = [axis for axis, each in enumerate(operand.axes, self.batch) if each == name]
            for axis in axes:
                low = number * self.tile[name]
                x = builders.slice_(x, axis, low, low + self.tile[name])
            blank = blank or (not axes and number > 0 and self.roles[name].kind == "sum")
        if blank:
            x = builders.access(builders.constant(0, x.shape, x.dtype), x.type.split)
        return operand.arranged(x, self.batch)

    def _join(self, name: str, a: Term, b: Term) -> Term:
        role = self.roles[name]
        if role.kind == "outer":
            return builders.concat(self.batch + role.axis, a, b)
        both = builders.pair(a, b)
        if a.item:
            return builders.compute("add" if role.kind == "sum" else "maximum", both)
        return builders.compute(role.kind, both)


def _tiles(term: Term, children: Sequence[Term]) -> _Tiles | None:
    """How a term is tiled; None where nothing is to be cut or padded."""
    if term.op == "blocked":
        return _of_product(term, *children)
    if term.op == "call":
        return _of_call(term, children)
    return None


def _of_product(term: Term, a: Term, b: Term) -> _Tiles:
    """A stream of ``((M), (K))`` against weights ``(() (K N))``, K and N cut."""
    array = find_unit(term["unit"]).array
    assert array is not None
    rows, columns = array(term["parameters"])
    batch, dtype = term["batch"], term["accumulate"] or a.dtype
    shared, depth = a.outer[:batch], a.item[0]
    m, n = math.prod(a.outer[batch:]), math.prod(b.outer[batch:])
    x = builders.cast(builders.reshape(a, (*shared, m), (depth,)), dtype)
    w = builders.cast(builders.reshape(b, (*shared, n), (depth,)), dtype)
    deep, wide = _covered(depth, rows), _covered(n, columns)
    counts = {"N": wide // columns, "K": deep // rows}
    return _Tiles(
        term["unit"],
        term["parameters"],
        (
            _Operand(x, ("", "K"), (m, deep), ("zero", "zero"), (0, 1), 1),
            _Operand(w, ("N", "K"), (wide, deep), ("zero", "zero"), (1, 0), 0),
        ),
        batch,
        {"K": rows, "N": columns},
        {name: count for name, count in counts.items() if count > 1},
        {"K": Role("sum"), "N": Role("outer", 1)},
        (m, n),
        term.type,
    )


def _of_call(term: Term, children: Sequence[Term]) -> _Tiles | None:
    """As the declaration of the unit says."""
    declared = accelerator_of(term["unit"])
    if not isinstance(declared, Accelerator):
        return None  # It takes operands of any size as they are.
    tiling = declared.tiling
    batch = term["batch"]
    one = [AccessType(each.outer[batch:], each.item, each.dtype) for each in children]
    sizes = declared.sizes(term["parameters"], one)
    longer = tiling.covered(sizes)
    if all(longer[name] == sizes[name] for name in sizes) and all(
        sizes[name] == length for name, length in tiling.tile.items()
    ):
        return None
    operands = []
    for child, each in zip(children, tiling.operands.values(), strict=True):
        names = [size.text if size.text in tiling.tile else "" for size in each.axes]
        fills = ["lowest" if tiling.pads_low(size) else "zero" for size in each.axes]
        lengths = tuple(size.of(longer) for size in each.axes)
        axes = tuple(range(len(names)))
        operands.append(_Operand(child, tuple(names), lengths, tuple(fills), axes, each.split))
    counts = {name: longer[name] // length for name, length in tiling.tile.items()}
    return _Tiles(
        term["unit"],
        term["parameters"],
        tuple(operands),
        batch,
        tiling.tile,
        {name: count for name, count in counts.items() if count > 1},
        tiling.roles,
        term.shape[batch:],
        term.type,
    )


def _covered(length: int, tile: int) -> int:
    """The least multiple that holds ``length``; one tile is always made."""
    return max(-(-length // tile), 1) * tile


def _leaves(types: Sequence[AccessType]) -> list[Term]:
    """Tensors of these types."""
    return [builders.leaf(f"operand{i}", each) for i, each in enumerate(types)]


_TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}


def _check(term: Term, unrolled: bool) -> None:
    """:raises CheckFailed: the expansion of a term does not compute what the term stands for."""
    leaves = _leaves([child.type for child in term.children])
    alone = rebuild(term, leaves)
    tiles = _tiles(alone, leaves)
    assert tiles is not None
    expanded = tiles.unrolled() if unrolled else tiles.as_loops()
    declared = accelerator_of(term["unit"])
    # What a unit's own simulator gives is compared with what it gives tile by tile.
    as_simulated = isinstance(declared, Accelerator) and declared.simulate is not None
    right = alone if as_simulated else units.meaning(alone, leaves)
    rng = np.random.default_rng(len(term.shape))
    env: dict[str, Array] = {}
    for i, leaf in enumerate(leaves):
        low = -2 if leaf.dtype in FLOATS or leaf.dtype.startswith("int") else 0
        env[f"operand{i}"] = rng.integers(low, 3, leaf.shape).astype(leaf.dtype)
    wanted, got = evaluate([right, expanded], env)
    tolerance = _TOLERANCE.get(term.dtype, 0.0)
    if not np.allclose(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True):
        raise CheckFailed(
            f"{term.op} {term['unit']} {term['parameters']} of "
            f"{' and '.join(str(leaf.type) for leaf in leaves)}: its tiles compute something else"
        )
