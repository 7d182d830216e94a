"""What the parser makes of Relay text: expressions, bindings, functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from glenside.frontends.relay.types import Type

Attribute = int | float | bool | str | None | tuple["Attribute", ...]
"""The value of a keyword argument; lists become tuples."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where something stands in the text; both count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """``%x``: what was bound to that name."""

    name: str
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A scalar such as ``1f`` (float32) or ``2i64``."""

    value: int | float | bool
    dtype: str
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class Tuple:
    """``(a, b)``, ``(a,)`` or ``()``."""

    items: tuple[Expression, ...]
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """``a.3``: one item of a tuple."""

    of: Expression
    index: int
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """An operator such as ``nn.conv2d`` applied to operands."""

    operator: str
    operands: tuple[Expression, ...]
    attributes: dict[str, Attribute]
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class Meta:
    """``meta[KIND][INDEX]``: something kept in the metadata section."""

    kind: str
    index: int
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class Typed:
    """An expression whose type a comment states."""

    of: Expression
    comment: str
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class GlobalName:
    """``@f``: a function of the module."""

    name: str
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """A function, whatever expression gives it, applied to operands."""

    callee: Expression
    operands: tuple[Expression, ...]
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """``fn (...) {...}`` as a value; it sees what is bound around it."""

    function: Function
    at: Position


@dataclass(frozen=True, slots=True, eq=False)
class Branches:
    """``if (condition) {...} else {...}``."""

    condition: Expression
    then: Block
    otherwise: Block
    at: Position


Expression = (
    Local | Literal | Tuple | Projection | Call | Meta | Typed | GlobalName | Apply | Closure
    | Branches
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function; ``comments`` state its type once more."""

    name: str
    type: Type
    comments: tuple[str, ...]
    at: Position


@dataclass(frozen=True, slots=True)
class Binding:
    """``%name = value;``"""

    name: str
    type: Type | None
    value: Expression
    at: Position


@dataclass(frozen=True, slots=True)
class Block:
    """Bindings and the expression that they are for."""

    bindings: tuple[Binding, ...]
    result: Expression


@dataclass(frozen=True, slots=True)
class Function:
    """A function; what marks it, such as ``Primitive=1``, is without meaning here."""

    name: str
    parameters: tuple[Parameter, ...]
    result_type: Type | None
    body: Block
    at: Position


@dataclass(frozen=True, slots=True)
class Module:
    """All functions by name, and the text of the metadata section."""

    functions: dict[str, Function] = field(default_factory=dict)
    metadata: str | None = None


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one, those that are evaluated where it stands."""
    match expression:
        case Tuple(items=items):
            return items
        case Call(operands=operands):
            return operands
        case Apply(callee=callee, operands=operands):
            return (callee, *operands)
        case Branches(condition=condition):
            return (condition,)
        case Projection(of=inner) | Typed(of=inner):
            return (inner,)
        case _:
            return ()


def bottom_up(root: Expression) -> Iterator[Expression]:
    """``root`` and all inside it, parts first, in the order of the text; without recursion."""
    stack: list[tuple[Expression, bool]] = [(root, False)]
    while stack:
        expression, entered = stack.pop()
        inside = parts(expression)
        if entered or not inside:
            yield expression
        else:
            stack.append((expression, True))
            stack.extend((part, False) for part in reversed(inside))
