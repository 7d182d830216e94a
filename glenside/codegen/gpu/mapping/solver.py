"""Constraints in named groups, and what is said where they cannot hold together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from glenside.errors import TargetError

GROUPS = (
    "threads",
    "local memory",
    "registers",
    "tiles",
    "alignment",
    "coalescing",
    "barriers",
    "grid",
    "partial sums",
)
"""The names of the groups of constraints."""


class InfeasibleMapping(TargetError):
    """No mapping obeys all constraints; ``groups`` names those that cannot hold together."""

    def __init__(self, message: str, groups: Sequence[str]) -> None:
        super().__init__(message)
        self.groups = tuple(groups)


class ConstraintBuilder:
    """CP-SAT's expressions, and constraints that belong to named groups."""

    def __init__(self, model: Any, assumed: bool) -> None:
        self.model = model
        self.literals = {name: model.new_bool_var(name) for name in GROUPS} if assumed else {}
        self._count = 0

    def _new(self, most: int) -> Any:
        self._count += 1
        return self.model.new_int_var(0, most, f"v{self._count}")

    def column(self, choice: Any, values: Sequence[int], name: str) -> Any:
        """The value a table has in the row that ``choice`` names."""
        if len(set(values)) == 1:
            return values[0]
        result = self.model.new_int_var(min(values), max(values), name)
        self.model.add_element(choice, list(values), result)
        return result

    def named(self, expression: Any, most: int) -> Any:
        """A variable for a linear expression."""
        if isinstance(expression, int):
            return expression
        result = self._new(most)
        self.model.add(result == expression)
        return result

    def product(self, factors: Iterable[Any], most: int) -> Any:
        """The product of variables and numbers; beyond ``most`` there is no solution."""
        number, variables = 1, []
        for factor in factors:
            if isinstance(factor, int):
                number *= factor
            else:
                variables.append(factor)
        if not variables:
            return number
        result = variables[0]
        for other in variables[1:]:
            made = self._new(most)
            self.model.add_multiplication_equality(made, [result, other])
            result = made
        return result if number == 1 else self.named(number * result, most)

    def conditional(self, value: Any, count: Any, most: int) -> Any:
        """``value`` where ``count`` is above 1, else 0."""
        if isinstance(count, int):
            return value if count > 1 else 0
        several = self._above(count, 1)
        result = self._new(most)
        self.model.add(result == value).only_enforce_if(several)
        self.model.add(result == 0).only_enforce_if(~several)
        return result

    def _above(self, value: Any, least: int) -> Any:
        flag = self.model.new_bool_var("")
        self.model.add(value > least).only_enforce_if(flag)
        self.model.add(value <= least).only_enforce_if(~flag)
        return flag

    def _enforce(self, group: str, constraint: Any) -> None:
        if self.literals:
            constraint.only_enforce_if(self.literals[group])

    def _add(self, group: str, holds: Any) -> None:
        if isinstance(holds, bool):
            if holds:
                return
            if not self.literals:
                self.model.add_bool_or([])
            else:
                self.model.add_bool_or([~self.literals[group]])
            return
        self._enforce(group, self.model.add(holds))

    def at_most(self, group: str, value: Any, most: int) -> None:
        self._add(group, value <= most)

    def at_least(self, group: str, value: Any, least: int) -> None:
        self._add(group, value >= least)

    def at_most_if_above(self, group: str, value: Any, most: int, other: Any, least: int) -> None:
        """``value <= most`` where ``other`` is above ``least``."""
        if isinstance(other, int):
            if other > least:
                self.at_most(group, value, most)
            return
        flag = self._above(other, least)
        literals = [flag, self.literals[group]] if self.literals else [flag]
        self.model.add(value <= most).only_enforce_if(literals)

    def whole_multiple(self, group: str, value: Any, unit: int, most: int) -> None:
        if isinstance(value, int):
            self._add(group, value % unit == 0)
            return
        count = self._new(most // unit)
        self._enforce(group, self.model.add(value == unit * count))

    def not_in(self, group: str, value: Any, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._add(group, value != number)
