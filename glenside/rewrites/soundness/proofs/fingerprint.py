"""A hash of all that a proof of a rule rests on: its commands, and the prover itself."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from glenside.language import denotation, functions, operators, units
from glenside.rewrites.engine import known_zeros
from glenside.rewrites.ruleset import Rule
from glenside.rewrites.soundness.proofs.reader import (
    Call,
    Case,
    Equation,
    Expression,
    Literal,
    Primitive,
    Reading,
    Variable,
    read,
    substituted,
)


def of_rules(rules: Iterable[Rule]) -> dict[str, str]:
    """Those of several, by name."""
    together = tuple(rules)
    return {rule.name: of_rule(read(rule, together)) for rule in together}


def of_rule(reading: Reading) -> str:
    """That of the commands of a rule and of the units that it calls."""
    lines: list[str] = []
    found: set[str] = set()
    for case in reading.cases:
        lines.append(_text(case, reading.primitives))
        for left, right in case.unions:
            found |= _units(left) | _units(right)
    for name in sorted(found):
        unit = units.find_unit(name) if units.is_unit(name) else None
        lines.append(f"{name}: {unit.denote if unit else None}")
    return _hash("\n".join(lines))


_ASIDE = ("cache", "ledger", "mutation", "parallel")
"""What decides nothing."""


@functools.cache
def of_prover() -> str:
    """That of the sources which decide what is proved."""
    here = Path(__file__).parent
    modules = (denotation, functions, operators, known_zeros)
    own = (file for file in sorted(here.glob("*.py")) if file.stem not in _ASIDE)
    files = [*own, *(Path(str(module.__file__)) for module in modules)]
    return _hash("\n".join(file.read_text(encoding="utf-8") for file in files))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _text(case: Case, primitives: Mapping[str, Primitive]) -> str:
    def shown(e: Expression) -> str:
        return str(_inlined(e, primitives))

    facts = [
        f"{shown(f.left)} = {shown(f.right)}" if isinstance(f, Equation) else shown(f.expression)
        for f in case.facts
    ]
    unions = [f"{shown(a)} = {shown(b)}" for a, b in case.unions]
    stated = [
        f"{each.function} {' '.join(map(shown, each.arguments))} := {shown(each.value)}"
        for each in case.stated
    ]
    return "; ".join([*facts, "=>", *unions, *stated, *map(shown, case.derived)])


def _inlined(e: Expression, primitives: Mapping[str, Primitive]) -> Expression:
    """``e`` with the bodies of primitives in place of their names: how egglog numbers functions
    without a name, and orders what they take from around them, is not the same every time."""
    if not isinstance(e, Call):
        return e
    arguments = [_inlined(each, primitives) for each in e.arguments]
    if e.name == "unstable-fn":
        name, *given = arguments
        assert isinstance(name, Literal)
        body = primitives[name.value].body
        each = {f"_{len(given)}": Variable("each")}
        values = {f"_{i}": value for i, value in enumerate(given)} | each
        return Call("function", (_inlined(substituted(body, values), primitives),))
    if e.name in primitives:
        values = {f"_{i}": value for i, value in enumerate(arguments)}
        return _inlined(substituted(primitives[e.name].body, values), primitives)
    return Call(e.name, tuple(arguments))


def _units(e: Expression) -> set[str]:
    """The units that a term calls."""
    if not isinstance(e, Call):
        return set()
    found = set().union(*map(_units, e.arguments)) if e.arguments else set()
    if e.operator == "call" and isinstance(e.arguments[1], Literal):
        found.add(str(e.arguments[1].value))
    return found
