"""How long calls take, and the cost model that picks programs by time.

Times are cycles of the accelerators' clock, 1 GHz unless another is given. A call takes what its
unit's declaration says (:func:`call_cycles`): loading weights, streaming, draining. Its operands
come in and its result goes out by DMA meanwhile, since units have two buffers for each, as VTA has:
a call takes the longer of both. Units and host take turns.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from glenside.errors import ExtractionError
from glenside.extraction.cost import Cost, Roofline, call_cycles, cpu_roofline, moved_bytes
from glenside.language.operators import CALLS
from glenside.language.shape import AccessType
from glenside.language.term import Term

CLOCK = 1e9
"""Cycles per second."""


def term_cycles(term: Term) -> float | None:
    """The same of a call in a program."""
    return call_cycles(term.op, term.attributes, [child.type for child in term.children])


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
