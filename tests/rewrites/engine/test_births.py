"""When nodes came to be: against looking at the e-graph after every step."""

import pytest

from glenside.frontends import load_model
from glenside.language import builders
from glenside.rewrites import PRESENT, EGraph, saturate
from glenside.rewrites.engine.saturation import births
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic_rules
from tests.explore.rules import UNGUARDED
from tests.models import small_network

ARRAY = [IM2COL, LAYOUT, systolic_rules(16, 16)]


def states(roots, rules, steps):
    """The e-graph as loaded and after every step."""
    egraph = EGraph([rule for each in rules for rule in each])
    egraph.load(roots)
    yield PRESENT, egraph.freeze()
    for number, step in enumerate(steps):
        egraph.apply(step.rule)
        yield number, egraph.freeze()
    egraph.close()


def key(node, children):
    return node.op, repr(node.values), tuple(children)


def end_classes(state, index):
    """For each class of a state the class in the end, bottom-up."""
    final = {}
    grown = True
    while grown:
        grown = False
        for number, nodes in enumerate(state.classes):
            for node in nodes if number not in final else ():
                if all(child in final for child in node.children):
                    final[number] = index[key(node, [final[c] for c in node.children])]
                    grown = True
                    break
    return final


def expected(roots, rules, steps, egraph):
    index = {
        key(node, node.children): number
        for number, nodes in enumerate(egraph.classes)
        for node in nodes
    }
    made, joined = {}, {}
    for number, state in states(roots, rules, steps):
        final = end_classes(state, index)
        where = {}
        for at, nodes in enumerate(state.classes):
            for node in nodes:
                name = key(node, [final[child] for child in node.children])
                where.setdefault(name, set()).add(at)
                made.setdefault(name, number)
        classes = {}
        for name, ats in where.items():
            classes.setdefault(index[name], set()).update(ats)
        for name in where:
            if len(classes[index[name]]) == 1:
                joined.setdefault(name, number)
    return made, joined


def check(roots, rules, **limits):
    explored = saturate(roots, rules, regions=False, **limits)
    egraph, steps = explored.egraph, explored.steps
    found = births(roots, rules, steps, egraph)
    made, joined = expected(roots, rules, steps, egraph)
    for nodes, own in zip(egraph.classes, found, strict=True):
        assert len(nodes) == len(own)
        assert any(birth.made == birth.joined for birth in own)  # The first.
        for node, birth in zip(nodes, own, strict=True):
            name = key(node, node.children)
            assert birth.made == made[name]
            # Once all of a class are one, everybody has joined; the first of it may have before.
            assert birth.made <= birth.joined <= joined[name]
    return [birth for own in found for birth in own]


def test_nodes_of_a_network():
    found = check(load_model(small_network()).roots, ARRAY)
    assert {birth.made for birth in found} > {PRESENT, 0, 1}


def test_nodes_whose_rule_never_ends():
    image = builders.access(builders.tensor("x", (1, 2, 8, 8)), 1)
    windows = builders.windows(image, (2, 3, 3), (1, 1, 1))
    assert len(check([windows], [UNGUARDED, IM2COL], iter_limit=4)) > 20


@pytest.mark.parametrize("count", [1, 3])
def test_classes_that_become_one_later(count):
    x = builders.tensor("x", (3, 4))
    terms = [x]
    for _ in range(count):
        terms.append(builders.transpose(builders.transpose(terms[-1], (1, 0)), (1, 0)))
    root = builders.concat(0, *(builders.elementwise("relu", each) for each in terms))
    found = check([root], [LAYOUT])
    assert sum(birth.made < birth.joined for birth in found) >= 1
