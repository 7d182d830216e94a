"""Exact matching: what the units' own rules find in the program as it was imported."""

from __future__ import annotations

from collections.abc import Sequence

from glenside.deadline import check_time
from glenside.extraction import CostModel, extract
from glenside.language import Term, topological_order
from glenside.report import count_offloads
from glenside.rewrites import EGraph, RuleSet

PASSES = 8
"""At most; a unit's rule finds all there is in one, and calls of calls in the next."""


def exact_offloads(
    roots: Sequence[Term], rules: Sequence[RuleSet], costs: CostModel
) -> dict[str, int] | None:
    """Calls by target without any exploratory rule; None where no rule maps work to units.

    :param rules: all that are explored with; those that map work are applied.
    """
    mapping = [rule for each in rules if each.mapping for rule in each]
    if not mapping:
        return None
    # The same combination of rules as is explored with: it has been declared already.
    egraph = EGraph([rule for each in rules for rule in each])
    egraph.load(roots)
    passes = 0
    while passes < PASSES:
        steps = []
        for rule in mapping:
            check_time()
            steps.append(egraph.apply(rule))
        if not any(step.changed for step in steps):
            break
        passes += 1
    if not passes:
        egraph.close()
        return count_offloads(topological_order(roots))
    frozen = egraph.freeze()
    egraph.close()
    found = extract(frozen, costs, extractor="greedy-dag", original=roots)
    return count_offloads(topological_order(found.terms))
