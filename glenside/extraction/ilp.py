"""Extraction by integer programming: the cheapest program with sharing counted once, proved.

One 0-1 variable for each member. A class that is used has one member chosen, a chosen member's
operands are used, and where classes can be built from one another they are numbered so that
operands come first. (Yang et al., "Equality saturation for tensor graph superoptimization", MLSys
2021, pose extraction so.) OR-tools' CP-SAT solves it with one worker, a fixed seed and a budget
that is counted, not timed: the answer is the same on every run and machine.

:mod:`~glenside.extraction.presolve` first drops what cannot matter and divides the rest into parts.
Costs of several components, of which the first that differs decides, are minimised one after the
other, several at once where they fit into a machine word, and prices too long for one in pieces
with a carry: nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glenside.deadline import time_left
from glenside.extraction.bottom_up import bottom_up
from glenside.extraction.dag import greedy_dag
from glenside.extraction.presolve import Part, Shape, assemble, reduce
from glenside.extraction.problem import ExactCost, Member, Problem, Solution
from glenside.interrupt import in_background

LIMIT = 10.0
"""Budget of the solver, in its own deterministic seconds, which are of the order of seconds."""

WORD = 50
"""Bits that one objective may have: a solver's sums must stay far from 2**63."""

DIGIT = 32
"""Bits of the pieces of a longer one."""


@dataclass(frozen=True)
class Proof:
    """A solution and whether no program of the e-graph is cheaper."""

    solution: Solution
    optimal: bool


def ilp(problem: Problem, limit: float = LIMIT) -> Proof:
    """The cheapest program that is found within ``limit``, never dearer than the greedy one.

    :param limit: deterministic seconds of the solver, all parts together.

    All roots must have a member of finite cost.
    """
    reduced = reduce(problem)
    greedy = assemble(reduced, greedy_dag(reduced.problem, bottom_up(reduced.problem)).choice)
    budget = Budget(limit)
    solved: dict[Shape, Answer] = {}
    picked: dict[int, Member] = {}
    for part in reduced.parts:
        if part.shape not in solved:
            solved[part.shape] = _solve(part.shape, hint(part, greedy), budget)
        picked |= chosen(part, solved[part.shape].choices)
    solution = assemble(reduced, picked)
    if _total(solution) > _total(greedy):
        solution = greedy  # The greedy one is no hint for a part that is like another.
    return Proof(solution, all(answer.optimal for answer in solved.values()))


def _total(solution: Solution) -> ExactCost:
    return tuple(map(sum, zip(*(m.cost for m in solution.choice.values()), strict=True)))


@dataclass
class Budget:
    """What is left of a solver's deterministic time."""

    left: float

    def spend(self, used: float) -> None:
        """Takes off what a run used."""
        self.left = max(0.0, self.left - used)


@dataclass(frozen=True)
class Answer:
    """For each place of a part the number of the choice, None where it is not used."""

    choices: tuple[int | None, ...]
    optimal: bool


def hint(part: Part, solution: Solution) -> tuple[int | None, ...]:
    """What a solution, of the classes that it uses, chooses in a part."""
    return tuple(
        members.index(solution.choice[at]) if at in solution.choice else None
        for at, members in zip(part.classes, part.members, strict=True)
    )


def chosen(part: Part, choices: Sequence[int | None]) -> dict[int, Member]:
    """The members of the classes that an answer uses."""
    return {
        at: members[choice]
        for at, members, choice in zip(part.classes, part.members, choices, strict=True)
        if choice is not None
    }


def _solve(shape: Shape, start: Sequence[int | None], budget: Budget) -> Answer:
    model = Model()
    places = model.add(shape, start)
    coefficients = [choice.cost for place in shape for choice in place.choices]
    variables = [variable for place in places for variable in place]
    if model.minimise(coefficients, variables, budget):
        return Answer(model.answer(places), True)
    found = model.answer(places) if model.values else tuple(start)
    return Answer(found, False)


