"""Matrix units as tables: which lane loads and holds what of a product."""

from __future__ import annotations

import numpy as np
import pytest

from glenside.codegen.gpu.tensor.unit import MMA, LaneLayout, MatrixUnit, Place

MFMA = MatrixUnit(
    "v_mfma_f32_16x16x16_f16", 64, 16, 16, "registers",
    LaneLayout(
        row_words=2,
        row_unit=Place((("lane", 32, 2, 1),)),
        row_line=Place((("lane", 1, 16, 1),)),
        together=1,
        position_unit=Place((("lane", 32, 2, 1),)),
        position_line=Place((("lane", 1, 16, 1),)),
        sums=4,
        sum_row=Place((("lane", 16, 4, 4), ("held", 1, 4, 1))),
        sum_position=Place((("lane", 1, 16, 1),)),
    ),
)  # fmt: skip
"""AMD's, of 64 lanes: what it takes to say a unit more."""


@pytest.mark.parametrize("unit", [MMA, MFMA], ids=lambda unit: unit.name)
def test_every_sum_is_held_once(unit: MatrixUnit) -> None:
    layout = unit.layout
    held = np.zeros((unit.rows, unit.positions), int)
    for lane in range(unit.threads):
        for k in range(layout.sums):
            held[layout.sum_row.of(lane, k), layout.sum_position.of(lane, k)] += 1
    assert (held == 1).all()


@pytest.mark.parametrize("unit", [MMA, MFMA], ids=lambda unit: unit.name)
def test_all_that_a_product_takes_is_loaded(unit: MatrixUnit) -> None:
    """Two units of 16 bytes of each row and position, by as many lanes each."""
    layout = unit.layout
    sides = [
        (layout.row_unit, layout.row_line, unit.rows),
        (layout.position_unit, layout.position_line, unit.positions * layout.together),
    ]
    for units, lines, count in sides:
        loaded = np.zeros((2, count), int)
        for lane in range(unit.threads):
            loaded[units.of(lane), lines.of(lane)] += 1
        assert (loaded == unit.threads // (2 * count)).all()


def test_the_text_says_the_same() -> None:
    """Expressions are C's and Python's alike, but for division."""
    for unit in (MMA, MFMA):
        for place in unit.layout.functions().values():
            text = place.text.replace("/", "//")
            for lane in range(unit.threads):
                for held in range(unit.layout.sums):
                    assert eval(text, {"lane": lane, "held": held}) == place.of(lane, held)
    assert MMA.layout.sum_row.text == "lane / 4 % 8 * 1 + held / 2 % 2 * 8"
    assert MFMA.layout.sum_row.text == "lane / 16 % 4 * 4 + held / 1 % 4 * 1"
