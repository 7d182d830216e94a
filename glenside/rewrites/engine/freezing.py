"""From egglog's tables to a :class:`~glenside.rewrites.engine.frozen.FrozenEGraph`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from glenside.deadline import check_time
from glenside.errors import ShapeError, UnsoundRewrite
from glenside.interrupt import in_background
from glenside.language.operators import OPERATORS, Kind, Operator
from glenside.language.shape import AccessType
from glenside.language.term import Term
from glenside.rewrites.engine.encoding import Encoded, decode
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from glenside.rewrites.engine.loading import constructor

Class = Any
"""An e-class as egglog names it."""

Node = tuple[str, tuple[Any, ...], tuple[Class, ...]]
"""Operator, attribute values, operands."""


def freeze(
    egg: Any, roots: Sequence[Term], loaded: Mapping[Term, int]
) -> tuple[FrozenEGraph, dict[Term, int]]:
    """What can be reached from ``roots``, and the class of each term.

    :param loaded: the number under which each term was loaded.

    Classes are numbered by the least term they hold and their nodes are sorted: the result does
    not depend on how egglog numbers them, which differs with Python's hash seed.

    :raises UnsoundRewrite: a node does not have the type of its class.
    """
    nodes, types, classes_loaded = read(egg)
    at_roots = [classes_loaded[loaded[root]] for root in roots]
    result, number = frozen(nodes, types, at_roots)
    return result, {term: number[classes_loaded[n]] for term, n in loaded.items()}


def read(egg: Any) -> tuple[dict[Class, list[Node]], dict[Class, AccessType], dict[int, Class]]:
    """The nodes and the type of every class, and the class of all that was loaded, by its number.

    :raises UnsoundRewrite: a node does not have the type of its class.
    """
    reader = Reader(egg)
    types = reader.types()
    return reader.nodes(types), types, reader.loaded()


def frozen(
    nodes: Mapping[Class, list[Node]], types: Mapping[Class, AccessType], at_roots: Sequence[Class]
) -> tuple[FrozenEGraph, dict[Class, int]]:
    """What can be reached from some classes, and the numbers of these classes."""
    classes = _reachable(nodes, at_roots)
    number = _number(classes)
    members: list[tuple[ENode, ...]] = [()] * len(classes)
    spelt = _Spelling()
    for name, each in classes.items():
        made = [ENode(op, values, tuple([number[c] for c in ch])) for op, values, ch in each]
        if len(made) > 1:
            made.sort(key=lambda node: (node.op, spelt(node.values), node.children))
        members[number[name]] = tuple(made)
    # `number` was filled in the order of the numbers.
    types_in_order = tuple(types[name] for name in number)
    roots = tuple(number[name] for name in at_roots)
    return FrozenEGraph(tuple(members), types_in_order, roots), number


_STRIDE = 1000
"""Nodes that are read between two looks at the clock."""


class Reader:
    """Turns egglog's values into Python's, each once."""

    def __init__(self, egg: Any) -> None:
        self._egg = egg
        self._tables = in_background(egg.freeze).functions
        self._ints: dict[Any, tuple[int, ...]] = {}
        self._texts: dict[Any, str] = {}

    def _rows(self, table: str) -> list[Any]:
        return list(self._tables[table].rows)

    def ints(self, value: Any) -> tuple[int, ...]:
        known = self._ints.get(value)
        if known is None:
            known = tuple(map(self._egg.value_to_i64, self._egg.value_to_vec(value)))
            self._ints[value] = known
        return known

    def text(self, value: Any) -> str:
        known = self._texts.get(value)
        if known is None:
            known = self._texts[value] = self._egg.value_to_string(value)
        return known

    def types(self) -> dict[Class, AccessType]:
        """The type of every class."""
        outer = {row.inputs[0]: self.ints(row.output) for row in self._rows("Access.outer")}
        item = {row.inputs[0]: self.ints(row.output) for row in self._rows("Access.item")}
        dtype = {row.inputs[0]: self.text(row.output) for row in self._rows("Access.dtype")}
        made: dict[Any, AccessType] = {}  # Few types, each of many classes.
        result = {}
        for name in outer.keys() & item.keys() & dtype.keys():
            key = outer[name], item[name], dtype[name]
            known = made.get(key)
            if known is None:
                known = made[key] = AccessType(*key)
            result[name] = known
        return result

    def loaded(self) -> dict[int, Class]:
        """The class of each loaded term, by its number."""
        rows = self._rows("load_node")
        return {self._egg.value_to_i64(row.inputs[0]): row.output for row in rows}

    def numbers(self, function: str) -> dict[int, int]:
        """The rows of a function from a number to a number."""
        number = self._egg.value_to_i64
        return {number(row.inputs[0]): number(row.output) for row in self._rows(function)}

    def pairs(self, relation: str) -> list[tuple[Class, Class]]:
        """The rows of a relation between accesses."""
        return [(row.inputs[0], row.inputs[1]) for row in self._rows(relation)]

    def rows(self) -> Iterator[tuple[Operator, tuple[Encoded, ...], tuple[Class, ...], Class]]:
        """Every node: operator, encoded attributes, operands, and its class."""
        readers = {Kind.INT: self._egg.value_to_i64, Kind.INTS: self.ints}
        for operator in OPERATORS.values():
            kinds = [readers.get(attribute.kind, self.text) for attribute in operator.attributes]
            read: dict[Any, tuple[Encoded, ...]] = {}
            for number, row in enumerate(self._rows(constructor(operator))):
                if not number % _STRIDE:
                    check_time()
                if row.subsumed:
                    continue
                inputs = row.inputs
                first = len(inputs) - len(kinds)
                children = tuple(
                    self._egg.value_to_vec(inputs[0]) if operator.arity is None else inputs[:first]
                )
                given = tuple(inputs[first:])
                encoded = read.get(given)
                if encoded is None:
                    encoded = read[given] = tuple(
                        kind(value) for kind, value in zip(kinds, given, strict=True)
                    )
                yield operator, encoded, children, row.output

    def nodes(self, types: Mapping[Class, AccessType]) -> dict[Class, list[Node]]:
        """The nodes of every class; each has the type of its class, or that is an error."""
        result: dict[Class, list[Node]] = {}
        # Nodes that differ in their operands only: what these are of counts, by its identity,
        # since equal types are one object in ``types``.
        known: dict[Any, tuple[tuple[Any, ...], AccessType]] = {}
        for operator, encoded, children, output in self.rows():
            op = operator.name
            try:
                key = op, encoded, *(id(types[child]) for child in children)
                found = known.get(key)
                if found is None:
                    operands = tuple(types[child] for child in children)
                    named = decode(operator, encoded, operands)
                    found = tuple(named.values()), operator.infer(operands, named)
                    known[key] = found
            except (KeyError, ShapeError) as problem:
                raise UnsoundRewrite(f"an ill-typed {op} {encoded} was made: {problem}") from None
            values, inferred = found
            if inferred != types.get(output):
                raise UnsoundRewrite(
                    f"{op} {encoded} has type {inferred}, its class {types.get(output)}"
                )
            members = result.get(output)
            if members is None:
                result[output] = [(op, values, children)]
            else:
                members.append((op, values, children))
        for name, nodes in result.items():
            _check_leaves(nodes, types[name])
        return result


def _check_leaves(nodes: Sequence[Node], type_: AccessType) -> None:
    """Two tensors of a program are never known to be one, nor are two numbers."""
    leaves = [node for node in nodes if node[0] in ("tensor", "constant")] if type_.size else []
    for op, values, _ in leaves[1:]:
        first, known = leaves[0][0], leaves[0][1][0]
        if op != first or not (values[0] == known or (values[0] != values[0] and known != known)):
            raise UnsoundRewrite(f"one class holds both {first} {known} and {op} {values[0]}")


def _reachable(
    nodes: Mapping[Class, list[Node]], roots: Iterable[Class]
) -> dict[Class, list[Node]]:
    found: dict[Class, list[Node]] = {}
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name not in found:
            found[name] = nodes[name]
            stack.extend(child for _, _, children in nodes[name] for child in children)
    return found


def _number(classes: Mapping[Class, list[Node]]) -> dict[Class, int]:
    """Numbers classes by their least term: lowest first, then by spelling, then by operands.

    Every class holds a term of finite height, and no two hold the same, so this is a total order.
    Nodes are taken from a heap once all their operands are numbered; the first of a class is its
    least.
    """
    number: dict[Class, int] = {}
    height: list[int] = []
    users: dict[Class, list[int]] = {}
    waiting: list[int] = []
    owner: list[Class] = []
    spelling: list[str] = []
    operands: list[tuple[Class, ...]] = []
    heap: list[tuple[int, str, tuple[int, ...], int]] = []
    spelt = _Spelling()
    for name, nodes in classes.items():
        for op, values, children in nodes:
            index = len(owner)
            owner.append(name)
            spelling.append(f"{op} {spelt(values)}")
            operands.append(children)
            waiting.append(len(children))
            for child in children:
                users.setdefault(child, []).append(index)
            if not children:
                heap.append((0, spelling[index], (), index))
    heapq.heapify(heap)
    while heap:
        if not len(number) % _STRIDE:
            check_time()
        level, _, _, index = heapq.heappop(heap)
        name = owner[index]
        if name in number:
            continue
        number[name] = len(number)
        height.append(level)
        for user in users.get(name, ()):
            waiting[user] -= 1
            if not waiting[user] and owner[user] not in number:
                below = tuple(number[child] for child in operands[user])
                level_above = 1 + max(height[child] for child in below)
                heapq.heappush(heap, (level_above, spelling[user], below, user))
    return number


class _Spelling:
    """``repr`` of attribute values, of which there are few among many nodes.

    They are told apart by identity, since equal values (0.0 and -0.0) may be spelt differently;
    whoever asks keeps them alive.
    """

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def __call__(self, values: tuple[Any, ...]) -> str:
        known = self._known.get(id(values))
        if known is None:
            known = self._known[id(values)] = repr(values)
        return known
