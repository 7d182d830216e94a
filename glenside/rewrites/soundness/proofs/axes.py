"""Lists of axis lengths in which one length may stand for a run of axes, however many.

Every operator treats axes that it does not name alike. So a list of lengths that nothing cuts is
one **run**: its length is the product of theirs, its rank a number from 0 up, and an index into it
is their row-major offset. What names an axis of a run, or cuts it, makes it several: that is a
:class:`Decision`, and where there is more than one way each is a case of its own
(:class:`Undetermined`). A proof about runs holds for all ranks. Only where axes must be looked at
one by one, and nothing says how many they are, ranks are enumerated up to a bound.

TensorRight (Arora et al., POPL 2025) does likewise with its aggregated axes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from glenside.language.denotation import Length, Lengths, minus, plus, product
from glenside.rewrites.soundness.proofs.facts import Facts
from glenside.rewrites.soundness.proofs.polynomials import difference, same

AXIS, RUN = "axis", "run"
_MOST_KNOWN = 4


@dataclass(frozen=True)
class Cut:
    """A run told apart: each part is :data:`AXIS`, :data:`RUN`, or the name of another run that it
    is, axis by axis."""

    run: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.run} = ({' '.join(self.parts)})"


@dataclass(frozen=True, eq=False)
class Bind:
    """The value of a variable of the rule."""

    variable: str
    value: Any

    def __str__(self) -> str:
        return f"{self.variable} = {self.value}"


@dataclass(frozen=True, eq=False)
class Suppose:
    """A condition."""

    condition: Any

    def __str__(self) -> str:
        return str(self.condition)


Decision = Cut | Bind | Suppose


class Undetermined(Exception):
    """What has to be decided first: one of ``ways``, which are all there are.

    ``bounded``: there are more, of ranks beyond the bound.
    """

    def __init__(self, *ways: Sequence[Decision], bounded: bool = False) -> None:
        self.ways, self.bounded = ways, bounded
        super().__init__(" | ".join(", ".join(map(str, way)) for way in ways))


@dataclass(frozen=True, eq=False)
class Run:
    """A run of axes, by the length that stands for it."""

    name: str
    rank: Length
    length: Any
    origin: str
    """The run that has to be cut for this one to be: it may be made of another, axis by axis."""

    @property
    def given(self) -> bool:
        """Whether it is not made of another."""
        return self.name == self.origin


@dataclass
class Axes:
    """The lists of lengths of one case under some decisions."""

    facts: Facts
    cuts: dict[str, tuple[str, ...]]
    bound: int
    """Ranks up to which runs are enumerated."""
    alongside: bool = True
    """Runs that only lie beside each other are cut alike; else their axes are looked at."""
    runs: dict[int, Run] = field(default_factory=dict)
    _lists: dict[str, Lengths] = field(default_factory=dict)
    _alike: list[set[int]] = field(default_factory=list)
    """Lengths of runs that are known to be of the same axes."""

    def named(self, name: str) -> Lengths:
        """The list of that name, a run unless it was decided otherwise."""
        if name not in self._lists:
            parts = self.cuts.get(name)
            if parts is None:
                self._lists[name] = [self._run(name)]
            else:
                found: Lengths = []
                for number, part in enumerate(parts):
                    inner = f"{name}/{number}"
                    if part == AXIS:
                        found.append(self._length(inner))
                    else:
                        found += self.named(inner if part == RUN else part)
                self._lists[name] = found
                # Decisions may have spoken of it as a whole.
                self.facts.assume(rank_of(name) == self.rank(found))
                self.facts.assume(z3.Int(name) == product(found))
        return self._lists[name]

    def ones(self, run: Run) -> Length:
        """A run of as many axes of length 1."""
        return self.made(f"ones:{run.name}", run, lambda n: [n == 1])

    def made(self, name: str, of: Run, known: Callable[[Any], list[Any]]) -> Length:
        """A run of as many axes as another, made of it axis by axis.

        :param known: what is known of its length.
        """
        length = z3.Int(name)
        if length.get_id() not in self.runs:
            empty = z3.Implies(of.rank == 0, length == 1)
            for each in (length >= 0, empty, *known(length)):
                self.facts.assume(each)
            self.runs[length.get_id()] = Run(name, of.rank, length, of.origin)
        return length

    def _length(self, name: str) -> Any:
        length, conditions = _new_length(name)
        for each in conditions:
            self.facts.assume(each)
        return length

    def _run(self, name: str) -> Any:
        length, conditions = _new_run(name)
        rank = rank_of(name)
        for each in conditions:
            self.facts.assume(each)
        self.runs[length.get_id()] = Run(name, rank, length, name)
        return length

    def run(self, length: Length) -> Run | None:
        """The run that a length stands for, or None."""
        return None if isinstance(length, int) else self.runs.get(length.get_id())

    def has_run(self, lengths: Iterable[Length]) -> bool:
        return any(self.run(each) is not None for each in lengths)

    def rank(self, lengths: Iterable[Length]) -> Length:
        """How many axes these are."""
        total: Length = 0
        for each in lengths:
            run = self.run(each)
            total = plus(total, 1 if run is None else run.rank)
        return total

    # --- finding axes by number -------------------------------------------------------------------

    def axis(self, axis: Length, lengths: Lengths) -> int:
        """The position of the axis of that number; it is known to be there.

        :raises Undetermined: that depends.
        """
        behind: Length = 0
        for position, each in enumerate(lengths):
            run = self.run(each)
            if run is None and self._equal(behind, axis):
                return position
            behind = plus(behind, 1 if run is None else run.rank)
        self._near(axis, lengths, within=True)
        ways = []
        behind = 0
        for each in lengths:
            run = self.run(each)
            end = plus(behind, self.rank([each]))
            if self._possible(behind <= axis, axis < end):
                if run is None:
                    ways.append([_said(axis, behind)])
                else:
                    at = plus(behind, rank_of(f"{run.origin}/0"))
                    ways.append([Cut(run.origin, (RUN, AXIS, RUN)), _said(axis, at)])
            behind = end
        raise Undetermined(*ways)

    def cut(self, axes: Length, lengths: Lengths) -> int:
        """The position behind that many axes; there are known to be as many.

        :raises Undetermined: that depends.
        """
        behind: Length = 0
        for position in range(len(lengths) + 1):
            if self._equal(behind, axes):
                return position
            if position < len(lengths):
                behind = plus(behind, self.rank(lengths[position : position + 1]))
        self._near(axes, lengths, within=False)
        ways: list[list[Decision]] = []
        behind = 0
        for position in range(len(lengths) + 1):
            beside = lengths[max(position - 1, 0) : position + 1]
            if not self.has_run(beside) and self._possible(behind == axes):
                ways.append([_said(axes, behind)])
            if position < len(lengths):
                run = self.run(lengths[position])
                end = plus(behind, self.rank(lengths[position : position + 1]))
                if run is not None and self._possible(behind <= axes, axes <= end):
                    at = plus(behind, rank_of(f"{run.origin}/0"))
                    ways.append([Cut(run.origin, (RUN, RUN)), _said(axes, at)])
                behind = end
        raise Undetermined(*ways)

    def _possible(self, *conditions: Any) -> bool:
        """Whether the facts leave it open that all these hold."""
        said = [each for each in conditions if each is not True]
        if False in [each for each in said if isinstance(each, bool)]:
            return False
        return not said or self.facts.possible(*said)

    def _equal(self, a: Length, b: Length) -> bool:
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return self.facts.identical(a, b) or self.facts.holds(a == b)

    def _near(self, axis: Length, lengths: Lengths, within: bool) -> None:
        """A run that begins or ends a known number of axes away is cut there, if it has any."""
        behind: Length = 0
        for each in lengths:
            run = self.run(each)
            end = plus(behind, 1 if run is None else run.rank)
            if run is not None:
                start, stop = difference(axis, behind), difference(axis, end)
                if set(start) <= {()} and start.get((), 0) >= (0 if within else 1):
                    raise self._first(run)
                if set(stop) <= {()} and stop.get((), 0) < 0:
                    raise self._last(run)
            behind = end

    # --- looking at axes one by one ---------------------------------------------------------------

    def _known(self, run: Run) -> Undetermined | None:
        """What there is to decide of a run whose rank is known: nothing."""
        for rank in range(_MOST_KNOWN + 1):
            if self.facts.holds(run.rank == rank):
                return Undetermined([Cut(run.origin, (AXIS,) * rank)])
        return None

    def _first(self, run: Run) -> Undetermined:
        either = Undetermined([Cut(run.origin, ())], [Cut(run.origin, (AXIS, RUN))])
        return self._known(run) or either

    def _last(self, run: Run) -> Undetermined:
        either = Undetermined([Cut(run.origin, ())], [Cut(run.origin, (RUN, AXIS))])
        return self._known(run) or either

    def each(self, lengths: Lengths) -> None:
        """No length may stand for a run.

        :raises Undetermined: one does.
        """
        for each in lengths:
            run = self.run(each)
            if run is not None:
                raise self.enumerated(run)

    def enumerated(self, run: Run) -> Undetermined:
        """Every rank that a run can have, up to the bound where nothing bounds it.

        More axes are a way as well: what is not yet known may still exclude them. Where such a run
        would have to be told apart again, there are no ways.
        """
        ranks = [r for r in range(self.bound + 1) if self.facts.possible(run.rank == r)]
        ways: list[list[Decision]] = [[Cut(run.origin, (AXIS,) * r)] for r in ranks]
        beyond = run.rank > self.bound
        if not self.facts.possible(beyond):
            return Undetermined(*ways)
        if not ranks:
            return Undetermined(bounded=True)
        return Undetermined(*ways, [Suppose(beyond)])

    def first(self, lengths: Lengths) -> None:
        """The first length may not stand for a run, nor be missing where there is one."""
        if lengths and (run := self.run(lengths[0])) is not None:
            raise self._first(run)

    def decide(self, condition: Any, lengths: Iterable[Length]) -> bool:
        """Whether a condition on the ranks of these lists holds."""
        if isinstance(condition, bool):
            return condition
        if self.facts.holds(condition):
            return True
        if self.facts.holds(z3.Not(condition)):
            return False
        raise Undetermined([Suppose(condition)], [Suppose(z3.Not(condition))])

    # --- lists that are equal ---------------------------------------------------------------------

    def matched(self, a: Lengths, b: Lengths, known: bool) -> list[tuple[Length, Length]] | None:
        """Both lists, which are equal, length by length; None where their ranks differ.

        :param known: they are equal, so that runs have to be cut alike; else that is to be shown.
        :raises Undetermined: how they lie beside each other depends.
        """
        marks = [[k for k, n in enumerate(v) if isinstance(n, int) and n < 0] for v in (a, b)]
        if known and any(marks) and all(map(self._lengths, (a, b))):
            return self._between_marks(a, b, *marks)
        front = 0
        while front < min(len(a), len(b)) and self._beside(a[front], b[front], known):
            front += 1
        back = 0
        while back < min(len(a), len(b)) - front and self._beside(
            a[-1 - back], b[-1 - back], known
        ):
            back += 1
        left, right = a[front : len(a) - back], b[front : len(b) - back]
        if not left and not right:
            return list(zip(a, b, strict=True))
        for one, other in ((left, right), (right, left)):
            if not other and any(self.run(each) is None for each in one):
                return None
        for each in (*left, *right):
            run = self.run(each)
            if run is not None and ((known and not (left and right)) or self._empty(run)):
                raise Undetermined([Cut(run.origin, ())])
        if not known:
            self.each([*left, *right])
            return None
        raise self._aligned(left, right)

    def _lengths(self, v: Lengths) -> bool:
        """Whether entries are lengths, but for negative numbers among them."""
        return all(isinstance(n, int) or self.run(n) or self.facts.holds(n >= 0) for n in v)

    def _between_marks(
        self, a: Lengths, b: Lengths, of_a: list[int], of_b: list[int]
    ) -> list[tuple[Length, Length]] | None:
        """Lists of lengths with negative numbers between them, which stand for no length."""
        if [a[k] for k in of_a] != [b[k] for k in of_b]:
            return None
        found: list[tuple[Length, Length]] = []
        starts = zip([0, *(k + 1 for k in of_a)], [0, *(k + 1 for k in of_b)], strict=True)
        ends = zip([*of_a, len(a)], [*of_b, len(b)], strict=True)
        for (i, j), (m, n) in zip(starts, ends, strict=True):
            part = self.matched(a[i:m], b[j:n], known=True)
            if part is None:
                return None
            found += part
        return found

    def beside(self, lists: Sequence[Lengths]) -> bool:
        """Whether lists, which are of one rank, have axes and runs at the same places.

        :raises Undetermined: that depends on how runs are cut.
        """
        for position in range(max(map(len, lists))):
            if any(len(each) <= position for each in lists):
                rest = [n for each in lists for n in each[position:]]
                if any(self.run(n) is None for n in rest):
                    return False
                raise Undetermined([Cut(self.runs[rest[0].get_id()].origin, ())])
            runs = [self.run(each[position]) for each in lists]
            some = next((run for run in runs if run is not None), None)
            if some is None:
                continue
            if None in runs:
                raise self._first(some)
            for run in runs:
                assert run is not None
                if not self._equal(run.rank, some.rank):
                    raise Undetermined(self._shorter(run, some), self._shorter(some, run))
        return True

    def _shorter(self, one: Run, other: Run) -> list[Decision]:
        """The axes of one are the first of the other's."""
        first = rank_of(f"{other.origin}/0")
        return [Cut(other.origin, (RUN, RUN)), Suppose(first == one.rank)]

    def _beside(self, a: Length, b: Length, known: bool) -> bool:
        """Whether two lengths can only stand for the same axes."""
        one, other = self.run(a), self.run(b)
        if one is None and other is None:
            return True
        if same(a, b) or {_id(a), _id(b)} in self._alike:
            return True
        if not known or one is None or other is None or (one.given and other.given):
            return False
        # What is made of a run axis by axis has no name by which another could be called.
        if not self._equal(one.rank, other.rank):
            return False
        self._alike.append({_id(a), _id(b)})
        return True

    def _empty(self, run: Run) -> bool:
        return self.facts.holds(run.rank == 0)

    def _aligned(self, left: Lengths, right: Lengths) -> Undetermined:
        for each in (*left, *right):
            run = self.run(each)
            known = None if run is None else self._known(run)
            if known is not None:
                return known
        one, other = self.run(left[0]), self.run(right[0])
        for run, own, others in ((one, left, right), (other, right, left)):
            if run is not None and len(own) == 1 and not self._among(run, others):
                return Undetermined(self._as(run, others))
        if one is None or other is None:
            run = one or other
            assert run is not None
            return Undetermined([Cut(run.origin, ())], [Cut(run.origin, (AXIS, RUN))])
        if self.facts.holds(one.rank == other.rank):
            return Undetermined(self._as(*((one, [other]) if one.given else (other, [one]))))
        return Undetermined(self._as(one, [other, None]), self._as(other, [one, None]))

    def _among(self, run: Run, lengths: Lengths) -> bool:
        """Whether a run, or what it is made of, is one of these."""
        found = (self.run(n) for n in lengths)
        return any(each is not None and each.origin == run.origin for each in found)

    def _as(self, run: Run, parts: Sequence[Run | Length | None]) -> list[Decision]:
        """A run that is these, one after the other; None: any more axes."""
        names: list[str] = []
        ranks: list[Decision] = []
        for number, each in enumerate(parts):
            part = each if isinstance(each, Run) or each is None else self.run(each)
            if part is None:
                names.append(RUN if each is None else AXIS)
            elif part.given and run.given:
                names.append(part.name)
            else:
                names.append(RUN)
                ranks.append(Suppose(rank_of(f"{run.origin}/{number}") == part.rank))
        return [Cut(run.origin, tuple(names)), *ranks]


def _id(length: Length) -> int:
    return -1 if isinstance(length, int) else int(length.get_id())


@functools.cache
def _new_length(name: str) -> tuple[Any, tuple[Any, ...]]:
    length = z3.Int(name)
    return length, (length >= 0,)


@functools.cache
def _new_run(name: str) -> tuple[Any, tuple[Any, ...]]:
    (length, conditions), rank = _new_length(name), rank_of(name)
    return length, (*conditions, rank >= 0, z3.Implies(rank == 0, length == 1))


@functools.cache
def rank_of(name: str) -> Any:
    """The rank of a run by its name."""
    return z3.Int(f"rank:{name}")


def _said(value: Length, known: Length) -> Decision:
    """That a value is known: of a variable it is that value."""
    if not isinstance(value, int) and z3.is_const(value) and not z3.is_int_value(value):
        name = value.decl().name()
        if name.startswith(VARIABLE):
            return Bind(name.removeprefix(VARIABLE), known)
    return Suppose(minus(value, known) == 0 if isinstance(value, int) else value == known)


VARIABLE = "?"
"""Before the names of integers that stand for variables of a rule."""
