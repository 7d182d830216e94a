"""The original's rewrites, case by case: what must and what must not be found equal.

``GLENSIDE_CASES`` names another file of cases. What they call rules of lowering is what the Relay
front end does; those cases are tested there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_args

import pytest

from glenside.errors import GlensideError
from glenside.extraction import MaximiseOffload, extract
from glenside.frontends.kinds import Ints
from glenside.frontends.relay.operators import OPERATORS as RELAY
from glenside.language import Term, builders, evaluate, make, topological_order
from glenside.language.operators import OPERATORS, Kind
from glenside.language.syntax import read_expressions
from glenside.language.term import map_terms, rebuild
from glenside.rewrites import (
    FrozenEGraph,
    RuleSet,
    Saturation,
    StopReason,
    contains,
    matches,
    rule_named,
    saturate,
)
from glenside.rewrites.soundness import check_program, same
from tests.strategies import environment

CASES = Path(os.environ.get("GLENSIDE_CASES", Path(__file__).parents[2] / "cases/glenside.json"))
REWRITES = [
    case
    for case in json.loads(CASES.read_text())["cases"]
    if any(not name.startswith(("lower-", "project-")) for name in case.get("rules", ()))
]
LARGE = 5_000
"""Elements of a result; of more it takes too long to compute every form."""

CALLS = {"systolic", "systolic-blocked", "systolic-conv2d", "accel"}
"""The notation's words for what units compute."""


def rules_of(case: dict[str, Any]) -> list[RuleSet]:
    return [rule_named(name) for name in case["rules"] if not name.startswith("lower-")]


# --- from the notation to the language -----------------------------------------------------------


def numbers(words: Any) -> tuple[int, ...]:
    return tuple(map(int, words))


def attributes(expression: Any) -> dict[str, list[str]]:
    """``(attrs (NAME V...) ...)``"""
    return {name: values for name, *values in expression[1:]}


def call_of(head: str, words: list[Any]) -> tuple[str, tuple[int, ...], list[Any]]:
    """Unit, parameters and operands of an invocation; operands as they are written."""
    if head == "systolic":
        rows, columns, *operands = words
        return "systolic-array", numbers((rows, columns)), operands
    if head == "systolic-conv2d":
        layout, how, rows, columns, kernel, stride, *operands = words
        form = f"im2col-{layout}" if how == "im2col" else layout
        sizes = numbers((rows, columns, *kernel, *stride))
        return f"systolic-conv2d-{form}", sizes, operands
    unit, *operands = words
    if unit == "hlscnn-conv2d":
        options = attributes(operands.pop(0))
        return unit, numbers((*options["strides"], *options["padding"])), operands
    return unit, (), operands


def is_term(word: Any) -> bool:
    return isinstance(word, list) and bool(word) and word[0][:1].isalpha() and word[0] != "attrs"


def build(expression: Any, inputs: dict[str, list[int]]) -> Term:
    head, *words = expression
    if head == "relay":
        name, given, *operands = words
        signature = RELAY[name]
        values: dict[str, Any] = {}
        for key, value in attributes(given).items():
            kind = signature.kinds[key]
            several = Ints in (kind, *get_args(kind))
            values[key] = numbers(value) if several else int(value[0])
        terms = [build(each, inputs) for each in operands]
        lowered = signature.lower(*terms, **signature.read(values))
        assert isinstance(lowered, Term)
        return lowered
    if head == "systolic-blocked":
        rows, columns, x, w = words
        weights = build(w, inputs)
        # Theirs takes the weights as one item (K N), ours as ((N) (K)).
        assert weights.op == "access" and weights.children[0]["permutation"] == (1, 0)
        by_column = weights.children[0].children[0]
        return builders.blocked(
            "systolic-array", numbers((rows, columns)), build(x, inputs), by_column
        )
    if head in CALLS:
        unit, parameters, operands = call_of(head, words)
        terms = [build(each, inputs) for each in operands]
        if unit == "flex-linear":
            terms[:2] = [builders.access(each, 1) for each in terms[:2]]
        return builders.call(unit, parameters, *terms)
    if head == "tensor":
        return builders.tensor(words[0], inputs[words[0]], "int64")
    operator = OPERATORS[head.replace("-", "_")]
    values = {}
    for attribute, word in zip(operator.attributes, words, strict=False):
        if attribute.optional:
            break
        ints = isinstance(word, list)
        values[attribute.name] = (
            numbers(word) if ints else int(word) if attribute.kind is Kind.INT else word
        )
    children = [build(word, inputs) for word in words[len(values) :]]
    return make(operator.name, children, **values)


def term_of(case: dict[str, Any], source: str) -> Term:
    (expression,) = read_expressions(source)
    return build(expression, case["inputs"])


