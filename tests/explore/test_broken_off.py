"""Explorations that end otherwise than by a fixed point or a limit, and odd programs."""

import io
import os
import re
import signal
import sys

import numpy as np
import pytest

import glenside
from glenside.errors import (
    ExtractionError,
    GlensideError,
    InputError,
    NotOptimised,
    UnsoundRewrite,
)
from glenside.explore import compare, plots
from glenside.explore.live import watch
from glenside.language import Model, builders
from glenside.rewrites import saturate
from glenside.rewrites.engine.saturation import StopReason
from glenside.rewrites.rules.layout import LAYOUT
from tests.explore.rules import UNGUARDED, UNSOUND

X = builders.tensor("x", (2, 3))
PRODUCT = builders.compute(
    "dot",
    builders.cart_prod(builders.access(X, 1), builders.access(builders.tensor("w", (4, 3)), 1)),
)
TRANSPOSED = builders.pair(
    builders.access(builders.transpose(X, (1, 0)), 1),
    builders.access(builders.tensor("y", (3, 2)), 1),
)


def everything(exploration):
    """All that can be made of an exploration."""
    exploration.tables()
    exploration.plot().to_dict()
    exploration.widget()
    return exploration


def test_an_unsound_rule_is_named_as_saturation_names_it():
    exploration = glenside.explore(TRANSPOSED, rules=[LAYOUT, UNSOUND])
    with pytest.raises(UnsoundRewrite) as expected:
        saturate([TRANSPOSED], [LAYOUT, UNSOUND])
    assert str(expected.value).startswith("rule forget-transpose (")
    with pytest.warns(NotOptimised, match="explored no further: UnsoundRewrite: rule forget-tr"):
        exploration.run()
    assert str(expected.value) in exploration.failure
    assert exploration.step() is None and exploration.stop_reason is None
    # What there is is the program as imported, and the record stays.
    assert exploration.extract().terms == [TRANSPOSED]
    assert exploration.contains(TRANSPOSED) and not exploration.until("(call ?u ?p ?x)")
    assert len(exploration.tables()["iterations"]) == 1
    assert exploration.to_json()["failure"] == exploration.failure
    assert "a rule failed" in repr(exploration)
    everything(exploration)


def test_a_closed_exploration_keeps_what_was_looked_at():
    unseen = glenside.explore(PRODUCT, target="systolic-array:16x16")
    unseen.run(1).close()
    unseen.close()
    with pytest.raises(GlensideError, match="cannot go on: it was closed"):
        unseen.step()
    with pytest.raises(GlensideError, match="cannot be looked at: it was closed"):
        unseen.extract()
    tables = unseen.tables()
    assert {row["nodes"] for row in tables["rules"]} == {None}
    assert {row["iteration"] for row in tables["costs"]} == {0}

    seen = glenside.explore(PRODUCT, target="systolic-array:16x16").run()
    assert seen.contains("(blocked ?u ?p ?x ?w)")
    seen.close()
    assert everything(seen).step() is None
    assert seen.extract().cost[1] == 1


