"""What every pass brought: nodes and equalities, found by growing again.

An exploration keeps the order in which rules changed its e-graph. Applied again in this order they
give the same e-graph, and egglog notes on the way when each node of it came to be.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from glenside.rewrites.engine.saturation import PRESENT, births

if TYPE_CHECKING:
    from glenside.explore.record import Record

LOADED = "loaded"
"""In place of a rule for nodes of the program itself."""

UNKNOWN = "not known"
"""In place of a rule that spells a number in an odd way, see :class:`~.saturation.Birth`."""


@dataclass(frozen=True)
class Origin:
    """Which rule brought a node, and in which pass; ``loaded`` and 0 for the program's own.

    A node may come to be in a class of its own that is found to be equal to others only later.
    ``joined_by`` and ``joined`` are the rule and the pass by which it is known to be equal to the
    first member of its class; most often the same.
    """

    rule: str
    iteration: int
    joined_by: str
    joined: int


@dataclass(frozen=True)
class History:
    """How the e-graph of an exploration came to be.

    ``egraph`` is the last state. Class numbers are those of it, also where an earlier state is
    told: a class is there from the pass on that has its first member.
    """

    egraph: FrozenEGraph
    origins: tuple[tuple[Origin, ...], ...]
    """For each class the origin of each of its nodes."""
    nodes_by_rule: dict[tuple[int, str], int]
    """E-nodes that each rule brought in each pass, of those in the last state."""
    equalities_by_rule: dict[tuple[int, str], int]
    """Likewise those that it made members of a class that there was."""

    @staticmethod
    def of(exploration: Record) -> History:
        """Grows the e-graph of ``exploration`` again, as far as it has come."""
        last, steps = exploration.egraph, exploration.applied

        def named(position: int | None) -> tuple[str, int]:
            if position is None:
                return UNKNOWN, exploration.snapshots[-1].iteration
            if position == PRESENT:
                return LOADED, 0
            return steps[position].rule.name, steps[position].iteration

        found = births(exploration.model.roots, exploration.rules, steps, last)
        origins = tuple(
            tuple(Origin(*named(each.made), *named(each.joined)) for each in members)
            for members in found
        )
        brought: Counter[tuple[int, str]] = Counter()
        equated: Counter[tuple[int, str]] = Counter()
        for each in origins:
            brought.update((origin.iteration, origin.rule) for origin in each)
            joined = sorted((origin.joined, origin.joined_by) for origin in each)
            equated.update(joined[1:])  # Somebody has to be the first.
        return History(last, origins, dict(brought), dict(equated))

    def at(self, iteration: int) -> dict[int, list[ENode]]:
        """The nodes that were there after a pass, by the classes that they are in now."""
        found: dict[int, list[ENode]] = {}
        for number, (nodes, origins) in enumerate(
            zip(self.egraph.classes, self.origins, strict=True)
        ):
            there = [
                node
                for node, origin in zip(nodes, origins, strict=True)
                if origin.iteration <= iteration
            ]
            if there:
                found[number] = there
        return found
