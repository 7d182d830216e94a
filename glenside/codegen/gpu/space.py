"""A ``dot`` of a ``cart_prod`` as a space of loops with affine accesses.

Every product is ``out[b, m, n] = sum over k of resident[b, m, k] * streamed[b, n, k]``, where each
of ``b``, ``m``, ``n`` and ``k`` stands for a *group of axes* that keep their extents:

- ``batch``: the axes that ``cart_prod`` shares (groups of a convolution, the batch of a matrix
  product; the channels of a depthwise convolution);
- ``m``: the rows of the *resident* operand: the one that is constant, so that it is packed when the
  program is compiled (a convolution's filters), else the first;
- ``n``: the rows of the *streamed* operand (a convolution's images and output positions);
- ``k``: the item axes, which are reduced (channels and window offsets, each an axis of its own).

An operand is not looked at as a matrix but as its *base*: the value it is a window into, with one
*dimension* an axis of that value. Along dimension ``d`` the element read at loop positions ``i`` is
``start[d] + sum over axes of steps[axis][d] * i[axis]``. Windows with strides and dilation give two
axes (an output position and a window offset) a step along one dimension: that overlap is the reuse
that a tile staged in local memory exploits, since the tile of a dimension is one run of
``1 + sum of steps * (tile - 1)`` elements. What is no affine map stays inside the base, whose
elements are computed when it is read: the borders of a ``pad`` (of its interior too, as transposed
convolutions have), gathered or concatenated data. So any number of spatial dimensions, NCHW and
NHWC, groups, strides, dilation and one-sided borders are one form, and no operator is named.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from glenside.codegen import scalars
from glenside.codegen.lower import Access
from glenside.codegen.views import (
    Atom,
    View,
    replay,
    row_major,
    single_stride,
    split_atoms,
    strides_of,
)
from glenside.language.operators import VIEWS, fill_value
from glenside.language.shape import Shape
from glenside.language.term import Term, topological_order

Role = Literal["batch", "m", "n", "k"]


@dataclass(frozen=True)
class LoopAxis:
    """A loop of ``size`` steps, each adding ``weight`` to the position along an ``axis``.

    ``axis`` counts the axes of the dot's result, or for role ``k`` the operands' item axes without
    the tuple axis.
    """

    role: Role
    size: int
    axis: int
    weight: int


@dataclass(frozen=True)
class Memory:
    """Where an operand's base lies: along dimension ``d`` positions from ``before[d]`` on, of which
    there are ``size[d]``, are elements of ``term``'s buffer; those around them are zero."""

    term: Term
    offset: int
    strides: tuple[int, ...]
    before: tuple[int, ...]
    size: tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """How the loops read an operand's base: see the head of this module.

    ``strides`` are the base's strides in memory, None where it is not read from one buffer;
    ``memory`` says more of it where borders are zeros.
    """

    dtype: str
    shape: Shape
    start: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...] | None
    constant: bool
    base: Term = field(compare=False, repr=False)
    memory: Memory | None = field(default=None, compare=False, repr=False)

    def extent(self, dimension: int, tiles: Sequence[int]) -> int:
        """Elements along a dimension that a tile of loops touches, gaps included."""
        return 1 + sum(
            steps[dimension] * (tile - 1) for steps, tile in zip(self.steps, tiles, strict=True)
        )

    def axes_of(self, dimension: int) -> list[int]:
        """The loops that move along a dimension."""
        return [axis for axis, steps in enumerate(self.steps) if steps[dimension]]

    def dimensions_of(self, axis: int) -> list[int]:
        """The dimensions a loop moves along."""
        return [d for d, step in enumerate(self.steps[axis]) if step]