@pytest.fixture
def interruptible():
    """Ctrl-C as in a terminal: a run in the background may have inherited that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_pass_and_it_can_go_on(monkeypatch, interruptible):
    from glenside.rewrites.engine.egraph import EGraph

    plain = glenside.explore(PRODUCT, target="systolic-array:16x16").run()
    exploration = glenside.explore(PRODUCT, target="systolic-array:16x16")
    apply, calls = EGraph.apply, []

    def interrupted(self, rule):
        calls.append(rule)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return apply(self, rule)

    monkeypatch.setattr(EGraph, "apply", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exploration.run()
    assert len(calls) == 2  # After the rule being applied, not after the pass.
    assert [s.iteration for s in exploration.snapshots] == [0, 1]
    assert exploration.stop_reason is None
    exploration.run()
    assert exploration.stop_reason is StopReason.SATURATED
    assert exploration.egraph == plain.egraph
    everything(exploration)


def test_the_live_table_shows_what_was_done_before_ctrl_c(monkeypatch):
    from rich.console import Console

    console = Console(record=True, width=200, file=io.StringIO())
    exploration = glenside.explore(PRODUCT, target="systolic-array:16x16")
    step = exploration.step

    def once():
        if len(exploration.snapshots) > 1:
            raise KeyboardInterrupt
        return step()

    monkeypatch.setattr(exploration, "step", once)
    with pytest.raises(KeyboardInterrupt):
        watch(exploration, console)
    assert re.findall(r"│ +(\d+) │ +\d+ │ +\d+ │", console.export_text()) == ["0", "1"]


def test_until_ends_at_limits_and_says_so():
    limited = glenside.explore(builders.access(X, 1), rules=[UNGUARDED], node_limit=20)
    assert not limited.until("(call ?u ?p ?x)")
    assert limited.stop_reason is StopReason.NODE_LIMIT
    passes = glenside.explore(builders.access(X, 1), rules=[UNGUARDED])
    assert not passes.until("(call ?u ?p ?x)", passes=3)
    assert (passes.snapshots[-1].iteration, passes.stop_reason) == (3, None)
    assert passes.until("(flatten ?x)", passes=0)


@pytest.mark.parametrize("limits", [{"node_limit": 1}, {"iter_limit": 0}, {"time_limit": 0.0}])
def test_limits_below_the_program(limits):
    exploration = everything(glenside.explore(PRODUCT, **limits).run())
    assert len(exploration.snapshots) == 1
    assert exploration.stop_reason.value in limits
    assert exploration.egraph.node_count == 6


def test_a_time_limit_counts_growing_only(monkeypatch):
    """Not what is done between the steps, such as reading a picture."""
    import time

    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    exploration = glenside.explore(builders.access(X, 1), rules=[UNGUARDED], time_limit=1.0)
    for _ in range(3):
        assert exploration.step() is not None
        now[0] += 100
    assert exploration.stop_reason is None
    apply = exploration._egraph.apply

    def slow(rule):
        now[0] += 2
        return apply(rule)

    monkeypatch.setattr(exploration._egraph, "apply", slow)
    exploration.run()
    assert exploration.stop_reason is StopReason.TIME_LIMIT
    assert len(exploration.snapshots) == 5


def test_several_outputs_and_zero_sizes():
    model = Model(
        "<b>&'\"</script>",
        {},
        {},
        {
            "a": builders.elementwise("relu", X),
            "x itself": X,
            "<i>": builders.transpose(builders.transpose(X, (1, 0)), (1, 0)),
        },
    )
    exploration = everything(glenside.explore(model).run())
    assert exploration.egraph.roots[1] == exploration.egraph.roots[2]
    empty = builders.compute(
        "dot",
        builders.cart_prod(builders.access(builders.tensor("z", (0, 3)), 1), builders.access(X, 1)),
    )
    assert everything(glenside.explore(empty, target="systolic-array:16x16").run()).stop_reason


def test_programs_with_calls():
    program = glenside.optimize(PRODUCT, target="systolic-array:16x16")
    for terms in (program.terms, program.expanded()):
        (root,) = terms
        exploration = everything(glenside.explore(root, target="systolic-array:16x16").run())
        assert exploration.best_cost()[1] >= 1
        other = everything(glenside.explore(root, target="cpu").run())
        assert other.costs["roofline"][-1] in ((), other.costs["roofline"][0])
    with pytest.raises(ExtractionError, match="unit systolic-array"):
        other.best_cost()


def test_cost_models_need_names_of_their_own():
    for models, told in ((["roofline"] * 2, "got roofline, roofline"), ([], "got none")):
        with pytest.raises(InputError, match=told):
            glenside.explore(X, cost_models=models)


def test_runs_by_different_cost_models_are_compared_where_they_can_be():
    by_time = glenside.explore(PRODUCT, cost_models=["roofline"]).run()
    by_calls = glenside.explore(PRODUCT, cost_models=["maximise-offload"]).run()
    both = glenside.explore(PRODUCT, cost_models=["maximise-offload", "roofline"]).run()
    assert len(compare(by_time, by_calls).plot().to_dict()["hconcat"]) == 2
    chart = compare(by_time, both).plot().to_dict()["hconcat"][2]
    assert chart["title"] == "Best cost: roofline, seconds"
    first, second = compare(by_time, by_calls).summary()
    assert np.isfinite(first["roofline: seconds"])
    assert "roofline: seconds" not in second


def test_tables_without_pandas_are_rows(monkeypatch):
    exploration = glenside.explore(PRODUCT).run()
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = exploration.table("iterations")
    assert rows == exploration.tables()["iterations"]
    assert compare(exploration, exploration).table("iterations")[0]["run"] == "A"


def test_what_is_missing_for_charts_and_widgets_is_told(monkeypatch):
    exploration = glenside.explore(PRODUCT).run()
    monkeypatch.setitem(sys.modules, "altair", None)
    for draw in (
        plots.growth, plots.growth_by_rule, plots.matches, plots.phases, plots.best_cost,
        plots.overview, lambda each: compare(each, each).plot(),
    ):  # fmt: skip
        with pytest.raises(GlensideError, match=r"charts need altair: pip install 'glenside\[expl"):
            draw(exploration)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(GlensideError, match=r"needs anywidget: pip install 'glenside\[explore\]'"):
        exploration.widget()
