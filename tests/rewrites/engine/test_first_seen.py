"""Which step of a run brought a node: against looking for it after every step."""

import pytest

from glenside.frontends import load_model
from glenside.language import Term, builders, topological_order
from glenside.rewrites import PRESENT, EGraph, RuleSet, Watched, first_seen, rule_named, saturate
from glenside.rewrites.engine.query import contains_all
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic, systolic_rules
from tests.models import small_network

RULES = [IM2COL, LAYOUT, systolic_rules(16, 16)]


def all_terms(egraph: EGraph) -> list[Term]:
    """Terms that an e-graph holds, of every node one."""
    frozen = egraph.freeze()
    least: dict[int, Term] = {}
    for number, nodes in enumerate(frozen.classes):  # Numbered by the least term they hold.
        for node in nodes:
            if number not in least and all(child in least for child in node.children):
                least[number] = node.term([least[child] for child in node.children])
    return [
        node.term([least[child] for child in node.children])
        for nodes in frozen.classes
        for node in nodes
        if all(child in least for child in node.children)
    ]


def test_it_is_the_step_after_which_the_e_graph_holds_the_node() -> None:
    roots = load_model(small_network()).roots
    explored = saturate(roots, RULES)
    egraph = EGraph([rule for each in RULES for rule in each])
    egraph.load(roots)
    for step in explored.steps:
        egraph.apply(step.rule)
    wanted = topological_order(all_terms(egraph))
    egraph.close()

    expected: dict[Term, int | None] = {}
    again = EGraph([rule for each in RULES for rule in each])
    again.load(roots)
    for number, rule in enumerate([None, *(step.rule for step in explored.steps)]):
        if rule is not None:
            again.apply(rule)
        for term, found in contains_all(again.freeze(), wanted).items():
            if found is not None:
                expected.setdefault(term, number - 1)
    again.close()
    assert len({*expected.values()}) > 4

    position = {term: i for i, term in enumerate(wanted)}
    nodes = [Watched(t, tuple(position[child] for child in t.children)) for t in wanted]
    seen = first_seen(roots, RULES, explored.steps, nodes)
    assert dict(zip(wanted, seen, strict=True)) == expected


def test_operands_may_be_terms_that_were_loaded() -> None:
    x = builders.tensor("x", (2, 3))
    inner = builders.transpose(x, (1, 0))
    root = builders.transpose(inner, (1, 0))
    rules = [rule_named("access-out-of-transpose"), rule_named("merge-transposes")]
    explored = saturate([root], rules)
    assert [step.rule.name for step in explored.steps] == ["merge-transposes"]
    never = builders.flatten(x)
    assert first_seen([root], rules, explored.steps, [Watched(inner, (x,))]) == [PRESENT]
    assert first_seen([root], rules, explored.steps, [Watched(never, (x,))]) == [None]
    # What the rule made is the tensor itself, transposed twice.
    twice = [Watched(inner, (root,)), Watched(root, (0,))]
    assert first_seen([root], rules, explored.steps, twice) == [0, 0]


def test_a_call_whatever_its_operands() -> None:
    a, b = (builders.access(builders.tensor(n, (16, 16)), 1) for n in "ab")
    root = builders.compute("dot", builders.cart_prod(a, b))
    rules = [*RULES[:2], RuleSet("systolic", (systolic(16, 16),))]
    explored = saturate([root], rules)
    weights = builders.access(builders.transpose(builders.tensor("b", (16, 16)), (1, 0)), 0)
    found, other = (
        builders.call("systolic-array", size, builders.access(builders.tensor("a", (16, n)), 1), w)
        for size, n, w in (
            ((16, 16), 16, weights),
            ((8, 4), 8, builders.access(builders.tensor("c", (8, 4)), 0)),
        )
    )
    seen = first_seen([root], rules, explored.steps, [Watched(found, None), Watched(other, None)])
    assert seen[0] is not None and explored.steps[seen[0]].rule.name == "systolic(16,16)"
    assert seen[1] is None


def test_it_ends_at_its_limit() -> None:
    roots = load_model(small_network()).roots
    explored = saturate(roots, RULES)
    number_of = {number: term for term, number in explored.term_classes.items()}
    operand = next(
        number_of[node.children[0]]
        for nodes in explored.egraph.classes
        for node in nodes
        if node.op == "flatten" and node.children[0] in number_of
    )
    flat = builders.flatten(operand)
    node = [Watched(flat, (operand,))]
    assert contains_all(explored.egraph, [flat])[flat] is not None
    (found,) = first_seen(roots, RULES, explored.steps, node)
    assert found is not None and explored.steps[found].rule.name == "flatten-unflatten"
    assert first_seen(roots, RULES, explored.steps, node, node_limit=1) == [None]


def test_the_steps_of_a_run_repeat_it() -> None:
    roots = load_model(small_network()).roots
    explored = saturate(roots, RULES)
    egraph = EGraph([rule for each in RULES for rule in each])
    egraph.load(roots)
    for step in explored.steps:
        egraph.apply(step.rule)
    assert egraph.freeze() == explored.egraph
    egraph.close()
    passes = [step.iteration for step in explored.steps]
    assert passes == sorted(passes) and passes[0] >= 1
    assert {step.rule.name for step in explored.steps} <= {
        name for iteration in explored.iterations for name in iteration.matches
    }


@pytest.mark.parametrize("names", [("systolic-padded(16,16)",), ()])
def test_a_rule_set_keeps_its_mark_when_it_is_cut(names: tuple[str, ...]) -> None:
    mapping = systolic_rules(16, 16)
    assert mapping.only(*names).mapping and mapping.without(*names).mapping
    assert not IM2COL.only("reshape-out-of-dot").mapping
