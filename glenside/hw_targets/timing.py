"""How long calls take and how large units are, and the cost model that picks programs by time.

Times are cycles of the accelerators' clock, 1 GHz unless another is given. A call takes what its
unit's declaration says (:func:`call_cycles`): loading weights, streaming, draining. Its operands
come in and its result goes out by DMA meanwhile, since units have two buffers for each, as VTA has:
a call takes the longer of both. Units and host take turns.

Areas are multipliers, which dominate the area of such units. The operations of one target are one
piece of hardware.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from glenside.errors import ExtractionError
from glenside.extraction.cost import COST_MODELS, Cost, Roofline, cpu_roofline, moved_bytes
from glenside.hw_targets.offload import OffloadTarget, accelerator_of
from glenside.language.operators import CALLS
from glenside.language.shape import AccessType, Shape
from glenside.language.term import Term

CLOCK = 1e9
"""Cycles per second."""

UnitCycles = Callable[[str, Shape, int, Sequence[AccessType]], float]
"""``(op, parameters, batch, operands)``: of one ``call`` or ``blocked`` product."""


@dataclass(frozen=True)
class _Timing:
    cycles: UnitCycles
    area: Callable[[Shape], float]


_TIMINGS: dict[str, _Timing] = {}


def register_timing(unit: str, cycles: UnitCycles, area: Callable[[Shape], float]) -> None:
    """Says it of a unit that is not declared as an :class:`~glenside.Accelerator`.

    :param area: multipliers, from the parameters of a call.
    """
    _TIMINGS[unit] = _Timing(cycles, area)


def call_cycles(
    op: str, attributes: Mapping[str, Any], operands: Sequence[AccessType]
) -> float | None:
    """Cycles that the unit of a ``call`` or ``blocked`` works; None where nothing says it."""
    unit, parameters, batch = (
        attributes["unit"],
        attributes["parameters"],
        attributes.get("batch", 0),
    )
    if unit in _TIMINGS:
        return _TIMINGS[unit].cycles(op, parameters, batch, operands)
    declared = accelerator_of(unit)
    if declared is None or op != "call":
        return None
    # A call of a batch is one invocation for each position on the shared axes.
    one = [AccessType(each.outer[batch:], each.item, each.dtype) for each in operands]
    cycles = declared.cycles_of(parameters, one)
    return None if cycles is None else cycles * math.prod(operands[0].outer[:batch])


def term_cycles(term: Term) -> float | None:
    """The same of a call in a program."""
    return call_cycles(term.op, term.attributes, [child.type for child in term.children])


def area_of(target: OffloadTarget) -> float | None:
    """Multipliers of a target's hardware: of the operation that needs most; None where no
    declaration says."""
    areas = []
    for unit in target.units:
        declared = accelerator_of(unit)
        if unit in _TIMINGS and target.parameters is not None:
            areas.append(_TIMINGS[unit].area(target.parameters))
        elif declared is not None and declared.area is not None:
            areas.append(declared.area)
    return max(areas, default=None)


@dataclass(frozen=True)
class Cycles:
    """Time on the accelerators and the host beside them: (cycles, bytes moved, nodes).

    * a call: the longer of :func:`call_cycles` and moving its operands and result, each once, by
      DMA at the bandwidth of the host's memory;
    * work on the host: what :class:`~glenside.extraction.cost.Roofline` says of it, the launch of a
      kernel included;
    * data movement: nothing, since DMA and the host's kernels read through it; operands count at
      the size that they then have, windows with their overlap.

    Each in whole cycles. Of programs that are equally fast the one with fewest bytes moved and then
    fewest nodes wins.

    :param units: names of the units the target has; None allows all.
    :param clock: of the accelerators, cycles per second.
    :param host: the processor beside them, and the memory of both; by default
        :func:`~glenside.extraction.cost.cpu_roofline`: 96 operations and 25.6 bytes a cycle of
        1 GHz, and 1000 cycles to launch a kernel.
    """

    units: Collection[str] | None = None
    clock: float = CLOCK
    host: Roofline = field(default_factory=cpu_roofline)
    name: ClassVar[str] = "cycles"
    components: ClassVar[tuple[str, ...]] = ("cycles", "bytes moved", "nodes")

    def __post_init__(self) -> None:
        if not self.clock > 0:
            raise ValueError(f"the clock must be positive, got {self.clock}")

    def node_cost(
        self,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost | None:
        """The price of one node; None for a unit that the target lacks.

        :raises ExtractionError: the unit's declaration does not say its cycles.
        """
        moved = moved_bytes(op, result, operands)
        if op in CALLS:
            if self.units is not None and attributes["unit"] not in self.units:
                return None
            cycles = call_cycles(op, attributes, operands)
            if cycles is None:
                raise ExtractionError(
                    f"unit {attributes['unit']} does not declare the cycles of its calls, "
                    "by which cost model cycles chooses: add cycles= to its declaration"
                )
            time = max(cycles, moved * self.clock / self.host.bandwidth)
        else:
            host = self.host.node_cost(op, attributes, result, operands)
            assert host is not None
            time = host[0] * self.clock
        return float(math.ceil(time)), float(moved), 1.0


COST_MODELS[Cycles.name] = Cycles
