"""Other ways to say a program: the e-graph and the rules that grow it.

Rules are written with :mod:`~glenside.rewrites.vocabulary` and :mod:`~glenside.rewrites.ruleset`;
those that ship are in ``rules/``, one family a file, and :func:`rule_named` finds single ones.
``engine/`` grows the e-graph, ``soundness/`` finds out whether rules are sound. Importing this
package does not import egglog: what needs it is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glenside.rewrites.engine.egraph import EGraph, Watched
    from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
    from glenside.rewrites.engine.query import contains, matches
    from glenside.rewrites.engine.saturation import (
        PRESENT,
        Applied,
        Iteration,
        RuleStep,
        Saturation,
        Stepper,
        StopReason,
        first_seen,
        saturate,
    )
    from glenside.rewrites.rules.tiling import tile_to
    from glenside.rewrites.ruleset import Rule, RuleSet, rewrite_rule, rule_named

__all__ = [
    "PRESENT",
    "Applied",
    "EGraph",
    "ENode",
    "FrozenEGraph",
    "Iteration",
    "Rule",
    "RuleSet",
    "RuleStep",
    "Saturation",
    "Stepper",
    "StopReason",
    "Watched",
    "contains",
    "first_seen",
    "matches",
    "rewrite_rule",
    "rule_named",
    "saturate",
    "tile_to",
]

_HOMES = {
    "engine.egraph": ("EGraph", "Watched"),
    "engine.frozen": ("ENode", "FrozenEGraph"),
    "engine.query": ("contains", "matches"),
    "ruleset": ("Rule", "RuleSet", "rewrite_rule", "rule_named"),
    "engine.saturation": (
        "PRESENT",
        "Applied",
        "Iteration",
        "RuleStep",
        "Saturation",
        "Stepper",
        "StopReason",
        "first_seen",
        "saturate",
    ),
    "rules.tiling": ("tile_to",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
