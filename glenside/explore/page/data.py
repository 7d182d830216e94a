"""What the interactive view shows, as plain data.

Texts that occur often (operators, attributes, types, rules) are written once and numbered.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from glenside.errors import ExtractionError
from glenside.extraction.bottom_up import bottom_up
from glenside.extraction.problem import pose
from glenside.language.operators import OPERATORS
from glenside.rewrites.frozen import ENode, FrozenEGraph

if TYPE_CHECKING:
    from glenside.explore.record import Exploration
    from glenside.extraction import CostModel

VERSION = 1


class _Texts:
    """Numbers for texts."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.all)
            self.all.append(text)
        return found


def page_data(exploration: Exploration) -> dict[str, Any]:
    """The exploration as far as it has come.

    ``classes`` holds for each class ``[type, nodes, cost, name]``; a node is ``[operator,
    attributes, children, rule, pass, chosen]``, texts by their number in ``texts``. ``cost`` is
    that of the cheapest way to say the class, sharing not counted; null where there is none.
    """
    history = exploration.history
    egraph, texts = history.egraph, _Texts()
    (model,) = list(exploration.cost_models.values())[:1]
    chosen = _chosen(exploration, egraph)
    names = _names(exploration, egraph)
    costs = _costs(egraph, model)
    classes = []
    for number, (nodes, origins) in enumerate(zip(egraph.classes, history.origins, strict=True)):
        members = [
            [
                texts.number(OPERATORS[node.op].spelling),
                texts.number(_attributes(node)),
                list(node.children),
                texts.number(origin.rule),
                origin.iteration,
                int((number, node) in chosen),
            ]
            for node, origin in zip(nodes, origins, strict=True)
        ]
        kind = texts.number(str(egraph.types[number]))
        classes.append([kind, members, costs[number], names.get(number, "")])
    return {
        "version": VERSION,
        "model": exploration.model.name,
        "target": exploration.target,
        "stop_reason": exploration.stop_reason.value if exploration.stop_reason else "",
        "cost_model": {"name": model.name, "parts": list(getattr(model, "components", ()))},
        "texts": texts.all,
        "classes": classes,
        "roots": list(egraph.roots),
        "passes": _passes(exploration),
    }


def _passes(exploration: Exploration) -> list[dict[str, Any]]:
    (costs,) = list(exploration.history.costs.values())[:1]
    brought = exploration.history.nodes_by_rule
    return [
        {
            "stage": each.stage,
            "nodes": each.nodes,
            "classes": each.classes,
            "seconds": round(each.seconds, 6),
            "memory": each.memory,
            "cost": list(cost),
            "operators": {OPERATORS[op].spelling: count for op, count in each.operators.items()},
            "rules": [
                [
                    record.rule,
                    record.matches,
                    brought.get((each.iteration, record.rule), 0),
                    round(record.seconds, 6),
                ]
                for record in each.rules
            ],
        }
        for each, cost in zip(exploration.snapshots, costs, strict=True)
    ]


def _attributes(node: ENode) -> str:
    """As the text form has them, without options that have their default."""
    parts = []
    for attribute, value in zip(OPERATORS[node.op].attributes, node.values, strict=True):
        shown = f"({' '.join(map(str, value))})" if isinstance(value, tuple) else str(value)
        if not attribute.optional:
            parts.append(shown)
        elif value != attribute.default:
            parts.append(f":{attribute.name} {shown}")
    return " ".join(parts)


def _chosen(exploration: Exploration, egraph: FrozenEGraph) -> set[tuple[int, ENode]]:
    """Class and node of all that the cheapest program is made of."""
    try:
        extraction = exploration.extract()
    except ExtractionError:
        return set()
    from glenside.language import topological_order
    from glenside.rewrites.query import contains_all

    terms = topological_order(extraction.terms)
    where = contains_all(egraph, terms)
    found = set()
    for term in terms:
        number = where[term]
        children = tuple(where[child] for child in term.children)
        if number is not None and None not in children:
            for node in egraph.classes[number]:
                if (node.op, node.children) == (term.op, children) and node.values == term.values:
                    found.add((number, node))
    return found


def _names(exploration: Exploration, egraph: FrozenEGraph) -> dict[int, str]:
    """What the user's model calls the values of classes."""
    from glenside.rewrites.query import contains_all

    where = contains_all(egraph, exploration.model.names)
    found: dict[int, str] = {}
    for term, name in exploration.model.names.items():
        number = where[term]
        if number is not None:
            found.setdefault(number, str(name))
    return found


def _costs(egraph: FrozenEGraph, model: CostModel) -> list[list[float] | None]:
    """For each class what the cheapest tree costs."""
    problem = pose(egraph, model)
    try:
        solution = bottom_up(problem)
    except ExtractionError:
        return [None] * len(egraph.classes)
    found: list[list[float] | None] = [None] * len(egraph.classes)
    for number in solution.order:
        member = solution.choice[number]
        own = model.node_cost(
            member.node.op,
            member.node.attributes(),
            egraph.types[number],
            [egraph.types[child] for child in member.node.children],
        )
        below = [found[child] for child in member.node.children]
        if own is None or any(each is None for each in below):
            continue
        total = [
            math.fsum(parts)
            for parts in zip(own, *(each for each in below if each is not None), strict=True)
        ]
        found[number] = total
    return found
