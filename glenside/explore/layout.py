"""Where the boxes of a graph stand: what is built from others stands above them.

The layout is layered: a box stands above all that it is built from, and within a layer near what
it is joined to (Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system
structures", 1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ACROSS, DOWN, MARGIN = 14.0, 34.0, 14.0
_SWEEPS = 4


@dataclass(frozen=True)
class Layout:
    """The size of the picture, and the upper left corner and the layer of every box."""

    width: float
    height: float
    corners: list[tuple[float, float]]
    layers: list[int]
    """From 0, the lowest, up."""


def layered(
    below: Sequence[Sequence[int]], sizes: Sequence[tuple[float, float]], pulled_up: Sequence[int]
) -> Layout:
    """Places boxes of some sizes.

    :param below: what each box is built from. Those that do not stand in front of it in the list,
        as on a cycle, have no say in how high it stands.
    :param pulled_up: boxes that stand right below their lowest user and not at the bottom.
    """
    depth = [0] * len(below)
    users: list[list[int]] = [[] for _ in below]
    for number, each in enumerate(below):
        depth[number] = 1 + max((depth[b] for b in each if b < number), default=-1)
        for operand in each:
            users[operand].append(number)
    for number in reversed(pulled_up):
        above = [depth[user] for user in users[number] if user > number]
        if above:
            depth[number] = max(min(above) - 1, depth[number])
    rows: dict[int, list[int]] = {}
    for number, layer in enumerate(depth):
        rows.setdefault(layer, []).append(number)
    top = max(rows, default=-1)
    position = {n: float(i) for each in rows.values() for i, n in enumerate(each)}
    for _ in range(_SWEEPS):
        for layer in range(top, -1, -1):
            _arrange(rows.get(layer, []), position, users)
        for layer in range(top + 1):
            _arrange(rows.get(layer, []), position, below)
    wide = {
        layer: sum(sizes[n][0] for n in each) + ACROSS * (len(each) - 1)
        for layer, each in rows.items()
    }
    width = max(wide.values(), default=0.0) + 2 * MARGIN
    corners = [(0.0, 0.0)] * len(below)
    y = MARGIN
    for layer in range(top, -1, -1):
        x = (width - wide.get(layer, 0.0)) / 2
        for number in rows.get(layer, []):
            corners[number] = (x, y)
            x += sizes[number][0] + ACROSS
        y += max((sizes[n][1] for n in rows.get(layer, [])), default=0.0) + DOWN
    return Layout(width, max(y - DOWN + MARGIN, 2 * MARGIN), corners, depth)


def _arrange(numbers: list[int], position: dict[int, float], near: Sequence[Sequence[int]]) -> None:
    """Orders a layer by where its neighbours stand."""

    def wanted(number: int) -> float:
        others = near[number]
        if not others:
            return position[number]
        return sum(position[each] for each in others) / len(others)

    numbers.sort(key=lambda number: (wanted(number), number))
    for i, number in enumerate(numbers):
        position[number] = i - len(numbers) / 2
