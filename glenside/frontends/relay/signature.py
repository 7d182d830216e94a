"""The register of operators: each is one function whose signature declares what it reads.

Positional parameters are the operands, keyword-only ones the attributes, with their defaults and,
by annotation, their kinds. An attribute that the signature lacks is therefore not read, and
reported. A first parameter annotated :class:`Constants` is not an operand: through it a lowering
makes arrays and asks for known ones.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.errors import ModelError
from glenside.frontends.kinds import Floats, Ints, Rows, Terms
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.syntax_tree import Attribute
from glenside.frontends.relay.types import Value, spell
from glenside.language import Term

OPERATORS: dict[str, Signature] = {}
"""All operators by Relay's name."""


@dataclass(frozen=True)
class Signature:
    """An operator: its lowering and what that reads. ``operands`` holds each one's kind."""

    name: str
    lower: Callable[..., Value]
    wants_constants: bool
    operands: tuple[Any, ...]
    required: int
    attributes: Mapping[str, inspect.Parameter]
    kinds: Mapping[str, Any]

    def __call__(
        self, constants: Constants, operands: Sequence[Value], attributes: Mapping[str, Any]
    ) -> Value:
        """What the operator makes of checked operands and attributes that were read."""
        return self.lower(*([constants] if self.wants_constants else []), *operands, **attributes)

    def read(self, given: Mapping[str, Attribute]) -> dict[str, Any]:
        """The attributes of a call in the kinds the lowering takes; raises :class:`Refused`."""
        unread = given.keys() - self.attributes.keys()
        if unread:
            raise Refused(f"attribute {', '.join(sorted(unread))} is not supported")
        values = {}
        for name, parameter in self.attributes.items():
            if name in given:
                values[name] = self._value(name, given[name])
            elif parameter.default is inspect.Parameter.empty:
                raise Refused(f"attribute {name} is missing")
        return values

    def _value(self, name: str, given: Attribute) -> Any:
        kinds = typing.get_args(self.kinds[name]) if _is_union(self.kinds[name]) else ()
        for kind in kinds or (self.kinds[name],):
            read, _ = _KINDS[kind]
            value = read(given)
            if value is not _OTHER:
                return value
        wanted = " or ".join(_KINDS[kind][1] for kind in kinds or (self.kinds[name],))
        raise Refused(f"attribute {name} must be {wanted}, got {given!r}")

    def check(self, operands: Sequence[Value]) -> None:
        """Raises :class:`ModelError` unless ``operands`` are of the number and kinds it takes."""
        if not self.required <= len(operands) <= len(self.operands):
            least, most = self.required, len(self.operands)
            wanted = str(most) if least == most else f"{least} to {most}"
            raise ModelError(f"{self.name} takes {wanted} operands, got {len(operands)}")
        for number, (kind, operand) in enumerate(zip(self.operands, operands, strict=False), 1):
            if kind == Terms:
                fits = isinstance(operand, tuple) and all(isinstance(x, Term) for x in operand)
                wanted = "a tuple of tensors"
            else:
                fits, wanted = isinstance(operand, Term), "a tensor"
            if not fits:
                raise ModelError(
                    f"operand {number} of {self.name} must be {wanted}, got {spell(operand)}"
                )


def operator[F: Callable[..., Any]](*names: str) -> Callable[[F], F]:
    """Registers a function as the meaning of Relay's operators ``names``."""

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
                tuple(hints[p.name] for p in operands),
                sum(p.default is p.empty for p in operands),
                {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY},
                hints,
            )
        return lower

    return register


# --- kinds of attributes ------------------------------------------------------------------------

_OTHER: Any = object()
"""What a reader returns for a value that is not of its kind."""


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, type(int | str))


def _int(value: Attribute) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) else _OTHER


def _float(value: Attribute) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(typing.cast(float, value)) if number else _OTHER


def _bool(value: Attribute) -> Any:
    # The metadata section spells bools 0 and 1.
    return bool(value) if value in (0, 1) and isinstance(value, int) else _OTHER


def _ints(value: Attribute) -> Any:
    fits = isinstance(value, tuple) and all(_int(each) is not _OTHER for each in value)
    return value if fits else _OTHER


def _floats(value: Attribute) -> Any:
    fits = isinstance(value, tuple) and all(_float(each) is not _OTHER for each in value)
    return tuple(map(float, typing.cast(Floats, value))) if fits else _OTHER


def _rows(value: Attribute) -> Any:
    fits = isinstance(value, tuple) and all(_ints(each) is not _OTHER for each in value)
    return value if fits else _OTHER


_KINDS: dict[Any, tuple[Callable[[Attribute], Any], str]] = {
    int: (_int, "an integer"),
    float: (_float, "a number"),
    bool: (_bool, "True or False"),
    str: (lambda value: value if isinstance(value, str) else _OTHER, "a string"),
    Ints: (_ints, "a list of integers"),
    Floats: (_floats, "a list of numbers"),
    Rows: (_rows, "a list of lists of integers"),
    object: (lambda value: value, "anything"),
    type(None): (lambda value: value if value is None else _OTHER, "None"),
}
