"""Glenside: equality saturation for tensor programs.

``glenside.optimize(model, target=...)`` turns a model into a pure access-pattern program, explores
the ways to say it, picks the cheapest for the target and compiles it.
"""

from glenside import start_up  # isort: skip  # noqa: F401  (Before all that takes time.)

from glenside import errors
from glenside.errors import GlensideError
from glenside.explore import explore
from glenside.explore_hardware import explore_hardware
from glenside.hw_targets import Accelerator, targets
from glenside.hw_targets.registry import REGISTRY
from glenside.language import invocation
from glenside.optimize import optimize
from glenside.program import Program
from glenside.quantization import Quantization
from glenside.report import Report
from glenside.saved_programs import load

# Calls in programs find their units on the one list of what programs run on.
invocation.found_by(REGISTRY.look_for_unit)

__version__ = "0.1.0"

__all__ = [
    "Accelerator",
    "GlensideError",
    "Program",
    "Quantization",
    "Report",
    "errors",
    "explore",
    "explore_hardware",
    "load",
    "optimize",
    "targets",
]
