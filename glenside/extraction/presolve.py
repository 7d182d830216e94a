"""What can be said about an extraction problem without searching.

Most members of a real e-graph can never be in the best program, or are in every one. What is left
falls into parts that do not touch each other, a few classes each, which a solver settles one by
one; parts that are alike are settled once.

A class is *necessary* for another if every program for that one has it. (These are the dominators
of a flow graph, where a member needs all its operands and a class one of its members.) Every
program has what is necessary for the roots; using it costs nothing more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from glenside.extraction.bottom_up import bottom_up
from glenside.extraction.problem import ExactCost, Member, Problem, Solution

Needs = Callable[[Member], Hashable]
"""What a member asks for besides its operands (a unit, say); None for nothing."""


@dataclass(frozen=True)
class Choice:
    """One member of a class in a part: its cost, what it needs, and those of its operands that are
    not in the program anyway or that may lead back, as places in the part."""

    cost: ExactCost
    need: Hashable
    operands: tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """One class in a part.

    ``always``: whether every program has it. ``knot``: the classes of one number may be built from
    one another; None for those that cannot lead back to themselves.
    """

    choices: tuple[Choice, ...]
    always: bool
    knot: int | None


Shape = tuple[Place, ...]
"""A part with the numbers of its classes left out: equal ones have equal answers."""


@dataclass(frozen=True)
class Part:
    """Classes whose members are to be chosen together; ``members`` in the order of the choices."""

    classes: tuple[int, ...]
    members: tuple[tuple[Member, ...], ...]
    shape: Shape


@dataclass(frozen=True)
class Reduced:
    """A problem without the members that the best program does not need.

    ``fixed`` are the classes that every program has, built in the one way that is left.
    """

    problem: Problem
    fixed: Mapping[int, Member]
    parts: tuple[Part, ...]


def reduce(problem: Problem, needs: Needs = lambda member: None) -> Reduced:
    """Drops members and divides what is left; every optimal cost stays what it was.

    All roots must have a member of finite cost. The result does not depend on how classes are
    numbered.
    """
    order = bottom_up(problem).order
    members = _possible(problem, {at: problem.members[at] for at in order})
    while True:
        problem = dataclasses.replace(problem, members=members)
        order = bottom_up(problem).order
        analysis = _Analysis(problem, order)
        fewer = {at: _undominated(analysis, at, needs) for at in order}
        fewer = _possible(problem, fewer)
        if sum(map(len, fewer.values())) == sum(map(len, members.values())):
            return _divided(problem, analysis, needs)
        members = fewer


def _possible(
    problem: Problem, members: Mapping[int, Sequence[Member]]
) -> dict[int, tuple[Member, ...]]:
    """Members all of whose operands can be built, of classes that the roots lead to."""
    found: dict[int, tuple[Member, ...]] = {}
    stack = list(problem.egraph.roots)
    while stack:
        at = stack.pop()
        if at not in found:
            found[at] = tuple(
                m for m in members[at] if all(child in members for child in m.node.children)
            )
            stack.extend(child for m in found[at] for child in m.node.children)
    return found


class _Analysis:
    """What follows from the members of a problem. Sets of classes are the bits of a number."""

    def __init__(self, problem: Problem, order: Sequence[int]) -> None:
        self.members = problem.members
        self.order = tuple(order)
        self.rank = {at: i for i, at in enumerate(order)}
        self.necessary = self._find_necessary()
        self.always = self.union(problem.egraph.roots)
        self.knot = self._find_knots()

    def union(self, classes: Iterable[int]) -> int:
        """All that is necessary for each of ``classes``."""
        total = 0
        for at in classes:
            total |= self.necessary[at]
        return total

    def holds(self, which: int, at: int) -> bool:
        return bool(which >> self.rank[at] & 1)

    def leads_back(self, at: int, child: int) -> bool:
        """Whether ``child``, an operand below ``at``, may be built from it."""
        knot = self.knot.get(at)
        return knot is not None and knot == self.knot.get(child)

    def _find_necessary(self) -> dict[int, int]:
        """The greatest solution: from everything downwards, operands before users."""
        found: dict[int, int] = {}
        changed = True
        while changed:
            changed = False
            for at in self.order:
                common = -1
                for member in self.members[at]:
                    if all(child in found for child in member.node.children):
                        needed = 0
                        for child in member.node.children:
                            needed |= found[child]
                        common &= needed
                common |= 1 << self.rank[at]
                if found.get(at) != common:
                    found[at], changed = common, True
        return found

    def _find_knots(self) -> dict[int, int]:
        """Strongly connected components of more than one class, numbered in the order of the
        classes (Tarjan, "Depth-first search and linear graph algorithms", 1972; with a stack of its
        own in place of recursion)."""
        operands = {
            at: tuple(dict.fromkeys(c for m in self.members[at] for c in m.node.children))
            for at in self.order
        }
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        waiting: list[int] = []
        is_waiting: set[int] = set()
        knots: dict[int, int] = {}
        for start in self.order:
            if start in index:
                continue
            walk = [(start, iter(operands[start]))]
            index[start] = low[start] = len(index)
            waiting.append(start)
            is_waiting.add(start)
            while walk:
                at, rest = walk[-1]
                child = next(rest, None)
                if child is None:
                    walk.pop()
                    if walk:
                        above = walk[-1][0]
                        low[above] = min(low[above], low[at])
                    if low[at] == index[at]:
                        knot: list[int] = []
                        while not knot or knot[-1] != at:
                            knot.append(waiting.pop())
                        is_waiting.difference_update(knot)
                        if len(knot) > 1:
                            knots |= dict.fromkeys(knot, min(self.rank[each] for each in knot))
                elif child not in index:
                    index[child] = low[child] = len(index)
                    waiting.append(child)
                    is_waiting.add(child)
                    walk.append((child, iter(operands[child])))
                elif child in is_waiting:
                    low[at] = min(low[at], index[child])
        return knots


def _undominated(analysis: _Analysis, at: int, needs: Needs) -> tuple[Member, ...]:
    """The members of a class that may be worth choosing, the cheapest first.

    A member that needs its own class cannot be in a program. Of two members the dearer is never
    needed if every program with it has the operands of the cheaper one, and these do not lead back.
    """
    rank = analysis.rank
    below = {}
    for member in analysis.members[at]:
        necessary = analysis.union(member.node.children)
        if not analysis.holds(necessary, at):
            below[member] = necessary
    kept: list[Member] = []
    for member in sorted(
        below, key=lambda m: (m.cost, m.key, [rank[child] for child in m.node.children])
    ):
        there = below[member]

        def free(child: int, there: int = there) -> bool:
            if analysis.holds(there, child):
                return True
            return analysis.holds(analysis.always, child) and not analysis.leads_back(at, child)

        if not any(
            needs(other) in (None, needs(member)) and all(map(free, other.node.children))
            for other in kept
        ):
            kept.append(member)
    return tuple(kept)


def _divided(problem: Problem, analysis: _Analysis, needs: Needs) -> Reduced:
    always = {at for at in analysis.order if analysis.holds(analysis.always, at)}
    parent = {at: at for at in analysis.order}

    def find(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    def counts(at: int, child: int) -> bool:
        return child not in always or analysis.leads_back(at, child)

    for at in analysis.order:
        if at in always and len(problem.members[at]) == 1 and at not in analysis.knot:
            continue  # Its operands are always there.
        for member in problem.members[at]:
            for child in member.node.children:
                if counts(at, child):
                    parent[find(child)] = find(at)
    groups: dict[int, list[int]] = {}
    for at in analysis.order:
        groups.setdefault(find(at), []).append(at)
    fixed: dict[int, Member] = {}
    parts = []
    for group in groups.values():
        if len(group) == 1 and group[0] in always and len(problem.members[group[0]]) == 1:
            (fixed[group[0]],) = problem.members[group[0]]
            continue
        place = {at: i for i, at in enumerate(group)}
        knots: dict[int, int] = {}
        places, chosen = [], []
        for at in group:
            choices = []
            for member in problem.members[at]:
                operands = {place[c] for c in member.node.children if counts(at, c)}
                choices.append(
                    (Choice(member.cost, needs(member), tuple(sorted(operands))), member)
                )
            choices.sort(key=lambda each: (each[0].cost, each[0].operands))
            knot = analysis.knot.get(at)
            number = None if knot is None else knots.setdefault(knot, len(knots))
            places.append(Place(tuple(c for c, _ in choices), at in always, number))
            chosen.append(tuple(m for _, m in choices))
        parts.append(Part(tuple(group), tuple(chosen), tuple(places)))
    return Reduced(problem, fixed, tuple(parts))


def assemble(reduced: Reduced, picked: Mapping[int, Member]) -> Solution:
    """The solution that ``fixed`` and ``picked`` say for what the roots use, operands first."""
    choice = {**reduced.fixed, **picked}
    order: list[int] = []
    done: set[int] = set()
    stack = [(root, False) for root in reversed(reduced.problem.egraph.roots)]
    while stack:
        at, built = stack.pop()
        if built:
            order.append(at)
        elif at not in done:
            done.add(at)
            stack.append((at, True))
            stack.extend((child, False) for child in reversed(choice[at].node.children))
    return Solution({at: choice[at] for at in order}, tuple(order))
