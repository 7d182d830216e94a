"""Explores and extracts as ``glenside.optimize`` does, without compiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glenside.explain.accounting import Account, account
from glenside.extraction import Extraction, extract, find_cost_model
from glenside.frontends import load_model
from glenside.hw_targets import find_target
from glenside.language import Model
from glenside.rewrites import RuleSet, Saturation, saturate


@dataclass(frozen=True)
class Optimised:
    """One run, and what is told of it."""

    model: Model
    rules: list[RuleSet]
    explored: Saturation
    extracted: Extraction
    account: Account

    @property
    def left(self) -> dict[str, str]:
        """Unit and reason by layer."""
        return {each.layer: f"{each.unit}: {each.reason}" for each in self.account.left}


def optimised(
    given: Any,
    target: str,
    cost_model: str | None = None,
    rules: Sequence[RuleSet] | None = None,
    **limits: int,
) -> Optimised:
    """A model for a target."""
    model, chosen = load_model(given), find_target(target)
    costs = find_cost_model(cost_model) if cost_model else chosen.cost_model()
    rules = list(chosen.rules() if rules is None else rules)
    explored = saturate(model.roots, rules, **limits)
    extracted = extract(explored.egraph, costs, original=model.roots)
    told = account(model, chosen, rules, explored, extracted, costs)
    return Optimised(model, rules, explored, extracted, told)
