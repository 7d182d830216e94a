"""Loading, typing and freezing."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glenside.errors import UnsoundRewrite
from glenside.language import Term, builders, topological_order
from glenside.rewrites import EGraph, FrozenEGraph
from tests.effort import tries
from tests.strategies import terms


def load(*roots: Term) -> FrozenEGraph:
    egraph = EGraph()
    egraph.load(roots)
    return egraph.freeze()


def read_back(egraph: FrozenEGraph) -> list[Term]:
    """The roots of an e-graph that no rule has touched."""
    built: list[Term] = []
    for (node,) in egraph.classes:
        built.append(node.term([built[child] for child in node.children]))
    return [built[root] for root in egraph.roots]


@settings(max_examples=tries(40))
@given(st.lists(terms(), min_size=1, max_size=3))
def test_terms_read_back_as_they_were(roots: list[Term]) -> None:
    egraph = load(*roots)
    assert read_back(egraph) == roots
    assert egraph.node_count == len(topological_order(roots))


@settings(max_examples=tries(50))
@given(terms())
def test_the_analyses_find_the_types_that_python_finds(term: Term) -> None:
    known = [t for t in topological_order([term]) if t.op == "call"]
    if known:
        return  # The analyses leave calls to the rules that make them.
    egraph = EGraph()
    egraph.load([term], state_types=False)
    assert egraph.freeze().types[egraph.freeze().roots[0]] == term.type


@pytest.mark.parametrize(
    "name",
    ["", " ", "gpu_0/data_0", "a b", "tab\tline\nend", '"quoted"', "\\", "größe", "7", "true"],
)
def test_any_name_is_kept(name: str) -> None:
    root = builders.tensor(name, (2, 3))
    assert read_back(load(root)) == [root]


@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, 1e-45, float("inf"), -float("inf")])
def test_numbers_are_kept_to_the_bit(value: float) -> None:
    (found,) = read_back(load(builders.constant(value, (2,), "float64")))
    assert repr(found["value"]) == repr(value)


def test_a_chain_of_ten_thousand_terms_is_an_ordinary_program() -> None:
    term = builders.tensor("x", (2,))
    for _ in range(10_000):
        term = builders.compute("neg", term)
    assert read_back(load(term)) == [term]


def test_terms_that_share_are_loaded_once() -> None:
    x = builders.tensor("x", (2, 3))
    for _ in range(200):  # As a tree this has 2^200 nodes.
        x = builders.compute("add", builders.pair(builders.access(x, 0), builders.access(x, 0)))
    assert read_back(load(x)) == [x]


def test_only_what_the_roots_reach_is_frozen() -> None:
    x = builders.tensor("x", (2, 3))
    egraph = load(x, x)
    assert len(egraph.classes) == 1
    assert egraph.roots == (0, 0)


def test_a_program_is_loaded_once() -> None:
    egraph = EGraph()
    egraph.load([builders.tensor("x", (2,))])
    with pytest.raises(ValueError, match="loaded already"):
        egraph.load([builders.tensor("y", (2,))])


SHOW = """
from glenside.language import parse
from glenside.rewrites import saturate
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic_rules
term = parse('''(compute dot (cart-prod (access 1 (tensor k (8 3 3 3)))
    (squeeze 0 (windows (3 3 3) (1 1 1) (access 0 (tensor img (3 8 8)))))))''')
print(saturate([term], [IM2COL, LAYOUT, systolic_rules(4, 4)]).egraph)
"""


def test_the_same_program_freezes_to_the_same_in_every_process() -> None:
    shown = {
        subprocess.run(
            [sys.executable, "-c", SHOW],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(shown) == 1


def test_ill_typed_programs_cannot_be_frozen() -> None:
    egraph = EGraph()
    x = builders.tensor("x", (2, 3))
    call = builders.call(
        "systolic-array",
        (3, 1),
        builders.access(x, 1),
        builders.access(builders.tensor("w", (3, 1)), 0),
    )
    egraph.load([call], state_types=False)
    with pytest.raises(UnsoundRewrite, match=r"ill-typed call|call .* has type"):
        egraph.freeze()
