"""How an e-graph grows: step by step, as tables, pictures and a page to look around in."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.frontends import load_model
from glenside.hw_targets.registry import find_target
from glenside.hw_targets.target import Target
from glenside.limits import ITER_LIMIT, NODE_LIMIT

if TYPE_CHECKING:
    from glenside.explore.access_drawing import draw_access
    from glenside.explore.comparison import Comparison, compare
    from glenside.explore.egraph_drawing import draw_egraph
    from glenside.explore.exploration import Exploration
    from glenside.explore.history import History
    from glenside.explore.program_drawing import draw_program, draw_programs
    from glenside.explore.record import Snapshot
    from glenside.extraction import CostModel
    from glenside.rewrites.ruleset import Rule, RuleSet

__all__ = [
    "Comparison",
    "Exploration",
    "History",
    "Snapshot",
    "compare",
    "draw_access",
    "draw_egraph",
    "draw_program",
    "draw_programs",
    "explore",
]

Array = np.ndarray[Any, Any]


def explore(
    model: object,
    target: str | Target = "cpu",
    *,
    rules: Sequence[RuleSet | Rule] | None = None,
    add_rules: Sequence[RuleSet | Rule] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    params: Mapping[str, Array] | None = None,
    cost_models: Sequence[CostModel | str] | None = None,
    node_limit: int = NODE_LIMIT,
    iter_limit: int = ITER_LIMIT,
    time_limit: float | None = None,
) -> Exploration:
    """Loads a model into an e-graph that is then grown step by step.

    :param model: as for :func:`glenside.optimize`: a file, a term, a :class:`Model`, ...
    :param target: whose rules and cost model are used.
    :param rules: rule sets or rules in place of the target's.
    :param add_rules: rule sets or rules beside the target's.
    :param cost_models: by which costs are told; the target's own by default.
    :param node_limit: it ends when the e-graph has more e-nodes.
    :param iter_limit: passes for each stage.
    :param time_limit: seconds of growing.
    :raises GlensideError: the model or the target cannot be used.
    """
    from glenside.explore.exploration import Exploration
    from glenside.extraction import find_cost_model
    from glenside.rewrites.ruleset import explored_with

    chosen = find_target(target)
    own = explored_with(chosen.rules, rules, add_rules)
    models = [chosen.cost_model()] if cost_models is None else map(find_cost_model, cost_models)
    imported = load_model(model, shapes=shapes, params=params)
    return Exploration(
        imported,
        own,
        tuple(models),
        target=chosen.name,
        node_limit=node_limit,
        iter_limit=iter_limit,
        time_limit=time_limit,
    )


_HOMES = {
    "access_drawing": ("draw_access",),
    "comparison": ("Comparison", "compare"),
    "egraph_drawing": ("draw_egraph",),
    "history": ("History",),
    "program_drawing": ("draw_program", "draw_programs"),
    "exploration": ("Exploration",),
    "record": ("Snapshot",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
