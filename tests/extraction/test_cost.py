"""What the cost models charge, and what they prefer."""

import pytest

import glenside
from glenside.errors import ExtractionError
from glenside.extraction import (
    COST_MODELS,
    CostModel,
    MaximiseOffload,
    Roofline,
    cpu_roofline,
    dag_cost,
    extract,
    find_cost_model,
)
from glenside.extraction.cost import moved_bytes, read_bytes, scalar_operations
from glenside.hw_targets.units import systolic_array
from glenside.language import OPERATORS, AccessType, Term, topological_order
from glenside.language import builders as b
from glenside.rewrites import saturate
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph


def price(term: Term, model: CostModel) -> tuple[float, ...] | None:
    operands = [child.type for child in term.children]
    return model.node_cost(term.op, term.attributes, term.type, operands)


def operations(term: Term) -> int:
    return scalar_operations(term.op, term.attributes, term.type, [c.type for c in term.children])


def product(m: int = 4, n: int = 5, k: int = 3) -> Term:
    x, w = b.access(b.tensor("x", (m, k)), 1), b.access(b.tensor("w", (n, k)), 1)
    return b.compute("dot", b.cart_prod(x, w))


def blocked(m: int = 4, n: int = 5, k: int = 3) -> Term:
    x, w = b.access(b.tensor("x", (m, k)), 1), b.access(b.tensor("w", (n, k)), 1)
    return b.blocked(systolic_array.NAME, (16, 16), x, w)


def egraph_of(*same: Term) -> FrozenEGraph:
    """An e-graph whose only root holds all of ``same``."""
    order = [term for term in topological_order(same) if term not in same]
    number = {term: i + 1 for i, term in enumerate(order)} | dict.fromkeys(same, 0)
    classes: list[list[ENode]] = [[] for _ in range(len(order) + 1)]
    types = [same[0].type] * (len(order) + 1)
    for term in (*order, *same):
        children = tuple(number[child] for child in term.children)
        classes[number[term]].append(ENode(term.op, term.values, children))
        types[number[term]] = term.type
    return FrozenEGraph(tuple(map(tuple, classes)), tuple(types), (0,))


x = b.tensor("x", (2, 6))


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (product(4, 5, 3), 2 * 4 * 5 * 3),
        (b.compute("sum", b.access(x, 1)), 12),
        (b.compute("softmax", b.access(x, 1)), 60),
        (b.compute("relu", b.access(x, 0)), 12),
        (b.compute("add", b.pair(b.access(x, 0), b.access(x, 0))), 12),
        (b.compute("add", b.access(x, 0)), 6),
        (b.cast(x, "float16"), 12),
        (b.host_op("Einsum", [x, x], (2, 2), "float32"), 28),
        (b.transpose(x, (1, 0)), 0),
        (x, 0),
        (blocked(), 0),
    ],
)
def test_scalar_operations(term: Term, expected: int) -> None:
    assert operations(term) == expected


def test_moved_bytes() -> None:
    def moved(term: Term) -> int:
        return moved_bytes(term.op, term.type, [child.type for child in term.children])

    assert moved(b.transpose(x, (1, 0))) == 48
    assert moved(b.pad(x, 0, 1, 1)) == 96
    assert moved(b.flatten(x)) == moved(b.access(x, 1)) == moved(product().children[0]) == 0
    assert moved(blocked(4, 5, 3)) == 4 * (4 * 3 + 5 * 3 + 4 * 5)


def test_a_dot_reads_at_least_what_the_best_factoring_would() -> None:
    # 16 x 16 results of depth 3: (16 + 16) rows of 3 floats, and no fewer for 64 x 4.
    for m, n in ((16, 16), (64, 4)):
        term = product(m, n, 3)
        read = read_bytes(term.op, term.attributes, [term.children[0].type])
        assert read == pytest.approx(4 * 3 * (16 + 16))
    empty = product(0, 4, 3)
    assert read_bytes(empty.op, empty.attributes, [empty.children[0].type]) == 0


def test_roofline_is_the_slower_of_computing_and_moving_plus_the_launch() -> None:
    model = Roofline(peak_flops=100, bandwidth=10, launch_seconds=7)
    relu = price(b.compute("relu", b.access(x, 0)), model)
    assert relu == (96 / 10 + 7, 0, 1)  # 48 bytes in, 48 out; 12 operations take 0.12 s
    dot = price(product(100, 100, 1000), Roofline(1e6, 1e9, 0))
    assert dot is not None and dot[0] == 2 * 100 * 100 * 1000 / 1e6
    assert price(b.transpose(x, (1, 0)), model) == (0, 48, 1)
    assert price(blocked(), model) is None


