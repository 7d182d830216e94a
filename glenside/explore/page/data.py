"""What the interactive view shows, as plain data.

Texts that occur often (operators, attributes, types, rules) are written once and numbered.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from glenside.explore.chosen import chosen_nodes
from glenside.extraction.bottom_up import bottom_up
from glenside.extraction.problem import pose
from glenside.language.operators import OPERATORS
from glenside.language.syntax import spell_value
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from glenside.rewrites.engine.query import contains_all

if TYPE_CHECKING:
    from glenside.explore.record import Record
    from glenside.extraction import Cost, CostModel

VERSION = 2


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


def page_data(exploration: Record) -> dict[str, Any]:
    """The exploration as far as it has come.

    ``classes`` holds for each class ``[type, nodes, cost, name]``; a node is ``[operator,
    attributes, children, rule, pass, chosen, price]``, followed by the rule and the pass that made
    it a member of its class where these are others. Texts stand by their number in ``texts``, the
    price of a node alone by that in ``prices`` (-1: the cost model does not allow it). ``cost`` is
    that of the cheapest way to say the class in the end, sharing not counted; null where there is
    none.
    """
    history = exploration.history
    egraph, texts = history.egraph, _Texts()
    model = next(iter(exploration.cost_models.values()))
    chosen = chosen_nodes(exploration)
    names = _names(exploration, egraph)
    prices = _Prices(egraph, model)
    costs = _costs(egraph, model, prices)
    classes = []
    for number, (nodes, origins) in enumerate(zip(egraph.classes, history.origins, strict=True)):
        members = []
        for node, origin in zip(nodes, origins, strict=True):
            member = [
                texts.number(OPERATORS[node.op].spelling),
                texts.number(_attributes(node)),
                list(node.children),
                texts.number(origin.rule),
                origin.iteration,
                int((number, node) in chosen),
                prices.number(number, node),
            ]
            if (origin.joined_by, origin.joined) != (origin.rule, origin.iteration):
                member += [texts.number(origin.joined_by), origin.joined]
            members.append(member)
        kind = texts.number(str(egraph.types[number]))
        classes.append([kind, members, costs[number], names.get(number, "")])
    return {
        "version": VERSION,
        "model": exploration.model.name,
        "target": exploration.target,
        "stop_reason": exploration.stop_reason.value if exploration.stop_reason else "",
        "cost_models": {
            each.name: list(getattr(each, "components", ()))
            for each in exploration.cost_models.values()
        },
        "defaults": _defaults(),
        "texts": texts.all,
        "prices": [list(price) for price in prices.all],
        "classes": classes,
        "roots": list(egraph.roots),
        "passes": _passes(exploration),
    }


def _passes(exploration: Record) -> list[dict[str, Any]]:
    costs = exploration.costs
    brought = exploration.history.nodes_by_rule
    return [
        {
            "stage": each.stage,
            "nodes": each.nodes,
            "classes": each.classes,
            "seconds": round(each.seconds, 6),
            "memory": each.memory,
            "costs": {
                name: None if found[each.iteration] is None else list(found[each.iteration] or ())
                for name, found in costs.items()
            },
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
        for each in exploration.snapshots
    ]


def _attributes(node: ENode) -> str:
    """As the text form has them, without options that have their default."""
    parts = []
    for attribute, value in zip(OPERATORS[node.op].attributes, node.values, strict=True):
        if not attribute.optional:
            parts.append(spell_value(value))
        elif value != attribute.default:
            parts.append(f":{attribute.name} {spell_value(value)}")
    return " ".join(parts)


def _defaults() -> dict[str, dict[str, str]]:
    """What options stand for that are not written, by operator."""
    return {
        operator.spelling: {
            f":{a.name}": spell_value(a.default) for a in operator.attributes if a.optional
        }
        for operator in OPERATORS.values()
        if any(a.optional for a in operator.attributes)
    }


def _names(exploration: Record, egraph: FrozenEGraph) -> dict[int, str]:
    """What the user's model calls the values of classes."""
    where = contains_all(egraph, exploration.model.names)
    found: dict[int, str] = {}
    for term, name in exploration.model.names.items():
        number = where[term]
        if number is not None:
            found.setdefault(number, str(name))
    return found


class _Prices:
    """What nodes cost without their operands, each different price once."""

    def __init__(self, egraph: FrozenEGraph, model: CostModel) -> None:
        self._egraph, self._model = egraph, model
        self.all: list[Cost] = []
        self._numbers: dict[Cost, int] = {}

    def number(self, at: int, node: ENode) -> int:
        """The number of the price of a node of a class; -1 where the model does not allow it."""
        price = self.of(at, node)
        if price is None or not all(map(math.isfinite, price)):
            return -1
        if price not in self._numbers:
            self._numbers[price] = len(self.all)
            self.all.append(price)
        return self._numbers[price]

    def of(self, at: int, node: ENode) -> Cost | None:
        types = self._egraph.types
        operands = [types[child] for child in node.children]
        return self._model.node_cost(node.op, node.attributes(), types[at], operands)


def _costs(egraph: FrozenEGraph, model: CostModel, prices: _Prices) -> list[list[float] | None]:
    """For each class what the cheapest tree costs."""
    solution = bottom_up(pose(egraph, model))
    found: list[list[float] | None] = [None] * len(egraph.classes)
    for number in solution.order:
        node = solution.choice[number].node
        own = prices.of(number, node)
        below = [found[child] for child in node.children]
        assert own is not None  # It was chosen, operands before users.
        total = [math.fsum(part) for part in zip(own, *(b for b in below if b), strict=True)]
        found[number] = total if all(map(math.isfinite, total)) else None
    return found
