"""Which layers stayed on the host though a unit computes the like, and why."""

from __future__ import annotations

from collections.abc import Sequence

from glenside.explain.cells import Cells
from glenside.explain.nearest import Nearest, wanted_by
from glenside.explain.records import Left
from glenside.explain.regions import Regions
from glenside.hw_targets.offload import accelerator_of
from glenside.hw_targets.recurrence import LSTM
from glenside.rewrites import Saturation, StopReason


def left_on_host(
    regions: Regions, explored: Saturation, units: Sequence[str], cost_model: str
) -> tuple[Left, ...]:
    """One entry for each layer, in the order of the program.

    :param units: names of the target's units.
    :param cost_model: the name of what chose the program.
    """
    wanted = [each for unit in units for each in wanted_by(unit, accelerator_of(unit))]
    functions = frozenset[str]().union(*(each.functions for each in wanted))
    hosted = [
        term for term in regions.order if term.op == "compute" and term["function"] in functions
    ]
    found = _steps_of_lstms(regions, explored, units)
    if not hosted:
        return tuple(found.values())
    nearest = Nearest(explored.egraph)
    for term in hosted:
        function = term["function"]
        for layer in regions.layers(term, {function}):
            if layer not in found:
                told = nearest.misfits(regions.class_of[term], function, wanted)
                if told is None:
                    continue
                unit, misfits = told
                if explored.stop_reason is not StopReason.SATURATED:
                    misfits.append(f"exploration stopped before its end ({explored.stop_reason})")
                elif not misfits:
                    misfits = [f"it fits, but {cost_model} finds another program cheaper"]
                found[layer] = Left(layer, unit, "; ".join(misfits))
    return tuple(found.values())


def _steps_of_lstms(
    regions: Regions, explored: Saturation, units: Sequence[str]
) -> dict[str, Left]:
    """Steps that did not become part of a call, by layer: the hidden state after each."""
    recurrent = [unit for unit in units if isinstance(accelerator_of(unit), LSTM)]
    found: dict[str, Left] = {}
    if not recurrent:
        return found
    cells = Cells(explored.egraph)
    for term in regions.order:
        if term.op == "compute" and term["function"] in ("add", "mul"):
            reason = cells.reason(regions.class_of[term])
            if reason is not None:
                for layer in regions.layers(term, {term["function"]}):
                    found.setdefault(layer, Left(layer, recurrent[0], reason))
    return found
