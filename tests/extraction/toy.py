"""E-graphs written down by hand: every value a scalar, every price in the node's name.

``graph("f:2(a b) | g:1(c)", ...)`` gives class 0 the members f and g; classes are named a, b, c in
order. ``f:2`` costs 2; ``f:none`` must not be chosen.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from glenside.extraction import Cost
from glenside.language import AccessType
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph

SCALAR = AccessType((), (), "float32")
NAMES = "abcdefghijklmnopqrstuvwxyz"


def node(name: str, *children: int) -> ENode:
    return ENode("host_op", (name, (), "float32", "", 1, 0, "{}"), children)


def graph(*classes: str, roots: str = "a") -> FrozenEGraph:
    def read(text: str) -> ENode:
        name, _, operands = text.strip().rstrip(")").partition("(")
        return node(name, *(NAMES.index(each) for each in operands.split()))

    members = tuple(tuple(map(read, each.split("|"))) if each else () for each in classes)
    return FrozenEGraph(members, (SCALAR,) * len(members), tuple(NAMES.index(r) for r in roots))


def shuffled(egraph: FrozenEGraph, seed: int) -> FrozenEGraph:
    """The same e-graph with its classes renumbered and their nodes in another order."""
    source = random.Random(seed)
    number = list(range(len(egraph.classes)))
    source.shuffle(number)
    classes: list[Any] = [None] * len(number)
    types: list[Any] = [None] * len(number)
    for old, new in enumerate(number):
        nodes = [ENode(n.op, n.values, tuple(number[c] for c in n.children))
                 for n in egraph.classes[old]]  # fmt: skip
        source.shuffle(nodes)
        classes[new], types[new] = tuple(nodes), egraph.types[old]
    return FrozenEGraph(tuple(classes), tuple(types), tuple(number[r] for r in egraph.roots))


class Priced:
    """Reads the price off the name."""

    name = "priced"

    def node_cost(
        self,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost | None:
        price = attributes["operator"].partition(":")[2]
        return None if price == "none" else tuple(map(float, price.split(",")))
