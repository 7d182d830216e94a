from glenside.explore.history import LOADED
from glenside.rewrites.frozen import ENode


def at(exploration, iteration):
    """The e-graph after a pass, from a run that ends there."""
    import glenside

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


def test_costs_never_rise(exploration):
    exploration.run()
    (costs,) = exploration.history.costs.values()
    assert len(costs) == len(exploration.snapshots)
    assert list(costs) == sorted(costs, reverse=True)
    assert costs[-1] == exploration.best_cost()


def test_history_grows_with_the_exploration(exploration):
    exploration.run(1)
    assert len(exploration.history.costs["maximise-offload"]) == 2
    first = exploration.history
    assert exploration.history is first
    exploration.run()
    (costs,) = exploration.history.costs.values()
    assert len(costs) == len(exploration.snapshots) > 2
    assert isinstance(exploration.history.at(0)[0][0], ENode)
