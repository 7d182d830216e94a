"""What is told of one optimised program beside its figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glenside.explain.exact import exact_offloads
from glenside.explain.left import left_on_host
from glenside.explain.provenance import call_origins
from glenside.explain.records import Explanation, Left
from glenside.explain.regions import Regions
from glenside.extraction import CostModel, Extraction
from glenside.hw_targets.target import Target
from glenside.language import Model
from glenside.rewrites import RuleSet, Saturation


@dataclass(frozen=True)
class Account:
    """``exact`` and ``left`` as in a report; ``explain`` finds out the rest when it is called."""

    exact: dict[str, int] | None
    left: tuple[Left, ...]
    explain: Callable[[], Explanation] | None


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
    regions = Regions(
        model.outputs,
        model.names,
        explored.term_classes,
        extracted.terms,
        extracted.classes,
    )
    units = getattr(target, "units", ())
    left = left_on_host(regions, explored, units, costs.name) if units else ()
    steps, nodes = explored.steps, explored.nodes

    def explain() -> Explanation:
        origins = call_origins(model.roots, regions, rules, steps, nodes)
        return Explanation(model.name, target.name, origins, left, regions.all_layers())

    return Account(exact_offloads(model.roots, rules, costs), left, explain)
