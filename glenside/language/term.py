"""Terms: immutable, hash-consed programs.

Two terms built alike are the same object, so equality is identity, a program is a DAG, and a walk
visits what is shared once. Nothing here or elsewhere walks terms by recursion: a chain of 10,000
nodes is an ordinary program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from glenside.errors import ShapeError
from glenside.language.operators import OPERATORS, Operator
from glenside.language.shape import AccessType, Shape

_interned: weakref.WeakValueDictionary[tuple[Any, ...], Term] = weakref.WeakValueDictionary()


class Term:
    """One operator applied to terms. Build with :mod:`glenside.language.builders` or :func:`make`."""

    __slots__ = ("__weakref__", "children", "operator", "type", "values")

    operator: Operator
    values: tuple[Any, ...]
    """Attribute values, in the order of ``operator.attributes``."""
    children: tuple[Term, ...]
    type: AccessType

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.operator.name

    @property
    def attributes(self) -> dict[str, Any]:
        return {a.name: v for a, v in zip(self.operator.attributes, self.values, strict=True)}

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
        for declared, value in zip(self.operator.attributes, self.values, strict=True):
            if declared.name == attribute:
                return value
        raise KeyError(f"{self.op} has no attribute {attribute!r}")

    def __repr__(self) -> str:
        shown = " ".join(map(str, self.values))
        return f"<{self.operator.spelling} {shown} : {self.type}>"

    def __str__(self) -> str:
        from glenside.language.syntax import to_text

        return to_text(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("terms are immutable")

    def __copy__(self) -> Term:
        return self

    def __deepcopy__(self, memo: object) -> Term:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the text form, since pickling child by child would recurse.
        from glenside.language.syntax import parse, to_text

        return parse, (to_text(self),)


def make(op: str, children: Sequence[Term] = (), **attributes: Any) -> Term:
    """The term ``op`` applied to ``children``; raises :class:`ShapeError` when they do not fit."""
    operator = OPERATORS.get(op)
    if operator is None:
        raise ShapeError(f"no operator is called {op!r}; there are {', '.join(OPERATORS)}")
    if operator.arity is not None and len(children) != operator.arity:
        raise ShapeError(f"{op} takes {operator.arity} operands, got {len(children)}")
    unknown = attributes.keys() - {a.name for a in operator.attributes}
    if unknown:
        raise ShapeError(f"{op} has no attribute {', '.join(sorted(unknown))}")
    values = []
    for attribute in operator.attributes:
        value = attributes.get(attribute.name, attribute.default)
        if value is attribute.default and attribute.optional:
            values.append(value)
        elif attribute.name not in attributes:
            raise ShapeError(f"{op}: attribute {attribute.name} is missing")
        else:
            values.append(attribute.check(value, op))
    return _intern(operator, tuple(values), tuple(children))


def _intern(operator: Operator, values: tuple[Any, ...], children: tuple[Term, ...]) -> Term:
    if operator.name == "windows" and values[2] == (1,) * len(values[0]):
        values = (*values[:2], None)  # One spelling only for undilated windows.
    if operator.name in ("compute", "blocked") and children:
        # An accumulate dtype equal to the operand's is the default: one spelling only.
        if values[-1] == children[0].type.dtype:
            values = (*values[:-1], None)
    # Children by identity; numbers by spelling, since 0.0 == -0.0 == 0 == False and nan != nan.
    key = (operator.name, *map(repr, values), *map(id, children))
    found = _interned.get(key)
    if found is not None:
        return found
    named = {a.name: v for a, v in zip(operator.attributes, values, strict=True)}
    inferred = operator.infer(tuple(child.type for child in children), named)
    term = object.__new__(Term)
    for slot, value in (
        ("operator", operator),
        ("values", values),
        ("children", children),
        ("type", inferred),
    ):
        object.__setattr__(term, slot, value)
    _interned[key] = term
    return term


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
    if all(a is b for a, b in zip(term.children, children, strict=True)):
        return term
    return _intern(term.operator, term.values, tuple(children))


def map_terms(
    roots: Iterable[Term], change: Callable[[Term, tuple[Term, ...]], Term]
) -> dict[Term, Term]:
    """Bottom-up: ``change(old term, new children)`` for every term; old to new."""
    new: dict[Term, Term] = {}
    for term in topological_order(roots):
        new[term] = change(term, tuple(new[child] for child in term.children))
    return new
