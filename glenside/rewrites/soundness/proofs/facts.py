"""What is known of the integers in a proof: facts in nested scopes, and a solver that has them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import z3

from glenside.language.denotation import Element, Index, Leaf, Length
from glenside.language.shape import DTYPES
from glenside.rewrites.soundness.proofs.limits import RESOURCES, Budget
from glenside.rewrites.soundness.proofs.polynomials import (
    Polynomial,
    Rewriter,
    atom,
    difference,
    multiplied,
    number,
)

_MOST_TERMS = 12
_MOST_CANCELLED = 24

_fresh = itertools.count()
_codes: dict[str, int] = {each: 1_000 + number for number, each in enumerate(DTYPES)}


class Open(Exception):
    """A question that neither holds nor is refuted."""


class Differs(Exception):
    """What was to be shown does not hold for the sizes of ``model``."""

    def __init__(self, why: str, model: Any = None) -> None:
        self.why, self.model = why, model
        super().__init__(why)


def code(text: str) -> int:
    """The integer that stands for a dtype, a name or the text of a number."""
    return _codes.setdefault(text, len(_codes) + 1_000)


def text_of(value: int) -> str | None:
    """The text that an integer stands for."""
    return next((text for text, known in _codes.items() if known == value), None)


def fresh(name: str) -> Any:
    """A new integer."""
    return z3.Int(f"{name}!{next(_fresh)}")


@dataclass(frozen=True)
class Stretch:
    """Where a leaf is known to be zero: at ``low`` to ``high - 1`` along an axis."""

    leaf: Leaf
    axis: int
    low: Length
    high: Length


@dataclass
class _Mark:
    """How much was known when a scope was opened."""

    facts: int
    indices: int
    quotients: int
    positions: int
    stretches: int


@dataclass
class Facts:
    """Facts in scopes. Questions are answered True, False (then there is a ``model``) or None."""

    budget: Budget = field(default_factory=Budget)
    stretches: list[Stretch] = field(default_factory=list)
    small: list[Leaf] = field(default_factory=list)
    """Leaves of integers of magnitude 255 at most."""
    indices: list[tuple[list[Length], Length, Index]] = field(default_factory=list)
    """Lengths, an offset into them, and the index that it is the offset of."""
    quotients: list[tuple[Length, Length, Length]] = field(default_factory=list)
    """A length, a step, and how many steps it has."""
    positions: list[tuple[Element, Length]] = field(default_factory=list)
    """Elements that index something, and the integers that they are."""
    steps: set[str] = field(default_factory=set)
    """What the proof has used of arithmetic on elements."""
    model: Any = None

    def __post_init__(self) -> None:
        self._solver = z3.Solver()
        self._solver.set("rlimit", RESOURCES)
        self._equations: list[Polynomial | None] = []
        self._waiting: list[Any] = []
        self._rewriter: Rewriter | None = None

    @contextlib.contextmanager
    def scope(self, *conditions: Any) -> Iterator[Facts]:
        """Within it the conditions hold, and what is learnt there is forgotten behind it."""
        mark = _Mark(
            len(self._equations),
            len(self.indices),
            len(self.quotients),
            len(self.positions),
            len(self.stretches),
        )
        self._tell()
        self._solver.push()
        steps = set(self.steps)
        try:
            for each in conditions:
                self.assume(each)
            yield self
        except Exception:
            self.steps = steps  # What came to nothing has used nothing.
            raise
        finally:
            self._waiting.clear()
            self._solver.pop()
            if any(self._equations[mark.facts :]):
                self._rewriter = None
            del self._equations[mark.facts :]
            del self.indices[mark.indices :]
            del self.quotients[mark.quotients :]
            del self.positions[mark.positions :]
            del self.stretches[mark.stretches :]

    def assume(self, condition: Any) -> None:
        """From here on the condition holds."""
        if condition is True:
            return
        if condition is False:
            condition = z3.BoolVal(False)
        self._waiting.append(condition)
        equation = _equation(condition)
        self._equations.append(equation)
        if equation:
            self._rewriter = None

    def feasible(self) -> bool:
        """Whether the facts do not contradict each other, as far as is known."""
        return bool(self._check() != z3.unsat)

    def satisfied(self) -> bool:
        """Whether there are sizes for which all facts hold."""
        return bool(self._check() == z3.sat)

    def possible(self, *conditions: Any) -> bool:
        """Whether all these may hold, as far as is known."""
        return bool(self._check(*conditions) != z3.unsat)

    def prove(self, goal: Any, *, model: bool = True) -> bool | None:
        """Whether the facts imply the goal.

        :param model: keep the sizes for which it does not hold; getting them takes time.
        """
        if goal is True:
            return True
        if goal is False:
            found = self._check()
        else:
            if z3.is_eq(goal) and z3.is_int(goal.arg(0)) and self.identical(*goal.children()):
                return True
            found = self._check(z3.Not(goal))
        if found == z3.unsat:
            return True
        if found == z3.sat:
            if model:
                self.model = self._solver.model()
            return False
        return None

    def holds(self, goal: Any) -> bool:
        """Whether the facts are known to imply the goal."""
        return bool(self.prove(goal, model=False))

    def equal(self, a: Length, b: Length) -> bool | None:
        """Whether two integers are equal."""
        a, b = number(a), number(b)
        if isinstance(a, int) and isinstance(b, int):
            return True if a == b else self.prove(False)
        return self.prove(a == b)

    def identical(self, a: Length, b: Length) -> bool:
        """Whether two integers are equal as polynomials, modulo the equations that are known."""
        p = difference(a, b)
        if not p:
            return True
        if set(p) == {()}:
            return False
        if self._rewriter is None:
            self._rewriter = Rewriter(filter(None, self._equations))
        rewriter = self._rewriter
        p = rewriter.reduce(p)
        if not p:
            return True
        if len(p) <= _MOST_TERMS:
            # Where a p = 0 and a is not 0, p is.
            for key in rewriter.beside(p)[:_MOST_CANCELLED]:
                vanishes = not rewriter.reduce(multiplied(p, {(key,): 1}))
                if vanishes and self._check(atom(key) == 0) == z3.unsat:
                    return True
        return False

    def _tell(self) -> None:
        # Many a way to match ends before anything is asked.
        if self._waiting:
            self._solver.add(*self._waiting)
            self._waiting.clear()

    def _check(self, *assumptions: Any) -> Any:
        self.budget.spend()
        self._tell()
        return self._solver.check(*assumptions)

    # --- goals that have to hold ------------------------------------------------------------------

    def must(self, a: Length, b: Length, what: str) -> None:
        """:raises Differs: the two are not equal, or :class:`Open`."""
        answer = self.equal(a, b)
        if answer is False:
            raise Differs(what, self.model)
        if answer is None:
            raise Open(f"{what}: {a} = {b}")

    def impossible(self, what: str) -> None:
        """The facts have to contradict each other here.

        :raises Differs: they do not, or :class:`Open`.
        """
        answer = self.prove(False)
        if answer is False:
            raise Differs(what, self.model)
        if answer is None:
            raise Open(what)


_equations: dict[int, tuple[Any, Polynomial | None]] = {}


def _equation(condition: Any) -> Polynomial | None:
    """The polynomial that a condition says is 0."""
    key = condition.get_id()
    if key not in _equations:
        found = None
        if z3.is_eq(condition) and z3.is_int(condition.arg(0)):
            found = difference(condition.arg(0), condition.arg(1)) or None
        _equations[key] = condition, found  # Kept, so that the number stays its own.
    return _equations[key][1]


def within(index: Index, lengths: list[Length]) -> list[Any]:
    """The conditions that an index is one into these lengths."""
    return [c for i, n in zip(index, lengths, strict=True) for c in (i >= 0, i < n)]
