"""Layers that are equal up to names are explored once, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from egglog import Vec, eq, i64, rule, union, var, vars_
from hypothesis import given, settings
from hypothesis import strategies as st

from glenside.extraction import extract
from glenside.frontends.onnx import import_model
from glenside.hw_targets import find_target
from glenside.language import Term, builders, topological_order
from glenside.rewrites import RuleSet, Saturation, StopReason, saturate, tile_to
from glenside.rewrites.engine import saturation
from glenside.rewrites.engine.locality import locality
from glenside.rewrites.engine.regions import cut
from glenside.rewrites.rules.blocking import BLOCKING
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT, MOVES, merge_accesses
from glenside.rewrites.rules.linear import LINEAR
from glenside.rewrites.rules.padding import PADDING
from glenside.rewrites.rules.pooling import POOLING
from glenside.rewrites.rules.tensorize import systolic, systolic_rules
from glenside.rewrites.ruleset import Rule
from glenside.rewrites.vocabulary import Access
from tests.effort import tries
from tests.models import LIGHT
from tests.rewrites.instances import Draw, leaf
from tests.strategies import STEPS

GENERAL = [IM2COL, LAYOUT, MOVES, LINEAR, POOLING, BLOCKING, RuleSet("unit", (systolic(),))]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are always cut up, however little that saves."""
    monkeypatch.setattr(saturation, "GROWN", 0)
    monkeypatch.setattr(saturation, "SAVED", 0)


def layers(count: int, m: int, n: int) -> Term:
    """Dense layers, all alike."""
    x = builders.tensor("x", (m, n))
    for i in range(count):
        w = builders.access(builders.tensor(f"w{i}", (n, n)), 1)
        x = builders.compute("dot", builders.cart_prod(builders.access(x, 1), w))
        x = builders.elementwise("relu", x)
    return x


def both(roots: Sequence[Term], rules: Sequence[RuleSet]) -> Saturation:
    """Explored either way; what is found has to be the same, to the node."""
    found, whole = saturate(roots, rules), saturate(roots, rules, regions=False)
    assert found.egraph == whole.egraph
    assert found.term_classes == whole.term_classes
    assert (found.nodes, found.classes) == (whole.nodes, whole.classes)
    assert found.stop_reason is whole.stop_reason
    return found


def test_equal_layers_are_explored_once() -> None:
    few, many = (both([layers(count, 8, 16)], tile_to(4, 4)) for count in (4, 24))
    assert few.explored is not None and many.explored is not None
    assert few.explored == many.explored < few.nodes / 3
    assert many.nodes > 5 * few.nodes


def test_where_little_is_found_nothing_is_cut_up() -> None:
    assert both([layers(24, 8, 16)], [IM2COL, LAYOUT, systolic_rules(4, 4)]).explored is None


def test_layers_of_different_sizes_are_different() -> None:
    look = locality(tuple(rule for each in tile_to(4, 4) for rule in each))
    alike, other = layers(2, 8, 16), layers(1, 8, 12)
    assert len(cut([alike], look, []).explored) == len(cut([layers(5, 8, 16)], look, []).explored)
    assert len(cut([alike, other], look, []).explored) > len(cut([alike], look, []).explored)


# --- nothing is lost -----------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["systolic-array:16x16:conv2d", "flexasr"])
def test_networks(always: None, target: str) -> None:
    model = import_model(str(Path(LIGHT, "light_squeezenet.onnx")))
    chosen = find_target(target)
    found = both(model.roots, chosen.rules())
    assert found.explored is not None and found.explored < found.nodes
    whole = saturate(model.roots, chosen.rules(), regions=False)
    costs = [
        extract(each.egraph, chosen.cost_model(), original=model.roots).cost
        for each in (found, whole)
    ]
    assert costs[0] == costs[1]


@st.composite
def programs(draw: Draw) -> list[Term]:
    """Programs of a few random steps, some of them twice with other tensors, that share values."""
    seen: list[Term] = [leaf((2,), (2, 2), "int32", "x"), leaf((2,), (2, 2), "int32", "y")]
    names = [name for name in STEPS if name not in ("host_op", "gather", "cast", "where")]
    for _ in range(draw(st.integers(2, 7))):
        x = draw(st.sampled_from(seen))
        if draw(st.integers(0, 2)) == 0:
            other = draw(st.sampled_from(seen))
            split = min(x.type.split, other.type.split)
            same = (x.item, x.outer[:split], x.dtype)
            if same == (other.item, other.outer[:split], other.dtype):
                batch = draw(st.integers(0, split))
                seen.append(builders.compute("dot", builders.cart_prod(x, other, batch)))
                continue
        made = STEPS[draw(st.sampled_from(names))](draw, x)
        if made.type.size <= 4_096:
            seen.append(made)
    return seen[-draw(st.integers(1, 3)) :]


