"""The record of an exploration as tidy tables: one row for each observation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glenside.explore.record import Record

Row = dict[str, Any]


def tables(exploration: Record) -> dict[str, list[Row]]:
    """All tables, by name."""
    return {name: rows(exploration, name) for name in TABLES}


def rows(exploration: Record, name: str) -> list[Row]:
    """The rows of one of :data:`TABLES`."""
    return list(TABLES[name](exploration))


def frame(found: list[Row]) -> Any:
    """Rows as a pandas ``DataFrame``; as they are without pandas."""
    try:
        import pandas
    except ImportError:
        return found
    return pandas.DataFrame(found)


def _iterations(exploration: Record) -> Iterator[Row]:
    """One row a pass: sizes, matches, new equalities, seconds, memory."""
    before = exploration.snapshots[0].equalities
    for each in exploration.snapshots:
        yield {
            "iteration": each.iteration,
            "stage": each.stage,
            "nodes": each.nodes,
            "classes": each.classes,
            "matches": each.matches,
            "equalities": each.equalities - before,
            "seconds": each.seconds,
            "memory": each.memory,
            "changed": each.changed,
        }
        before = each.equalities


def _operators(exploration: Record) -> Iterator[Row]:
    """One row a pass and operator that has e-nodes."""
    for each in exploration.snapshots:
        for operator, nodes in each.operators.items():
            yield {"iteration": each.iteration, "operator": operator, "nodes": nodes}


def _rules(exploration: Record) -> Iterator[Row]:
    """One row a pass and rule that was applied in it; ``nodes`` are the e-nodes it brought,
    ``equalities`` those that it made members of a class that there was; None where the e-graph
    cannot be looked at any more."""
    history = exploration.history if exploration.readable else None
    for each in exploration.snapshots:
        for record in each.rules:
            at = each.iteration, record.rule
            yield {
                "iteration": each.iteration,
                "stage": each.stage,
                "rule": record.rule,
                "matches": record.matches,
                "nodes": history and history.nodes_by_rule.get(at, 0),
                "equalities": history and history.equalities_by_rule.get(at, 0),
                "seconds": record.seconds,
                "changed": record.changed,
            }


def _phases(exploration: Record) -> Iterator[Row]:
    """One row a pass and phase."""
    for each in exploration.snapshots:
        for phase, seconds in each.phases.items():
            yield {"iteration": each.iteration, "phase": phase, "seconds": seconds}


def _costs(exploration: Record) -> Iterator[Row]:
    """One row a pass, cost model and part of its costs: the cheapest program at that time."""
    for model, found in exploration.costs.items():
        parts = getattr(exploration.cost_models[model], "components", ())
        for snapshot, cost in zip(exploration.snapshots, found, strict=True):
            for position, value in enumerate(cost or ()):
                part = parts[position] if position < len(parts) else str(position)
                yield {
                    "iteration": snapshot.iteration,
                    "nodes": snapshot.nodes,
                    "cost_model": model,
                    "part": part,
                    "cost": value,
                }


TABLES: dict[str, Callable[[Record], Iterator[Row]]] = {
    "iterations": _iterations,
    "operators": _operators,
    "rules": _rules,
    "phases": _phases,
    "costs": _costs,
}
"""What can be asked for."""
