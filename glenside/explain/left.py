"""Which layers stayed on the host though a unit computes the like, and why."""

from __future__ import annotations

from collections.abc import Sequence

from glenside.explain.nearest import Nearest, wanted_by
from glenside.explain.records import Left
from glenside.explain.regions import Regions
from glenside.hw_targets.offload import accelerator_of
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
    if not hosted:
        return ()
    nearest = Nearest(explored.egraph)
    found: dict[str, Left] = {}
    for term in hosted:
        function = term["function"]
        for layer in regions.layers(term, {function}):
            if layer not in found:
                unit, misfits = nearest.misfits(regions.class_of[term], function, wanted)
                if explored.stop_reason is not StopReason.SATURATED:
                    misfits.append(f"exploration stopped before its end ({explored.stop_reason})")
                elif not misfits:
                    misfits = [f"it fits, but {cost_model} finds another program cheaper"]
                found[layer] = Left(layer, unit, "; ".join(misfits))
    return tuple(found.values())
