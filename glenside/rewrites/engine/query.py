"""Looking things up in a frozen e-graph: terms, and patterns with variables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.errors import TextError
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import OPERATORS, Attribute
from glenside.language.syntax import Quoted, read_expressions, read_value
from glenside.language.term import Term, topological_order
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph

Binding = dict[str, Any]
"""What the variables of a pattern stand for: a class number, or an attribute value."""


def contains(egraph: FrozenEGraph, term: Term) -> int | None:
    """The class that holds ``term``, or None."""
    return contains_all(egraph, [term])[term]


def contains_all(egraph: FrozenEGraph, terms: Iterable[Term]) -> dict[Term, int | None]:
    """The class of each term and of all below them, or None."""
    index = {_key(node): number for number, nodes in enumerate(egraph.classes) for node in nodes}
    found: dict[Term, int | None] = {}
    for term in topological_order(terms):
        children = tuple(found[child] for child in term.children)
        found[term] = (
            None if None in children else index.get((term.op, repr(term.values), children))  # type: ignore[arg-type]
        )
    return found


def _key(node: ENode) -> tuple[str, str, tuple[int, ...]]:
    return node.op, repr(node.values), node.children


@dataclass(frozen=True)
class Pattern:
    """A term with variables ``?x`` in place of operands or attributes.

    It is written in the language's text form: ``(reshape ?o ?i (compute dot ?x))``. The same
    variable stands for the same everywhere. Options that are not written match any value, and so
    does what is not written of a leaf: ``(tensor x)``. Numbers are compared as such: 1 is 1.0, nan
    is nan, -0.0 is not 0.0.
    """

    root: Any

    @staticmethod
    def parse(text: str) -> Pattern:
        """:raises TextError: the text is not one pattern."""
        expressions = read_expressions(text)
        if len(expressions) != 1:
            raise TextError(f"one pattern was expected, got {len(expressions)}")
        return Pattern(_compile(expressions[0]))


@dataclass(frozen=True)
class _Variable:
    name: str


@dataclass(frozen=True)
class _Node:
    op: str
    attributes: tuple[tuple[int, Any], ...]
    """Position among the attributes, and the value or variable."""
    children: tuple[Any, ...]


def _compile(expression: Any) -> _Node | _Variable:
    if _is_variable(expression):
        return _Variable(expression)
    if not isinstance(expression, list) or not expression:
        raise TextError(f"{expression!r} is neither a term nor a variable such as ?x")
    name, *rest = expression
    operator = OPERATORS.get("constant" if name == "scalar" else str(name).replace("-", "_"))
    if operator is None:
        raise TextError(f"no operator is called {name!r}")
    attributes: list[tuple[int, Any]] = []
    for position, attribute in enumerate(operator.attributes):
        option = f":{attribute.name}"
        if attribute.optional and option in rest:
            at = rest.index(option)
            if at + 1 == len(rest):
                raise TextError(f"{name}: option {option} lacks its value")
            attributes.append((position, _attribute(attribute, rest[at + 1], name)))
            del rest[at : at + 2]
    for word in rest:
        if isinstance(word, str) and not isinstance(word, Quoted) and word.startswith(":"):
            known = ", ".join(f":{a.name}" for a in operator.attributes if a.optional) or "none"
            raise TextError(f"{name}: option {word} is unknown or given twice, there are: {known}")
    required = [(i, a) for i, a in enumerate(operator.attributes) if not a.optional]
    if name == "scalar":
        attributes.append((operator.positions["shape"], ()))
        required = required[:1]
    # A leaf may be named by its first attributes alone: (tensor x).
    if len(rest) < (min(len(required), 1) if operator.arity == 0 else len(required)):
        raise TextError(f"{name}: {required[len(rest)][1].name} is missing")
    for (position, attribute), word in zip(required, rest, strict=False):
        attributes.append((position, _attribute(attribute, word, name)))
    children = tuple(map(_compile, rest[len(required) :]))
    if operator.arity is not None and len(children) != operator.arity:
        raise TextError(f"{name} takes {operator.arity} operands, got {len(children)}")
    return _Node(operator.name, tuple(attributes), children)


def _is_variable(word: object) -> bool:
    return isinstance(word, str) and not isinstance(word, Quoted) and word.startswith("?")


def _attribute(attribute: Attribute, word: Any, operator: str) -> Any:
    return _Variable(word) if _is_variable(word) else read_value(attribute, word, operator)


def matches(
    egraph: FrozenEGraph, pattern: str | Pattern, classes: Iterable[int] | None = None
) -> Iterator[tuple[int, Binding]]:
    """Every way ``pattern`` matches: the class, and what the variables stand for.

    :param classes: where to look; everywhere by default.
    """
    root = (Pattern.parse(pattern) if isinstance(pattern, str) else pattern).root
    for number in range(len(egraph.classes)) if classes is None else classes:
        for binding in _match(egraph, root, number, {}):
            yield number, binding


def _match(
    egraph: FrozenEGraph, pattern: Any, number: int, bound: Mapping[str, Any]
) -> Iterator[Binding]:
    # As deep as the pattern, which a person wrote: recursion is safe here.
    if isinstance(pattern, _Variable):
        if bound.get(pattern.name, number) == number:
            yield {**bound, pattern.name: number}
        return
    for node in egraph.classes[number]:
        if node.op != pattern.op or len(node.children) != len(pattern.children):
            continue
        here = _match_attributes(egraph, pattern.attributes, node, bound)
        if here is not None:
            yield from _match_children(egraph, pattern.children, node.children, here)


def _match_attributes(
    egraph: FrozenEGraph, wanted: Sequence[tuple[int, Any]], node: ENode, bound: Mapping[str, Any]
) -> Binding | None:
    result = dict(bound)
    for position, value in wanted:
        own = _spelled_out(egraph, node, position)
        if isinstance(value, _Variable):
            if not _same(result.setdefault(value.name, own), own):
                return None
        elif not _same(value, own):
            return None
    return result


def _spelled_out(egraph: FrozenEGraph, node: ENode, position: int) -> Any:
    """An attribute, also where it has the default that depends on the operands."""
    value = node.values[position]
    if value is not None:
        return value
    if node.op == "windows":
        return (1,) * len(node.values[0])
    if node.op == "compute" and not FUNCTIONS[node.values[0]].accumulates:
        return None
    return egraph.types[node.children[0]].dtype if node.children else None


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
            return False
        return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)


def _match_children(
    egraph: FrozenEGraph, patterns: Sequence[Any], children: Sequence[int], bound: Binding
) -> Iterator[Binding]:
    if not patterns:
        yield bound
        return
    for binding in _match(egraph, patterns[0], children[0], bound):
        yield from _match_children(egraph, patterns[1:], children[1:], binding)
