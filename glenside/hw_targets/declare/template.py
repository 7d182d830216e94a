"""The term a unit computes, with size variables where a program has numbers.

It is written in the language's text form: ``?x`` stands for the operand ``x``, axis lengths and
other integers are expressions over size variables (:mod:`~glenside.hw_targets.declare.sizes`)
without blanks, such as ``T//2``. What is printed of a program can be used as it is: ``let`` binds
parts that are used twice, and ``(tensor x (M K))`` is the operand ``x`` with all its axes outer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.errors import ShapeError, TargetError, TextError
from glenside.hw_targets.declare.sizes import Size
from glenside.language.operators import OPERATORS, Attribute, Kind, Operator
from glenside.language.shape import AccessType, check_dtype
from glenside.language.syntax import Quoted, is_name, read_expressions, read_value
from glenside.language.term import Term, make

SAME_IF_UNCHANGED = frozenset({"access", "pad", "broadcast", "reshape", "cast"})
"""Operators that the builders leave out where they would change nothing."""


@dataclass(frozen=True)
class OperandType:
    """What an operand has to be: axis lengths as expressions, perhaps a dtype."""

    outer: tuple[Size, ...]
    item: tuple[Size, ...]
    dtype: str | None = None

    @staticmethod
    def parse(text: str) -> OperandType:
        """From ``((M) (K))`` or ``((M) (K)) int8``.

        :raises TargetError: the text is no type.
        """
        try:
            parts = read_expressions(text)
            shape, *dtype = parts
            outer, item = shape
            if len(dtype) > 1 or isinstance(outer, str) or isinstance(item, str):
                raise ValueError
            return OperandType(
                tuple(map(Size.parse, outer)),
                tuple(map(Size.parse, item)),
                check_dtype(dtype[0]) if dtype else None,
            )
        except (TextError, ValueError, TypeError, AttributeError) as problem:
            if isinstance(problem, ShapeError | TargetError):
                raise
            raise TargetError(
                f"{text!r} is no type of an operand: it is written as ((M) (K)), outer axes and "
                "item axes, with a dtype behind if it has its own"
            ) from None

    @property
    def axes(self) -> tuple[Size, ...]:
        """All axes, outer first."""
        return self.outer + self.item

    @property
    def split(self) -> int:
        return len(self.outer)

    def of(self, sizes: Mapping[str, int], dtype: str) -> AccessType:
        """The type for these sizes; ``dtype`` where it has none of its own."""
        shape = [[size.of(sizes) for size in part] for part in (self.outer, self.item)]
        return AccessType(tuple(shape[0]), tuple(shape[1]), self.dtype or dtype)

    def __str__(self) -> str:
        parts = (f"({' '.join(map(str, part))})" for part in (self.outer, self.item))
        return f"({' '.join(parts)}){' ' + self.dtype if self.dtype else ''}"


@dataclass(frozen=True, eq=False)
class Operand:
    """A leaf: the operand of that name."""

    name: str


@dataclass(frozen=True, eq=False)
class Node:
    """An operator over templates. Integers among ``values`` are :class:`Size` expressions."""

    operator: Operator
    values: tuple[Any, ...]
    children: tuple[Template, ...]

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.operator.name

    def __getitem__(self, attribute: str) -> Any:
        return self.values[self.operator.positions[attribute]]

    def over(self, *children: Template) -> Node:
        """The same operator over other templates."""
        return dataclasses.replace(self, children=children)


Template = Operand | Node


def parse(text: str) -> Template:
    """:raises TargetError: the text is not one term, with the reason."""
    try:
        expressions = read_expressions(text)
    except TextError as problem:
        raise TargetError(f"the term cannot be read: {problem}") from None
    if len(expressions) != 1:
        raise TargetError(f"one term was expected, got {len(expressions)}")
    return _read(expressions[0], {})


# As deep as a person wrote: recursion is safe here and below.


def _read(expression: Any, names: dict[str, Template]) -> Template:
    """:param names: what ``let`` has bound so far; those of this expression are added."""
    if isinstance(expression, str):
        if expression in names and not isinstance(expression, Quoted):
            return names[expression]
        if not expression.startswith("?") or len(expression) < 2:
            raise TargetError(f"{expression!r} is no operand: operands are written ?x")
        return Operand(expression[1:])
    if expression[:1] == ["let"]:
        if len(expression) != 3 or not isinstance(expression[1], list):
            raise TargetError("let is written (let ((%name term) ...) term) in a unit's term")
        for binding in expression[1]:
            if not (isinstance(binding, list) and len(binding) == 2 and is_name(binding[0])):
                raise TargetError("a binding of let is written (%name term)")
            names[binding[0]] = _read(binding[1], names)
        return _read(expression[2], names)
    if expression[:1] == ["tensor"]:
        return _tensor(expression)
    if expression[:1] == ["scalar"]:
        expression = ["constant", *expression[1:2], [], *expression[2:]]
    name = str(expression[0]).replace("-", "_") if expression else ""
    operator = OPERATORS.get(name)
    if operator is None or name in ("call", "blocked", "host_op"):
        raise TargetError(f"{name!r} is no operator that a unit's term can have")
    values: dict[str, Any] = {}
    rest = list(expression[1:])
    for attribute in operator.attributes:
        option = f":{attribute.name}"
        if attribute.optional and option in rest:
            at = rest.index(option)
            values[attribute.name] = _value(attribute, rest[at + 1 : at + 2], operator)
            del rest[at : at + 2]
    for attribute in operator.attributes:
        if not attribute.optional:
            values[attribute.name] = _value(attribute, rest[:1], operator)
            rest = rest[1:]
        elif attribute.name not in values:
            values[attribute.name] = _default(attribute.default)
    if len(rest) != operator.arity:
        raise TargetError(
            f"{operator.spelling} takes {operator.arity} operands, got {len(rest)} in the term"
        )
    ordered = tuple(values[attribute.name] for attribute in operator.attributes)
    below = [_read(each, names) for each in rest]
    if name == "access":  # The last one of several counts.
        while isinstance(below[0], Node) and below[0].op == "access":
            below = list(below[0].children)
    return Node(operator, ordered, tuple(below))


def _tensor(expression: Sequence[Any]) -> Template:
    """An operand as programs spell it. Its shape and dtype are those of the declaration."""
    if len(expression) < 2 or not isinstance(expression[1], str):
        raise TargetError("tensor is written (tensor x (M K)) in a unit's term")
    operand = Operand(str(expression[1]))
    shape = next((each for each in expression[2:] if isinstance(each, list)), None)
    if shape is None:
        raise TargetError(f"tensor {operand.name} spells no shape: write ?{operand.name}")
    return Node(OPERATORS["access"], (Size.parse(str(len(shape))),), (operand,))


def _default(value: Any) -> Any:
    return Size.parse(str(value)) if isinstance(value, int) else value


def _value(attribute: Attribute, words: Sequence[Any], operator: Operator) -> Any:
    what = f"{operator.spelling}: {attribute.name} must be {attribute.kind.value}"
    if not words:
        raise TargetError(f"{what}; it is missing")
    word = words[0]
    if attribute.kind is Kind.INTS and isinstance(word, list):
        if all(isinstance(each, str) for each in word):
            return tuple(map(Size.parse, word))
    elif isinstance(word, str):
        if attribute.kind is Kind.INT:
            return Size.parse(word)
        if attribute.kind not in (Kind.NUMBER, Kind.FILL):
            return str(word)
        try:
            return read_value(attribute, word, operator.spelling)
        except TextError:
            pass
    raise TargetError(f"{what}; got {word!r}")


def nodes(template: Template) -> Iterator[Template]:
    """All templates below, operands before what uses them."""
    if isinstance(template, Node):
        for child in template.children:
            yield from nodes(child)
    yield template


def spelled(template: Template) -> str:
    """A template in one line."""
    if isinstance(template, Operand):
        return f"?{template.name}"
    values = [
        f"({' '.join(map(str, value))})" if isinstance(value, tuple) else str(value)
        for value in template.values
    ]
    return f"({' '.join([template.op, *values, *map(spelled, template.children)])})"


def operands(template: Template) -> list[str]:
    """Names of the operands, as often as they are used."""
    return [each.name for each in nodes(template) if isinstance(each, Operand)]


def size_names(template: Template) -> list[str]:
    """The size variables in the attributes, in order of appearance."""
    names: dict[str, None] = {}
    for each in nodes(template):
        for value in each.values if isinstance(each, Node) else ():
            for size in value if isinstance(value, tuple) else (value,):
                if isinstance(size, Size):
                    names |= dict.fromkeys(size.names)
    return list(names)


def functions(template: Template) -> set[str]:
    """The functions that are computed."""
    return {n["function"] for n in nodes(template) if isinstance(n, Node) and n.op == "compute"}


Visit = Callable[[Template, Term], None]


def build(
    template: Template,
    sizes: Mapping[str, int],
    leaves: Mapping[str, Term],
    visit: Visit | None = None,
) -> Term:
    """The term for these sizes and operands, as the builders make it.

    :param visit: called with each part of the template and its term.
    :raises ShapeError: they do not fit.
    """
    if isinstance(template, Operand):
        term = leaves[template.name]
    else:
        below = [build(child, sizes, leaves, visit) for child in template.children]
        pairs = zip(template.operator.attributes, template.values, strict=True)
        try:
            values = {attribute.name: _number(value, sizes) for attribute, value in pairs}
        except ZeroDivisionError:
            spelling = template.operator.spelling
            raise ShapeError(f"{spelling}: a size in it is divided by zero") from None
        term = make(template.op, below, **values)
        if template.op in SAME_IF_UNCHANGED and term.type == below[0].type:
            term = below[0]
    if visit:
        visit(template, term)
    return term


def _number(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(size.of(sizes) for size in value)
    return value.of(sizes) if isinstance(value, Size) else value


def plain_names(template: Template) -> set[str]:
    """The size variables that stand by themselves somewhere in the attributes."""
    found: set[str] = set()
    for each in nodes(template):
        for value in each.values if isinstance(each, Node) else ():
            for size in value if isinstance(value, tuple) else (value,):
                if isinstance(size, Size) and size.is_name:
                    found.add(size.text)
    return found
