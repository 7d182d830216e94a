"""How attribute values stand in the e-graph, and back."""

from __future__ import annotations

import itertools
from typing import Any

from glenside.language.functions import FUNCTIONS
from glenside.language.operators import Kind, Operator
from glenside.language.shape import AccessType
from glenside.language.term import Term
from glenside.rewrites.vocabulary import NO_DTYPE

Encoded = int | str | tuple[int, ...]
"""What an attribute is in the e-graph: ``i64``, ``String`` or ``Vec[i64]``."""

SORTS = dict.fromkeys(Kind, "String") | {Kind.INT: "i64", Kind.INTS: "Vec[i64]"}
"""The egglog sort that holds each kind of attribute."""


def encode(term: Term) -> tuple[Encoded, ...]:
    """The attributes of a term in the order its operator declares, with nothing left out."""
    values = list(term.values)
    if term.op == "windows" and values[2] is None:
        values[2] = (1,) * len(values[0])
    elif term.op == "compute" and not FUNCTIONS[values[0]].accumulates:
        values[1] = NO_DTYPE
    elif term.op in ("compute", "blocked") and values[-1] is None:
        values[-1] = term.children[0].dtype
    for i, attribute in enumerate(term.operator.attributes):
        if attribute.kind in (Kind.NUMBER, Kind.FILL) and not isinstance(values[i], str):
            values[i] = repr(values[i])  # By spelling: 0.0 is not -0.0, and nan is nan.
    return tuple(values)


def spellings(term: Term) -> set[tuple[Encoded, ...]]:
    """The encodings that rules usually give to what reads back as the attributes of ``term``: a
    whole number with and without a fraction, the usual dtype of a sum named or left out."""
    choices: list[set[Encoded]] = []
    for attribute, value in zip(term.operator.attributes, encode(term), strict=True):
        ways = {value}
        if attribute.kind is Kind.DTYPE and attribute.name == "accumulate" and term.children:
            if value == term.children[0].dtype:
                ways.add(NO_DTYPE)
        elif attribute.kind in (Kind.NUMBER, Kind.FILL):
            number = read_number(str(value))
            if isinstance(number, float) and number.is_integer():
                ways.add(repr(int(number)))
        choices.append(ways)
    return set(itertools.product(*choices))


def decode(
    operator: Operator, values: tuple[Encoded, ...], operands: tuple[AccessType, ...]
) -> dict[str, Any]:
    """Attribute values by name, spelled as :class:`~glenside.language.term.Term` holds them."""
    named: dict[str, Any] = {}
    for attribute, value in zip(operator.attributes, values, strict=True):
        if attribute.kind in (Kind.NUMBER, Kind.FILL):
            named[attribute.name] = read_number(str(value))
        elif value == NO_DTYPE and attribute.kind is Kind.DTYPE:
            named[attribute.name] = None
        else:
            named[attribute.name] = value
    return dict(operator.canonical(operands, named)) if operator.canonical else named


def read_number(spelled: str) -> int | float | bool | str:
    """The number, or ``zero`` or ``lowest``, that a text in the e-graph stands for."""
    if spelled in ("zero", "lowest"):
        return spelled
    if spelled in ("True", "False"):
        return spelled == "True"
    try:
        return int(spelled)
    except ValueError:
        return float(spelled)
