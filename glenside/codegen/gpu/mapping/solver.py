"""Mappings as solutions of constraints: what CP-SAT is told, and what people are.

A problem says its constraints once, to a :class:`Constraints`. Given variables it is CP-SAT's model
of them; given the numbers of one mapping, :class:`Quantity` by name, it is the list of what was
asked of them and what they came to.

All solutions are enumerated by one worker within a deterministic budget, so that the same problem
has the same solutions; a limit of time (:mod:`glenside.deadline`) may end the search earlier, and
so does Ctrl-C.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from glenside.codegen.gpu.mapping.product import ProductMapping
from glenside.codegen.solving import solve, solver
from glenside.deadline import TimeIsUp

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
"""The names of the groups of constraints.

- ``threads``: a group has at most as many threads as the device allows, in whole warps;
- ``local memory``: what a stage holds fits;
- ``registers``: a thread's sums and what it multiplies fit, and so do all threads of a group;
- ``tiles``: a loop is cut into tiles that divide it, or its last tile is masked and little of it
  is wasted; a reduced loop that shares a dimension with another is staged as a whole;
- ``alignment``: registers are whole vectors, as memory lies;
- ``coalescing``: neighbouring threads read runs of at least a memory transaction;
- ``barriers``: all threads of a group take the same number of stages, with enough to do between
  two barriers;