@dataclass(frozen=True)
class ProductSpace:
    """The loops of a product, its two operands and where its result goes.

    ``out_steps`` are the strides of the result in memory along the loops (0 for ``k``), None where
    it is not strided. ``swapped`` says that the resident operand is the second of the term.
    """

    axes: tuple[LoopAxis, ...]
    resident: Operand
    streamed: Operand
    dtype: str
    accumulate: str
    out_steps: tuple[int, ...] | None
    out_shape: Shape
    epilogue: tuple[str, ...]
    swapped: bool

    def of(self, *roles: Role) -> list[int]:
        """The loops with these roles, in order."""
        return [number for number, axis in enumerate(self.axes) if axis.role in roles]

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """What the loops are called, by role: ``m0``, ``n0``, ``n1``, ``k0``."""
        counts: dict[Role, itertools.count[int]] = {}
        return tuple(
            f"{axis.role}{next(counts.setdefault(axis.role, itertools.count()))}"
            for axis in self.axes
        )

    def size(self, *roles: Role) -> int:
        """Iterations of the loops with these roles."""
        return math.prod(self.axes[number].size for number in self.of(*roles))

    def windows_of(self, axis: int) -> list[int]:
        """The reduced loops that move along a dimension of the streamed operand that a loop over
        its rows moves along as well: what neighbouring rows read overlaps."""
        dimensions = self.streamed.dimensions_of(axis)
        return [
            other
            for other in self.of("k")
            if any(self.streamed.steps[other][dimension] for dimension in dimensions)
        ]

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.size("batch", "m", "n", "k")

    def key(self) -> str:
        """All that the kernels' speed depends on, as a stable text."""
        axes = " ".join(f"{axis.role}{axis.size}" for axis in self.axes)

        def operand(each: Operand) -> str:
            steps = ",".join("/".join(map(str, row)) for row in each.steps)
            lies = (
                "constant" if each.constant else each.strides and "/".join(map(str, each.strides))
            )
            shape = "x".join(map(str, each.shape))
            return f"{each.dtype}[{shape}] at {lies} by {steps}"

        out = self.out_steps and "/".join(map(str, self.out_steps))
        return (
            f"{axes}; {operand(self.resident)}; {operand(self.streamed)}; "
            f"{self.accumulate} to {self.dtype} at {out}; {' '.join(self.epilogue) or 'store'}"
        )


@dataclass(frozen=True)
class _Read:
    """An operand before its loops are matched with the other's: atoms of each axis, by the base."""

    base: Term
    shape: Shape
    offset: int
    axes: list[tuple[Atom, ...]]


def product_space(
    anchor: Term,
    access: Callable[[Term], Access],
    is_leaf: Callable[[Term], bool],
    constants: Callable[[Term], bool],
    out: View | None,
    tail: Term,
) -> ProductSpace | None:
    """The space of a reduction; None where it is no product, or has nothing to compute.

    :param anchor: the reduction.
    :param access: how a term is read.
    :param is_leaf: whether a term lies in memory.
    :param constants: whether a term's value is known now.
    :param out: where the result lies, by the anchor's index.
    :param tail: what is computed of the anchor before it is stored.
    """
    if anchor["function"] != "dot" or anchor.children[0].op != "cart_prod":
        return None
    pairs = anchor.children[0]
    first, second = pairs.children
    batch = pairs["batch"]
    if not anchor.type.size or not math.prod(first.item):
        return None
    swapped = constants(second) and not constants(first)
    resident, streamed = (second, first) if swapped else (first, second)
    reads = []
    for term in (resident, streamed):
        read = None if term is resident and constants(term) else _deepest(term, is_leaf)
        reads.append(read or _whole(term))
    # By side, not by term: both may be the same one.
    rows = [len(term.outer) - batch for term in (resident, streamed)]
    starts = [batch, batch + rows[0]] if not swapped else [batch + rows[1], batch]
    made = _match(reads, (resident, streamed), batch, rows, starts)
    if made is None:
        made = _match(
            [_whole(resident), _whole(streamed)], (resident, streamed), batch, rows, starts
        )
        assert made is not None
        reads = [_whole(resident), _whole(streamed)]
    axes, steps = made
    operands = []
    for term, read, each in zip((resident, streamed), reads, steps, strict=True):
        start = _coordinates(read.offset, read.shape)
        strides = None if constants(term) else _memory(read.base, access)
        operands.append(
            Operand(
                term.dtype,
                read.shape,
                start,
                each,
                strides,
                constants(term),
                read.base,
                None if constants(term) else _zero_bordered(read.base, access),
            )
        )
    return ProductSpace(
        axes=axes,
        resident=operands[0],
        streamed=operands[1],
        dtype=anchor.dtype,
        accumulate=scalars.wide(anchor.dtype),
        out_steps=_out_steps(axes, out),
        out_shape=anchor.shape,
        epilogue=_epilogue(tail, anchor),
        swapped=swapped,
    )


def _deepest(term: Term, is_leaf: Callable[[Term], bool]) -> _Read | None:
    """The operand by the deepest value that it is an affine map of."""
    chain: list[Term] = []
    below = term
    while not is_leaf(below) and below.op in VIEWS:
        chain.append(below)
        below = below.children[0]
    for depth in range(len(chain), -1, -1):
        base = term if not depth else chain[depth - 1].children[0]
        read = _read(base, replay(reversed(chain[:depth]), row_major(base.shape)))
        if read is not None:
            return read
    return None


def _whole(term: Term) -> _Read:
    read = _read(term, row_major(term.shape))
    assert read is not None
    return read


def _read(base: Term, view: View | None) -> _Read | None:
    if view is None:
        return None
    cuts = strides_of(base.shape)
    axes = []
    for axis in view.axes:
        moving = tuple(atom for atom in axis if atom[1])
        still = tuple(atom for atom in axis if not atom[1])
        if moving and still:
            return None
        atoms = split_atoms(moving, cuts) if moving else still
        if atoms is None:
            return None
        axes.append(atoms)
    return _Read(base, base.shape, view.offset, axes)


