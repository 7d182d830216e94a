"""What a program runs on: targets, accelerator units and how they are declared.

:mod:`~glenside.hw_targets.registry` holds the list; importing this package puts nothing on it.
"""

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
