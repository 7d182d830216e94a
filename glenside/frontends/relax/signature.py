"""The register of operators: each is one function whose signature declares what it reads.

Positional parameters are the operands, keyword-only ones the attributes; annotations say of which
kind each is. A first parameter annotated :class:`Constants` is not an operand: through it a
lowering makes arrays and asks for known ones. An attribute that the signature lacks is not read,
and therefore reported.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.errors import ModelError
from glenside.frontends.kinds import Floats, Ints, Terms
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.refusal import Refused
from glenside.language import Term

Value = Term | int | float | None | tuple["Value", ...]
"""What an expression means: a term with every axis outer, a number, a tuple (a shape is a tuple of
ints), or the absent operand ``R.null_value()``."""

OPERATORS: dict[str, Signature] = {}
"""All operators, by Relax's name without ``relax.``."""


@dataclass(frozen=True)
class Signature:
    """An operator: its lowering, and the kinds of its operands and attributes by name."""

    name: str
    lower: Callable[..., Value]
    wants_constants: bool
    operands: Mapping[str, Any]
    required: int
    attributes: Mapping[str, Any]

    def __call__(
        self, constants: Constants, operands: Sequence[Value], given: Mapping[str, object]
    ) -> Value:
        """What the operator makes of operands and attributes.

        :raises Refused: an attribute, or the kind of an operand, has no meaning here.
        :raises ModelError: the number of operands is wrong.
        """
        unread = given.keys() - self.attributes.keys()
        if unread:
            raise Refused(f"attribute {', '.join(sorted(unread))} is not supported")
        if not self.required <= len(operands) <= len(self.operands):
            raise ModelError(f"takes {len(self.operands)} operands, got {len(operands)}")
        read = [
            _read(f"operand {name}", kind, value)
            for (name, kind), value in zip(self.operands.items(), operands, strict=False)
        ]
        named = {
            name: _read(f"attribute {name}", self.attributes[name], value)
            for name, value in given.items()
        }
        return self.lower(*([constants] if self.wants_constants else []), *read, **named)


def operator[F: Callable[..., Any]](*names: str) -> Callable[[F], F]:
    """Registers a function as the meaning of the Relax operators ``names``."""

    def register(lower: F) -> F:
        hints = typing.get_type_hints(lower)
        parameters = list(inspect.signature(lower).parameters.values())
        wants_constants = bool(parameters) and hints[parameters[0].name] is Constants
        parameters = parameters[wants_constants:]
        operands = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        for name in names:
            OPERATORS[name] = Signature(
                name,
                lower,
                wants_constants,
                {p.name: hints[p.name] for p in operands},
                sum(p.default is p.empty for p in operands),
                {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY},
            )
        return lower

    return register


# --- kinds --------------------------------------------------------------------------------------


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    Term: (lambda value: isinstance(value, Term), "a tensor"),
    Terms: (
        lambda value: isinstance(value, tuple) and all(isinstance(each, Term) for each in value),
        "a tuple of tensors",
    ),
    Ints: (
        lambda value: isinstance(value, tuple) and all(map(_is_int, value)),
        "a list of integers",
    ),
    Floats: (
        lambda value: (
            isinstance(value, tuple)
            and all(_is_int(each) or isinstance(each, float) for each in value)
        ),
        "a list of numbers",
    ),
    object: (lambda value: True, "anything"),
    int: (_is_int, "an integer"),
    float: (lambda value: _is_int(value) or isinstance(value, float), "a number"),
    bool: (lambda value: isinstance(value, bool), "a bool"),
    str: (lambda value: isinstance(value, str), "a string"),
    types.NoneType: (lambda value: value is None, "absent"),
}


def _read(what: str, kind: Any, value: Any) -> Any:
    """``value`` if it is of ``kind``; raises :class:`Refused`."""
    union = isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union
    kinds = typing.get_args(kind) if union else (kind,)
    for each in kinds:
        fits, _ = _KINDS[each]
        if fits(value):
            return value
    wanted = " or ".join(_KINDS[each][1] for each in kinds)
    shown = value.type if isinstance(value, Term) else value
    raise Refused(f"{what} must be {wanted}, got {shown}")
