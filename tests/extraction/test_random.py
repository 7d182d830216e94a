"""Random small e-graphs against definitions that can be read off, and against brute force."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from glenside.errors import ExtractionError
from glenside.extraction import dag_cost, extract
from glenside.extraction.bottom_up import bottom_up
from glenside.extraction.dag import EFFORT, _Search, greedy_dag
from glenside.extraction.problem import Solution, pose
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from tests.extraction.toy import SCALAR, Priced, node, shuffled


@st.composite
def egraphs(draw: st.DrawFn, most: int = 6, members: int = 3) -> FrozenEGraph:
    """Any e-graph, with cycles and classes without an answer; no two nodes are alike."""
    count = draw(st.integers(1, most))
    classes = []
    names = itertools.count()
    for _ in range(count):
        nodes = []
        for _ in range(draw(st.integers(1, members))):
            price = draw(st.sampled_from(["0.1", "1", "1", "2", "3", "7", "none"]))
            operands = draw(st.lists(st.integers(0, count - 1), max_size=3))
            nodes.append(node(f"n{next(names)}:{price}", *operands))
        classes.append(tuple(nodes))
    roots = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2))
    return FrozenEGraph(tuple(classes), (SCALAR,) * count, tuple(roots))


def price(each: ENode) -> float | None:
    cost = Priced().node_cost("host_op", each.attributes(), SCALAR, [])
    return None if cost is None else cost[0]


def tree_costs(choice: dict[int, ENode], roots: tuple[int, ...]) -> float | None:
    """Tree cost of a choice; None where it has a cycle, a gap or a forbidden node."""

    def cost(at: int, above: frozenset[int]) -> float | None:
        own = price(choice[at])
        if at in above or own is None:
            return None
        below = [cost(child, above | {at}) for child in choice[at].children]
        return None if None in below else own + sum(b for b in below if b is not None)

    costs = [cost(root, frozenset()) for root in roots]
    return None if None in costs else sum(c for c in costs if c is not None)


def used(solution: Solution, roots: tuple[int, ...]) -> set[int]:
    found: set[int] = set()
    stack = list(roots)
    while stack:
        at = stack.pop()
        if at not in found:
            found.add(at)
            stack.extend(solution.choice[at].node.children)
    return found


@given(egraphs(most=5))
def test_bottom_up_is_the_optimal_tree(egraph: FrozenEGraph) -> None:
    solution = bottom_up(pose(egraph, Priced()))
    every = [dict(enumerate(nodes)) for nodes in itertools.product(*egraph.classes)]
    costs = [c for choice in every if (c := tree_costs(choice, egraph.roots)) is not None]
    if not costs:
        assert not all(root in solution.choice for root in egraph.roots)
        return
    chosen = {at: member.node for at, member in solution.choice.items()}
    found = tree_costs(chosen, egraph.roots)
    assert found is not None and abs(found - min(costs)) < 1e-9


@given(egraphs(most=10))
def test_solutions_are_members_in_an_order_without_cycles(egraph: FrozenEGraph) -> None:
    problem = pose(egraph, Priced())
    tree = bottom_up(problem)
    if not all(root in tree.choice for root in egraph.roots):
        return
    for solution in (tree, greedy_dag(problem, tree)):
        assert sorted(solution.order) == sorted(solution.choice)
        place = {at: i for i, at in enumerate(solution.order)}
        for at, member in solution.choice.items():
            assert member in problem.members[at]
            assert all(place[child] < place[at] for child in member.node.children)


@given(egraphs(most=10))
def test_the_dag_costs_what_its_classes_cost_and_never_more_than_the_tree(
    egraph: FrozenEGraph,
) -> None:
    try:
        tree = extract(egraph, Priced(), extractor="bottom-up")
    except ExtractionError:
        return
    dag = extract(egraph, Priced(), extractor="greedy-dag")
    best = extract(egraph, Priced())
    assert dag.cost <= tree.cost and best.cost == min(dag.cost, tree.cost)
    assert dag.cost == dag_cost(dag.terms, Priced())
    assert [term.type for term in dag.terms] == [egraph.types[root] for root in egraph.roots]
    problem = pose(egraph, Priced())
    solution = greedy_dag(problem, bottom_up(problem))
    classes = used(solution, egraph.roots)
    total = sum(price(solution.choice[at].node) or 0 for at in classes)
    assert abs(dag.cost[0] - total) < 1e-9


@given(egraphs(most=8), st.integers(0, 2**32))
def test_answers_do_not_depend_on_how_the_e_graph_is_written_down(
    egraph: FrozenEGraph, seed: int
) -> None:
    try:
        first = extract(egraph, Priced())
    except ExtractionError:
        return
    again = extract(shuffled(egraph, seed), Priced())
    assert first == again


@given(egraphs(most=10), st.integers(0, 200))
def test_any_effort_gives_a_valid_answer(egraph: FrozenEGraph, effort: int) -> None:
    problem = pose(egraph, Priced())
    tree = bottom_up(problem)
    if not all(root in tree.choice for root in egraph.roots):
        return
    solution = greedy_dag(problem, tree, effort)
    assert used(solution, egraph.roots) <= set(solution.choice)


@given(egraphs(most=10))
def test_references_are_counted_right_through_all_changes(egraph: FrozenEGraph) -> None:
    problem = pose(egraph, Priced())
    tree = bottom_up(problem)
    if not all(root in tree.choice for root in egraph.roots):
        return
    search = _Search(problem, tree, EFFORT)
    search.improve()
    assert search.uses == _Search(problem, search.solution(), EFFORT).uses


def test_greedy_dag_is_near_the_optimal_dag() -> None:
    """Not proved, but watched: on 200 small e-graphs nearly all answers are optimal."""
    optimal = solved = 0
    for seed in range(200):
        egraph = _random(random.Random(seed), classes=6)
        try:
            found = extract(egraph, Priced()).cost[0]
        except ExtractionError:
            continue
        solved += 1
        optimal += found <= _brute_dag(egraph) + 1e-9
    assert solved > 100
    assert optimal >= 0.95 * solved


def _random(source: random.Random, classes: int) -> FrozenEGraph:
    names = itertools.count()

    def member() -> ENode:
        operands = [source.randrange(classes) for _ in range(source.choice([0, 1, 2, 2]))]
        return node(f"n{next(names)}:{source.choice([1, 2, 3, 5, 8])}", *operands)

    members = tuple(tuple(member() for _ in range(source.randint(1, 3))) for _ in range(classes))
    return FrozenEGraph(members, (SCALAR,) * classes, (0, 1))


def _brute_dag(egraph: FrozenEGraph) -> float:
    best = float("inf")
    for nodes in itertools.product(*egraph.classes):
        choice = dict(enumerate(nodes))
        if tree_costs(choice, egraph.roots) is None:
            continue
        found: set[int] = set()
        stack = list(egraph.roots)
        while stack:
            at = stack.pop()
            if at not in found:
                found.add(at)
                stack.extend(choice[at].children)
        best = min(best, sum(price(choice[at]) or 0 for at in found))
    return best
