"""The original's rewrites, case by case: what must and what must not be found equal.

``GLENSIDE_CASES`` names another file of cases. Cases that name a rule, a unit or a Relay operator
that is not there (yet) are skipped by that name.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from glenside.errors import GlensideError
from glenside.language import Term, builders, parse
from glenside.language.syntax import read_expressions
from glenside.rewrites import (
    FrozenEGraph,
    RuleSet,
    StopReason,
    contains,
    matches,
    rule_named,
    saturate,
)
from glenside.rewrites.soundness import check_program
from tests.strategies import environment

CASES = Path(os.environ.get("GLENSIDE_CASES", Path(__file__).parent.parent / "cases/glenside.json"))
REWRITES = [case for case in json.loads(CASES.read_text())["cases"] if case.get("rules")]


def rules_of(case: dict[str, Any]) -> list[RuleSet]:
    sets = []
    for name in case["rules"]:
        try:
            sets.append(rule_named(name))
        except GlensideError:
            pytest.skip(f"rule {name} is not there")
    return sets


def lower(expression: Any) -> Any:
    """The cases' forms for units, as the language writes them."""
    if not isinstance(expression, list) or not expression:
        return expression
    head, *rest = map(lower, expression)
    if head == "systolic":
        return ["call", "systolic-array", rest[:2], *rest[2:]]
    if head == "systolic-blocked":
        rows, columns, x, y = rest
        if isinstance(y, list):
            # Theirs takes the weights as one item (K N), ours as ((N) (K)).
            assert y[:2] == ["access", "0"] and y[2][:2] == ["transpose", ["1", "0"]]
            y = y[2][2]
        return ["blocked", "systolic-array", [rows, columns], x, y]
    if head in ("relay", "accel", "systolic-conv2d"):
        pytest.skip(f"{head} {rest[0]} is not there")
    return [head, *rest]


def write(expression: Any) -> str:
    if isinstance(expression, list):
        return f"({' '.join(map(write, expression))})"
    return str(expression)


def text_of(source: str) -> str:
    (expression,) = read_expressions(source)
    return write(lower(expression))


def term_of(case: dict[str, Any], source: str) -> Term:
    return parse(text_of(source), case["inputs"], dtype="int64")


def at_root(egraph: FrozenEGraph, pattern: str) -> bool:
    return any(matches(egraph, text_of(pattern), egraph.roots))


@pytest.mark.parametrize("case", REWRITES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    rules, expect = rules_of(case), case["expect"]
    term = term_of(case, case["term"])
    if "extract" in expect:
        pytest.skip("asks for an extraction")
    result = saturate([term], rules)
    root = result.egraph.roots[0]

    shape = expect["shape"]
    assert term.type.outer == tuple(shape["outer"])
    assert term.type.item == tuple(shape["item"])
    assert result.egraph.types[root] == term.type
    for source in expect.get("equals", ()):
        assert contains(result.egraph, term_of(case, source)) == root, source
    for source in expect.get("anywhere", ()):
        assert contains(result.egraph, term_of(case, source)) is not None, source
    for source in expect.get("not_equal", ()):
        assert contains(result.egraph, term_of(case, source)) != root, source
    for pattern in expect.get("patterns", ()):
        assert at_root(result.egraph, pattern), pattern
    for pattern in expect.get("absent", ()):
        assert not at_root(result.egraph, pattern), pattern
    if expect.get("saturates"):
        assert result.stop_reason is StopReason.SATURATED


@pytest.mark.parametrize("case", REWRITES, ids=lambda case: case["name"])
def test_all_that_is_found_computes_the_same(case: dict[str, Any]) -> None:
    rules = rules_of(case)
    term = term_of(case, case["term"])
    if term.type.size > 10_000:
        pytest.skip("too big to compute every form of it")
    check_program([term], rules, environment([term]))


def test_some_cases_run() -> None:
    def runs(case: dict[str, Any]) -> bool:
        try:
            rules_of(case)
        except pytest.skip.Exception:
            return False
        return True

    assert sum(map(runs, REWRITES)) >= 11


def test_lowering_of_the_weights() -> None:
    weights = builders.access(builders.tensor("w", (3, 4), "int64"), 1)
    case = {"inputs": {"w": [3, 4], "x": [2, 4]}}
    source = (
        "(systolic-blocked 4 3 (access 1 (tensor x)) "
        "(access 0 (transpose (1 0) (access 1 (tensor w)))))"
    )
    assert term_of(case, source).children[1] is weights
