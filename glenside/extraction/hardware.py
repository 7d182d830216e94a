"""Which units to build: hardware and program chosen together.

The e-graph holds what every candidate unit could compute. One integer program chooses the units,
whose areas must fit a budget, and the members: a member that calls a unit may only be chosen if the
unit is built. The first component of the cost is minimised, then the area. Parts of the e-graph
that are alike (layers of one shape) stand in it once, counted as often as they occur.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.errors import ExtractionError
from glenside.extraction.bottom_up import bottom_up
from glenside.extraction.dag import greedy_dag
from glenside.extraction.ilp import Budget, Model, hint, ilp
from glenside.extraction.presolve import Part, Reduced, Shape, assemble, reduce
from glenside.extraction.problem import Member, Problem, Solution

UnitOf = Callable[[Member], str | None]
"""The candidate that a member calls; None for what the host does."""

_GRAIN = 1000
"""Areas are rounded up to a thousandth."""


@dataclass(frozen=True)
class Selection:
    """The units to build within an area, in the order of the candidates, and the program then.

    ``optimal``: proved that no other units within the area allow a lower first component of the
    cost, nor less area an equal one.
    """

    budget: float
    units: tuple[str, ...]
    solution: Solution
    optimal: bool


def choose_units(
    problem: Problem,
    areas: Mapping[str, float],
    unit_of: UnitOf,
    budgets: Sequence[float],
    limit: float,
) -> list[Selection]:
    """The best units for each budget, in the order of their size.

    :param areas: of the candidate units, by name.
    :param limit: deterministic seconds of the solver for each budget.
    :raises ExtractionError: the model calls units itself, and none was found that fit.
    """
    reduced = reduce(problem, unit_of)
    selections: list[Selection] = []
    for budget in sorted(set(budgets)):
        known = selections[-1] if selections else None
        selections.append(_choose(reduced, areas, unit_of, budget, limit, known))
    return selections


def _choose(
    reduced: Reduced,
    areas: Mapping[str, float],
    unit_of: UnitOf,
    budget: float,
    limit: float,
    known: Selection | None,
) -> Selection:
    """:param known: what is best for a smaller budget: where to start from."""
    model = Model()
    before = known.units if known else ()
    start = _program(reduced, unit_of, before)
    built = {unit: model.boolean(unit in before) for unit in areas}
    columns: list[int] = []
    variables: list[Any] = []
    for shape, (count, begin) in _kinds(reduced, start).items():
        for place, own in zip(shape, model.add(shape, begin), strict=True):
            columns += [count * choice.cost[0] for choice in place.choices]
            variables += own
            for unit, variable in built.items():
                calls = [v for v, c in zip(own, place.choices, strict=True) if c.need == unit]
                if calls:
                    model.cp.add(sum(calls) <= variable)
    sizes = [math.ceil(areas[unit] * _GRAIN) for unit in areas]
    area = model.weighted(sizes, list(built.values()))
    model.cp.add(area <= math.floor(budget * _GRAIN))
    left = Budget(limit)
    optimal = model.minimise([(cost,) for cost in columns], variables, left)
    optimal = optimal and model.minimise_one(area, left)
    units = before
    if model.values:
        units = tuple(unit for unit, each in built.items() if model.values[each.index])
    problem = _restricted(reduced.problem, unit_of, units)
    if not all(root in bottom_up(problem).choice for root in problem.egraph.roots):
        raise ExtractionError(
            f"no program was found within an area of {budget:g}: "
            "the model itself calls units, which take more"
        )
    solution = ilp(problem, limit).solution
    if optimal:
        parts = sum(
            cost * model.values[each.index] for cost, each in zip(columns, variables, strict=True)
        )
        # The program is extracted anew, by all components: it must be as good as was proved.
        optimal = first(solution) == parts + sum(m.cost[0] for m in reduced.fixed.values())
    found = Selection(budget, units, solution, optimal)
    if known is not None and first(found.solution) > first(known.solution):
        return dataclasses.replace(known, budget=budget, optimal=False)
    return found


def first(solution: Solution) -> int:
    """The first component of what a solution costs."""
    return sum(member.cost[0] for member in solution.choice.values())


def _kinds(
    reduced: Reduced, start: Solution | None
) -> dict[Shape, tuple[int, tuple[int | None, ...]]]:
    """How often each shape occurs, and what the first of its parts starts from."""
    counts = Counter(part.shape for part in reduced.parts)
    begins: dict[Shape, tuple[int | None, ...]] = {}
    for part in reduced.parts:
        if part.shape not in begins:
            begins[part.shape] = _nothing(part) if start is None else hint(part, start)
    return {shape: (counts[shape], begin) for shape, begin in begins.items()}


def _nothing(part: Part) -> tuple[int | None, ...]:
    return (None,) * len(part.classes)


def _program(reduced: Reduced, unit_of: UnitOf, units: Sequence[str]) -> Solution | None:
    """A program with those units, greedily; None if there is none."""
    problem = _restricted(reduced.problem, unit_of, units)
    trees = bottom_up(problem)
    if not all(root in trees.choice for root in problem.egraph.roots):
        return None
    return assemble(reduced, greedy_dag(problem, trees).choice)


def _restricted(problem: Problem, unit_of: UnitOf, units: Sequence[str]) -> Problem:
    """Without the calls of other units."""
    members = {
        at: tuple(m for m in each if unit_of(m) is None or unit_of(m) in units)
        for at, each in problem.members.items()
    }
    return dataclasses.replace(problem, members=members)
