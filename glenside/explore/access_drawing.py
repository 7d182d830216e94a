"""The access pattern of a term as a picture: outer axes hold cells, each cell an item.

Of every axis only the first few positions are drawn. Windows are shown where they lie on the access
that they are taken from.
"""

from __future__ import annotations

import math

from glenside.explore.svg import Svg
from glenside.language import Term
from glenside.language.shape import AccessType

MOST = 6
"""Positions of an axis that are drawn."""
_CELL, _GAP, _MARGIN, _LINE = 12.0, 10.0, 12.0, 18.0


def draw_access(term: Term) -> Svg:
    """The access that a term is; for windows also the one they slide over."""
    title = term.op.replace("_", "-")
    own = _pattern(term.type, title, None)
    if term.op != "windows":
        return own
    (child,) = term.children
    below = _pattern(child.type, f"over {child.op.replace('_', '-')}", _Window.of(term))
    both = Svg(own.width + below.width + _MARGIN, max(own.height, below.height))
    both.place(below, 0, 0)
    both.place(own, below.width + _MARGIN, 0)
    return both


class _Window:
    """Which positions of the item axes the first and the second window cover."""

    def __init__(self, offsets: list[list[int]], strides: tuple[int, ...]) -> None:
        self.offsets, self.strides = offsets, strides

    @staticmethod
    def of(term: Term) -> _Window:
        shape, strides = term["shape"], term["stride"]
        dilation = term["dilation"] or (1,) * len(shape)
        offsets = [[k * d for k in range(n)] for n, d in zip(shape, dilation, strict=True)]
        return _Window(offsets, strides)

    def covers(self, axis: int, position: int) -> bool:
        """Whether the first window has this position of an item axis."""
        return position in self.offsets[axis]


def _pattern(given: AccessType, title: str, window: _Window | None) -> Svg:
    item_rows, item_columns = _two(given.item)
    outer_rows, outer_columns = _two(given.outer)
    rows, columns = min(outer_rows, MOST), min(outer_columns, MOST)
    deep, wide = min(item_rows, MOST + 2), min(item_columns, MOST + 2)
    if window is not None:  # One item, large enough for the window.
        rows, columns = min(rows, 1), min(columns, 1)
        deep, wide = min(item_rows, 12), min(item_columns, 12)
    cell_width, cell_height = wide * _CELL + _GAP, deep * _CELL + _GAP
    notes = _notes(given, (rows, columns, deep, wide), window)
    letters = max(map(len, (*notes, str(given))))
    width = max(columns * (cell_width + _GAP), 6.4 * letters) + 2 * _MARGIN
    height = 3 * _LINE + rows * (cell_height + _GAP) + 3 * _LINE
    picture = Svg(width, height)
    picture.text(_MARGIN, _LINE, title)
    picture.text(_MARGIN, 2 * _LINE, f"(({_axes(given.outer)}) ({_axes(given.item)}))", "faint")
    top = 2.6 * _LINE
    for r in range(rows):
        for c in range(columns):
            x, y = _MARGIN + c * (cell_width + _GAP), top + r * (cell_height + _GAP)
            picture.rect(x, y, cell_width, cell_height, "outer", rx="4")
            for i in range(deep):
                for j in range(wide):
                    inside = window is not None and _covered(window, given.item, i, j)
                    kind = "window" if inside else "item"
                    picture.rect(
                        x + _GAP / 2 + j * _CELL, y + _GAP / 2 + i * _CELL, _CELL, _CELL, kind
                    )
    below = top + rows * (cell_height + _GAP) + _LINE
    for line in notes:
        picture.text(_MARGIN, below, line, "faint")
        below += _LINE
    picture.height = below
    return picture


def _covered(window: _Window, item: tuple[int, ...], row: int, column: int) -> bool:
    axes = len(item)
    if axes == 1:
        return window.covers(0, column)
    return window.covers(axes - 2, row) and window.covers(axes - 1, column)


def _two(axes: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a sheet that has the last two axes; those before are not drawn."""
    if not axes:
        return 1, 1
    return (1, axes[0]) if len(axes) == 1 else (axes[-2], axes[-1])


def _axes(axes: tuple[int, ...]) -> str:
    return " ".join(map(str, axes))


def _notes(
    given: AccessType, drawn: tuple[int, int, int, int], window: _Window | None
) -> list[str]:
    rows, columns, deep, wide = drawn
    notes = []
    outer, item = math.prod(given.outer), math.prod(given.item)
    notes.append(f"{outer:,} position{'s' * (outer != 1)} to iterate over, items of {item:,}")
    if rows * columns < outer or deep * wide < item:
        notes.append(f"drawn: {rows}x{columns} positions, {deep}x{wide} of each item")
    if window is not None:
        notes.append(f"the first window; the next lies {_axes(window.strides)} further")
    return notes
