"""How products of plain matrices are spread over a device's threads, as a constraint problem.

Where no reduced loop shares a dimension with one over results (no windows), a product is one of
matrices, several of them where there are batch loops. Then nothing is to be found out about what
windows share: a group computes a tile of rows by columns, and what is left to choose are a few
numbers. The shape is the one that Volkov and Demmel describe ("Benchmarking GPUs to Tune Dense
Linear Algebra", SC 2008): long loops, many sums in registers, two stages in local memory of which
one is filled while the other is multiplied.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.solver import Constraints, Problem
from glenside.codegen.gpu.matrices.mapping import MatrixMapping
from glenside.codegen.gpu.matrices.tiling import SPARE_REGISTERS, MatrixShape

_WASTE = 1.34
"""Most work, masked work included, by work that counts."""
_DOWN, _LEFT = (8, 4), (8, 4, 7, 6, 5)
"""Rows and columns of a thread."""
_PLACES_DOWN, _PLACES_LEFT = (2, 4, 6, 8, 12, 16, 24, 32), (2, 4, 7, 8, 14, 16, 32)
"""Threads of a group along rows and along columns."""
_DEPTHS, _PARTS = (8, 16, 32), (1, 2, 4)
_NARROW = 16
"""Fewer columns of a group are not looked at where there are more."""
_LEAST_THREADS, _MOST_THREADS = 64, 512
_LEAST_STEPS = 4
"""Reduced steps of a thread in a stage."""
_MOST_MOVED = 32
"""Elements of a stage that a thread fetches ahead."""


class MatrixProblem(Problem[MatrixMapping]):
    """The constraint problem of a product of matrices on one device.

    Variables: threads of a group along rows and columns (``up``, ``right``) and what each computes
    (``down``, ``left``); reduced steps of a stage and the threads that share them.
    """

    def __init__(self, shape: MatrixShape, limits: DeviceLimits) -> None:
        super().__init__()
        self.shape, self.limits = shape, limits

    def tables(self) -> list[Sequence[tuple[int, int]]]:
        return [
            [*itertools.product(_DOWN, _PLACES_DOWN)],
            [*itertools.product(_LEFT, _PLACES_LEFT)],
            [*itertools.product(_DEPTHS, _PARTS)],
        ]

    def row(self, mapping: MatrixMapping) -> list[tuple[int, int]]:
        (up, right), (down, left) = mapping.places, mapping.tile
        return [(down, up), (left, right), (mapping.depth, mapping.parts)]

    def mapping(self, rows: Sequence[tuple[int, int]]) -> MatrixMapping:
        (down, up), (left, right), (depth, parts) = rows
        return MatrixMapping(down * up, left * right, depth, (down, left), parts)

    def state(
        self, constraints: Constraints, tables: Sequence[Sequence[tuple[int, int]]]
    ) -> list[Any]:
        """What the device and the sizes allow."""
        shape, limits, c = self.shape, self.limits, constraints
        names = ("row choice", "column choice", "stage choice")
        choices = [c.choice(table, name) for table, name in zip(tables, names, strict=True)]
        rows_of, columns_of, stages = tables
        heights = [down * up for down, up in rows_of]
        widths = [left * right for left, right in columns_of]
        down = c.column(choices[0], [each[0] for each in rows_of], "down")
        up = c.column(choices[0], [each[1] for each in rows_of], "up")
        rows = c.column(choices[0], heights, "rows")
        left = c.column(choices[1], [each[0] for each in columns_of], "left")
        right = c.column(choices[1], [each[1] for each in columns_of], "right")
        columns = c.column(choices[1], widths, "columns")
        depth = c.column(choices[2], [each[0] for each in stages], "depth")
        parts = c.column(choices[2], [each[1] for each in stages], "parts")

        c.at_least("tiles", columns, min(_NARROW, shape.width))
        covered = [
            c.column(choices[0], [-(-shape.rows // n) * n for n in heights], "covered rows"),
            c.column(choices[1], [-(-shape.width // n) * n for n in widths], "covered columns"),
        ]
        most = int(_WASTE * shape.rows * shape.width)
        c.at_most("tiles", c.product(covered, 2 * most + (1 << 20), "work"), most)

        threads = c.product([up, right, parts], 1 << 12, "threads")
        c.at_most("threads", threads, min(limits.threads_per_group, _MOST_THREADS))
        c.at_least("threads", threads, _LEAST_THREADS)
        c.whole_multiple("threads", threads, limits.warp, 1 << 12)

        sides = c.named(rows + columns, 1 << 9, "rows + columns")
        stage = c.product([depth, sides], 1 << 14, "stage")
        tile = c.product([rows, columns], 1 << 16, "tile")
        exchanged = c.product([c.named(parts - 1, 4), tile], 1 << 18, "exchanged")
        local = min(limits.local_bytes, limits.static_local_bytes) // 4
        c.at_most("local memory", 2 * stage + exchanged, local)
        c.at_least("barriers", depth, c.named(_LEAST_STEPS * parts, 1 << 5))
        c.at_most("barriers", depth, max(8, shape.depth))

        c.at_most("registers", stage, c.named(_MOST_MOVED * threads, 1 << 17))
        moved = c.number(0, _MOST_MOVED, "moved", lambda: int(stage) // int(threads))
        taken = c.product([moved, threads], 1 << 17)
        c.define(taken <= stage)
        c.define(stage < taken + threads)
        block = c.product([down, left], 1 << 7, "sums")
        used = c.named(block + down + left + moved + SPARE_REGISTERS, 1 << 9, "registers")
        c.at_most("registers", used, limits.thread_registers)
        c.at_most("registers", c.product([used, threads], 1 << 18), limits.unit_registers)
        return choices
