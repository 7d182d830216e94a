"""The e-graph as JSON, by the rules of egraph-serialize."""

import json

import pytest

import glenside
from glenside.errors import InputError
from glenside.exporters.egraph import save_egraph, to_egraph_json
from glenside.extraction import Cycles, cpu_roofline, extract
from glenside.hw_targets.registry import find_target
from glenside.language import parse
from glenside.rewrites import saturate
from tests.extraction.toy import Priced, graph

PRODUCT = parse(
    "(compute dot (cart-prod (access 1 (tensor a)) (access 1 (tensor b))))",
    {"a": (5, 8), "b": (4, 8)},
)
EGRAPH = saturate([PRODUCT], find_target("systolic-array:4x4").rules()).egraph


def check_rules(data):
    """What a reader of the format relies on."""
    assert data.keys() == {"nodes", "root_eclasses", "class_data"}
    classes = {node["eclass"] for node in data["nodes"].values()}
    for node in data["nodes"].values():
        assert node.keys() == {"op", "children", "eclass", "cost", "subsumed"}
        assert isinstance(node["op"], str) and isinstance(node["eclass"], str)
        assert isinstance(node["cost"], float) and isinstance(node["subsumed"], bool)
        assert all(child in data["nodes"] for child in node["children"])
    assert data["root_eclasses"] and set(data["root_eclasses"]) <= classes
    assert data["class_data"].keys() == classes
    assert all(isinstance(each["type"], str) for each in data["class_data"].values())


def read_back(data):
    """Classes of (operator, classes of the operands), as a reader sees them."""
    at = {name: int(node["eclass"]) for name, node in data["nodes"].items()}
    classes = [[] for _ in data["class_data"]]
    for node in data["nodes"].values():
        operands = tuple(at[child] for child in node["children"])
        classes[int(node["eclass"])].append((node["op"].split()[0], operands))
    return classes


@pytest.mark.parametrize("model", [None, Cycles(), cpu_roofline()])
def test_it_reads_back_to_the_same_classes(model) -> None:
    data = json.loads(json.dumps(to_egraph_json(EGRAPH, model), allow_nan=False))
    check_rules(data)
    assert read_back(data) == [
        [(node.op.replace("_", "-"), node.children) for node in nodes] for nodes in EGRAPH.classes
    ]
    assert [int(root) for root in data["root_eclasses"]] == list(EGRAPH.roots)
    types = [data["class_data"][str(n)]["type"] for n in range(len(EGRAPH.types))]
    assert types == list(map(str, EGRAPH.types))


def test_costs_are_the_first_component_and_what_is_not_allowed_is_subsumed() -> None:
    data = to_egraph_json(graph("f:2,9(b) | g:none(b) | h:inf,1(b)", "x:1,7"), Priced())
    check_rules(data)
    costs = {name: (node["cost"], node["subsumed"]) for name, node in data["nodes"].items()}
    assert costs == {
        "0.0": (2.0, False), "0.1": (1.0, True), "0.2": (1.0, True), "1.0": (1.0, False)
    }  # fmt: skip


def test_the_cheapest_choice_in_it_costs_what_ours_does() -> None:
    """A reader that minimises the sum over distinct classes comes to our cost."""
    model = Cycles()
    data = to_egraph_json(EGRAPH, model)
    best: dict[str, float] = {}
    for _ in data["nodes"]:  # Trees, to a fixed point: nothing is shared in a single product.
        for node in data["nodes"].values():
            operands = [best.get(data["nodes"][c]["eclass"]) for c in node["children"]]
            if not node["subsumed"] and None not in operands:
                total = node["cost"] + sum(operands)
                best[node["eclass"]] = min(total, best.get(node["eclass"], total))
    (root,) = data["root_eclasses"]
    assert best[root] == extract(EGRAPH, model).cost[0]


def test_two_outputs_of_one_class_are_one_root() -> None:
    data = to_egraph_json(graph("x:1", "y:2", roots="aba"))
    assert data["root_eclasses"] == ["0", "1"]


def test_optimize_writes_it(tmp_path) -> None:
    path = tmp_path / "egraph.json"
    program = glenside.optimize(PRODUCT, "systolic-array:4x4", egraph=path, check=False)
    data = json.loads(path.read_text())
    check_rules(data)
    assert len(data["nodes"]) <= program.report.nodes
    assert any(node["op"].startswith("blocked systolic-array") for node in data["nodes"].values())


def test_a_file_that_cannot_be_written_is_named(tmp_path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*nowhere/egraph.json: No such file"):
        save_egraph(tmp_path / "nowhere" / "egraph.json", EGRAPH)