def test_cpu_roofline_scales_compute_with_cores_and_memory_not() -> None:
    assert cpu_roofline(2).peak_flops == 2 * cpu_roofline().peak_flops
    assert cpu_roofline(2).bandwidth == cpu_roofline().bandwidth


def test_roofline_rates_must_make_sense() -> None:
    with pytest.raises(ValueError, match="rates must be positive"):
        Roofline(peak_flops=0, bandwidth=1, launch_seconds=0)


@pytest.mark.parametrize("model", [MaximiseOffload(), cpu_roofline()])
def test_every_node_costs_something(model: CostModel) -> None:
    for term in topological_order([product(0, 0, 0), b.reshape(b.flatten(x), (2, 6)), x]):
        cost = price(term, model)
        assert cost is not None and all(part >= 0 for part in cost) and any(cost)


def test_offloading_wins_where_the_unit_is_there_and_not_under_roofline() -> None:
    egraph = egraph_of(product(), blocked())
    for model, expected in (
        (MaximiseOffload(), "blocked"),
        (MaximiseOffload(units={systolic_array.NAME}), "blocked"),
        (MaximiseOffload(units=()), "compute"),
        (cpu_roofline(), "compute"),
    ):
        found = extract(egraph, model, original=[product()])
        assert found.terms[0].op == expected
        assert found.terms[0].type == AccessType((4, 5), (), "float32")


def test_one_call_is_better_than_two() -> None:
    whole = blocked(8, 5, 3)
    stream, weights = whole.children
    halves = [
        b.blocked(systolic_array.NAME, (16, 16), b.slice_(stream, 0, low, low + 4), weights)
        for low in (0, 4)
    ]
    assert extract(egraph_of(b.concat(0, *halves), whole), MaximiseOffload()).terms == [whole]


def test_of_two_offloads_the_one_that_moves_less_wins_even_with_more_nodes() -> None:
    direct = b.transpose(b.transpose(x, (1, 0)), (1, 0))
    views = b.reshape(b.reshape(b.reshape(x, (12,)), (3, 4)), (2, 6))
    assert extract(egraph_of(direct, views), MaximiseOffload()).terms == [views]


def test_dag_cost_counts_shared_terms_once() -> None:
    a = b.access(x, 0)
    assert dag_cost([b.compute("add", b.pair(a, a)), a], MaximiseOffload()) == (12, 0, 0, 4)


def test_a_forbidden_node_makes_a_program_infinitely_dear() -> None:
    assert dag_cost([blocked()], cpu_roofline()) == (float("inf"),) * 3
    assert dag_cost([], cpu_roofline()) == ()


def test_cost_models_are_found_by_name() -> None:
    for name in COST_MODELS:
        assert find_cost_model(name).name == name
    mine = MaximiseOffload(units=())
    assert find_cost_model(mine) is mine
    with pytest.raises(ExtractionError, match="cost models are maximise-offload, roofline"):
        find_cost_model("cheapest")


def test_every_operator_of_the_language_is_priced() -> None:
    """A new operator must be thought of here: leaves and data movement are known to be free."""
    known = {"cast", "where", "compute", "call", "blocked", "host_op"}
    assert {name for name, operator in OPERATORS.items() if not operator.exact} == known


def test_what_compiling_evaluates_takes_no_time() -> None:
    """Of a product with transformed weights only the product is left, for both extractors."""
    x, w = (b.access(b.tensor(name, (8, 8)), 1) for name in "xw")
    twice = b.compute("relu", w)
    term = b.compute("dot", b.cart_prod(x, twice))
    model = Roofline(1e9, 1e9, 1e-3)
    whole, left = dag_cost([term], model), dag_cost([term], model, {"w"})
    relu = model.node_cost("compute", twice.attributes, twice.type, [w.type])
    assert relu is not None
    assert whole[0] - left[0] == pytest.approx(relu[0])
    assert whole[1:] == left[1:]
    assert dag_cost([term], MaximiseOffload(), {"w"}) == dag_cost([term], MaximiseOffload())
    egraph = saturate([term], []).egraph
    found = extract(egraph, model, original=[term], constants={"w"})
    assert set(found.tried.values()) == {left}


@pytest.mark.parametrize("given", [5, Roofline, object(), {"name": "mine"}])
def test_what_is_no_cost_model_is_refused_in_one_line(given):
    x = b.tensor("x", (2, 3))
    for verb in (glenside.optimize, lambda t, **o: glenside.explore(t, cost_models=[given])):
        with pytest.raises(ExtractionError, match=r"a cost model is a name .* or an object with"):
            verb(x, cost_model=given)
