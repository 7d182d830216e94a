import pytest

import glenside
from glenside.errors import InputError
from glenside.explore import compare, plots
from glenside.rewrites.rules.im2col import IM2COL


def values(chart):
    """The data of a chart as Vega-Lite has it."""
    return chart.to_dict()["data"]["values"]


@pytest.fixture
def grown(exploration):
    return exploration.run()


def test_growth_has_every_pass(grown):
    rows = values(plots.growth(grown))
    nodes = [row["count"] for row in rows if row["of"] == "nodes"]
    assert nodes == [s.nodes for s in grown.snapshots]
    assert plots.growth(grown, log=True).to_dict()["encoding"]["y"]["scale"] == {"type": "log"}


def test_growth_by_rule_adds_up_to_all_nodes(grown):
    rows = values(plots.growth_by_rule(grown))
    for snapshot in grown.snapshots:
        stacked = sum(r["nodes"] for r in rows if r["iteration"] == snapshot.iteration)
        assert stacked == snapshot.nodes


def test_matches_are_those_of_the_record(grown):
    rows = values(plots.matches(grown))
    assert {(r["iteration"], r["rule"]): r["matches"] for r in rows} == {
        (s.iteration, record.rule): record.matches
        for s in grown.snapshots
        for record in s.rules
        if record.matches
    }


def test_phases_add_up_to_the_time(grown):
    rows = values(plots.phases(grown))
    assert sum(r["seconds"] for r in rows) == pytest.approx(sum(s.seconds for s in grown.snapshots))


def test_best_cost_has_a_panel_for_each_part(grown):
    panels = plots.best_cost(grown).to_dict()["concat"]
    assert [panel["title"] for panel in panels] == [
        "host operations", "calls", "bytes moved", "nodes",
    ]  # fmt: skip
    with pytest.raises(InputError, match="no costs by 'roofline' are recorded"):
        plots.best_cost(grown, "roofline")


@pytest.mark.parametrize("ending", plots.FORMATS)
def test_charts_are_written_without_a_network(grown, tmp_path, ending):
    path = plots.save(plots.overview(grown), tmp_path / f"all{ending}")
    content = path.read_bytes()
    start = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!DOCTYPE html>", ".json": b"{"}
    assert content.lstrip().startswith(start[ending])
    if ending == ".html":
        assert b"<script src=" not in content


def test_other_endings_are_refused(grown, tmp_path):
    with pytest.raises(InputError, match=r"a chart is written as \.svg, \.png, \.html, \.json"):
        plots.save(plots.growth(grown), tmp_path / "all.gif")


def test_runs_are_drawn_into_one_picture(convolution, grown):
    other = glenside.explore(convolution, target="systolic-array:16x16", rules=[IM2COL]).run()
    chart = compare(unit=grown, none=other).plot().to_dict()
    assert len(chart["hconcat"]) == 3
    assert chart["hconcat"][2]["title"] == "Best cost: maximise-offload, host operations"
    rows = chart["hconcat"][0]["data"]["values"]
    assert {row["run"] for row in rows} == {"unit", "none"}
