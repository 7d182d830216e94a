"""From which layers, and by which rules, the calls of an extracted program came.

A call's history is in the nodes it is made of: itself, the term it computes (which the unit's rule
found), and the layout changes around it. Repeating the run tells which rule brought each. Operands
that the user's model has are named by its own terms, so that what came before them is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from glenside.explain.records import CallOrigin, RuleStep
from glenside.explain.regions import Regions
from glenside.language import CALLS, Term, builders, map_terms, rebuild, topological_order, units
from glenside.rewrites import PRESENT, Applied, RuleSet, Watched, first_seen

SLACK = 2
"""How many times larger than the e-graph in the end the repetition may become."""


def call_origins(
    roots: Sequence[Term],
    regions: Regions,
    rules: Sequence[RuleSet],
    steps: Sequence[Applied],
    nodes: int,
) -> tuple[CallOrigin, ...]:
    """One entry for each call of the extracted program, operands before users.

    :param roots: the imported program; ``rules`` and ``steps`` are those of its exploration, which
        ended with so many e-``nodes``.
    """
    calls = [term for term in regions.order if term.op in CALLS]
    if not calls:
        return ()
    watched = _Nodes(regions)
    parts = {call: watched.of_call(call) for call in calls}
    # It may have had more for a while, and more than layers that were explored once for all.
    most = SLACK * (nodes + 1000)
    seen = first_seen(roots, rules, steps, watched.watched, node_limit=most)
    result = []
    for call in calls:
        meaning = units.meaning(call, _leaves(call.children))
        functions = {t["function"] for t in topological_order([meaning]) if t.op == "compute"}
        brought = {at for part in parts[call] if (at := seen[part]) is not None}
        own = watched.of_term(call)
        made = watched.of_unit(call)
        if made is not None and own is not None and not _maps(rules, steps, seen[own]):
            # Its operands became what they are later, so that the step which made it is another.
            brought |= {at for at in (seen[made],) if at is not None}
        result.append(
            CallOrigin(
                call["unit"],
                str(call.type),
                regions.layers(call, functions),
                tuple(
                    RuleStep(steps[at].rule.name, steps[at].iteration)
                    for at in sorted(brought - {PRESENT})
                ),
                own is None or seen[own] is not None,
            )
        )
    return tuple(result)


def _maps(rules: Sequence[RuleSet], steps: Sequence[Applied], at: int | None) -> bool:
    """Whether a step gave work to a unit."""
    if at is None or at == PRESENT:
        return False
    return any(each.mapping and steps[at].rule in each.rules for each in rules)


class _Nodes:
    """The nodes to look out for, each once."""

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        self.watched: list[Watched] = []
        self._known: dict[Watched, int] = {}
        self._node: dict[Term, int] = {}
        """The node of each extracted term that the imported program does not have."""
        for term in regions.order:
            if term not in regions.term_classes:
                self._node[term] = self._watch(term, map(self._named, term.children))
        self._unit: dict[Term, int] = {
            term: self._watch(term, None) for term in self._node if term.op == "call"
        }

    def _watch(self, term: Term, operands: Iterable[Term | int] | None) -> int:
        node = Watched(term, None if operands is None else tuple(operands))
        if node not in self._known:
            self._known[node] = len(self.watched)
            self.watched.append(node)
        return self._known[node]

    def _named(self, term: Term) -> Term | int:
        """An extracted term as an operand."""
        imported = self.regions.imported.get(self.regions.class_of[term])
        return self._node[term] if imported is None else imported

    def of_term(self, term: Term) -> int | None:
        """The node of an extracted term; None where the imported program has the term."""
        return self._node.get(term)

    def of_unit(self, call: Term) -> int | None:
        """The node of any call of the same unit with the same parameters."""
        return self._unit.get(call)

    def of_call(self, call: Term) -> list[int]:
        """Nodes in the history of a call: what it computes, what stands above it up to the next
        value of the model, and what stands below it down to these and to other calls."""
        around = [*self.regions.upwards(call), *self._operands(call)]
        return [*(self._node[t] for t in around if t in self._node), *self._meaning(call)]

    def _operands(self, call: Term) -> list[Term]:
        stack, found = [*call.children], []
        while stack:
            term = stack.pop()
            if term.op not in CALLS and not self.regions.is_imported(term):
                found.append(term)
                stack.extend(term.children)
        return found

    def _meaning(self, call: Term) -> list[int]:
        """Nodes of the term that a call computes, as declared and with layout changes merged."""
        operand: dict[Term, Term | int] = {}
        arguments = []
        for position, child in enumerate(call.children):
            changes = []
            base = child
            while base.op in ("access", "transpose") and not self.regions.is_imported(base):
                changes.append(base)
                (base,) = base.children
            (leaf,) = _leaves([base], position)
            operand[leaf] = self._named(base)
            for change in reversed(changes):
                leaf = rebuild(change, [leaf])
            arguments.append(leaf)
        declared = units.meaning(call, arguments)
        merged = map_terms([declared], _merging(frozenset(operand)))[declared]
        result = []
        for term in topological_order([declared, merged]):
            if term not in operand and term.op != "tensor":
                node = self._watch(term, [operand[child] for child in term.children])
                operand[term] = node
                result.append(node)
        return result


def _leaves(terms: Sequence[Term], first: int = 0) -> list[Term]:
    """A leaf of the type of each term."""
    return [builders.leaf(f"?{first + i}", t.type) for i, t in enumerate(terms)]


def _merging(leaves: Collection[Term]) -> Callable[[Term, tuple[Term, ...]], Term]:
    """Makes of accesses and transposes one above the other one transpose under one access."""

    def below(x: Term, op: str) -> Term | None:
        return x.children[0] if x.op == op and x not in leaves else None

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        if term in leaves or term.op not in ("access", "transpose"):
            return rebuild(term, children)
        (x,) = children
        inner = below(x, "access")
        if term.op == "access":
            return builders.access(x if inner is None else inner, term["split"])
        split, x = x.type.split, x if inner is None else inner
        order = term["permutation"]
        inner = below(x, "transpose")
        if inner is not None:
            order, x = tuple(x["permutation"][at] for at in order), inner
        if order != tuple(range(len(order))):
            x = builders.transpose(x, order)
        return builders.access(x, split)

    return change
