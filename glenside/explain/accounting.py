"""What is told of one optimised program beside its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from glenside.deadline import TimeIsUp
from glenside.explain.exact import exact_offloads
from glenside.explain.left import left_on_host
from glenside.explain.recipe import Recipe
from glenside.explain.records import Left
from glenside.extraction import CostModel, Extraction
from glenside.hw_targets.target import Target
from glenside.language import Model
from glenside.rewrites import RuleSet, Saturation


@dataclass(frozen=True)
class Account:
    """``exact`` and ``left`` as in a report; ``explain`` finds out the rest when it is called."""

    exact: dict[str, int] | None
    left: tuple[Left, ...]
    explain: Recipe | None
    cut: bool = False
    """Whether the time was over before ``exact`` and ``left`` were known."""


UNACCOUNTED = Account(None, (), None)
"""Of a program that was not rewritten, or where accounting failed."""


def account(
    model: Model,
    target: Target,
    rules: Sequence[RuleSet],
    explored: Saturation,
    extracted: Extraction,
    costs: CostModel,
) -> Account:
    """For the program extracted from what ``rules`` made of ``model``."""
    recipe = Recipe(
        model.name,
        target.name,
        model.outputs,
        model.names,
        explored.term_classes,
        extracted.terms,
        extracted.classes,
        rules,
        explored.steps,
        explored.nodes,
        (),
    )
    units = getattr(target, "units", ())
    try:
        left = left_on_host(recipe.regions(), explored, units, costs.name) if units else ()
        exact = exact_offloads(model.roots, rules, costs)
    except TimeIsUp:
        return Account(None, (), recipe, cut=True)
    return Account(exact, left, replace(recipe, left=left))
