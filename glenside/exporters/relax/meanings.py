"""Rewrites a program so that only what a kernel can compute is left in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from glenside.errors import GlensideError
from glenside.language import CALLS, Term, map_terms, rebuild, units


@dataclass(frozen=True)
class Spelled:
    """A program without accelerator invocations.

    ``terms`` gives the new term of every old one; ``units`` names, for the meaning of each
    invocation, the unit that it stands for; ``operands`` are what invocations read.
    """

    terms: Mapping[Term, Term]
    units: dict[Term, str] = field(default_factory=dict)
    operands: set[Term] = field(default_factory=set)


def spell_out(outputs: Sequence[Term]) -> Spelled:
    """Puts the meaning of each ``call`` and ``blocked`` in its place.

    :raises GlensideError: the program has host operators.
    """
    called: dict[Term, str] = {}
    operands: set[Term] = set()

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        if term.op == "host_op":
            raise GlensideError(
                f"{term['operator']} is a host operator, which onnxruntime runs: "
                "it cannot be exported to Relax"
            )
        if term.op not in CALLS:
            return rebuild(term, children)
        meaning = units.meaning(term, children)
        operands.update(children)
        called[meaning] = "_".join(map(str, (term["unit"], *term["parameters"])))
        return meaning

    return Spelled(map_terms(outputs, change), called, operands)