- ``grid``: the launch is within the device's limits;
- ``partial sums``: scratch memory of a split reduction fits, and a split is worth it.
"""


class Quantity(int):
    """A number that knows what it is made of."""

    text: str

    def __new__(cls, value: int, text: str) -> Quantity:
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __add__(self, other: int) -> Quantity:
        return (
            self
            if not _said(other).strip("0")
            else Quantity(int(self) + int(other), f"{self.text} + {_said(other)}")
        )

    def __radd__(self, other: int) -> Quantity:
        return self if not other else Quantity(int(other) + int(self), f"{other} + {self.text}")

    def __sub__(self, other: int) -> Quantity:
        return Quantity(int(self) - int(other), f"{self.text} - {_factor(other)}")

    def __mul__(self, other: int) -> Quantity:
        return Quantity(int(self) * int(other), f"{_factor(self)} * {_factor(other)}")

    def __rmul__(self, other: int) -> Quantity:
        if other == 1:
            return self
        return Quantity(int(other) * int(self), f"{other} * {_factor(self)}")


def _said(value: int) -> str:
    return value.text if isinstance(value, Quantity) else str(value)


def _factor(value: int) -> str:
    text = _said(value)
    return f"({text})" if " + " in text or " - " in text else text


@dataclass(frozen=True)
class Stated:
    """One constraint, and what a mapping makes of it."""

    group: str
    says: str
    """``sums + rows + run + 30 <= 64``"""
    value: int
    holds: bool


class Constraints:
    """Expressions over a problem's variables, and constraints that belong to named groups.

    :param model: CP-SAT's; None where all values are known, which :attr:`stated` then tells of.
    :param assumed: whether each group holds by a literal, so that a conflict can be named.
    """

    def __init__(self, model: Any = None, assumed: bool = False) -> None:
        self.model = model
        self.literals = {name: model.new_bool_var(name) for name in GROUPS} if assumed else {}
        self.stated: list[Stated] = []
        self.defined: dict[str, Quantity] = {}
        """What named quantities are made of."""
        self._count = 0

    # --- variables and expressions ----------------------------------------------------------------

    def number(self, low: int, high: int, name: str, value: Callable[[], int] | int) -> Any:
        """A variable, of the ``value`` it has where all are known."""
        if self.model is None:
            return Quantity(value if isinstance(value, int) else value(), name)
        return self.model.new_int_var(low, high, name)

    def choice(self, table: Sequence[Any], name: str) -> Any:
        """Which row of a table is chosen; of a known mapping's table there is one."""
        return 0 if self.model is None else self.model.new_int_var(0, len(table) - 1, name)

    def column(self, choice: Any, values: Sequence[int], name: str) -> Any:
        """The value a table has in the row that ``choice`` names."""
        if self.model is None:
            return Quantity(values[0], name)
        if len(set(values)) == 1:
            return values[0]
        result = self.model.new_int_var(min(values), max(values), name)
        self.model.add_element(choice, list(values), result)
        return result

    def _new(self, most: int) -> Any:
        self._count += 1
        return self.model.new_int_var(0, most, f"v{self._count}")

    def _called(self, value: Any, name: str) -> Any:
        """A known value by a name of its own, if it is given one."""
        if not name or not isinstance(value, int):
            return value
        if isinstance(value, Quantity):
            self.defined[name] = value
        return Quantity(value, name) if self.model is None else value

    def named(self, expression: Any, most: int, name: str = "") -> Any:
        """A variable for a linear expression."""
        if isinstance(expression, int):
            return self._called(expression, name)
        result = self._new(most)
        self.model.add(result == expression)
        return result

    def product(self, factors: Iterable[Any], most: int, name: str = "") -> Any:
        """The product of variables and numbers; beyond ``most`` there is no solution."""
        if self.model is None:
            return self._called(_product([*factors]), name)
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

    def larger(self, value: Any, expression: Any, most: int, name: str) -> Any:
        """The larger one of a variable and a linear expression."""
        if self.model is None:
            text = f"max({_said(value)}, {_said(expression)})"
            return self._called(Quantity(max(int(value), int(expression)), text), name)
        result = self.model.new_int_var(1, most, name)
        self.model.add_max_equality(result, [value, self.named(expression, most)])
        return result

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

    def define(self, holds: Any) -> None:
        """What is so by the meaning of a variable."""
        if self.model is None:
            assert holds
        else:
            self.model.add(holds)

    # --- constraints ------------------------------------------------------------------------------

    def _enforce(self, group: str, constraint: Any, *conditions: Any) -> None:
        literals = [*conditions, *([self.literals[group]] if self.literals else [])]
        if literals:
            constraint.only_enforce_if(literals)

    def _add(self, group: str, holds: Any, value: Any, relation: str) -> None:
        if self.model is None:
            says = f"{_said(value)} {relation}"
            self.stated.append(Stated(group, says, int(value), bool(holds)))
        elif not isinstance(holds, bool):
            self._enforce(group, self.model.add(holds))
        elif not holds:
            self.model.add_bool_or([~self.literals[group]] if self.literals else [])

    def at_most(self, group: str, value: Any, most: Any) -> None:
        self._add(group, value <= most, value, f"<= {_bound(most)}")

    def at_least(self, group: str, value: Any, least: Any) -> None:
        self._add(group, value >= least, value, f">= {_bound(least)}")

    def at_most_if_above(self, group: str, value: Any, most: int, other: Any, least: int) -> None:
        """``value <= most`` where ``other`` is above ``least``."""
        if isinstance(other, int):
            if other > least:
                self.at_most(group, value, most)
            return
        flag = self._above(other, least)
        self._enforce(group, self.model.add(value <= most), flag)

    def at_least_if_above(self, group: str, value: Any, bound: int, other: Any, least: int) -> None:
        """``value >= bound`` where ``other`` is above ``least``."""
        if isinstance(other, int):
            if other > least:
                self.at_least(group, value, bound)
            return
        flag = self._above(other, least)
        self._enforce(group, self.model.add(value >= bound), flag)

    def at_least_unless(self, group: str, value: Any, least: Any, other: Any, number: int) -> None:
        """``value >= least`` unless ``other`` is that number."""
        if self.model is None:
            if int(other) != number:
                self.at_least(group, value, least)
            return
        flag = self.model.new_bool_var("")
        self.model.add(other == number).only_enforce_if(flag)
        self.model.add(other != number).only_enforce_if(~flag)
        self._enforce(group, self.model.add(value >= least), ~flag)

    def whole_multiple(self, group: str, value: Any, unit: int, most: int) -> None:
        if isinstance(value, int):
            self._add(group, value % unit == 0, value, f"a multiple of {unit}")
            return
        count = self._new(most // unit)
        self._enforce(group, self.model.add(value == unit * count))

    def not_in(self, group: str, value: Any, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._add(group, value != number, value, f"!= {number}")


def _bound(value: Any) -> str:
    return f"{_said(value)} = {int(value)}" if isinstance(value, Quantity) else str(value)


def _product(factors: Sequence[int]) -> int:
    """The product of known values; factors of 1 that have no name of a loop are not told."""
    told = [f for f in factors if isinstance(f, Quantity) or f != 1]
    value = math.prod(map(int, factors))
    if not any(isinstance(f, Quantity) for f in told):
        return value
    return Quantity(value, " * ".join(map(_factor, told)))


class Problem[M: ProductMapping](ABC):
    """The constraints of one product on one device, for one kind of mapping."""

    budget: ClassVar[float] = 20.0
    """Of CP-SAT's deterministic seconds."""
    most: ClassVar[int] = 20000
    """Solutions that are looked at."""

    def __init__(self) -> None:
        self.whole = True
        """Whether the search went as far as its budget, not only as far as the time left."""

    @abstractmethod
    def tables(self) -> Sequence[Sequence[Any]]:
        """What there is to choose from, a table a decision; an empty one where there is nothing."""

    @abstractmethod
    def row(self, mapping: M) -> Sequence[Any]:
        """The row of each table that a mapping has, whether or not it is there."""

    @abstractmethod
    def state(self, constraints: Constraints, tables: Sequence[Sequence[Any]]) -> list[Any]:
        """Says all constraints; returns the variable of each table's decision."""

    @abstractmethod
    def mapping(self, rows: Sequence[Any]) -> M:
        """The mapping that has these rows of the tables."""

    def solutions(self) -> list[M]:
        """The mappings that obey all constraints."""
        from ortools.sat.python import cp_model

        tables = self.tables()
        if not all(tables):
            return []
        model = cp_model.CpModel()
        variables = self.state(Constraints(model), tables)
        found: list[M] = []
        make, most = self.mapping, self.most

        class Collect(cp_model.CpSolverSolutionCallback):
            def on_solution_callback(self) -> None:
                pairs = zip(tables, variables, strict=True)
                found.append(make([table[self.value(choice)] for table, choice in pairs]))
                if len(found) >= most:
                    self.stop_search()

        self._search(model, Collect(), enumerate_all_solutions=True)
        return found

    def conflict(self) -> list[str]:
        """Groups of constraints that cannot hold together; none where that is not found out."""
        from ortools.sat.python import cp_model

        tables = self.tables()
        if not all(tables):
            return ["tiles"]
        model = cp_model.CpModel()
        constraints = Constraints(model, assumed=True)
        self.state(constraints, tables)
        literals = constraints.literals
        model.add_assumptions(list(literals.values()))
        solver, status = self._search(model)
        if status != cp_model.INFEASIBLE:
            return []
        core = set(solver.sufficient_assumptions_for_infeasibility())
        return [name for name, literal in literals.items() if literal.index in core]

    def admits(self, mapping: M) -> bool:
        """Whether a mapping is of the form that this problem is of."""
        return True

    def stated(self, mapping: M) -> Constraints:
        """All constraints, with the numbers of one mapping."""
        constraints = Constraints()
        self.state(constraints, [[row] for row in self.row(mapping)])
        return constraints

    def _search(self, model: Any, *callback: Any, **parameters: Any) -> tuple[Any, Any]:
        """CP-SAT on a model, within the budget and the time left."""
        from ortools.sat.python import cp_model

        searching = solver(self.budget)
        for name, value in parameters.items():
            setattr(searching.parameters, name, value)
        try:
            status = solve(searching, model, *callback)
        except TimeIsUp:  # What was found by then will do.
            self.whole, status = False, cp_model.UNKNOWN
        else:  # The solver's clock may be a little ahead.
            most = searching.parameters.max_time_in_seconds
            self.whole = self.whole and searching.wall_time < 0.9 * most
        return searching, status
