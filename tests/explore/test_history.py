import glenside
from glenside.explore import pricing
from glenside.explore.history import LOADED
from glenside.extraction import find_cost_model
from glenside.language import builders
from glenside.rewrites.engine.frozen import ENode
from glenside.rewrites.rules.layout import LAYOUT
from tests.explore.rules import UNGUARDED


def at(exploration, iteration):
    """The e-graph after a pass, from a run that ends there."""
    return (
        glenside.explore(exploration.model.roots[0], target="systolic-array:16x16")
        .run(iteration)
        .egraph
    )


def test_every_node_has_an_origin(exploration):
    exploration.run()
    history = exploration.history
    assert history.egraph is exploration.egraph
    loaded = exploration.snapshots[0].nodes
    origins = [origin for each in history.origins for origin in each]
    assert sum(origin.rule == LOADED for origin in origins) == loaded
    assert all((origin.iteration == 0) == (origin.rule == LOADED) for origin in origins)
    assert sum(history.nodes_by_rule.values()) == exploration.egraph.node_count


def test_a_node_is_there_from_the_pass_of_its_origin_on(exploration):
    exploration.run()
    for snapshot in exploration.snapshots:
        there = exploration.history.at(snapshot.iteration)
        frozen = at(exploration, snapshot.iteration)
        assert sum(map(len, there.values())) == frozen.node_count
        operators = sorted(node.op for nodes in frozen.classes for node in nodes)
        assert sorted(node.op for nodes in there.values() for node in nodes) == operators


def test_the_rule_that_finds_the_unit_is_named(exploration):
    exploration.run()
    history = exploration.history
    (origin,) = [
        origin
        for nodes, origins in zip(history.egraph.classes, history.origins, strict=True)
        for node, origin in zip(nodes, origins, strict=True)
        if node.op == "blocked"
    ]
    assert origin.rule == "systolic-padded(16,16)"
    assert history.nodes_by_rule[origin.iteration, origin.rule] == 1


def test_equalities_by_rule_add_up(exploration):
    exploration.run()
    rows = exploration.tables()["rules"]
    made = sum(row["equalities"] for row in exploration.tables()["iterations"])
    assert sum(row["equalities"] for row in rows) == made > 0


def test_a_member_joins_the_first_of_its_class():
    """relu(x) and relu(y) are two classes until x is found to be y."""
    x = builders.tensor("x", (3,))
    back = builders.transpose(x, (0,))
    term = builders.pair(builders.elementwise("relu", x), builders.elementwise("relu", back))
    exploration = glenside.explore(builders.access(term, 0), rules=[LAYOUT]).run()
    history = exploration.history
    joined = {
        (node.op, origin.rule, origin.joined_by)
        for nodes, origins in zip(history.egraph.classes, history.origins, strict=True)
        for node, origin in zip(nodes, origins, strict=True)
        if origin.joined > origin.iteration
    }
    assert joined == {("transpose", LOADED, "drop-identity-transpose")}


def test_costs_never_rise(exploration):
    exploration.run()
    (costs,) = exploration.costs.values()
    assert len(costs) == len(exploration.snapshots)
    assert list(costs) == sorted(costs, reverse=True)
    assert costs[-1] == exploration.best_cost()


def test_history_grows_with_the_exploration(exploration):
    exploration.run(1)
    assert len(exploration.costs["maximise-offload"]) == 2
    first = exploration.history
    assert exploration.history is first
    exploration.run()
    (costs,) = exploration.costs.values()
    assert len(costs) == len(exploration.snapshots) > 2
    assert isinstance(exploration.history.at(0)[0][0], ENode)


def test_costs_are_those_of_the_e_graph_after_each_pass(convolution):
    models = ["roofline", "maximise-offload"]
    run = glenside.explore(
        convolution, target="systolic-array:16x16", cost_models=map_models(models)
    ).run()
    for name, costs in run.costs.items():
        for iteration, cost in enumerate(costs):
            fresh = glenside.explore(
                convolution, target="systolic-array:16x16", cost_models=map_models(models)
            )
            assert fresh.run(iteration).best_cost(name) == cost
    assert list(run.costs) == models


def map_models(names):
    return [find_cost_model(name) for name in names]


def test_long_runs_are_priced_now_and_then(convolution):
    run = glenside.explore(convolution, rules=[UNGUARDED], iter_limit=6).run()
    every = run.costs["roofline"]
    some = pricing.Pricing(run, priced=200).all()["roofline"]
    assert None not in every and None in some
    assert (some[0], some[-1]) == (every[0], every[-1])
    assert all(a in (None, b) for a, b in zip(some, every, strict=True))
