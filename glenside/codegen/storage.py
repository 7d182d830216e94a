"""Places in memory: buffers, where values lie in them, and how a layout is laid down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glenside.codegen.views import Margin, View, normal, row_major, split_atoms, strides_of
from glenside.language.term import Term

Array = np.ndarray[Any, Any]

_PAGE, _SKEW = 256, 16
"""Elements: rows of a multiple of the first are set apart by the second."""


@dataclass
class Buffer:
    """A piece of memory: ``size`` elements of ``dtype``."""

    size: int
    dtype: str


@dataclass(frozen=True)
class Origin:
    """What a parameter's buffer is made of: the value of a term that depends on parameters alone.

    ``pack`` moves elements and adds zeros; None: they lie as :meth:`Memory.keep` leaves them.
    ``repeated`` names the axes along which the value is the same throughout. ``rounded`` says that
    elements are rounded to tf32 as well.
    """

    term: Term
    repeated: tuple[int, ...]
    pack: Callable[[Array], Array] | None = None
    rounded: bool = False


@dataclass(frozen=True)
class Stored:
    """Where a value lies: ``view`` addresses elements from element ``base`` of a buffer on."""

    buffer: int
    base: int
    view: View

    @property
    def extent(self) -> int:
        """Elements from the base on that belong to the value, margins included."""
        return occupied(self.view)


@dataclass
class Memory:
    """The buffers of a program and what lies in them. Kernels add what they need for themselves."""

    buffers: list[Buffer] = field(default_factory=list)
    stored: dict[Term, Stored] = field(default_factory=dict)
    arrays: dict[int, Array] = field(default_factory=dict)
    """What parameters' buffers hold, by number."""
    origins: dict[int, Origin] = field(default_factory=dict)
    """What those arrays are made of, where that is known."""

    def copy(self) -> Memory:
        """The same, to which others can add."""
        return Memory(
            self.buffers.copy(), self.stored.copy(), self.arrays.copy(), self.origins.copy()
        )

    def add(self, size: int, dtype: str) -> int:
        """A new buffer's number."""
        self.buffers.append(Buffer(max(size, 1), dtype))
        return len(self.buffers) - 1

    def constant(self, array: Array, dtype: str, origin: Origin | None = None) -> int:
        """A new buffer that holds ``array``, which is made of ``origin``."""
        number = self.add(array.size, dtype)
        self.arrays[number] = array
        if origin is not None:
            self.origins[number] = origin
        return number

    def keep(self, term: Term, array: Array) -> None:
        """Puts a known value, without its repetitions, into a buffer of its own."""
        small = np.ascontiguousarray(without_repetitions(array)).reshape(-1)
        number = self.constant(small, term.dtype, Origin(term, repeated(array)))
        self.stored[term] = Stored(number, 0, repeating(array))


def repeated(array: Array) -> tuple[int, ...]:
    """The axes along which an array is known to be the same throughout, by its strides."""
    sizes = zip(array.strides, array.shape, strict=True)
    return tuple(k for k, (stride, size) in enumerate(sizes) if stride == 0 and size > 1)


def without_repetitions(array: Array) -> Array:
    """One element along each axis along which an array is known to be the same throughout."""
    if not array.ndim:
        return array
    still = repeated(array)
    return array[tuple(slice(0, 1) if k in still else slice(None) for k in range(array.ndim))]


def repeating(array: Array) -> View:
    """The view by which those elements are the whole array again."""
    return row_major(without_repetitions(array).shape).broadcast(array.shape)


def inner_stride(axis: Sequence[tuple[int, int]]) -> int:
    """The stride of the innermost atom, 0 for an axis of length 1."""
    return axis[-1][1] if axis else 0


def ranking(over: View, space: tuple[int, ...], order: Sequence[int]) -> list[tuple[int, int]]:
    """A sort key for each axis of ``over``: where its innermost atom stands in the loop order."""
    position = {axis: k for k, axis in enumerate(order)}
    limits = strides_of(space)
    keys = []
    for axis in over.axes:
        if not axis:
            keys.append((-1, 0))
            continue
        stride = axis[-1][1]
        owner = next(
            (k for k, low in enumerate(limits) if low <= stride < low * space[k]), len(space) - 1
        )
        keys.append((position[owner], -stride))
    return keys


def arrange(
    shape: tuple[int, ...],
    over: View,
    space: tuple[int, ...],
    order: Sequence[int],
    wanted: Mapping[int, tuple[int, int]],
    fill: Any,
    skew: bool = True,
) -> View:
    """Storage for a value whose axes are ``over`` in the loop space, in the order of the loops.

    With ``skew`` rows are kept from lying a multiple of a page apart.
    """
    limits = strides_of(space)
    pieces: list[tuple[tuple[int, int], int, int, int]] = []  # key, axis, place in axis, size
    position = {axis: k for k, axis in enumerate(order)}
    for k, axis in enumerate(over.axes):
        atoms = split_atoms(axis, limits)
        if atoms is None or (k in wanted and len(atoms) > 1 and axis):
            atoms = axis
        for j, (size, stride) in enumerate(atoms):
            owner = next((a for a, low in enumerate(limits) if low <= stride < low * space[a]), 0)
            pieces.append(((position.get(owner, 0), -stride), k, j, size))
    strides: dict[tuple[int, int], tuple[int, int]] = {}
    offset, step = 0, 1
    margins: list[Margin | None] = [None] * len(shape)
    parts = {k: sum(1 for p in pieces if p[1] == k) for k in range(len(shape))}
    for _, k, j, size in sorted(pieces, reverse=True):
        strides[k, j] = (size, step)
        before, after = wanted.get(k, (0, 0)) if parts[k] == 1 else (0, 0)
        if before or after:
            margins[k] = Margin(k, before, after)
            offset += before * step
        step *= max(size + before + after, 1)
        if skew and step % _PAGE == 0 and step == size and len(pieces) > 1:
            # Rows a multiple of a page apart would all fall into the same sets of the cache.
            step += _SKEW
    axes = tuple(normal(tuple(strides[k, j] for j in range(parts[k]))) for k in range(len(shape)))
    return View(offset, axes, tuple(margins), fill)


def occupied(view: View) -> int:
    """Elements from the start of a buffer to the end of the value, margins included."""
    if 0 in view.shape:
        return 1
    high = view.span[1]
    for axis, margin in zip(view.axes, view.margins, strict=True):
        if margin and axis:
            high += margin.after * axis[-1][1]
    return high + 1


def slice_of(whole: Stored, axis: int, at: int, shape: tuple[int, ...]) -> Stored:
    """The storage of a part of a concat."""
    stride = whole.view.axes[axis]
    step = stride[0][1] if stride else 0
    axes, margins = list(whole.view.axes), list(whole.view.margins)
    axes[axis] = normal(((shape[axis], step),))
    margins[axis] = None
    view = View(whole.view.offset, tuple(axes), tuple(margins), whole.view.fill)
    return Stored(whole.buffer, whole.base + at * step, view)
