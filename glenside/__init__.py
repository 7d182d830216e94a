"""Glenside: equality saturation for tensor programs.

``glenside.optimize(model, target=...)`` turns a model into a pure access-pattern program, explores
the ways to say it, picks the cheapest for the target and compiles it; ``glenside.load`` runs what
was saved. Importing this package takes NumPy alone: a name is loaded when it is first used.
"""

from glenside import start_up  # isort: skip  # noqa: F401  (Before all that takes time.)

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from glenside import errors
from glenside.errors import GlensideError
from glenside.language import invocation
from glenside.needs import require_compiler

if TYPE_CHECKING:
    from glenside.explore import explore
    from glenside.explore_hardware import explore_hardware
    from glenside.hw_targets import Accelerator, targets
    from glenside.optimize import optimize
    from glenside.program import Program
    from glenside.quantization import Quantization
    from glenside.report import Report
    from glenside.saved_programs import load

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

_HOMES = {
    "Accelerator": "hw_targets",
    "Program": "program",
    "Quantization": "quantization",
    "Report": "report",
    "explore": "explore",
    "explore_hardware": "explore_hardware",
    "load": "saved_programs",
    "optimize": "optimize",
    "targets": "hw_targets",
}
_COMPILING = {"explore", "explore_hardware", "optimize"}


class _Package(ModuleType):
    """Where a public name is also that of a module, importing the module leaves the name alone."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in _COMPILING:
            require_compiler()
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
        found = getattr(module, name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_HOMES})


sys.modules[__name__].__class__ = _Package


def _look_for_unit(name: str | None) -> None:
    from glenside.hw_targets.registry import REGISTRY

    REGISTRY.look_for_unit(name)


# Calls in programs find their units on the one list of what programs run on.
invocation.found_by(_look_for_unit)
