"""How reductions over rows are spread over a device's threads, as a constraint problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.solver import Constraints, Problem
from glenside.codegen.gpu.rows.mapping import RowMapping
from glenside.codegen.gpu.rows.space import RowSpace
from glenside.codegen.scalars import itemsize

_SIZES = tuple(1 << k for k in range(11))
"""Threads of a row, and rows of a group."""
_LEAST_EACH = 2
"""Elements that a thread has of a long row."""
_MOST_HELD = 32
"""Values that a thread keeps in registers, by constant places."""
_OTHER_REGISTERS = 32
_TRANSACTION = 8
"""Neighbours that are to be read together."""


class RowProblem(Problem[RowMapping]):
    """The constraint problem of reductions over rows on one device.

    Variables: threads that share a row (``team``), rows of a group (``rows``); whether a row is
    ``held`` in registers, and whether totals are ``shuffled`` from thread to thread.
    """

    def __init__(self, space: RowSpace, limits: DeviceLimits) -> None:
        super().__init__()
        self.space, self.limits = space, limits

    def tables(self) -> list[Sequence[Any]]:
        held = (0, 1) if self.space.held else (0,)
        shuffled = (0, 1) if self.space.shuffles else (0,)
        teams = [(team, h, s) for team in _SIZES for h in held for s in shuffled]
        return [[each for each in teams if each[0] > 1 or not each[2]], [*_SIZES]]

    def row(self, mapping: RowMapping) -> list[Any]:
        return [(mapping.team, mapping.held, mapping.shuffled), mapping.rows]

    def mapping(self, rows: Sequence[Any]) -> RowMapping:
        (team, held, shuffled), count = rows
        return RowMapping(team, count, held, shuffled)

    def state(self, constraints: Constraints, tables: Sequence[Sequence[Any]]) -> list[Any]:
        """What the device and the sizes allow."""
        space, limits, c = self.space, self.limits, constraints
        teams, counts = tables
        choices = [c.choice(teams, "team choice"), c.choice(counts, "row choice")]
        team = c.column(choices[0], [each[0] for each in teams], "team")
        rows = c.column(choices[1], list(counts), "rows")
        held = c.column(choices[0], [self._kept(*each[:2]) for each in teams], "held")

        threads = c.product([team, rows], 1 << 20, "threads")
        c.at_most("threads", threads, min(limits.threads_per_group, limits.group_size[0]))
        c.whole_multiple("threads", threads, limits.warp, 1 << 20)
        # Rows and elements that are not there are gone through all the same.
        c.at_most("tiles", rows, max(_above(space.rows), limits.warp))
        c.at_most("tiles", team, max(1, _above(-(-space.length // _LEAST_EACH))))
        if space.along:
            least = min(_TRANSACTION, _above(-(-space.length // _LEAST_EACH)))
            c.at_least("coalescing", team, least)
        else:
            c.at_least("coalescing", rows, min(_TRANSACTION, _above(space.rows)))
        c.at_most("registers", held, _MOST_HELD)
        used = c.named(held + _OTHER_REGISTERS, 1 << 20, "registers")
        c.at_most("registers", c.product([used, threads], 1 << 30), limits.unit_registers)
        size = itemsize(space.total)
        places = [team_ // (limits.warp if shuffled else 1) for team_, _, shuffled in teams]
        totals = c.column(choices[0], places, "totals of a row")
        local = c.product([totals, rows, size], 1 << 30, "bytes of totals")
        c.at_most("local memory", local, min(limits.local_bytes, limits.static_local_bytes))
        groups = c.column(choices[1], [-(-space.rows // n) for n in counts], "groups")
        c.at_most("grid", groups, limits.grid_size[0])
        if space.shuffles and not space.along:
            c.at_most("barriers", c.column(choices[0], [s for *_, s in teams], "shuffled"), 0)
        return choices

    def _kept(self, team: int, held: int) -> int:
        """Values of a row that a thread keeps."""
        return held * len(self.space.held) * -(-self.space.length // team)


def _above(size: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(size - 1, 0).bit_length()
