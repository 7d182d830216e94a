"""How an e-graph grows: step by step, as tables, pictures and a page to look around in."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glenside.explore.history import History
    from glenside.explore.record import Exploration, Snapshot, explore

__all__ = ["Exploration", "History", "Snapshot", "explore"]

_HOMES = {"history": ("History",), "record": ("Exploration", "Snapshot", "explore")}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
