"""Layers that are equal up to names are explored once.

The program is cut into regions, between operators that no rule of those in use wants next to one
another (``locality.py``). A region is explored with placeholders where it was cut; of regions that
are equal but for what stands in these places and for the names of tensors, one is. What was found
for it holds for all: no rule looks at either.

Put together again, what was found may meet in classes that several regions share. So it is looked
at once more there: if a rule could match across, these regions become one and are explored anew; if
terms of a region have become equal through others, nothing is taken from this and the program is
explored as a whole. Otherwise no rule finds anything more, and the e-graph is the one that
exploring the whole program ends with, node by node.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glenside.language.operators import OPERATORS
from glenside.language.shape import AccessType
from glenside.language.term import Term, topological_order
from glenside.rewrites.engine.freezing import Node
from glenside.rewrites.engine.locality import ROOT, Locality, Sign

Ref = tuple[bool, int]
"""An operand of a term of a region: (is in the region, its number there or as placeholder)."""


def sign(op: str, values: Sequence[Any]) -> Sign:
    """What rules know an operator by."""
    return op, str(values[0]) if op == "compute" else ""


@dataclass(frozen=True)
class Region:
    """Terms in order, operands first, what they take from elsewhere, which of them are roots."""

    terms: tuple[Term, ...]
    inputs: tuple[Term, ...]
    operands: tuple[tuple[Ref, ...], ...]
    roots: tuple[int, ...]

    def key(self) -> Any:
        """Equal for regions that are equal up to the names of tensors and what they take."""
        shapes = tuple(
            (
                term.op,
                repr(term.values[1:] if term.op == "tensor" else term.values)
                if term.operator.has_number
                else term.values[1:]
                if term.op == "tensor"
                else term.values,
                refs,
            )
            for term, refs in zip(self.terms, self.operands, strict=True)
        )
        return shapes, tuple(each.type for each in self.inputs), self.roots


@dataclass
class Regions:
    """A program cut up.

    ``explored`` are the first of each kind; ``kinds`` gives, for every region, which of them it is
    equal to.
    """

    regions: list[Region]
    explored: list[Region]
    kinds: list[int]

    def explored_terms(self) -> int:
        return sum(len(each.terms) for each in self.explored)


class _Union:
    """Disjoint sets of numbers."""

    def __init__(self) -> None:
        self._parent: list[int] = []

    def add(self) -> int:
        self._parent.append(len(self._parent))
        return len(self._parent) - 1

    def find(self, a: int) -> int:
        parent = self._parent
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        return a

    def join(self, a: int, b: int) -> int:
        """Both sets as one, named by the lower number."""
        a, b = sorted((self.find(a), self.find(b)))
        self._parent[b] = a
        return a


def cut(roots: Sequence[Term], rules: Locality, joined: Iterable[tuple[Term, Term]]) -> Regions:
    """Cuts a program where ``rules`` do not look across; ``joined`` terms stay together."""
    order = topological_order(roots)
    number = {term: i for i, term in enumerate(order)}
    signs = [sign(term.op, term.values) for term in order]
    sets = _Union()
    users: list[list[int]] = [[] for _ in order]
    for i, term in enumerate(order):
        sets.add()
        for child in term.children:
            at = number[child]
            users[at].append(i)
            if rules.joins_below(signs[i], signs[at]) or rules.likely_meets(signs[i], signs[at]):
                sets.join(i, at)
    for using in users:
        for a, b in itertools.combinations(dict.fromkeys(using), 2):
            if rules.likely_meet(signs[a], signs[b]) or rules.likely_meet(signs[b], signs[a]):
                sets.join(a, b)
    for one, other in joined:
        sets.join(number[one], number[other])
    members: dict[int, list[int]] = {}
    for i in range(len(order)):
        members.setdefault(sets.find(i), []).append(i)
    at_root = {number[root] for root in roots}
    regions = [_region([order[i] for i in each], each, at_root) for each in members.values()]
    explored: list[Region] = []
    known: dict[Any, int] = {}
    kinds = []
    for region in regions:
        kind = known.setdefault(region.key(), len(explored))
        if kind == len(explored):
            explored.append(region)
        kinds.append(kind)
    return Regions(regions, explored, kinds)


def _region(terms: list[Term], numbers: list[int], at_root: set[int]) -> Region:
    inside = {term: i for i, term in enumerate(terms)}
    inputs: dict[Term, int] = {}
    operands = tuple(
        tuple(
            (True, inside[child])
            if child in inside
            else (False, inputs.setdefault(child, len(inputs)))
            for child in term.children
        )
        for term in terms
    )
    roots = tuple(i for i, number in enumerate(numbers) if number in at_root)
    return Region(tuple(terms), tuple(inputs), operands, roots)


# --- putting together ----------------------------------------------------------------------------


class NotLocal(Exception):
    """What was found for one region depends on others: the program is explored as a whole."""


@dataclass
class Explored:
    """What was found for the regions that were explored, one e-graph for all of them.

    ``terms`` and ``inputs``: the classes of the terms and placeholders of each region.
    """

    nodes: Mapping[Any, list[Node]]
    types: Mapping[Any, AccessType]
    terms: list[list[Any]]
    inputs: list[list[Any]]


@dataclass
class _Kind:
    """What was found for one region: its classes, and how operators meet in each."""

    classes: list[Any]
    made: dict[Any, frozenset[Sign]] = field(default_factory=dict)
    used: dict[Any, frozenset[Sign]] = field(default_factory=dict)


@dataclass
class Whole:
    """The e-graph of the whole program; its classes are numbers."""

    nodes: dict[int, list[Node]]
    types: dict[int, AccessType]
    terms: dict[Term, int]


def put_together(
    parts: Regions, found: Explored, rules: Locality
) -> Whole | list[tuple[Term, Term]]:
    """The e-graph of the whole program, or terms of regions that rules could match across.

    :raises NotLocal: regions depend on each other in another way.
    """
    kinds = _kinds(parts, found)
    sets = _Union()
    of_term: dict[Term, int] = {}
    for region in parts.regions:
        for term in region.terms:
            of_term[term] = sets.add()
    # One number for each class of each region; what regions share has one.
    numbers: list[dict[Any, int]] = []
    for region, kind in zip(parts.regions, parts.kinds, strict=True):
        own: dict[Any, int] = {}
        places = (
            *zip(region.terms, found.terms[kind], strict=True),
            *zip(region.inputs, found.inputs[kind], strict=True),
        )
        for term, name in places:
            own[name] = sets.join(own.get(name, of_term[term]), of_term[term])
        for name in kinds[kind].classes:
            if name not in own:
                own[name] = sets.add()
        numbers.append(own)
    nodes = _closed(parts, found, kinds, sets, numbers)
    for own in numbers:
        if len({sets.find(each) for each in own.values()}) < len(own):
            raise NotLocal
    crossed = _crossed(parts, kinds, sets, numbers, rules)
    if crossed:
        return crossed
    types = {
        sets.find(number): found.types[name] for own in numbers for name, number in own.items()
    }
    return Whole(nodes, types, {term: sets.find(at) for term, at in of_term.items()})


def _kinds(parts: Regions, found: Explored) -> list[_Kind]:
    """The classes of each region that was explored.

    :raises NotLocal: it reaches those of another one.
    """
    owner: dict[Any, int] = {}
    for kind, names in enumerate(found.terms):
        for name in (*names, *found.inputs[kind]):
            if owner.setdefault(name, kind) != kind:
                raise NotLocal
    kinds = []
    for kind, region in enumerate(parts.explored):
        stack = [*found.terms[kind], *found.inputs[kind]]
        classes = dict.fromkeys(stack)
        made: dict[Any, set[Sign]] = {}
        used: dict[Any, set[Sign]] = {}
        while stack:
            name = stack.pop()
            for op, values, children in found.nodes.get(name, ()):
                own = sign(op, values)
                made.setdefault(name, set()).add(own)
                for child in children:
                    used.setdefault(child, set()).add(own)
                    if child not in classes:
                        if owner.get(child, kind) != kind:
                            raise NotLocal
                        classes[child] = None
                        stack.append(child)
        for i in region.roots:
            used.setdefault(found.terms[kind][i], set()).add(ROOT)
        kinds.append(
            _Kind(
                list(classes),
                {name: frozenset(signs) for name, signs in made.items()},
                {name: frozenset(signs) for name, signs in used.items()},
            )
        )
    return kinds


def _closed(
    parts: Regions,
    found: Explored,
    kinds: list[_Kind],
    sets: _Union,
    numbers: list[dict[Any, int]],
) -> dict[int, list[Node]]:
    """The nodes of every class, equal nodes being one: their classes are one as well."""
    rows: list[tuple[int, str, tuple[Any, ...], tuple[int, ...], Any]] = []
    for region, kind, own in zip(parts.regions, parts.kinds, numbers, strict=True):
        renamed = {
            there.values: here.values
            for there, here in zip(parts.explored[kind].terms, region.terms, strict=True)
            if there.op == "tensor"
        }
        for name in kinds[kind].classes:
            at = own[name]
            for op, values, children in found.nodes.get(name, ()):
                if op == "tensor":
                    if values not in renamed:
                        raise NotLocal
                    values = renamed[values]
                shown = repr(values) if OPERATORS[op].has_number else values
                rows.append((at, op, values, tuple(own[child] for child in children), shown))
    while True:
        changed = False
        classes: dict[Any, int] = {}
        nodes: dict[int, list[Node]] = {}
        find = sets.find
        for at, op, values, children, shown in rows:
            below = tuple(map(find, children))
            key = op, shown, below
            known = classes.setdefault(key, find(at))
            if find(known) != find(at):
                sets.join(known, at)
                changed = True
            else:
                nodes.setdefault(find(at), []).append((op, values, below))
        if not changed:
            return {at: _once(each) for at, each in nodes.items()}


def _once(nodes: list[Node]) -> list[Node]:
    seen: dict[Any, Node] = {}
    for node in nodes:
        op, values, children = node
        seen.setdefault((op, repr(values) if OPERATORS[op].has_number else values, children), node)
    return list(seen.values())


def _crossed(
    parts: Regions,
    kinds: list[_Kind],
    sets: _Union,
    numbers: list[dict[Any, int]],
    rules: Locality,
) -> list[tuple[Term, Term]]:
    """Pairs of terms of regions whose operators meet in a class as some rule wants them."""
    meeting: dict[int, dict[tuple[frozenset[Sign], frozenset[Sign]], list[int]]] = {}
    for i, (kind, own) in enumerate(zip(parts.kinds, numbers, strict=True)):
        here = kinds[kind]
        for name, number in own.items():
            signs = here.made.get(name, _NONE), here.used.get(name, _NONE)
            meeting.setdefault(sets.find(number), {}).setdefault(signs, []).append(i)
    result = []
    for groups in meeting.values():
        for first, second in itertools.product(groups, repeat=2):
            if first is second and len(groups[first]) == 1:
                continue
            (made, used), (made2, used2) = first, second
            if (
                any(rules.joins_below(a, b) for a in used for b in made2)
                or any(rules.joins_beside(a, b) for a in made for b in made2)
                or any(rules.joins_above(a, b) for a in used for b in used2)
            ):
                everyone = [parts.regions[i].terms[0] for i in (*groups[first], *groups[second])]
                result += [(everyone[0], other) for other in everyone[1:]]
    return result


_NONE: frozenset[Sign] = frozenset()
