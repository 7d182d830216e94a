"""Extraction by integer programming against brute force."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glenside.errors import ExtractionError
from glenside.extraction import dag_cost, extract
from glenside.extraction.bottom_up import bottom_up
from glenside.extraction.ilp import WORD, ilp, words
from glenside.extraction.presolve import reduce
from glenside.extraction.problem import Solution, pose
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from tests.extraction.toy import SCALAR, Priced, graph, node, shuffled

PRICES = {
    1: ["0.1", "0", "1", "1", "2", "3", "7", "none"],
    2: ["0,1", "0,3", "1,0", "1,1", "2,0", "0.5,1e-30", "none"],
    # One sum of these needs more than a machine word.
    3: ["1e12,1e-9,1", "1,1e-9,1", "1e-9,1e12,0", "0.1,0.1,0.1", "1e12,0.3,5", "0.3,1e-7,1"],
}


@st.composite
def egraphs(draw: st.DrawFn, components: int = 1, most: int = 6) -> FrozenEGraph:
    """Any e-graph, with cycles and classes without an answer; no two nodes are alike."""
    count = draw(st.integers(1, most))
    number = itertools.count()
    classes = []
    prices = st.sampled_from(PRICES[components])
    for _ in range(count):
        nodes = []
        for _ in range(draw(st.integers(1, 3))):
            name = f"{draw(st.sampled_from('fgh'))}{next(number)}"
            operands = draw(st.lists(st.integers(0, count - 1), max_size=3))
            nodes.append(node(f"{name}:{draw(prices)}", *operands))
        classes.append(tuple(nodes))
    roots = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2))
    return FrozenEGraph(tuple(classes), (SCALAR,) * count, tuple(roots))


def price(each: ENode) -> tuple[Fraction, ...] | None:
    cost = Priced().node_cost("host_op", each.attributes(), SCALAR, [])
    return None if cost is None else tuple(map(Fraction, cost))


def program(choice: dict[int, ENode], roots: tuple[int, ...]) -> list[int] | None:
    """The classes that a choice uses, operands first; None where they lead back."""
    order: list[int] = []
    open_: set[int] = set()

    def visit(at: int) -> bool:
        if at in order:
            return True
        if at in open_:
            return False
        open_.add(at)
        if not all(map(visit, choice[at].children)):
            return False
        order.append(at)
        return True

    return order if all(map(visit, roots)) else None


def cheapest(egraph: FrozenEGraph) -> tuple[Fraction, ...] | None:
    """By trying every choice."""
    costs = []
    for nodes in itertools.product(*egraph.classes):
        used = program(dict(enumerate(nodes)), egraph.roots)
        prices = [price(nodes[at]) for at in used or ()]
        if used is not None and None not in prices:
            costs.append(tuple(map(sum, zip(*prices, strict=True))))  # type: ignore[arg-type]
    return min(costs, default=None)


def cost(solution: Solution) -> tuple[Fraction, ...]:
    prices = [price(member.node) for member in solution.choice.values()]
    return tuple(map(sum, zip(*prices, strict=True)))  # type: ignore[arg-type]


def check_optimal(egraph: FrozenEGraph) -> None:
    expected = cheapest(egraph)
    if expected is None:
        with pytest.raises(ExtractionError, match="has no member of finite cost"):
            extract(egraph, Priced(), extractor="ilp")
        return
    proof = ilp(pose(egraph, Priced()))
    assert proof.optimal
    assert cost(proof.solution) == expected
    chosen = {at: member.node for at, member in proof.solution.choice.items()}
    assert program(chosen, egraph.roots) is not None
    assert set(proof.solution.order) == set(chosen)
    found = extract(egraph, Priced(), extractor="ilp")
    assert found.optimal
    assert found.cost == pytest.approx(tuple(map(float, expected)))
    assert found.cost == dag_cost(found.terms, Priced())


@settings(max_examples=60, deadline=None)
@given(egraphs())
def test_the_answer_is_optimal(egraph: FrozenEGraph) -> None:
    check_optimal(egraph)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from((2, 3)).flatmap(egraphs))
def test_components_are_compared_one_after_the_other_and_never_rounded(
    egraph: FrozenEGraph,
) -> None:
    check_optimal(egraph)


@settings(max_examples=200, deadline=None)
@given(egraphs(most=5))
def test_what_is_dropped_beforehand_is_not_needed(egraph: FrozenEGraph) -> None:
    problem = pose(egraph, Priced())
    if cheapest(egraph) is None:
        return
    reduced = reduce(problem)
    left = {at: tuple(m.node for m in members) for at, members in reduced.problem.members.items()}
    assert all(left.values())
    numbers = {at: number for number, at in enumerate(left)}
    classes = tuple(
        tuple(ENode(n.op, n.values, tuple(numbers[c] for c in n.children)) for n in nodes)
        for nodes in left.values()
    )
    roots = tuple(numbers[root] for root in egraph.roots)
    smaller = FrozenEGraph(classes, (SCALAR,) * len(classes), roots)
    assert cheapest(smaller) == cheapest(egraph)


@settings(max_examples=40, deadline=None)
@given(egraphs(components=2, most=8), st.integers(0, 2**32))
def test_answers_do_not_depend_on_how_the_e_graph_is_written_down(
    egraph: FrozenEGraph, seed: int
) -> None:
    try:
        first = extract(egraph, Priced(), extractor="ilp")
    except ExtractionError:
        return
    assert extract(shuffled(egraph, seed), Priced(), extractor="ilp") == first


# Greedy exchanges one member at a time: f and g are only worth it together.
PAIR = graph(
    "p:0(b c)", "f:1(d) | x:3", "g:1(d) | y:3", "z:3.5",
)  # fmt: skip


def test_what_only_pays_together_is_found() -> None:
    assert extract(PAIR, Priced()).cost == (6,)
    found = extract(PAIR, Priced(), extractor="ilp")
    assert (found.cost, found.extractor, found.optimal) == ((5.5,), "ilp", True)


@pytest.mark.parametrize("limit", [0.0, 1e-9])
def test_egg_ilp_worse_than_greedy(limit: float) -> None:
    """A solver that has no time gives the greedy answer, and nothing is said to be proved."""
    found = extract(PAIR, Priced(), extractor="ilp", ilp_limit=limit)
    assert not found.optimal
    assert found.cost <= extract(PAIR, Priced(), extractor="greedy-dag").cost


@settings(max_examples=40, deadline=None)
@given(egraphs(components=2, most=10), st.sampled_from((0.0, 1e-7, 1e-5, 1e-4)))
def test_no_limit_makes_it_worse_than_greedy(egraph: FrozenEGraph, limit: float) -> None:
    try:
        greedy = extract(egraph, Priced())
    except ExtractionError:
        return
    found = extract(egraph, Priced(), extractor="ilp", ilp_limit=limit)
    assert found.cost <= greedy.cost
    best = cheapest(egraph) if len(egraph.classes) <= 6 else None
    if found.optimal and best is not None:
        assert found.cost == pytest.approx(tuple(map(float, best)))


def test_without_the_solver_nothing_is_called_optimal() -> None:
    for extractor in ("best", "bottom-up", "greedy-dag"):
        assert not extract(PAIR, Priced(), extractor=extractor).optimal


def test_classes_that_are_built_from_one_another_are_ordered() -> None:
    # Each of a and b is cheap only if built from the other.
    egraph = graph("p:0(b c)", "f:1(c) | x:9", "g:1(b) | y:8", roots="a")
    found = extract(egraph, Priced(), extractor="ilp")
    assert (found.cost, found.optimal) == ((9,), True)


def test_parts_that_are_alike_are_one_shape() -> None:
    layers = graph(
        "p:0(b c)", "f:1(d e) | x:5", "g:1(f g) | y:5",
        "v:2 | i:1(e)", "w:2", "q:2 | j:1(g)", "r:2",
    )  # fmt: skip
    parts = reduce(pose(layers, Priced())).parts
    assert len(parts) == 2 and parts[0].shape == parts[1].shape
    assert extract(layers, Priced(), extractor="ilp").cost == (8,)


def test_sums_that_fit_are_one_word_and_keep_their_order() -> None:
    costs = [(3, 5, 1), (3, 4, 9), (2, 9, 9)]
    (word,) = words(costs)
    assert sorted(range(3), key=word.__getitem__) == sorted(range(3), key=costs.__getitem__)
    assert len(words([(2**30, 2**30), (3, 1)])) == 2
    assert sum(words([(2**80, 1), (2**81, 2)])[0]).bit_length() <= WORD  # 2**80 is the unit.


def test_a_long_chain_is_no_recursion() -> None:
    names = 3000
    classes = [
        (node("f:1", i + 1), node("g:1", i + 1, i + 1)) if i + 1 < names else (node("x:1"),)
        for i in range(names)
    ]
    egraph = FrozenEGraph(tuple(classes), (SCALAR,) * names, (0,))
    proof = ilp(pose(egraph, Priced()))
    assert proof.optimal and cost(proof.solution) == (names,)
    assert len(bottom_up(pose(egraph, Priced())).order) == names
