"""Which nodes of an e-graph the cheapest program is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glenside.errors import ExtractionError
from glenside.language import topological_order
from glenside.rewrites.engine.frozen import ENode
from glenside.rewrites.engine.query import contains_all

if TYPE_CHECKING:
    from glenside.explore.record import Record


def chosen_nodes(exploration: Record) -> set[tuple[int, ENode]]:
    """Class and node of all that the cheapest program is made of; empty where there is none."""
    egraph = exploration.egraph
    try:
        extraction = exploration.extract()
    except ExtractionError:
        return set()
    terms = topological_order(extraction.terms)
    where = contains_all(egraph, terms)
    found = set()
    for term in terms:
        number = where[term]
        children = tuple(where[child] for child in term.children)
        if number is not None and None not in children:
            for node in egraph.classes[number]:
                if (node.op, node.children) == (term.op, children) and (
                    node.values == term.values or repr(node.values) == repr(term.values)
                ):
                    found.add((number, node))
    return found
