"""Which accelerators, within an area, run a model fastest: hardware and program chosen together."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import InputError, TargetError
from glenside.extraction.cycles import Cycles
from glenside.hardware_front import HardwareFront, HardwarePoint
from glenside.hw_targets.offload import JOINED, OffloadTarget, joined
from glenside.hw_targets.registry import find_target
from glenside.hw_targets.target import Progress
from glenside.hw_targets.units.systolic_array import NAME as SYSTOLIC_ARRAY
from glenside.language import CALLS
from glenside.limits import AREAS, ITER_LIMIT, NODE_LIMIT, SOLVER_LIMIT
from glenside.pipeline import Pipeline

if TYPE_CHECKING:
    from glenside.extraction.problem import Member
    from glenside.rewrites.ruleset import Rule, RuleSet

Array = np.ndarray[Any, Any]

SIDES = (4, 8, 16, 32, 64, 128, 256)
"""Of the systolic arrays that are tried unless others are named."""


def systolic_arrays(area: float) -> list[str]:
    """Systolic arrays that fit, at most four times as long as wide or as wide as long."""
    return [
        f"{SYSTOLIC_ARRAY}:{rows}x{columns}"
        for rows in SIDES
        for columns in SIDES
        if rows * columns <= area and max(rows, columns) <= 4 * min(rows, columns)
    ]


def explore_hardware(
    model: object,
    areas: Sequence[float] = AREAS,
    candidates: Sequence[str] | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    params: Mapping[str, Array] | None = None,
    rules: Sequence[RuleSet | Rule] | None = None,
    add_rules: Sequence[RuleSet | Rule] | None = None,
    cost_model: Cycles | None = None,
    node_limit: int = NODE_LIMIT,
    iter_limit: int = ITER_LIMIT,
    solver_limit: float = SOLVER_LIMIT,
    progress: Progress | None = None,
) -> HardwareFront:
    """For each area the units, of the candidates, that run a model fastest, and how fast.

    All candidates are explored in one e-graph, and one integer program for each area chooses units
    and program together. Units and host take turns, so several units pay where their shapes suit
    different layers.

    :param model: as for :func:`glenside.optimize`.
    :param areas: budgets in multipliers, whatever number of units they are spent on.
    :param candidates: targets made of accelerators, which must declare cycles and area; by default
        :func:`systolic_arrays`.
    :param rules: rule sets or rules in place of the candidates'.
    :param add_rules: rule sets or rules beside the candidates'.
    :param cost_model: times of calls, DMA and host.
    :param solver_limit: the solver's budget for each area, in deterministic seconds, which are of
        the order of seconds and make the same input give the same answer everywhere.
    :raises TargetError: a candidate is no accelerator, or its area is not declared.
    """
    from glenside.extraction import dag_cost
    from glenside.extraction.hardware import choose_units
    from glenside.extraction.problem import build_classes, pose

    started = time.perf_counter()
    _check(areas, solver_limit)
    budgets = sorted(set(areas))
    names = systolic_arrays(max(budgets)) if candidates is None else list(candidates)
    chosen = _targets(names)
    costs = cost_model or Cycles()
    if not isinstance(costs, Cycles):
        raise InputError(f"cost_model must be a glenside.extraction.Cycles, got {costs!r}")

    pipeline = Pipeline(
        "no unit is given any work", progress=progress, own_costs=cost_model is not None
    )
    imported = pipeline.imported(model, shapes=shapes, params=params).model
    using = pipeline.rules(
        lambda: joined([target for target, _ in chosen.values()]).rules() if chosen else [],
        rules,
        add_rules,
    )
    explored = pipeline.explored(imported, using, node_limit=node_limit, iter_limit=iter_limit)
    announce = pipeline.clock.tell
    announce("choose", 0, len(budgets))
    problem = pose(explored.egraph, costs)
    owner = {
        (unit, target.parameters): name
        for name, (target, _) in chosen.items()
        for unit in target.units
    }

    def unit_of(member: Member) -> str | None:
        if member.node.op not in CALLS:
            return None
        attributes = member.node.attributes()
        unit, size = attributes["unit"], attributes["parameters"]
        return owner[unit, None] if (unit, None) in owner else owner[unit, size]

    areas_of = {name: area for name, (_, area) in chosen.items()}
    points = []
    for selection in choose_units(problem, areas_of, unit_of, [0.0, *budgets], solver_limit):
        terms = build_classes(problem, selection.solution)
        program = [terms[root] for root in explored.egraph.roots]
        calls = Counter(map(unit_of, selection.solution.choice.values()))
        points.append(
            HardwarePoint(
                area=selection.budget,
                used=sum(areas_of[unit] for unit in selection.units),
                units={unit: calls[unit] for unit in selection.units},
                cycles=dag_cost(program, costs)[0],
                optimal=selection.optimal,
            )
        )
        announce("choose", len(points), len(budgets) + 1)
    return HardwareFront(
        model=imported.name,
        candidates=areas_of,
        points=tuple(points),
        clock=costs.clock,
        nodes=explored.nodes,
        stop_reason=explored.stop_reason.value,
        seconds=time.perf_counter() - started,
        failure=pipeline.failure.reason,
    )


def _targets(names: Sequence[str]) -> dict[str, tuple[OffloadTarget, float]]:
    """Candidates by name, with their areas."""
    result = {}
    for name in names:
        target = find_target(name)
        if JOINED in name or not isinstance(target, OffloadTarget):
            raise TargetError(f"a candidate is the target of one accelerator, {name!r} is not")
        area = target.area
        if area is None:
            raise TargetError(f"candidate {name} does not declare its area: add area= to it")
        result[target.name] = target, area
    return result


def _check(areas: Sequence[float], limit: float) -> None:
    # Written so that nan is refused.
    if not areas or not all(area > 0 and area < math.inf for area in areas):
        raise InputError(f"areas must be positive numbers of multipliers, got {list(areas)}")
    if not limit >= 0:
        raise InputError(f"solver_limit must be seconds from 0 up, got {limit!r}")