class Model:
    """A CP-SAT model of parts, minimised lexicographically."""

    def __init__(self) -> None:
        from ortools.sat.python import cp_model

        self._cp: Any = cp_model
        self.cp: Any = cp_model.CpModel()
        self._hints: list[tuple[Any, int]] = []
        self.values: list[int] = []
        """Of all variables, once something was found."""

    def boolean(self, start: bool) -> Any:
        """A 0-1 variable and its value to start from."""
        variable = self.cp.new_bool_var("")
        self._hints.append((variable, int(start)))
        return variable

    def add(self, shape: Shape, start: Sequence[int | None]) -> list[list[Any]]:
        """Says what a solution of a part is; the variables of its choices by place."""
        variables = [
            [self.boolean(begin == number) for number in range(len(place.choices))]
            for place, begin in zip(shape, start, strict=True)
        ]
        used: list[Any] = []
        for place, own in zip(shape, variables, strict=True):
            if place.always:
                self.cp.add_exactly_one(own)
                used.append(1)
            elif len(own) == 1:
                used.append(own[0])
            else:
                used.append(self.cp.new_bool_var(""))
                self.cp.add(sum(own) == used[-1])
        for place, own in zip(shape, variables, strict=True):
            users: dict[int, list[Any]] = {}
            for choice, variable in zip(place.choices, own, strict=True):
                for operand in choice.operands:
                    users.setdefault(operand, []).append(variable)
            for operand, those in users.items():
                if not shape[operand].always:
                    self.cp.add(sum(those) <= used[operand])
        self._forbid_cycles(shape, variables)
        return variables

    def _forbid_cycles(self, shape: Shape, variables: Sequence[Sequence[Any]]) -> None:
        knots: dict[int, list[int]] = {}
        for number, place in enumerate(shape):
            if place.knot is not None:
                knots.setdefault(place.knot, []).append(number)
        for knot in knots.values():
            height = {each: self.cp.new_int_var(0, len(knot) - 1, "") for each in knot}
            for each in knot:
                for choice, variable in zip(shape[each].choices, variables[each], strict=True):
                    for operand in choice.operands:
                        if operand in height:
                            higher = height[each] >= height[operand] + 1
                            self.cp.add(higher).only_enforce_if(variable)

    def minimise(
        self, costs: Sequence[ExactCost], variables: Sequence[Any], budget: Budget
    ) -> bool:
        """Minimises the sum of ``costs`` of the variables that are 1; whether it was proved."""
        for objective in self._objectives(costs, variables):
            if not self.minimise_one(objective, budget):
                return False
        return True

    def minimise_one(self, objective: Any, budget: Budget) -> bool:
        """Minimises an expression and fixes it there; whether it was proved.

        ``values`` are those of the best solution found so far, of this and earlier objectives.
        """
        self.cp.minimize(objective)
        self.cp.clear_hints()
        for variable, value in self._hints:
            self.cp.add_hint(variable, value)
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.linearization_level = 2
        # Ctrl-C is Python's: the solver would stop and the run go on.
        solver.parameters.catch_sigint_signal = False
        solver.parameters.max_deterministic_time = budget.left
        if time_left() < math.inf:
            solver.parameters.max_time_in_seconds = max(time_left(), 0.0)
        status = in_background(solver.solve, self.cp)
        budget.spend(solver.response_proto.deterministic_time)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return False
        self.values = list(solver.response_proto.solution)
        self._hints = [(variable, self.values[variable.index]) for variable, _ in self._hints]
        self.cp.clear_objective()
        self.cp.add(objective <= round(solver.objective_value))
        return bool(status == self._cp.OPTIMAL)

    def answer(self, places: Sequence[Sequence[Any]]) -> tuple[int | None, ...]:
        """The number of the choice that was made at each place."""
        taken = [[self.values[variable.index] for variable in own] for own in places]
        return tuple(own.index(1) if 1 in own else None for own in taken)

    def _objectives(self, costs: Sequence[ExactCost], variables: Sequence[Any]) -> list[Any]:
        """Expressions to minimise one after the other, none longer than a word."""
        return [
            expression
            for column in words(costs)
            for expression in self._in_pieces(column, variables)
        ]

    def _in_pieces(self, column: Sequence[int], variables: Sequence[Any]) -> list[Any]:
        """One sum; of numbers that are too long for a word, its digits from the highest."""
        if sum(column).bit_length() <= WORD:
            return [self.weighted(column, variables)]
        digits = []
        rest, carry = list(column), 0
        while sum(rest).bit_length() > WORD:
            low = [each & (1 << DIGIT) - 1 for each in rest]
            rest = [each >> DIGIT for each in rest]
            digit = self.cp.new_int_var(0, (1 << DIGIT) - 1, "")
            next_carry = self.cp.new_int_var(0, len(low) + 1, "")
            total = self.weighted(low, variables) + carry
            self.cp.add(total == next_carry * (1 << DIGIT) + digit)
            digits.append(digit)
            carry = next_carry
        return [self.weighted(rest, variables) + carry, *reversed(digits)]

    def weighted(self, coefficients: Sequence[int], variables: Sequence[Any]) -> Any:
        """The sum of the coefficients of the variables that are 1."""
        return self._cp.LinearExpr.weighted_sum(list(variables), list(coefficients))


def words(costs: Sequence[ExactCost]) -> list[list[int]]:
    """Components as columns; those whose sums fit into one word together are one."""
    result: list[list[int]] = []
    bits = WORD + 1
    for component in zip(*costs, strict=True):
        factor = math.gcd(*component) or 1
        column = [each // factor for each in component]
        own = sum(column).bit_length()
        if bits + own <= WORD:
            result[-1] = [high << own | low for high, low in zip(result[-1], column, strict=True)]
            bits += own
        else:
            result.append(column)
            bits = own
    return result
