"""What every pass brought: nodes and better programs, found by growing again.

An exploration keeps the order in which rules changed its e-graph. Applied again in this order they
give the same e-graph, which can be looked at after every step, as long as that takes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from glenside.errors import ExtractionError
from glenside.rewrites.egraph import EGraph
from glenside.rewrites.frozen import ENode, FrozenEGraph

if TYPE_CHECKING:
    from glenside.explore.record import Exploration

Key = tuple[str, str, tuple[int, ...]]

LOADED = "loaded"
"""In place of a rule for nodes of the program itself."""


@dataclass(frozen=True)
class Origin:
    """Which rule brought a node, and in which pass; ``loaded`` and 0 for the program's own."""

    rule: str
    iteration: int


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
    costs: dict[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    """For each cost model what the cheapest program cost after each pass."""

    @staticmethod
    def of(exploration: Exploration) -> History:
        """Grows the e-graph of ``exploration`` again, as far as it has come."""
        last = exploration.egraph
        index = {
            _key(node, node.children): number
            for number, nodes in enumerate(last.classes)
            for node in nodes
        }
        origins: dict[Key, Origin] = {}
        passes = len(exploration.snapshots)
        costs: dict[str, list[tuple[float, ...]]] = {
            name: [()] * passes for name in exploration.cost_models
        }
        for iteration, rule, state, last_of_pass in _states(exploration):
            final = _final_classes(state, index)
            for nodes in state.classes:
                for node in nodes:
                    key = _key(node, [final[child] for child in node.children])
                    if key in index:
                        origins.setdefault(key, Origin(rule, iteration))
            if last_of_pass:
                for name, found in costs.items():
                    found[iteration] = _cost(exploration, name, state)
        for found in costs.values():
            for number in range(1, passes):  # Passes that changed nothing.
                found[number] = found[number] or found[number - 1]
        nodes_by_rule = Counter((o.iteration, o.rule) for o in origins.values())
        return History(
            last,
            tuple(
                tuple(origins[_key(node, node.children)] for node in nodes)
                for nodes in last.classes
            ),
            dict(nodes_by_rule),
            {name: tuple(found) for name, found in costs.items()},
        )

    def at(self, iteration: int) -> dict[int, list[ENode]]:
        """The classes and their nodes that were there after a pass."""
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


def _states(exploration: Exploration) -> Iterator[tuple[int, str, FrozenEGraph, bool]]:
    """(pass, rule, e-graph, whether the pass is complete) at the start and after every step that
    changed something."""
    egraph = EGraph([rule for each in exploration.rules for rule in each])
    egraph.load(exploration.model.roots)
    yield 0, LOADED, egraph.freeze(), True
    steps = exploration.applied
    for step, following in itertools.zip_longest(steps, steps[1:]):
        egraph.apply(step.rule)
        complete = following is None or following.iteration != step.iteration
        yield step.iteration, step.rule.name, egraph.freeze(), complete
    egraph.close()


def _key(node: ENode, children: list[int] | tuple[int, ...]) -> Key:
    return node.op, repr(node.values), tuple(children)


def _final_classes(state: FrozenEGraph, index: dict[Key, int]) -> list[int]:
    """For each class of an earlier state the class of the last one that it has become part of."""
    final: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    for number, nodes in enumerate(state.classes):
        for child in {child for node in nodes for child in node.children}:
            users.setdefault(child, []).append(number)
    waiting = list(range(len(state.classes)))
    while waiting:
        number = waiting.pop()
        if number in final:
            continue
        for node in state.classes[number]:
            if all(child in final for child in node.children):
                found = index.get(_key(node, [final[child] for child in node.children]))
                if found is not None:
                    final[number] = found
                    waiting.extend(users.get(number, ()))
                    break
    return [final.get(number, -1) for number in range(len(state.classes))]


def _cost(exploration: Exploration, name: str, state: FrozenEGraph) -> tuple[float, ...]:
    from glenside.extraction import extract

    try:
        return extract(state, exploration.cost_models[name], original=exploration.model.roots).cost
    except ExtractionError:
        return ()
