"""What a program runs on: targets, accelerator units and how they are declared.

:mod:`~glenside.hw_targets.registry` holds the list; importing this package puts nothing on it, and
loads nothing: saved programs run without what declares targets.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glenside.hw_targets.accelerator import Accelerator
    from glenside.hw_targets.expansion import expand
    from glenside.hw_targets.registry import find_target, register_target, targets
    from glenside.hw_targets.target import Target, TargetKind

__all__ = [
    "Accelerator",
    "Target",
    "TargetKind",
    "expand",
    "find_target",
    "register_target",
    "targets",
]

_HOMES = {
    "accelerator": ("Accelerator",),
    "expansion": ("expand",),
    "registry": ("find_target", "register_target", "targets"),
    "target": ("Target", "TargetKind"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
