"""Bottom-up extraction: in every class the member that is cheapest as a tree.

What is shared counts as often as it is used. Under that count the answer is optimal. Knuth's
generalisation of Dijkstra's algorithm (Information Processing Letters 6(1), 1977) settles the
classes from the cheapest up, in O(E log V) for E operands and V nodes, and a class is only ever
built from settled ones, so no answer has a cycle.
"""

from __future__ import annotations

import heapq

from glenside.deadline import check_time
from glenside.extraction.problem import STRIDE, ExactCost, Member, Problem, Solution


def bottom_up(problem: Problem) -> Solution:
    """The cheapest tree of every class.

    Classes that cost the same are settled in the order of their members' operators, attribute
    values and operands, into which neither the numbers of the classes nor the order of their nodes
    enter. ``order`` of the solution is that in which classes were settled.
    """
    costs: dict[int, ExactCost] = {}
    ranks: dict[int, int] = {}
    choice: dict[int, Member] = {}
    heap: list[tuple[ExactCost, tuple[str, str], tuple[int, ...], int, int]] = []

    def enter(at: int, index: int) -> None:
        """A member all of whose operands are settled."""
        member = problem.members[at][index]
        operands = member.node.children
        total = tuple(
            map(sum, zip(member.cost, *(costs[child] for child in operands), strict=True))
        )
        entry = (total, member.key, tuple(ranks[child] for child in operands), at, index)
        heapq.heappush(heap, entry)

    users: dict[int, list[tuple[int, int]]] = {at: [] for at in problem.members}
    unsettled: dict[tuple[int, int], int] = {}
    for at, members in problem.members.items():
        for index, member in enumerate(members):
            distinct = set(member.node.children)
            unsettled[at, index] = len(distinct)
            for child in distinct:
                users[child].append((at, index))
            if not distinct:
                enter(at, index)
    while heap:
        cost, _, _, at, index = heapq.heappop(heap)
        if at in choice:
            continue
        if not len(choice) % STRIDE:
            check_time()
        choice[at], costs[at], ranks[at] = problem.members[at][index], cost, len(ranks)
        for user, which in users[at]:
            unsettled[user, which] -= 1
            if not unsettled[user, which] and user not in choice:
                enter(user, which)
    return Solution(choice, tuple(ranks))