def test_random_programs(always: None) -> None:
    cut_up = 0

    @settings(max_examples=tries(12))
    @given(programs())
    def same(roots: list[Term]) -> None:
        nonlocal cut_up
        limits = {"node_limit": 3_000, "iter_limit": 12}
        found = saturate(roots, GENERAL, **limits)  # type: ignore[arg-type]
        whole = saturate(roots, GENERAL, regions=False, **limits)  # type: ignore[arg-type]
        assert found.stop_reason is whole.stop_reason
        assert found.egraph == whole.egraph
        assert found.term_classes == whole.term_classes
        cut_up += found.explored is not None

    same()
    assert cut_up > 5


def test_regions_that_meet_through_what_is_found_are_joined(always: None) -> None:
    """Without its relu, each layer's access stands upon the next: they become one chain."""
    x, whole = vars_("x whole", Access)
    drop = rule(eq(whole).to(x.compute("relu", ""))).then(union(whole).with_(x))
    term = builders.tensor("x", (3, 4))
    for _ in range(4):
        term = builders.access(builders.compute("relu", builders.access(term, 0)), 2)
    rules = [RuleSet("chain", (Rule("drop", (drop,), exact=False), merge_accesses()))]
    found = both([term], rules)
    assert found.egraph.roots[0] in {
        number for number, nodes in enumerate(found.egraph.classes)
        if any(node.op == "tensor" for node in nodes)
    }  # fmt: skip


def test_limits_are_those_of_the_whole_program() -> None:
    for limit in (10_000, 1_000, 100):
        both_limited = [
            saturate([layers(12, 8, 16)], tile_to(4, 4), node_limit=limit, regions=regions)
            for regions in (True, False)
        ]
        assert both_limited[0].stop_reason is both_limited[1].stop_reason
        assert both_limited[0].egraph == both_limited[1].egraph
    assert both_limited[0].stop_reason is StopReason.NODE_LIMIT
    found = saturate([layers(12, 8, 16)], tile_to(4, 4), time_limit=600)
    assert found.explored is None


# --- how far rules look --------------------------------------------------------------------------


def rules_of(*sets: RuleSet) -> tuple[Rule, ...]:
    return tuple(rule for each in sets for rule in each)


def test_what_rules_join_is_read_off_their_queries() -> None:
    look = locality(rules_of(IM2COL, LAYOUT))
    assert look.known
    dot, relu = ("compute", "dot"), ("compute", "relu")
    reshape = ("reshape", "")
    assert look.joins_below(dot, reshape) and not look.joins_below(relu, reshape)
    assert look.joins_below(("cart_prod", ""), reshape)
    assert not look.joins_below(dot, ("cart_prod", ""))
    assert not look.joins_beside(reshape, reshape)


def test_facts_of_other_analyses_are_not_local() -> None:
    assert not locality(rules_of(PADDING)).known


def test_a_rule_that_names_tensors_is_not_local() -> None:
    x = var("x", Access)
    n = var("n", i64)
    shape = var("shape", Vec[i64])
    named = rule(eq(x).to(Access.tensor("bias", shape, "float32"))).then(
        union(x).with_(x.access(shape.length()))
    )
    assert not locality((Rule("named", (named,), exact=True),)).known
    fits = rule(eq(x).to(Access.tensor("bias", shape, "float32").access(n)))
    assert not locality((Rule("in", (fits.then(union(x).with_(x)),), exact=True),)).known


def test_the_parts_are_the_program() -> None:
    term = layers(5, 8, 16)
    parts = cut([term], locality(rules_of(*tile_to(4, 4))), [])
    terms = [each for region in parts.regions for each in region.terms]
    assert sorted(map(id, terms)) == sorted(map(id, topological_order([term])))
    for region in parts.regions:
        assert not set(region.inputs) & set(region.terms)
