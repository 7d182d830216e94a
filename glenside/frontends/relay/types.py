"""Relay types as the text states them, compared with the types of terms.

Tuples nest as deep as a program likes, so every walk here is a loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glenside.errors import ModelError
from glenside.language import AccessType, Term


class FunctionValue:
    """A function as a value: it can be called, but is no operand."""


Value = Term | FunctionValue | tuple["Value", ...]
"""What an expression means: a term with every axis outer, a function, or a tuple."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """``Tensor[(2, ?), float32]``; ``?``, an unknown length, is None. A bare dtype has rank 0."""

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        if not self.shape:
            return self.dtype
        lengths = ", ".join("?" if n is None else str(n) for n in self.shape)
        return f"Tensor[({lengths}), {self.dtype}]"

    def admits(self, term: Term) -> bool:
        """Whether a term has this type; an unknown length admits any."""
        return (
            self.dtype == term.dtype
            and len(self.shape) == len(term.shape)
            and all(n in (None, m) for n, m in zip(self.shape, term.shape, strict=True))
        )


@dataclass(frozen=True, slots=True, eq=False)
class TupleType:
    """``(a, b)``"""

    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AlgebraicType:
    """``List[float32]``: can be read, but no value here has such a type."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class FunctionType:
    """``fn (a) -> b``: the type of a function that is a value; what it says is not checked."""


Type = TensorType | TupleType | AlgebraicType | FunctionType


def agrees(stated: Type, value: Value) -> bool:
    """Whether a stated type is that of a value."""
    stack: list[tuple[Type, Value]] = [(stated, value)]
    while stack:
        type_, given = stack.pop()
        if isinstance(type_, TensorType) and isinstance(given, Term):
            if not type_.admits(given):
                return False
        elif isinstance(type_, FunctionType) and isinstance(given, FunctionValue):
            continue
        elif (
            isinstance(type_, TupleType)
            and isinstance(given, tuple)
            and len(type_.items) == len(given)
        ):
            stack.extend(zip(type_.items, given, strict=True))
        else:
            return False
    return True


def spell(of: Type | Value) -> str:
    """A type, or the type of a value, as Relay text; what is long is cut."""
    pieces: list[str] = []
    stack: list[Type | Value | str] = [of]
    while stack and len(pieces) < 64:
        top = stack.pop()
        if isinstance(top, str):
            pieces.append(top)
        elif isinstance(top, Term):
            pieces.append(str(TensorType(top.shape, top.dtype)))
        elif isinstance(top, TensorType):
            pieces.append(str(top))
        elif isinstance(top, AlgebraicType):
            pieces.append(top.name)
        elif isinstance(top, FunctionType | FunctionValue):
            pieces.append("fn")
        else:
            items: tuple[Type | Value, ...]
            items = top.items if isinstance(top, TupleType) else top
            pieces.append("(")
            stack.append(",)" if len(items) == 1 else ")")
            for number in reversed(range(len(items))):
                stack.append(items[number])
                if number:
                    stack.append(", ")
    return "".join(pieces) + "..." * bool(stack)


def flat(value: Value) -> Iterator[Term]:
    """The tensors of a value, depth first."""
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, Term):
            yield top
        elif isinstance(top, FunctionValue):
            raise ModelError("a function stands where a tensor is needed")
        else:
            stack.extend(reversed(top))


def flat_parameters(name: str, type_: Type) -> list[tuple[str, Type]]:
    """A parameter's tensors: ``p`` itself, or ``p.0``, ``p.1``, ... of a tuple, depth first."""
    result: list[tuple[str, Type]] = []
    stack = [(name, type_)]
    while stack:
        name, type_ = stack.pop()
        if isinstance(type_, TupleType):
            stack.extend(reversed([(f"{name}.{i}", item) for i, item in enumerate(type_.items)]))
        else:
            result.append((name, type_))
    return result


def access_type(type_: TensorType) -> AccessType:
    """The type of the term for a tensor whose lengths are all known."""
    return AccessType(tuple(n for n in type_.shape if n is not None), (), type_.dtype)