def _match(
    reads: Sequence[_Read],
    terms: Sequence[Term],
    batch: int,
    rows: Sequence[int],
    starts: Sequence[int],
) -> tuple[tuple[LoopAxis, ...], list[tuple[tuple[int, ...], ...]]] | None:
    """Loops fine enough for both operands, and each operand's steps along its dimensions."""
    axes: list[LoopAxis] = []
    strides: list[tuple[int, int]] = []  # In the flat base of the resident, the streamed operand.
    resident = terms[0]

    def add(role: Role, axis: int, size: int, pieces: Sequence[Sequence[Atom] | None]) -> bool:
        cuts = {1, size}
        for atoms in pieces:
            weight = 1
            for length, _ in reversed(atoms or ()):
                cuts.add(weight)
                weight *= length
        ordered = sorted(cuts)
        if any(b % a for a, b in itertools.pairwise(ordered)):
            return False
        for high, low in zip(ordered[:0:-1], ordered[-2::-1], strict=True):
            axes.append(LoopAxis(role, high // low, axis, low))
            strides.append((_stride_at(pieces[0], low), _stride_at(pieces[1], low)))
        return True

    for k in range(batch):
        if not add("batch", k, resident.shape[k], [read.axes[k] for read in reads]):
            return None
    for role, side in (("m", 0), ("n", 1)):
        term = terms[side]
        for k in range(rows[side]):
            own = reads[side].axes[batch + k]
            pieces = [own, None] if side == 0 else [None, own]
            size = term.shape[batch + k]
            if not add(role, starts[side] + k, size, pieces):  # type: ignore[arg-type]
                return None
    for k, size in enumerate(resident.item):
        pieces = [read.axes[term.type.split + k] for read, term in zip(reads, terms, strict=True)]
        if not add("k", k, size, pieces):
            return None
    steps = [
        tuple(_coordinates(stride[side], reads[side].shape) for stride in strides)
        for side in range(2)
    ]
    return tuple(axes), steps


def _stride_at(atoms: Sequence[Atom] | None, weight: int) -> int:
    """The stride of one step of ``weight`` along an axis made of atoms."""
    if not atoms:
        return 0
    at = 1
    for length, stride in reversed(atoms):
        if at <= weight < at * length:
            return stride * (weight // at)
        at *= length
    return 0


def _coordinates(flat: int, shape: Shape) -> tuple[int, ...]:
    """A flat distance as steps along the dimensions."""
    result = []
    for stride, size in zip(strides_of(shape), shape, strict=True):
        step = flat // stride if size > 1 else 0
        result.append(step)
        flat -= step * stride
    return tuple(result)


def _memory(base: Term, access: Callable[[Term], Access]) -> tuple[int, ...] | None:
    """The strides in memory along the base's dimensions; borders are looked through."""
    term = base
    while True:
        view = access(term).view
        if view is not None:
            strides = [single_stride(axis) for axis in view.axes]
            return None if None in strides else tuple(s or 0 for s in strides)
        if term.op != "pad" or term["interior"]:
            return None
        term = term.children[0]


def _zero_bordered(base: Term, access: Callable[[Term], Access]) -> Memory | None:
    """The memory under a base; None where it is computed, or its border is not zero."""
    before = [0] * len(base.shape)
    term = base
    while True:
        view = access(term).view
        if view is not None:
            strides = [single_stride(axis) for axis in view.axes]
            if None in strides or any(view.margins):
                return None
            kept = tuple(stride or 0 for stride in strides)
            return Memory(term, view.offset, kept, tuple(before), tuple(term.shape))
        if term.op != "pad" or term["interior"] or fill_value(term["value"], term.dtype) != 0:
            return None
        before[term["axis"]] += term["before"]
        term = term.children[0]


def _out_steps(axes: Sequence[LoopAxis], out: View | None) -> tuple[int, ...] | None:
    if out is None:
        return None
    steps = []
    for axis in axes:
        if axis.role == "k":
            steps.append(0)
            continue
        atoms = out.axes[axis.axis]
        cuts, weight = [], 1
        for length, _ in reversed(atoms):
            cuts.append(weight)
            weight *= length
        inside = [cut for cut in cuts if axis.weight < cut < axis.weight * axis.size]
        if inside:
            return None
        steps.append(_stride_at(atoms, axis.weight))
    return tuple(steps)


def _epilogue(tail: Term, anchor: Term) -> tuple[str, ...]:
    """What is computed of the product before it is stored, named."""
    above: set[Term] = {anchor}
    names = []
    for term in topological_order([tail]):
        if term is not anchor and any(child in above for child in term.children):
            above.add(term)
            names.append(term["function"] if term.op == "compute" else term.op)
    return tuple(names)
