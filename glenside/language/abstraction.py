"""A term as a function of some of its subterms: as text that travels, and applied to others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from glenside.errors import TextError
from glenside.language import builders
from glenside.language.syntax import parse, to_text
from glenside.language.term import Term, map_terms, rebuild

MEANING = "glenside.meaning"
"""The attribute under which code that was made from a term tells it."""

_PARAMETER = re.compile(r"in(\d+)")


def spell_function(
    body: Sequence[Term], parameters: Sequence[Term], numbers: Mapping[Term, float]
) -> str:
    """The text of a function whose parameters are the tensors in0, in1, ...

    :param body: the terms between parameters and result, children first, the result last.
    :param parameters: the terms that parameters stand for, whatever these are.
    :param numbers: others that are one number throughout.
    """
    values: dict[Term, Term] = {}
    for leaf, number in numbers.items():
        whole = builders.constant(number, leaf.shape, leaf.dtype)
        values[leaf] = builders.access(whole, leaf.type.split)
    for position, leaf in enumerate(parameters):
        whole = builders.tensor(f"in{position}", leaf.shape, leaf.dtype)
        values[leaf] = builders.access(whole, leaf.type.split)
    for term in body:
        values[term] = rebuild(term, tuple(values[child] for child in term.children))
    return to_text(builders.outer_only(values[body[-1]]))


def apply_function(text: str, operands: Sequence[Term]) -> Term:
    """What a function that :func:`spell_function` wrote gives for operands with every axis outer.

    :raises TextError: it is no such text, or takes other operands.
    """
    body = parse(text)

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        if term.op != "tensor":
            return rebuild(term, children)
        match = _PARAMETER.fullmatch(term["name"])
        if match is None or int(match[1]) >= len(operands):
            raise TextError(f"{term['name']!r} is none of {len(operands)} operands")
        operand = operands[int(match[1])]
        if operand.type != term.type:
            raise TextError(f"operand {match[1]} is {operand.type}, it must be {term.type}")
        return operand

    return map_terms([body], change)[body]
