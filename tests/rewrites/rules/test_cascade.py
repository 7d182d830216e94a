"""Softmax and what is multiplied with it in one pass: each law, and what they come to together."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

from glenside.errors import GlensideError
from glenside.frontends.lowering.phrases import add, along, matmul, mul, swap_last
from glenside.language import Term, builders
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import TRANSFORMERS
from glenside.rewrites import Rule, StopReason, rule_named, saturate
from glenside.rewrites.engine.frozen import FrozenEGraph
from glenside.rewrites.rules.cascade import CASCADE
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.soundness import check_fires, check_program
from glenside.rewrites.soundness.programs import (
    powers_in_blocks,
    reductions_of_rows,
    softmaxes_of_rows,
)
from tests.effort import tries
from tests.rewrites.instances import check
from tests.strategies import environment

OURS = [rule for rule in CASCADE if rule.base_name != "partial-sums"]


@pytest.mark.parametrize("rule", OURS, ids=lambda rule: rule.name)
def test_every_rule_is_sound_and_fires_on_what_it_looks_for(rule: Rule) -> None:
    check_fires(rule, examples=tries(25))


@settings(max_examples=tries(10))
@given(term=softmaxes_of_rows())
def test_a_softmax_of_halves_is_rounded_once(term: Term) -> None:
    """To the bit what it was, since both are computed in float32."""
    assert check(term, "softmax-as-cascade").rules["softmax-as-cascade"] == 1


@settings(max_examples=tries(10))
@given(term=reductions_of_rows())
def test_blocks_are_equal_parts_of_one_axis(term: Term) -> None:
    name = f"reduce-in-blocks({term['function']},3)"
    item = term.children[0].item
    assert (check(term, name).rules[name] > 0) == (len(item) == 1 and item[0] in (6, 9))


@settings(max_examples=tries(10))
@given(term=powers_in_blocks())
def test_a_power_is_rebased_where_its_block_has_a_maximum(term: Term) -> None:
    tops, sums = (each.children[0] for each in term.children)
    row = tops.type.size  # Of a single element nothing is repeated along it.
    fires = tops.type == sums.type and row > math.prod(tops.outer[:-1])
    assert (check(term, "rebase-power").rules["rebase-power"] > 0) == fires


def test_parameters_are_checked() -> None:
    with pytest.raises(GlensideError, match="a reduction such as max or sum, got 'softmax'"):
        rule_named("reduce-in-blocks(softmax,2)")
    with pytest.raises(GlensideError, match="at least 2 blocks, got 1"):
        rule_named("reduce-in-blocks(max,1)")


# --- what the laws come to ------------------------------------------------------------------------


def attention(kind: str) -> Term:
    """``softmax(f(q kᵀ)) v`` with 3 queries and 8 keys, as front ends lower it."""
    heads = {"batch": (2,), "grouped": (2, 2)}.get(kind, ())
    q = builders.tensor("q", (*heads, 3, 4), "float64")
    k = builders.tensor("k", (*heads[:1], 8, 4), "float64")
    v = builders.tensor("v", (*heads[:1], 8, 3), "float64")
    if kind == "grouped":
        k, v = (
            builders.broadcast(builders.unsqueeze(each, 1), (2, 2, *each.shape[1:]))
            for each in (k, v)
        )
    x = matmul(q, swap_last(k))
    match kind:
        case "scaled":
            x = mul(x, 0.5)
        case "masked":
            x = add(mul(x, 0.5), builders.tensor("mask", (3, 8), "float64"))
        case "softcap":
            capped = builders.compute("tanh", builders.access(mul(x, 0.25), 0))
            x = mul(builders.outer_only(capped), 4.0)
    return matmul(along("softmax", x, x.type.rank - 1), v)


def largest_stored(egraph: FrozenEGraph, scores: int, row: int) -> float:
    """The largest value, in elements, that has to be stored by the form of a program that stores
    least, of which rows of ``row`` elements are reduced, ``scores`` in all.

    A group of threads sees a block of a row, less than all of it. What it computes from inputs
    alone and of what it sees need not be stored, what it comes to has to be; a value that needs
    another one of a whole row waits until that one is stored.
    """
    known = list(enumerate(egraph.classes))
    views = {c for c, nodes in known if any(not node.children for node in nodes)}
    within = set(views)  # What is computed of a block, or of inputs before there are blocks.
    stored = dict.fromkeys(views, 0.0)

    def block(child: int, function: str) -> float:
        """Elements of a row that a reduction of a class sees."""
        reduced = [child]
        if function == "dot":
            nodes = egraph.classes[child]
            reduced = [c for node in nodes if node.op == "cart_prod" for c in node.children]
        positions = [math.prod(egraph.types[c].outer) for c in reduced if c not in views]
        return scores / min(positions, default=scores)

    while True:
        before = len(views), len(within), dict(stored)
        for number, nodes in known:
            for node in nodes:
                if not node.children or any(c not in stored for c in node.children):
                    continue
                cost = max(stored[c] for c in node.children)
                alone = all(c in within for c in node.children)
                function = node.attributes().get("function", "")
                if node.op == "compute" and FUNCTIONS[function].kind in ("reduce", "vector"):
                    alone = alone and block(node.children[0], function) < row
                    cost = max(egraph.types[number].size, 0 if alone else cost)
                elif node.op in TRANSFORMERS and all(c in views for c in node.children):
                    views.add(number)
                if alone:
                    within.add(number)
                stored[number] = min(cost, stored.get(number, math.inf))
        if before == (len(views), len(within), stored):
            return stored[egraph.roots[0]]


KINDS = ["plain", "masked", "softcap", "batch"]


@pytest.mark.parametrize("kind", KINDS)
def test_attention_needs_no_stored_scores(kind: str) -> None:
    """The form with the laws stores a few numbers for each row and block, and the result."""
    term = attention(kind)
    found = check_program([term], [LAYOUT, CASCADE], environment([term]))
    assert found.stop_reason is StopReason.SATURATED
    rows, width = math.prod(term.shape[:-1]), term.shape[-1]
    # Two blocks of what v gives, where the scores are eight numbers a row.
    assert largest_stored(found.egraph, rows * 8, 8) == rows * width * 2


LAWS = {
    "a softmax is a cascade": ["softmax-as-cascade"],
    "a factor leaves a sum": ["factor-out-of-sum"],
    "a factor leaves a product": ["factor-out-of-product"],
    "a reduction is one of blocks": ["reduce-in-blocks"],
    "a product is a sum of blocks": ["partial-sums"],
    "a power has another reference": ["rebase-power"],
}


@pytest.mark.parametrize("law", [None, *LAWS])
def test_every_law_is_needed(law: str | None) -> None:
    left_out = {each.name for each in CASCADE if each.base_name in LAWS.get(law or "", ())}
    assert bool(left_out) == (law is not None)
    explored = saturate([attention("plain")], [LAYOUT, CASCADE.without(*left_out)])
    assert explored.stop_reason is StopReason.SATURATED
    assert (largest_stored(explored.egraph, 24, 8) < 24) == (law is None)


def test_the_same_laws_serve_the_logarithm_of_a_sum_of_powers() -> None:
    """Of a product's rows it is known before any row is stored: what log-softmax subtracts."""
    x, w = (builders.tensor(name, (n, 4), "float64") for name, n in (("x", 3), ("w", 8)))
    scores = builders.access(matmul(x, swap_last(w)), 1)
    top = builders.compute("max", scores)
    along_row = builders.broadcast(builders.reshape(top, (3,), (1,)), (3, 8))
    powers = builders.compute("exp", builders.compute("sub", builders.pair(scores, along_row)))
    log = builders.compute("log", builders.compute("sum", powers))
    term = builders.compute("add", builders.pair(log, top))
    explored = check_program([term], [LAYOUT, CASCADE], environment([term]))
    assert largest_stored(explored.egraph, 24, 8) == 6
    only_blocks = CASCADE.without("rebase-power")
    assert largest_stored(saturate([term], [LAYOUT, only_blocks]).egraph, 24, 8) == 24
