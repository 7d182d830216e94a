"""E-graphs as JSON in the form of egraph-serialize (https://github.com/egraphs-good/egraph-serialize),
which extraction-gym and e-graph visualisers read.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from glenside.errors import InputError
from glenside.extraction.cost import CostModel
from glenside.extraction.problem import describe
from glenside.files import write_text
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph


def to_egraph_json(egraph: FrozenEGraph, cost_model: CostModel | None = None) -> dict[str, Any]:
    """An e-graph as one JSON object: ``nodes``, ``root_eclasses`` and ``class_data``.

    A node's ``children`` are nodes, by the form's rules: one stands for its whole class. ``cost``
    is the first component of what the model says, 1 without a model: the form holds one number.
    What the model does not allow is ``subsumed``, which is not to be extracted. ``class_data``
    holds the type of each class.
    """
    nodes: dict[str, Any] = {}
    for at, members in enumerate(egraph.classes):
        for index, node in enumerate(members):
            cost = _cost(egraph, at, node, cost_model)
            nodes[f"{at}.{index}"] = {
                "op": describe(node),
                "children": [f"{child}.0" for child in node.children],
                "eclass": str(at),
                "cost": 1.0 if cost is None else cost,
                "subsumed": cost is None,
            }
    return {
        "nodes": nodes,
        "root_eclasses": list(dict.fromkeys(map(str, egraph.roots))),
        "class_data": {str(at): {"type": str(t)} for at, t in enumerate(egraph.types)},
    }


def save_egraph(
    path: str | Path, egraph: FrozenEGraph, cost_model: CostModel | None = None
) -> None:
    """Writes :func:`to_egraph_json` to a file.

    :raises InputError: it cannot be written.
    """
    data = to_egraph_json(egraph, cost_model)
    try:
        write_text(path, json.dumps(data, indent=1, allow_nan=False))
    except OSError as problem:
        raise InputError(f"cannot write {path}: {problem.strerror}") from problem


def _cost(egraph: FrozenEGraph, at: int, node: ENode, cost_model: CostModel | None) -> float | None:
    if cost_model is None:
        return 1.0
    operands = [egraph.types[child] for child in node.children]
    price = cost_model.node_cost(node.op, node.attributes(), egraph.types[at], operands)
    return None if price is None or math.inf in price else float(price[0])
