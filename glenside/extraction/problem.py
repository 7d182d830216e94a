"""The extraction problem: a frozen e-graph with priced nodes, and what a solution of it is.

Prices are turned into whole numbers without rounding. Extractors add them up in different orders
and, along trees, far beyond what a float tells apart: 60 residual blocks have 2**60 paths, next to
which the saving of one layer would vanish.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from glenside.deadline import check_time
from glenside.errors import ExtractionError, UnsoundRewrite
from glenside.extraction.cost import Cost, CostModel, at_compile_time, is_known
from glenside.language.operators import CALLS
from glenside.language.term import Term
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph

ExactCost = tuple[int, ...]

STRIDE = 1000
"""Classes that are worked on between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node that may be chosen for its class. ``key`` orders members that cost the same."""

    node: ENode
    cost: ExactCost
    key: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """An e-graph as a cost model sees it.

    ``members`` are the nodes of every class that the model allows, for the classes that the roots
    can lead to; ``forbidden`` the nodes there that it does not. Exact costs are the model's,
    component by component, each times its own power of two.
    """

    egraph: FrozenEGraph
    members: dict[int, tuple[Member, ...]]
    forbidden: dict[int, tuple[ENode, ...]]
    model: CostModel


@dataclass(frozen=True, slots=True)
class Solution:
    """One member for every class that can have one.

    ``order`` lists those classes with operands before users, which also shows that the choice is
    free of cycles.
    """

    choice: dict[int, Member]
    order: tuple[int, ...]


def pose(egraph: FrozenEGraph, cost_model: CostModel, constants: Collection[str] = ()) -> Problem:
    """Prices the nodes of ``egraph`` that its roots lead to.

    :param constants: names of the tensors whose values are known when the program is compiled.
    """
    known = _known(egraph, constants)
    priced: dict[int, list[tuple[ENode, Cost]]] = {}
    forbidden: dict[int, tuple[ENode, ...]] = {}
    stack = list(egraph.roots)
    while stack:
        at = stack.pop()
        if at in priced:
            continue
        if not len(priced) % STRIDE:
            check_time()
        allowed: list[tuple[ENode, Cost]] = []
        refused: list[ENode] = []
        for node in egraph.classes[at]:
            price = _price(node, at, egraph, cost_model)
            folded = is_known(node.op, node.values, node.children, known, constants)
            if price is not None and folded:
                operands = [egraph.types[child] for child in node.children]
                told = node.op, node.attributes(), egraph.types[at], operands
                price = at_compile_time(price, cost_model, *told)
            if price is None:
                refused.append(node)
            else:
                allowed.append((node, price))
                stack.extend(node.children)
        priced[at] = allowed
        forbidden[at] = tuple(refused)
    exact = iter(_whole([price for each in priced.values() for _, price in each], cost_model))
    members = {
        at: tuple(Member(n, next(exact), (n.op, repr(n.values))) for n, _ in allowed)
        for at, allowed in priced.items()
    }
    return Problem(egraph, members, forbidden, cost_model)


def _known(egraph: FrozenEGraph, constants: Collection[str]) -> set[int]:
    """The classes with a node that depends on constants alone."""
    users: dict[int, list[tuple[int, ENode]]] = {}
    queue: list[tuple[int, ENode]] = []
    for number, nodes in enumerate(egraph.classes):
        for node in nodes:
            if not node.children:
                queue.append((number, node))
            for child in set(node.children):
                users.setdefault(child, []).append((number, node))
    known: set[int] = set()
    while queue:
        number, node = queue.pop()
        if number not in known and is_known(node.op, node.values, node.children, known, constants):
            known.add(number)
            queue.extend(users.get(number, ()))
    return known


def _price(node: ENode, at: int, egraph: FrozenEGraph, cost_model: CostModel) -> Cost | None:
    operands = [egraph.types[child] for child in node.children]
    price = cost_model.node_cost(node.op, node.attributes(), egraph.types[at], operands)
    if price is None or math.inf in price:
        return None
    if not all(part >= 0 for part in price):  # False for nan, too.
        raise ValueError(
            f"cost model {cost_model.name}: {describe(node)} costs {price}, "
            "but no component may be negative or nan"
        )
    return price


def _whole(prices: Sequence[Cost], cost_model: CostModel) -> list[ExactCost]:
    """Every component times the power of two that makes it whole for all nodes."""
    if len(lengths := {len(price) for price in prices}) > 1:
        raise ValueError(
            f"cost model {cost_model.name}: all prices must have the same number of components, "
            f"got {', '.join(map(str, sorted(lengths)))}"
        )
    columns = []
    for column in zip(*prices, strict=True):
        ratios = [float(part).as_integer_ratio() for part in column]
        scale = max(denominator for _, denominator in ratios)
        columns.append([numerator * (scale // denominator) for numerator, denominator in ratios])
    return list(zip(*columns, strict=True)) if columns else [()] * len(prices)


def build_classes(problem: Problem, solution: Solution) -> dict[int, Term]:
    """The terms that a solution says for the roots and every class below them.

    :raises ExtractionError: a root has no member of finite cost.
    """
    egraph = problem.egraph
    for root in egraph.roots:
        if root not in solution.choice:
            raise ExtractionError(_why_impossible(problem, solution, root))
    used: set[int] = set()
    stack = list(egraph.roots)
    while stack:
        at = stack.pop()
        if at not in used:
            used.add(at)
            stack.extend(solution.choice[at].node.children)
    terms: dict[int, Term] = {}
    for at in solution.order:
        if at in used:
            node = solution.choice[at].node
            terms[at] = node.term([terms[child] for child in node.children])
            if terms[at].type != egraph.types[at]:
                raise UnsoundRewrite(
                    f"{describe(node)} is {terms[at].type} but stands in e-class {at}, "
                    f"whose members are {egraph.types[at]}"
                )
    return terms


def describe(node: ENode) -> str:
    """A node without its operands, for messages."""
    return " ".join([node.op.replace("_", "-"), *map(str, node.values)])


def _why_impossible(problem: Problem, solution: Solution, root: int) -> str:
    """Names the class to blame: the nearest below ``root`` whose members the model forbids."""
    seen = {root}
    queue = [root]
    for at in queue:
        if problem.forbidden[at] or not problem.members[at]:
            break
        for member in problem.members[at]:
            for child in member.node.children:
                if child not in solution.choice and child not in seen:
                    seen.add(child)
                    queue.append(child)
    else:
        at = root
    forbidden = sorted(problem.forbidden[at], key=lambda node: (node.op, repr(node.values)))
    where = f"e-class {at} of type {problem.egraph.types[at]}"
    if at != root:
        where += f", which output e-class {root} needs,"
    return f"{where} has no member of finite cost: {_reason(problem, at, forbidden)}"


def _reason(problem: Problem, at: int, forbidden: Sequence[ENode]) -> str:
    cyclic = bool(problem.members[at])
    rest = ", and no other member has operands of finite cost" if cyclic else ""
    if not forbidden:
        return "its members only lead back to one another" if cyclic else "it is empty"
    if all(node.op in CALLS for node in forbidden):
        units = _listed(dict.fromkeys(str(node.attributes()["unit"]) for node in forbidden))
        which = "some" if cyclic else "all"
        return (
            f"{which} of its members need unit {units}, "
            f"which cost model {problem.model.name} does not allow{rest}"
        )
    nodes = _listed(dict.fromkeys(map(describe, forbidden)))
    return f"cost model {problem.model.name} does not allow {nodes}{rest}"


def _listed(words: Iterable[str], most: int = 3) -> str:
    words = list(words)
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
