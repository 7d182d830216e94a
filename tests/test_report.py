"""What a run tells, as a table and as JSON."""

import dataclasses
import json

from glenside.codegen.footprint import Footprint
from glenside.explain import Left
from glenside.language import builders as b
from glenside.report import Report, RuleUse, Seconds, count_host_ops, count_offloads

REPORT = Report(
    model="net",
    target="systolic-array:16x16",
    operators=7,
    offloads={"systolic-array": 2},
    host_ops={"NonZero": 1},
    stop_reason="saturated",
    iterations=4,
    nodes=1234,
    classes=56,
    seconds=Seconds(0.1, 0.2, 0.3, 0.4, 0.5),
    cost_model="maximise-offload",
    cost_before=(100.0, 0.0),
    cost_after=(10.0, 2.0),
    extractor="greedy-dag",
    rules=(RuleUse("systolic", 2), RuleUse("merge-reshapes", 0)),
    max_rel_error=1.5e-6,
    exact={"systolic-array": 1},
    left=(Left("pool", "flex-maxpool", "T is odd"),),
    memory=Footprint(
        64, 32, 128, 3 << 20, 1 << 20, {"kernel_0": 512}, {"dot ((4) ()) float32": 16}
    ),
    memory_limit=64 << 20,
)


def test_json_holds_the_documented_keys_and_reads_back():
    data = json.loads(json.dumps(REPORT.to_json()))
    documented = {
        "model", "target", "operators", "offloads", "host_ops", "stop_reason", "iterations",
        "nodes", "classes", "seconds", "cost", "cost_model", "cost_parts", "extractor", "rules",
        "max_rel_error", "exact", "left", "quantization", "note", "cut",
        "memory", "memory_limit",
    }  # fmt: skip
    assert documented <= data.keys()
    assert data["seconds"] == {
        "import": 0.1, "saturate": 0.2, "extract": 0.3, "compile": 0.4, "explain": 0.5,
        "quantise": 0.0, "check": 0.0,
    }  # fmt: skip
    assert data["cost"] == {"before": [100.0, 0.0], "after": [10.0, 2.0]}
    assert data["exact"] == {"systolic-array": 1}
    assert data["left"] == [{"layer": "pool", "unit": "flex-maxpool", "reason": "T is odd"}]
    assert Report.from_json(data) == REPORT
    # As reports were written before.
    for key in ("cost_parts", "exact", "left"):
        del data[key]
    del data["seconds"]["explain"]
    before = dataclasses.replace(REPORT, exact=None, left=(), seconds=Seconds(0.1, 0.2, 0.3, 0.4))
    assert Report.from_json(data) == before


def test_a_cost_of_one_part_is_a_number():
    simple = dataclasses.replace(REPORT, cost_before=(2.0,), cost_after=(1.0,))
    assert simple.to_json()["cost"] == {"before": 2.0, "after": 1.0}
    assert Report.from_json(simple.to_json()) == simple


def test_the_table_names_what_happened():
    shown = str(REPORT)
    for words in (
        "net on systolic-array:16x16",
        "systolic-array 2 (exact matching: 1)",
        "pool: flex-maxpool: T is odd",
        "NonZero 1",
        "saturated after 4 iterations: 1,234 e-nodes in 56 classes",
        "systolic 2",
        "100 / 0",
        "10 / 2; by greedy-dag",
        "1.5e-06",
        "4.0 MiB held (intermediate values 3.0 MiB",
        "64.0 MiB",
    ):
        assert words in shown
    assert "merge-reshapes" not in shown, "rules that never matched are left out"


def test_the_parts_of_a_cost_are_labelled():
    named = dataclasses.replace(REPORT, cost_parts=("host operations", "calls"))
    assert "host operations 100, calls 0" in str(named)
    assert "host operations 10, calls 2; by greedy-dag" in str(named)
    assert Report.from_json(json.loads(json.dumps(named.to_json()))) == named


def test_names_are_shown_as_they_are():
    odd = dataclasses.replace(
        REPORT, model="yx[/] :smile:", host_ops={"y[red]x": 1}, offloads={":smile:": 2}
    )
    for words in ("yx[/] :smile: on ", "y[red]x 1", ":smile: 2"):
        assert words in str(odd)


def test_offloads_count_calls_before_tiles_are_expanded():
    x = b.access(b.tensor("x", (40, 50)), 1)
    w = b.access(b.tensor("w", (60, 50)), 1)
    product = b.blocked("systolic-array", (16, 16), x, w)
    assert count_offloads([x, w, product]) == {"systolic-array": 1}


def test_a_host_operator_with_two_outputs_counts_once():
    x = b.tensor("x", (4,))
    outputs = [
        b.host_op("TopK", [x], (2,), "float32", version=11, output=0),
        b.host_op("TopK", [x], (2,), "int64", version=11, output=1),
    ]
    assert count_host_ops(outputs) == {"TopK": 1}


def test_what_exact_matching_finds_stands_beside_whatever_was_found():
    beside = {"flexasr": 1, "vta": 2}
    both = dataclasses.replace(REPORT, offloads={"vta": 5}, exact=beside)
    assert "vta 5 (exact matching: 2), flexasr 0 (exact matching: 1)" in str(both)
    assert "none (exact matching: none)" in str(dataclasses.replace(REPORT, offloads={}, exact={}))
    assert "exact" not in str(dataclasses.replace(REPORT, exact=None))


def test_the_table_shows_the_first_layers_left_and_counts_the_others():
    left = tuple(Left(f"layer{i}", "unit", "no") for i in range(25))
    many = dataclasses.replace(REPORT, left=left)
    assert "layer9: unit: no" in str(many) and "layer10:" not in str(many)
    assert "... and 15 more" in str(many)
    assert len(many.to_json()["left"]) == 25
