"""Greedy DAG extraction: what is shared counts once.

Minimising that is NP-hard, so this improves a given solution, class by class, until no single
change of a member helps: the answer never costs more than the start. Whether a change helps is
decided exactly, by counting references as a garbage collector does: using the other member adds
the terms that nothing used so far, and dropping the present one frees those that nothing uses any
longer. Only these are walked, so a trial takes as long as the two members differ, not as long as
the program. (Logic synthesis knows this as exact local area: Mishchenko, Cho, Chatterjee, Brayton,
"Combinational and sequential mapping with priority cuts", ICCAD 2007.)

Classes outside the present program are improved too, as if it used them: a later change that
brings one in then finds the member that shares most with the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from glenside.deadline import check_time
from glenside.extraction.problem import STRIDE, ExactCost, Member, Problem, Solution

ROUNDS = 8
"""Passes over all classes; two or three are usual until nothing changes."""

EFFORT = 4_000_000
"""Steps (references counted or followed) after which the best found so far is the answer. A count,
not a time, so that answers are reproducible; about a second."""


def greedy_dag(problem: Problem, start: Solution, effort: int = EFFORT) -> Solution:
    """``start`` with members exchanged while that makes the program of all roots cheaper.

    Its ``order`` is taken as given: operands before users. Members are tried in the order of their
    operators, attribute values and operands, and equal cost keeps what is.
    """
    search = _Search(problem, start, effort)
    for _ in range(ROUNDS):
        if not search.improve():
            break
    return search.solution()


class _Search:
    """A solution under change. Members are numbered; classes keep the numbers of the e-graph."""

    def __init__(self, problem: Problem, start: Solution, effort: int) -> None:
        self.order = list(start.order)
        self.position = {at: i for i, at in enumerate(self.order)}
        self.effort = effort
        self.members: list[Member] = []
        self.operands: list[tuple[int, ...]] = []
        self.chosen: dict[int, int] = {}
        self.candidates: dict[int, list[int]] = {}
        for at in self.order:
            possible = [
                member
                for member in problem.members[at]
                if all(child in start.choice for child in member.node.children)
            ]
            possible.sort(key=lambda m: (m.key, [self.position[c] for c in m.node.children]))
            self.candidates[at] = []
            for member in possible:
                if member is start.choice[at]:
                    self.chosen[at] = len(self.members)
                self.candidates[at].append(len(self.members))
                self.members.append(member)
                self.operands.append(member.node.children)
        self.weights = _packed([member.cost for member in self.members])
        self.uses = dict.fromkeys(self.order, 0)
        self._use(problem.egraph.roots)

    def solution(self) -> Solution:
        choice = {at: self.members[self.chosen[at]] for at in self.order}
        return Solution(choice, tuple(self.order))

    def improve(self) -> bool:
        """One pass over all classes, operands before users; whether anything changed."""
        changed = False
        for number, at in enumerate(list(self.order)):
            if not number % STRIDE:
                check_time()
            if len(self.candidates[at]) < 2:
                continue
            if self.effort <= 0:
                return False
            outside = not self.uses[at]
            if outside:
                self._use((at,))
            for candidate in self.candidates[at]:
                if candidate != self.chosen[at]:
                    changed |= self._try(at, candidate)
            if outside:
                self._release((at,))
        return changed

    def _try(self, at: int, candidate: int) -> bool:
        """Chooses ``candidate`` for a class in use if that makes the whole cheaper."""
        below = self._after(at, self.operands[candidate])
        if at in below:
            return False  # The candidate is built from its own class.
        present = self.chosen[at]
        # The new is used before the old is released: what both share stays and is not walked.
        added = self.weights[candidate] + self._use(self.operands[candidate])
        freed = self.weights[present] + self._release(self.operands[present])
        if added >= freed:
            self._use(self.operands[present])
            self._release(self.operands[candidate])
            return False
        self.chosen[at] = candidate
        self._move_before(at, below)
        return True

    def _use(self, classes: Sequence[int]) -> int:
        """One more use of each; the cost of the terms that come in with them."""
        uses, cost, steps = self.uses, 0, 0
        stack = list(classes)
        while stack:
            at = stack.pop()
            steps += 1
            uses[at] += 1
            if uses[at] == 1:
                member = self.chosen[at]
                cost += self.weights[member]
                stack.extend(self.operands[member])
        self.effort -= steps
        return cost

    def _release(self, classes: Sequence[int]) -> int:
        """One use of each less; the cost of the terms that go out with them."""
        uses, cost, steps = self.uses, 0, 0
        stack = list(classes)
        while stack:
            at = stack.pop()
            steps += 1
            uses[at] -= 1
            if not uses[at]:
                member = self.chosen[at]
                cost += self.weights[member]
                stack.extend(self.operands[member])
        self.effort -= steps
        return cost

    def _after(self, at: int, classes: Sequence[int]) -> set[int]:
        """``classes`` and what they are built from, so far as it does not stand before ``at``.

        Whatever stands before a class in the order is not built from it.
        """
        position, bound = self.position, self.position[at]
        found: set[int] = set()
        stack = [each for each in classes if position[each] >= bound]
        while stack:
            each = stack.pop()
            if each not in found:
                found.add(each)
                if each == at:
                    break
                operands = self.operands[self.chosen[each]]
                stack.extend(child for child in operands if position[child] >= bound)
        self.effort -= len(found)
        return found

    def _move_before(self, at: int, below: set[int]) -> None:
        """Puts ``below``, which ``at`` is now built from, in front of it in the order.

        (Pearce and Kelly, "A dynamic topological sort algorithm", 2006: only the stretch between
        the two ends changes.)
        """
        if not below:
            return
        low = self.position[at]
        high = max(self.position[each] for each in below) + 1
        stretch = self.order[low:high]
        moved = [each for each in stretch if each in below]
        moved += [each for each in stretch if each not in below]
        self.order[low:high] = moved
        self.position.update(zip(moved, range(low, high), strict=True))
        self.effort -= len(moved)


def _packed(costs: Sequence[ExactCost]) -> list[int]:
    """Each cost as one number, so that sums over distinct members compare as the costs do.

    A component gets as many bits as the sum over all members needs: it cannot run over.
    """
    packed = [0] * len(costs)
    for column in zip(*costs, strict=True):
        bits = sum(column).bit_length()
        packed = [(high << bits) | part for high, part in zip(packed, column, strict=True)]
    return packed
