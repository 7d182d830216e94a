"""The declarations of accelerators behind rules."""

from __future__ import annotations

from collections.abc import Iterable

from glenside.hw_targets.accelerator import Accelerator
from glenside.language.units import known_unit
from glenside.rewrites.ruleset import Rule


def of_rules(rules: Iterable[Rule]) -> list[Accelerator]:
    """Those from which some of these rules follow."""
    known = (known_unit(rule.name) for rule in rules)
    declared = [unit.declaration for unit in known if unit is not None]
    return [each for each in declared if isinstance(each, Accelerator)]
