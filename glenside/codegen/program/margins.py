"""Pass: a ``pad`` is a margin around what it pads, so that no kernel tests for the border."""

from __future__ import annotations

import math
from dataclasses import replace

from glenside.codegen.program.record import Cut, Room
from glenside.codegen.views import View, replay, row_major
from glenside.language.operators import BIJECTIONS, fill_value
from glenside.language.term import Term

_ROOM = 1 << 30
"""More than any margin takes."""


def find_margins(cut: Cut) -> Cut:
    """Finds the pads that can be margins around a stored value, and the room they need."""
    if cut.plain:
        return cut
    rooms: dict[Term, Room] = {}
    for term in cut.order:
        if term.op != "pad" or term["interior"] or term in cut.kept:
            continue
        leaf, chain = cut.leaves.descend(term, BIJECTIONS | {"pad"})
        if leaf not in cut.kept or not leaf.type.size:
            continue
        fill = fill_value(term["value"], term.dtype)
        start = row_major(leaf.shape, _ROOM)
        view = replay(chain, View(0, start.axes, start.margins, fill))
        if view is None:
            continue
        margins: dict[int, tuple[int, int]] = {}
        for margin in view.margins:
            if margin is not None:
                used = _ROOM - margin.before, _ROOM - margin.after
                if any(used):
                    margins[margin.axis] = used
        owner, margins = _of_owner(cut, leaf, margins)
        room = _widened(owner, rooms.get(owner, Room(fill, {})), Room(fill, margins))
        if room is not None:
            rooms[owner] = room
    return replace(cut, rooms=rooms)


def _of_owner(
    cut: Cut, term: Term, margins: dict[int, tuple[int, int]]
) -> tuple[Term, dict[int, tuple[int, int]]]:
    """Margins of a part of a concat as those of the whole."""
    while term in cut.parts and margins:
        part = cut.parts[term]
        over = replay(part.chain, row_major(term.shape, _ROOM))
        assert over is not None
        margins = {
            axis: margins[margin.axis]
            for axis, margin in enumerate(over.margins)
            if margin is not None and margin.axis in margins and axis != part.whole["axis"]
        }
        term = part.whole
    return term, margins


def _widened(term: Term, known: Room, wanted: Room) -> Room | None:
    """Room for both; None where they do not go together, nothing is wanted or it is too much."""
    if not wanted.margins or known.fill != wanted.fill:
        return None
    merged = dict(known.margins)
    for axis, (before, after) in wanted.margins.items():
        old = merged.get(axis, (0, 0))
        merged[axis] = max(old[0], before), max(old[1], after)
    size = math.prod(n + sum(merged.get(axis, (0, 0))) for axis, n in enumerate(term.shape))
    return Room(wanted.fill, merged) if size <= max(4 * term.type.size, 1 << 14) else None
