import json

import pytest

import glenside
from glenside.errors import InputError
from glenside.explore import compare
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic_rules

UNIT = systolic_rules(16, 16)


def test_two_rule_sets(convolution):
    runs = {
        "with": glenside.explore(convolution, rules=[IM2COL, LAYOUT, UNIT]).run(),
        "without": glenside.explore(
            convolution, rules=[IM2COL.without("reshape-out-of-dot"), UNIT]
        ).run(),
    }
    found = compare(**runs)
    assert found.names == ("with", "without")
    for row, run in zip(found.summary(), runs.values(), strict=True):
        last = run.snapshots[-1]
        assert (row["nodes"], row["classes"]) == (last.nodes, last.classes)
    rows = found.rows("operators")
    calls = {row["run"] for row in rows if row["operator"] == "blocked"}
    assert calls == {"with"}
    assert set(found.table("iterations")["run"]) == {"with", "without"}


def test_runs_are_called_a_and_b_or_as_one_likes(convolution):
    a, b = (glenside.explore(convolution, rules=[IM2COL], node_limit=n).run() for n in (9, 99))
    assert compare(a, b).names == ("A", "B")
    assert compare(a, b, names=["few", "many"]).names == ("few", "many")
    assert [row["nodes"] for row in compare(a, b).summary()] == [
        a.snapshots[-1].nodes,
        b.snapshots[-1].nodes,
    ]


def test_tables_of_another_version_come_from_a_file(convolution, tmp_path):
    run = glenside.explore(convolution, rules=[IM2COL]).run()
    file = tmp_path / "old.json"
    file.write_text(json.dumps({"tables": run.tables()}))
    old, new = compare(file, run, names=["old", "new"]).summary()
    assert old | {"run": "new"} == new


def test_what_cannot_be_compared(convolution, tmp_path):
    run = glenside.explore(convolution, rules=[IM2COL])
    with pytest.raises(InputError, match="at least two runs, got 1"):
        compare(run)
    with pytest.raises(InputError, match="a name of its own"):
        compare(run, run, names=["x", "x"])
    with pytest.raises(InputError, match="run B is no exploration: 3"):
        compare(run, 3)
    with pytest.raises(InputError, match=r"run B: .*none.json holds no tables"):
        compare(run, tmp_path / "none.json")
    with pytest.raises(InputError, match="run B lacks the tables operators, rules, phases, costs"):
        compare(run, {"iterations": []})
