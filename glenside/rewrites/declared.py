"""Rules that follow from declarations, by name: made when they are first asked for.

Nothing here imports egglog, so that declaring an accelerator is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glenside.rewrites.ruleset import Rule

DECLARED: dict[str, Callable[[], Rule]] = {}
"""What makes each rule."""


def declare_rule(name: str, make: Callable[[], Rule]) -> None:
    """Makes a rule known; declaring a name anew replaces the rule."""
    DECLARED[name] = make
