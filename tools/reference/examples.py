"""The examples that pages show: small programs on which rules fire, found once and checked in."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path

from glenside.language import Term, parse, topological_order

FOUND = Path(__file__).resolve().parents[2] / "docs" / "rule_examples.json"


@functools.cache
def of_rules() -> dict[str, tuple[Term, Term]]:
    """A term and what the rule makes of it, by the rule's name."""
    found = json.loads(FOUND.read_text("utf-8"))
    return {name: (parse(each["before"]), parse(each["after"])) for name, each in found.items()}


@functools.cache
def of_operators() -> dict[str, Term]:
    """The plainest term of each operator that stands in an example of a rule."""
    found: dict[str, Term] = {}
    for term in sorted(set(_all_terms()), key=_plainness):
        found.setdefault(term.op, term)
    return found


def _all_terms() -> Iterator[Term]:
    for pair in of_rules().values():
        for root in pair:
            yield from topological_order([root])


def _plainness(term: Term) -> tuple[int, int, str]:
    # Of axes that tell something: neither empty nor of length 1, few and with items to be seen.
    shapes = [each.type.shape for each in topological_order([term]) if not each.children]
    dull = sum(n < 2 for shape in shapes for n in shape) + sum(not shape for shape in shapes)
    return dull, sum(1 for _ in topological_order([term])), str(term)
