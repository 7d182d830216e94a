import json

import pytest

import glenside
from glenside.errors import InputError, TextError
from glenside.explore.record import PHASES
from glenside.extraction import MaximiseOffload, cpu_roofline
from glenside.language import builders
from glenside.rewrites import saturate
from glenside.rewrites.engine.egraph import EGraph
from glenside.rewrites.engine.saturation import StopReason
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic_rules

BLOCKED = "(blocked systolic-array ?size ?stream ?weights)"


def test_steps_are_passes_until_nothing_changes(exploration):
    assert exploration.stop_reason is None
    sizes = [exploration.snapshots[0].nodes]
    while (snapshot := exploration.step()) is not None:
        sizes.append(snapshot.nodes)
        assert snapshot.iteration == len(sizes) - 1
    assert exploration.stop_reason is StopReason.SATURATED
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    assert not exploration.snapshots[-1].changed
    assert exploration.step() is None


def test_it_grows_as_saturation_does(convolution, exploration):
    rules = [IM2COL, LAYOUT, systolic_rules(16, 16)]
    result = saturate([convolution], rules)
    exploration.run()
    assert [s.nodes for s in exploration.snapshots[1:]] == [i.nodes for i in result.iterations]
    assert [s.classes for s in exploration.snapshots[1:]] == [i.classes for i in result.iterations]
    assert exploration.egraph.classes == result.egraph.classes
    for snapshot, iteration in zip(exploration.snapshots[1:], result.iterations, strict=True):
        assert {r.rule: r.matches for r in snapshot.rules if r.matches} == iteration.matches


def test_the_numbers_are_those_of_egglogs_own_report(convolution):
    exploration = glenside.explore(convolution, target="systolic-array:16x16").run()
    rules = [rule for each in exploration.rules for rule in each]
    egraph = EGraph(rules)
    egraph.load([convolution])
    for snapshot in exploration.snapshots[1:]:
        for rule, record in zip(rules, snapshot.rules, strict=True):
            report = egraph.apply(rule).reports[0]
            assert record.rule == rule.name
            assert record.matches == sum(report.num_matches_per_rule.values())
            assert record.changed == report.updated
        assert (snapshot.nodes, snapshot.classes) == egraph.size()
        assert snapshot.operators == egraph.operators()


def test_operators_add_up_to_all_nodes_and_phases_to_the_time(exploration):
    exploration.run()
    for snapshot in exploration.snapshots:
        assert sum(snapshot.operators.values()) == snapshot.nodes
        if snapshot.iteration:
            assert tuple(snapshot.phases) == PHASES
            assert sum(snapshot.phases.values()) == pytest.approx(snapshot.seconds)
    assert exploration.snapshots[-1].operators["blocked"] == 1
    assert exploration.snapshots[-1].memory > 10_000_000


def test_equalities_are_nodes_that_share_a_class(exploration):
    exploration.run()
    rows = exploration.tables()["iterations"]
    egraph = exploration.egraph
    shared = sum(len(nodes) - 1 for nodes in egraph.classes)
    assert sum(row["equalities"] for row in rows) == shared > 0


def test_until_stops_at_the_first_pass_that_has_the_pattern(exploration):
    assert not exploration.contains(BLOCKED)
    assert exploration.until(BLOCKED)
    assert exploration.contains(BLOCKED)
    found_after = exploration.snapshots[-1].iteration
    assert found_after >= 1
    other = glenside.explore(exploration.model.roots[0], target="systolic-array:16x16")
    other.run(found_after - 1)
    assert not other.contains(BLOCKED)


def test_until_gives_up_where_there_is_nothing_to_find(exploration):
    assert not exploration.until("(call nothing ?p ?x)")
    assert exploration.stop_reason is StopReason.SATURATED


def test_terms_are_found_by_value_and_by_text(exploration):
    x = builders.tensor("x", (1, 2, 8, 8))
    assert exploration.contains(builders.access(x, 1))
    assert exploration.contains("(access 1 (tensor x))")
    assert not exploration.contains("(access 2 (tensor x))")
    with pytest.raises(TextError):
        exploration.contains("(access 1 ?x")


def test_the_best_cost_falls_when_the_unit_is_found(convolution):
    exploration = glenside.explore(
        convolution,
        target="systolic-array:16x16",
        cost_models=[MaximiseOffload(frozenset({"systolic-array"})), "roofline"],
    )
    before = exploration.best_cost()
    exploration.run()
    host, calls, *_ = exploration.best_cost()
    assert before[:2] == (2 * 4 * 36 * 18, 0)
    assert (host, calls) == (0, 1)
    assert exploration.best_cost("roofline") == exploration.extract(cpu_roofline()).cost


def test_rules_can_be_given_in_place_of_the_targets(convolution):
    exploration = glenside.explore(convolution, rules=[IM2COL]).run()
    assert exploration.rules == (IM2COL,)
    assert exploration.stop_reason is StopReason.SATURATED
    assert not exploration.contains(BLOCKED)


def test_limits_end_it_and_say_which(convolution):
    rules = [IM2COL, LAYOUT, systolic_rules(16, 16)]
    few = glenside.explore(convolution, rules=rules, node_limit=12).run()
    assert few.stop_reason is StopReason.NODE_LIMIT
    assert few.step() is None
    short = glenside.explore(convolution, rules=rules, iter_limit=1).run()
    assert short.stop_reason is StopReason.ITER_LIMIT
    assert len(short.snapshots) == 2


def test_a_run_can_be_taken_up_again(exploration):
    exploration.run(1)
    first = exploration.snapshots[-1]
    assert exploration.stop_reason is None
    exploration.run()
    assert exploration.snapshots[1] is first
    assert exploration.stop_reason is StopReason.SATURATED
    assert "saturated" in repr(exploration)


def test_tables_are_plain_data(exploration):
    found = exploration.run().tables()
    assert list(found) == ["iterations", "operators", "rules", "phases", "costs"]
    assert json.loads(json.dumps(found)) == found
    frame = exploration.table("rules")
    assert list(frame.columns) == [
        "iteration", "stage", "rule", "matches", "nodes", "equalities", "seconds", "changed",
    ]  # fmt: skip
    assert frame["matches"].sum() == sum(s.matches for s in exploration.snapshots)
    with pytest.raises(InputError, match="no table is called 'growth': the tables are iterations"):
        exploration.table("growth")
