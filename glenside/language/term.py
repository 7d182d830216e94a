"""Terms: immutable, hash-consed programs.

Two terms built alike are the same object, so equality is identity, a program is a DAG, and a walk
visits what is shared once. Nothing here or elsewhere walks terms by recursion: a chain of 10,000
nodes is an ordinary program.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from glenside.errors import ShapeError
from glenside.language.operators import OPERATORS, Operator
from glenside.language.shape import MAX_RANK, MAX_SIZE, AccessType, Shape

_interned: weakref.WeakValueDictionary[tuple[Any, ...], Term] = weakref.WeakValueDictionary()
_interning = threading.RLock()  # The collector may run what builds terms while it is held.


class Term:
    """One operator applied to terms. Built by :mod:`glenside.language.builders` or :func:`make`."""

    __slots__ = ("__weakref__", "children", "operator", "type", "values")

    operator: Operator
    values: tuple[Any, ...]
    """Attribute values, in the order of ``operator.attributes``."""
    children: tuple[Term, ...]
    type: AccessType

    __iter__ = None  # Else Python would try t[0], t[1], ... where a list of terms was expected.

    def __init__(self) -> None:
        raise TypeError("terms are built by glenside.language.builders or make")

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.operator.name

    @property
    def attributes(self) -> dict[str, Any]:
        return dict(zip(self.operator.positions, self.values, strict=True))

    @property
    def outer(self) -> Shape:
        return self.type.outer

    @property
    def item(self) -> Shape:
        return self.type.item

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def __getitem__(self, attribute: str) -> Any:
        position = self.operator.positions.get(attribute)
        if position is None:
            raise KeyError(f"{self.op} has no attribute {attribute!r}")
        return self.values[position]

    def __repr__(self) -> str:
        shown = " ".join(map(str, self.values))
        return f"<{self.operator.spelling} {shown} : {self.type}>"

    def __str__(self) -> str:
        from glenside.language.syntax import to_text

        return to_text(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("terms are immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("terms are immutable")

    def __copy__(self) -> Term:
        return self

    def __deepcopy__(self, memo: object) -> Term:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the text form, since pickling child by child would recurse. Each term that is
        # pickled by itself carries all below it: what holds many of them spells them together, as
        # Model does.
        from glenside.language.syntax import parse, to_text

        return parse, (to_text(self),)


def make(op: str, children: Sequence[Term] = (), **attributes: Any) -> Term:
    """The term ``op`` applied to ``children``; raises :class:`ShapeError` when they do not fit."""
    operator = OPERATORS.get(op)
    if operator is None:
        raise ShapeError(f"no operator is called {op!r}; there are {', '.join(OPERATORS)}")
    for child in children:
        if not isinstance(child, Term):
            raise ShapeError(f"{op}: operands are terms, got {type(child).__name__}")
    unknown = attributes.keys() - operator.positions.keys()
    if unknown:
        raise ShapeError(f"{op} has no attribute {', '.join(sorted(unknown))}")
    values = []
    for attribute in operator.attributes:
        value = attributes.get(attribute.name, attribute.default)
        if value is attribute.default:
            if not attribute.optional:
                raise ShapeError(f"{op}: attribute {attribute.name} is missing")
            values.append(value)
        else:
            values.append(attribute.check(value, op))
    return _intern(operator, tuple(values), tuple(children))


def _intern(operator: Operator, values: tuple[Any, ...], children: tuple[Term, ...]) -> Term:
    if operator.arity is not None and len(children) != operator.arity:
        raise ShapeError(f"{operator.name} takes {operator.arity} operands, got {len(children)}")
    types = tuple([child.type for child in children])
    if operator.canonical:
        named = operator.canonical(types, dict(zip(operator.positions, values, strict=True)))
        values = tuple(named.values())
    # Numbers by spelling, since 0.0 == -0.0 and nan != nan.
    key = (operator.name, repr(values) if operator.has_number else values, children)
    found = _interned.get(key)
    if found is not None:
        return found
    inferred = operator.infer(types, dict(zip(operator.positions, values, strict=True)))
    if inferred.rank > MAX_RANK:
        raise ShapeError(
            f"{operator.name} to {inferred.rank} axes: at most {MAX_RANK} are possible"
        )
    size = math.prod(inferred.shape) or math.prod(length or 1 for length in inferred.shape)
    if size > MAX_SIZE:
        raise ShapeError(f"{operator.name} to {inferred}: more elements than can be addressed")
    term = object.__new__(Term)
    write = object.__setattr__
    write(term, "operator", operator)
    write(term, "values", values)
    write(term, "children", children)
    write(term, "type", inferred)
    with _interning:  # Another thread may have built the same in the meantime.
        found = _interned.get(key)
        if found is None:
            _interned[key] = found = term
    return found


def topological_order(roots: Iterable[Term]) -> list[Term]:
    """Every term below ``roots`` once, children before parents, in a fixed order."""
    order: list[Term] = []
    done: set[Term] = set()
    stack: list[tuple[Term, Iterator[Term]]] = []
    for root in roots:
        if root in done:
            continue
        done.add(root)
        stack.append((root, iter(root.children)))
        while stack:
            term, rest = stack[-1]
            for child in rest:
                if child not in done:
                    done.add(child)
                    stack.append((child, iter(child.children)))
                    break
            else:
                order.append(term)
                stack.pop()
    return order


def rebuild(term: Term, children: Sequence[Term]) -> Term:
    """The same operator and attributes over other children."""
    children = tuple(children)
    return term if children == term.children else _intern(term.operator, term.values, children)


def map_terms(
    roots: Iterable[Term], change: Callable[[Term, tuple[Term, ...]], Term]
) -> dict[Term, Term]:
    """Bottom-up: ``change(old term, new children)`` for every term; old to new."""
    new: dict[Term, Term] = {}
    for term in topological_order(roots):
        new[term] = change(term, tuple(new[child] for child in term.children))
    return new
