"""Where the elements of a value lie in memory, and how transformers act on that.

A :class:`View` gives every logical axis a list of *atoms* ``(size, stride)``: the index along the
axis is written in mixed radix over the sizes, first atom most significant, and each digit is
multiplied by its stride (in elements). Transposes, reshapes, windows, slices and broadcasts of a
view are again views, so they cost nothing: no data moves and no division is left in an address.
An operation a view cannot express returns ``None``.

A view may have **margins**: room around an axis that holds a known fill value, so that ``pad`` is
a view as well and no kernel has to test for the border.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.language.operators import fill_value
from glenside.language.term import Term

Shape = tuple[int, ...]
Atom = tuple[int, int]
Axis = tuple[Atom, ...]


@dataclass(frozen=True)
class Margin:
    """Free room (elements along the axis) before and after the elements of an axis.

    ``axis`` names the axis of the stored value this room belongs to.
    """

    axis: int
    before: int
    after: int


@dataclass(frozen=True)
class View:
    """A strided view: offset of position zero, atoms of each axis, margins and their fill."""

    offset: int
    axes: tuple[Axis, ...]
    margins: tuple[Margin | None, ...]
    fill: float | int = 0

    @property
    def shape(self) -> Shape:
        return tuple(axis_size(axis) for axis in self.axes)

    def with_axes(
        self, axes: Sequence[Axis], margins: Sequence[Margin | None] | None = None, offset: int = 0
    ) -> View:
        kept = (None,) * len(axes) if margins is None else tuple(margins)
        return View(self.offset + offset, tuple(axes), kept, self.fill)

    def address(self, index: Sequence[Any]) -> Any:
        """Element offset of a logical index; works on ints and on TIR expressions."""
        total: Any = self.offset
        for position, axis in zip(index, self.axes, strict=True):
            for digit, stride in zip(digits(position, axis), (s for _, s in axis), strict=True):
                if stride:
                    total = total + digit * stride
        return total

    @property
    def span(self) -> tuple[int, int]:
        """Least and greatest element offset that is touched (margins not counted)."""
        low = high = self.offset
        for axis in self.axes:
            for size, stride in axis:
                reach = (size - 1) * stride
                low, high = min(low, low + reach), max(high, high + reach)
        return low, high

    # --- the transformers -----------------------------------------------------------------------

    def transpose(self, order: Sequence[int]) -> View:
        return self.with_axes([self.axes[k] for k in order], [self.margins[k] for k in order])

    def squeeze(self, axis: int) -> View:
        return self.with_axes(_without(self.axes, axis), _without(self.margins, axis))

    def unsqueeze(self, axis: int) -> View:
        return self.with_axes(
            (*self.axes[:axis], (), *self.axes[axis:]),
            (*self.margins[:axis], None, *self.margins[axis:]),
        )

    def broadcast(self, shape: Shape) -> View:
        axes, margins = list(self.axes), list(self.margins)
        for k, (axis, size) in enumerate(zip(self.axes, shape, strict=True)):
            if axis_size(axis) != size:
                axes[k], margins[k] = ((size, 0),), None
        return self.with_axes(axes, margins)

    def slice(self, axis: int, low: int, high: int, step: int) -> View | None:
        count = -(-(high - low) // step)
        if (low, step, count) == (0, 1, axis_size(self.axes[axis])):
            return self
        stride = single_stride(self.axes[axis])
        if stride is None:
            return None
        axes, margins = list(self.axes), list(self.margins)
        axes[axis] = normal(((count, stride * step),))
        margins[axis] = None
        return self.with_axes(axes, margins, low * stride if count else 0)

    def windows(
        self, split: int, shape: Shape, stride: Shape, dilation: Shape, counts: Shape
    ) -> View | None:
        positions: list[Axis] = []
        items: list[Axis] = []
        for k, size in enumerate(shape):
            axis = self.axes[split + k]
            if size == axis_size(axis) and dilation[k] == 1:
                positions.append(())
                items.append(axis)
                continue
            if size == 1 and stride[k] == 1:
                positions.append(axis)
                items.append(())
                continue
            unit = single_stride(axis)
            if unit is None:
                return None
            positions.append(normal(((counts[k], unit * stride[k]),)))
            items.append(normal(((size, unit * dilation[k]),)))
        margins = (*self.margins[:split], *(None,) * (2 * len(shape)))
        return self.with_axes((*self.axes[:split], *positions, *items), margins)

    def pad(
        self, axis: int, before: int, after: int, value: float | int, interior: int
    ) -> View | None:
        room, stride = self.margins[axis], single_stride(self.axes[axis])
        if room is None or stride is None or interior or value != self.fill:
            return None
        if room.before < before or room.after < after:
            return None
        axes, margins = list(self.axes), list(self.margins)
        axes[axis] = normal(((axis_size(axes[axis]) + before + after, stride),))
        if stride == 0:
            return None
        margins[axis] = Margin(room.axis, room.before - before, room.after - after)
        return self.with_axes(axes, margins, -before * stride)

    def reshape(self, shape: Shape) -> View | None:
        if 0 in shape:
            return self.with_axes([normal(((n, 0),)) for n in shape])
        axes = regroup([atom for axis in self.axes for atom in axis], shape)
        if axes is None:
            return None
        # An axis that stays as it is keeps its margin.
        margins: list[Margin | None] = [None] * len(shape)
        old = {axis: m for axis, m in zip(self.axes, self.margins, strict=True) if m and axis}
        for k, axis in enumerate(axes):
            margins[k] = old.get(axis) if axis else None
        return self.with_axes(axes, margins)


def regroup(atoms: Sequence[Atom], shape: Shape) -> list[Axis] | None:
    """A row-major run of atoms cut into axes of the given sizes; None where a cut does not fit."""
    rest = list(atoms)
    axes: list[Axis] = []
    for size in reversed(shape):
        need, taken = size, []
        while need > 1:
            if not rest:
                return None
            length, stride = rest.pop()
            if length == 1:
                continue
            if need % length == 0:
                taken.append((length, stride))
                need //= length
            elif length % need == 0:
                taken.append((need, stride))
                rest.append((length // need, stride * need))
                need = 1
            else:
                return None
        axes.append(normal(tuple(reversed(taken))))
    return axes[::-1]


def strides_of(shape: Sequence[int]) -> list[int]:
    """Row-major strides."""
    result, step = [], 1
    for size in reversed(shape):
        result.append(step)
        step *= max(size, 1)
    return result[::-1]


def row_major(shape: Shape, room: int = 0) -> View:
    """The plain C-contiguous layout of a shape, with ``room`` on both sides of each axis."""
    stride, axes = 1, []
    for size in reversed(shape):
        axes.append(normal(((size, stride),)))
        stride *= max(size, 1)
    margins = [Margin(k, room, room) if room else None for k in range(len(shape))]
    return View(0, tuple(reversed(axes)), tuple(margins))


def normal(axis: Axis) -> Axis:
    """Atoms of size 1 dropped, neighbours that form one stride merged."""
    result: list[Atom] = []
    for size, stride in axis:
        if size == 1:
            continue
        if result and result[-1][1] == size * stride and result[-1][0] and size:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def axis_size(axis: Axis) -> int:
    """The length of an axis."""
    return math.prod(size for size, _ in axis)


def single_stride(axis: Axis) -> int | None:
    """The stride of an axis of at most one atom, else None."""
    return None if len(axis) > 1 else axis[0][1] if axis else 0


def digits(position: Any, axis: Axis) -> list[Any]:
    """The mixed-radix digits of a position along an axis."""
    if len(axis) <= 1:
        return [position] * len(axis)
    result, rest = [], axis_size(axis)
    for k, (size, _) in enumerate(axis):
        rest //= size
        digit = position // rest if rest > 1 else position
        result.append(digit % size if k else digit)
    return result


def split_atoms(axis: Axis, cuts: Sequence[int]) -> Axis | None:
    """Atoms cut so that none spans one of ``cuts`` (strides in the space the atoms live in).

    The atom ``(size, stride)`` covers strides from ``stride`` to ``size * stride``; None when a cut
    falls inside an atom without dividing it.
    """
    result: list[Atom] = []
    for size, stride in axis:
        inside = sorted((c for c in cuts if stride < c < stride * size), reverse=True)
        top = stride * size
        for cut in inside:
            if top % cut or cut % stride:
                return None
            result.append((top // cut, cut))
            top = cut
        result.append((top // stride, stride))
    return tuple(atom for atom in result if atom[0] != 1)


def _without(items: tuple[Any, ...], position: int) -> tuple[Any, ...]:
    return items[:position] + items[position + 1 :]


def compose_inverse(over: View, base: Shape, target: View) -> View | None:
    """Where base elements lie, given where a rearrangement of them lies.

    ``over`` describes the axes of a rearranged value in the row-major space of ``base`` (a
    bijection onto it), ``target`` where the rearranged value is stored. The result has the axes of
    ``base`` and the addresses of ``target``; None when the two cut an axis differently.
    """
    pieces: list[tuple[int, int, int]] = []  # stride in base, size, stride in target
    for mine, theirs in zip(over.axes, target.axes, strict=True):
        left, right = list(normal(mine)), list(theirs)
        while left and right:
            (n, base_stride), (m, stride) = left.pop(), right.pop()
            if n % m == 0:
                pieces.append((base_stride, m, stride))
                if n > m:
                    left.append((n // m, base_stride * m))
            elif m % n == 0:
                pieces.append((base_stride, n, stride))
                right.append((m // n, stride * n))
            else:
                return None
        if left or right:
            return None
    axes: list[Axis] = []
    margins: list[Margin | None] = []
    step = 1
    bounds = []
    for size in reversed(base):
        bounds.append(step)
        step *= size
    bounds.reverse()
    fine: list[tuple[int, int, int]] = []
    for base_stride, size, stride in pieces:
        cut = split_atoms(((size, base_stride),), bounds)
        if cut is None:
            return None
        fine.extend((b, n, stride * (b // base_stride)) for n, b in cut)
    for size, low in zip(base, bounds, strict=True):
        own = sorted((p for p in fine if low <= p[0] < low * size), reverse=True)
        axis = normal(tuple((n, stride) for _, n, stride in own))
        if axis_size(axis) != size:
            return None
        axes.append(axis)
        margins.append(None)
        for mine, theirs, room in zip(over.axes, target.axes, target.margins, strict=True):
            if room and axis and mine == ((size, low),) and theirs == axis:
                margins[-1] = room
    return View(target.offset, tuple(axes), tuple(margins), target.fill)


def in_order(shape: Shape, order: Sequence[int], room: Sequence[tuple[int, int]]) -> View:
    """Storage with margins for a shape, its axes in the order given, outermost first."""
    stride, offset = 1, 0
    axes: list[Axis] = [()] * len(shape)
    margins: list[Margin | None] = [None] * len(shape)
    for k in reversed(order):
        before, after = room[k]
        axes[k] = normal(((shape[k], stride),))
        if before or after:
            margins[k] = Margin(k, before, after)
            offset += before * stride
        stride *= max(shape[k] + before + after, 1)
    return View(offset, tuple(axes), tuple(margins))


def move_view(term: Term, view: View) -> View | None:
    """The view of ``term``, an operator of :data:`VIEWS`, given that of its operand."""
    child = term.children[0]
    match term.op:
        case "access":
            return view
        case "transpose":
            return view.transpose(term["permutation"])
        case "squeeze":
            return view.squeeze(term["axis"])
        case "unsqueeze":
            return view.unsqueeze(term["axis"])
        case "broadcast":
            return view.broadcast(term["shape"])
        case "slice":
            return view.slice(term["axis"], term["low"], term["high"], term["step"])
        case "flatten" | "reshape":
            return view.reshape(term.shape)
        case "pad":
            value = fill_value(term["value"], term.dtype)
            return view.pad(term["axis"], term["before"], term["after"], value, term["interior"])
        case "windows":
            dilation = term["dilation"] or (1,) * len(term["shape"])
            split = child.type.split
            counts = term.outer[split:]
            return view.windows(split, term["shape"], term["stride"], dilation, counts)
    raise AssertionError(term.op)


def replay(chain: Iterable[Term], view: View) -> View | None:
    """The moves of ``chain`` applied to a view, first one first."""
    current: View | None = view
    for term in chain:
        if current is None:
            return None
        current = move_view(term, current)
    return current
