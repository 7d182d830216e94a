"""What the cheapest program cost after every pass.

The program as loaded is priced as it is, the last state by :meth:`Record.extract`, and what a
pass did not change is not priced again. The states in between are grown again and read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from glenside.errors import ExtractionError
from glenside.extraction import Cost, CostModel, dag_cost, extract
from glenside.rewrites.engine.egraph import EGraph

if TYPE_CHECKING:
    from glenside.explore.record import Record, Snapshot

PRICED = 200_000
"""E-nodes, over all passes, that are read and priced at most: for 50 passes over a large e-graph
that would take far longer than growing it. Of a longer run every second, third, ... pass is."""

NONE: Cost = ()
"""In place of a cost where a model allows no program."""


class Pricing:
    """Costs of the best programs by cost model and pass, each found once.

    :param priced: see :data:`PRICED`.
    """

    def __init__(self, exploration: Record, priced: int = PRICED) -> None:
        self._exploration, self._priced = exploration, priced
        self._known: dict[tuple[str, int], Cost] = {}
        for model in exploration.cost_models.values():
            cost = dag_cost(exploration.model.roots, model)
            self._known[model.name, 0] = cost if all(map(_finite, cost)) else NONE

    def note(self, model: CostModel, iteration: int, cost: Cost) -> None:
        """Keeps what somebody else found."""
        if self._exploration.cost_models.get(model.name) is model:
            self._known[model.name, iteration] = cost

    def all(self) -> dict[str, tuple[Cost | None, ...]]:
        """For each cost model the cost after each pass; None where a pass was left out, or where
        the e-graph cannot be looked at any more."""
        snapshots, models = self._exploration.snapshots, self._exploration.cost_models
        chosen = _chosen(snapshots, self._priced) if self._exploration.readable else set()
        missing = {
            number for number in chosen if any((name, number) not in self._known for name in models)
        }
        if self._exploration.last_change in missing:
            missing.discard(self._exploration.last_change)
            for name in models:
                self.now(name)
        if missing:
            self._grow_again(missing)
        return {name: self._filled(name, snapshots) for name in models}

    def now(self, name: str) -> Cost:
        """The cost at present."""
        at = name, self._exploration.last_change
        if at not in self._known:
            try:
                self._known[at] = self._exploration.best_cost(name)
            except ExtractionError:
                self._known[at] = NONE
        return self._known[at]

    def _grow_again(self, passes: set[int]) -> None:
        exploration = self._exploration
        egraph = EGraph([rule for each in exploration.rules for rule in each])
        egraph.load(exploration.model.roots)
        steps = exploration.applied
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            egraph.apply(step.rule)
            if following is not None and following.iteration == step.iteration:
                continue
            if step.iteration in passes:
                state = egraph.freeze()
                for name, model in exploration.cost_models.items():
                    try:
                        cost = extract(state, model, original=exploration.model.roots).cost
                    except ExtractionError:
                        cost = NONE
                    self._known[name, step.iteration] = cost
                passes.discard(step.iteration)
                if not passes:
                    break
        egraph.close()

    def _filled(self, name: str, snapshots: Sequence[Snapshot]) -> tuple[Cost | None, ...]:
        found: list[Cost | None] = []
        for each in snapshots:
            unchanged = each.iteration and not each.changed
            found.append(found[-1] if unchanged else self._known.get((name, each.iteration)))
        return tuple(found)


def _chosen(snapshots: Sequence[Snapshot], most: int) -> set[int]:
    """The passes to price: those that changed something, thinned out evenly."""
    changed = [each for each in snapshots if each.changed or not each.iteration]
    every = 1
    while every < len(changed) and sum(each.nodes for each in changed[::every]) > most:
        every += 1
    return {each.iteration for each in (*changed[::every], *changed[-1:])}


def _finite(value: float) -> bool:
    return value < float("inf")
