"""Says what an unsound rule did: which two values it equated.

egglog only reports that two types met in one class, after the fact. So the run is repeated up to
the step that did it, and that step is taken with its unions noted down instead of made.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from egglog import bindings

from glenside.errors import ShapeError, UnsoundRewrite
from glenside.language.shape import AccessType
from glenside.language.syntax import to_text
from glenside.language.term import Term, make
from glenside.rewrites.engine.egraph import EGraph
from glenside.rewrites.engine.encoding import decode
from glenside.rewrites.engine.freezing import Class, Reader
from glenside.rewrites.ruleset import Rule

LONGEST = 240
"""Characters of a value that are shown."""

_NOTED = "equated"


def unsound(
    roots: Sequence[Term], before: Sequence[Rule], rule: Rule, reason: str
) -> UnsoundRewrite:
    """The error that names ``rule`` and the two values that it equated.

    :param before: the rules that were applied to ``roots`` before, in order.
    :param reason: what is known otherwise; told where no such values are found.
    """
    said = f"rule {rule.described} is unsound"
    try:
        found = _conflict(roots, before, rule)
    except bindings.EggSmolError:  # The step cannot be taken apart.
        found = None
    if found is None:
        return UnsoundRewrite(f"{said}: {reason}")
    (left, left_type), (right, right_type) = found
    return UnsoundRewrite(f"{said}: it equates {left} of {left_type} with {right} of {right_type}")


def _conflict(
    roots: Sequence[Term], before: Sequence[Rule], rule: Rule
) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """Text and type of two values that the rule equates though they differ; the shortest."""
    egraph = EGraph(tuple(dict.fromkeys([*before, rule])))
    egraph.load(roots)
    for each in before:
        egraph.apply(each)
    reader = egraph.note_unions(rule, _NOTED)
    types = reader.types()
    spelled = _spell(reader, types)
    conflicts = []
    for pair in reader.pairs(_NOTED):
        sides = [(spelled.get(each), types.get(each)) for each in pair]
        if _differ(sides):
            shown = [(_short(value), f"type {t}" if t else "no type") for value, t in sides]
            conflicts.append((sum(len(text) for text, _ in shown), shown))
    if not conflicts:
        return None
    _, (left, right) = min(conflicts)
    return left, right


def _differ(sides: Sequence[tuple[Term | str | None, AccessType | None]]) -> bool:
    (left, left_type), (right, right_type) = sides
    if left_type != right_type or left_type is None:
        return True
    leaves = [x for x in (left, right) if isinstance(x, Term) and x.op in ("tensor", "constant")]
    return len(leaves) == 2 and leaves[0] is not leaves[1] and bool(left_type.size)


def _short(value: Term | str | None) -> str:
    text = to_text(value) if isinstance(value, Term) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _spell(reader: Reader, types: Mapping[Class, AccessType]) -> dict[Class, Term | str]:
    """A term of least height for every class; where it is ill-typed, a text like one."""
    rows = list(reader.rows())
    users: dict[Class, list[int]] = {}
    waiting: list[int] = []
    heap: list[tuple[int, str, int]] = []
    keys = [f"{operator.name} {encoded!r}" for operator, encoded, _, _ in rows]
    for index, (_, _, children, _) in enumerate(rows):
        different = set(children)
        waiting.append(len(different))
        for child in different:
            users.setdefault(child, []).append(index)
        if not different:
            heap.append((0, keys[index], index))
    heapq.heapify(heap)
    spelled: dict[Class, Term | str] = {}
    while heap:
        height, _, index = heapq.heappop(heap)
        operator, encoded, children, output = rows[index]
        if output in spelled:
            continue
        spelled[output] = _term(operator, encoded, [spelled[child] for child in children])
        for user in users.get(output, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(heap, (height + 1, keys[user], user))
    return spelled


def _term(operator: Any, encoded: Sequence[Any], operands: Sequence[Term | str]) -> Term | str:
    terms = [each for each in operands if isinstance(each, Term)]
    if len(terms) == len(operands):
        try:
            named = decode(operator, tuple(encoded), tuple(each.type for each in terms))
            return make(operator.name, terms, **named)
        except ShapeError:
            pass
    values = (f"({' '.join(map(str, v))})" if isinstance(v, tuple) else str(v) for v in encoded)
    # Texts are cut, or they would grow with every operator above.
    return f"({' '.join([operator.name, *values, *map(_short, operands)])})"
