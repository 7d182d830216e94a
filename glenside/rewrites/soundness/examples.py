"""What a rule does, shown on a small program on which it fires.

Needs Hypothesis, as random programs do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glenside.language.term import Term, topological_order
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from glenside.rewrites.engine.saturation import saturate
from glenside.rewrites.ruleset import Rule, RuleSet
from glenside.rewrites.soundness.judging import drawn


@dataclass(frozen=True)
class Example:
    """A term, and what a rule makes of it."""

    before: Term
    after: Term


def example_of(rule: Rule, tries: int = 200) -> Example | None:
    """The smallest of some random programs on which a rule does something, and what it does there.

    :param tries: how many programs are drawn; always the same ones.
    :return: None where the rule does nothing in any of them.
    """
    from glenside.rewrites.soundness.instances import instances

    alone = RuleSet(rule.name, (rule,))
    programs = sorted(dict.fromkeys(drawn(instances(rule), tries)), key=_plainness)
    for program in programs:
        explored = saturate([program], [alone], iter_limit=1)
        for found in _changes(program, explored.egraph):
            return found
    return None


def _plainness(program: Term) -> tuple[int, ...]:
    # Axes of length 0 and 1 and tensors without axes show less of what a rule does.
    shapes = [term.type.shape for term in topological_order([program]) if not term.children]
    bare = sum(not shape for shape in shapes) + sum(n < 2 for shape in shapes for n in shape)
    return (bare, *_length(program))


def _length(term: Term) -> tuple[int, int]:
    # Of two programs of as many operators the one that is shorter to read.
    return sum(1 for _ in topological_order([term])), len(str(term))


def _changes(program: Term, egraph: FrozenEGraph) -> Iterator[Example]:
    """Where the e-graph holds another form of a part of the program; small parts first."""
    was = _classes_of(program, egraph)
    terms = {number: term for term, number in reversed(was.items())}
    own = {_node(term, was) for term in was}
    _fill(egraph, terms)
    for term, number in was.items():
        if terms[number] is not term:  # It became one of its own parts.
            yield Example(term, terms[number])
        others = [
            node.term([terms[child] for child in node.children])
            for node in egraph.classes[number]
            if _key(node) not in own and all(child in terms for child in node.children)
        ]
        if others:
            yield Example(term, min(others, key=_length))


def _classes_of(program: Term, egraph: FrozenEGraph) -> dict[Term, int]:
    """The class of every part of a program that was loaded into the e-graph, operands first."""
    place = {_key(node): n for n, nodes in enumerate(egraph.classes) for node in nodes}
    found: dict[Term, int] = {}
    for term in topological_order([program]):
        found[term] = place[_node(term, found)]
    return found


def _key(node: ENode) -> tuple[object, ...]:
    return node.op, node.values, node.children


def _node(term: Term, classes: dict[Term, int]) -> tuple[object, ...]:
    return term.op, tuple(term.values), tuple(classes[child] for child in term.children)


def _fill(egraph: FrozenEGraph, terms: dict[int, Term]) -> None:
    """Adds a term of each class that has none yet, of operands that have one."""
    grown = True
    while grown:
        grown = False
        for number, nodes in enumerate(egraph.classes):
            for node in nodes:
                if number not in terms and all(child in terms for child in node.children):
                    terms[number] = node.term([terms[child] for child in node.children])
                    grown = True