def without_idle_accesses(root: Term) -> Term:
    """The term without any ``access`` that changes nothing, as the builders make it."""

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        idle = term.op == "access" and term["split"] == children[0].type.split
        return children[0] if idle else rebuild(term, children)

    return map_terms([root], change)[root]


def pattern_of(expression: Any) -> str:
    """The text of a pattern; an unknown size of a unit makes all its parameters unknown."""
    if not isinstance(expression, list) or not expression:
        return expression if isinstance(expression, str) else "()"
    head, *words = expression
    if head == "systolic-blocked":
        rows, columns, *operands = words
        shown = " ".join(map(pattern_of, operands))
        return f"(blocked systolic-array ({rows} {columns}) {shown})"
    if head == "systolic-conv2d" and "?k" in words:
        layout, _, _, _, _, _, *operands = words
        return f"(call systolic-conv2d-{layout} ?parameters {' '.join(map(pattern_of, operands))})"
    if head in CALLS:
        unit, parameters, operands = call_of(head, words)
        shown = " ".join(map(pattern_of, operands))
        return f"(call {unit} ({' '.join(map(str, parameters))}) {shown})"
    return f"({' '.join(map(pattern_of, expression))})"


def at_root(egraph: FrozenEGraph, source: str) -> bool:
    (expression,) = read_expressions(source)
    for _, binding in matches(egraph, pattern_of(expression), egraph.roots):
        if "?parameters" not in binding or binding["?parameters"][:2] == numbers(expression[3:5]):
            return True
    return False


def class_of(egraph: FrozenEGraph, term: Term) -> int | None:
    found = contains(egraph, term)
    return contains(egraph, without_idle_accesses(term)) if found is None else found


# --- the cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", REWRITES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    rules, expect = rules_of(case), case["expect"]
    term = term_of(case, case["term"])
    result = saturate([term], rules)
    root = result.egraph.roots[0]

    shape = expect["shape"]
    assert term.type.outer == tuple(shape["outer"])
    assert term.type.item == tuple(shape["item"])
    assert result.egraph.types[root] == term.type
    for source in expect.get("equals", ()):
        assert class_of(result.egraph, term_of(case, source)) == root, source
    for source in expect.get("anywhere", ()):
        assert class_of(result.egraph, term_of(case, source)) is not None, source
    for source in expect.get("not_equal", ()):
        assert class_of(result.egraph, term_of(case, source)) != root, source
    for pattern in expect.get("patterns", ()):
        assert at_root(result.egraph, pattern), pattern
    for pattern in expect.get("absent", ()):
        assert not at_root(result.egraph, pattern), pattern
    if expect.get("saturates"):
        assert result.stop_reason is StopReason.SATURATED
    if "extract" in expect:
        check_extraction(expect["extract"], term, result)


class OnlyArrays(MaximiseOffload):
    """No product on the host, and only arrays of some sizes."""

    sizes: tuple[tuple[int, ...], ...] = ()

    def node_cost(self, op: str, attributes: Any, result: Any, operands: Any) -> Any:
        if op == "compute" and attributes["function"] == "dot":
            return None
        if op == "call" and attributes["parameters"] not in self.sizes:
            return None
        return super().node_cost(op, attributes, result, operands)


def check_extraction(expect: dict[str, Any], term: Term, result: Saturation) -> None:
    assert expect["forbid"] == ["(compute dot ?x)"]
    model = OnlyArrays()
    object.__setattr__(model, "sizes", tuple(map(tuple, expect["allowed_arrays"])))
    if not expect["feasible"]:
        with pytest.raises(GlensideError):
            extract(result.egraph, model)
        return
    (program,) = extract(result.egraph, model).terms
    assert any(each.op == "call" for each in topological_order([program]))
    env = environment([term])
    found, expected = evaluate([program, term], env)
    assert same(found, expected)


SMALL = [case for case in REWRITES if term_of(case, case["term"]).type.size <= LARGE]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case["name"])
def test_all_that_is_found_computes_the_same(case: dict[str, Any]) -> None:
    rules = rules_of(case)
    term = term_of(case, case["term"])
    check_program([term], rules, environment([term]))


def test_all_families_are_there() -> None:
    families = {
        "im2col",
        "blocking",
        "padding",
        "layout",
        "maxpool",
        "linear",
        "tensorize",
        "guard",
    }
    assert families <= {case["family"] for case in REWRITES}


def test_lowering_of_the_weights() -> None:
    weights = builders.access(builders.tensor("w", (3, 4), "int64"), 1)
    case = {"inputs": {"w": [3, 4], "x": [2, 4]}}
    source = (
        "(systolic-blocked 4 3 (access 1 (tensor x)) "
        "(access 0 (transpose (1 0) (access 1 (tensor w)))))"
    )
    assert term_of(case, source).children[1] is weights
