"""Other ways to say a program: the e-graph and the rules that grow it.

Rule families are modules of this package (``ruleset.FAMILIES`` names them);
:func:`rule_named` finds single rules. Importing this package does not import egglog: what needs it
is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glenside.rewrites.egraph import EGraph, Watched
    from glenside.rewrites.frozen import ENode, FrozenEGraph
    from glenside.rewrites.query import contains, matches
    from glenside.rewrites.ruleset import Rule, RuleSet, rewrite_rule, rule_named
    from glenside.rewrites.saturation import (
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
    from glenside.rewrites.tiling import tile_to

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
    "egraph": ("EGraph", "Watched"),
    "frozen": ("ENode", "FrozenEGraph"),
    "query": ("contains", "matches"),
    "ruleset": ("Rule", "RuleSet", "rewrite_rule", "rule_named"),
    "saturation": (
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
    "tiling": ("tile_to",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
