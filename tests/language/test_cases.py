"""The shape, value and error cases of ``cases/glenside.json``.

``GLENSIDE_CASES`` names another file in the same notation. Its systolic forms are lowered here:
``(systolic R C X W)`` is a call, and ``(systolic-blocked R C X W)`` with ``W: (() (N O))`` is a
``blocked`` product whose sizes the array must divide.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from glenside.errors import ShapeError
from glenside.language import builders, evaluate, parse, to_text
from glenside.language.syntax import read_expressions

PATH = Path(os.environ.get("GLENSIDE_CASES") or Path(__file__).parents[1] / "cases/glenside.json")
CASES = [
    case
    for case in json.loads(PATH.read_text(encoding="utf-8"))["cases"]
    if case["family"] in ("shape", "value", "error")
]


def lower(expression, inputs):
    """The term an expression of the notation stands for."""
    operator, *words = expression
    if not operator.startswith("systolic"):
        head = [word for word in words if not _is_term(word)]
        operands = [lower(word, inputs) for word in words if _is_term(word)]
        text = " ".join([operator, *map(_spell, head), *map(to_text, operands)])
        return parse(f"({text})", inputs)
    rows, columns = map(int, words[:2])
    stream, weights = (lower(word, inputs) for word in words[2:])
    if operator == "systolic":
        return builders.call("systolic-array", (rows, columns), stream, weights)
    assert operator == "systolic-blocked"
    depth, width = weights.item
    if depth % rows or width % columns:
        raise ShapeError(f"{rows} x {columns} does not divide {depth} x {width}")
    by_column = builders.access(builders.transpose(weights, (1, 0)), 1)
    return builders.blocked("systolic-array", (rows, columns), stream, by_column)


def _is_term(word):
    return isinstance(word, list) and bool(word) and word[0][:1].isalpha()


def _spell(word):
    return f"({' '.join(word)})" if isinstance(word, list) else word


def term_of(case):
    (expression,) = read_expressions(case["term"])
    inputs = {name: tuple(shape) for name, shape in case["inputs"].items()}
    return lower(expression, inputs)


def named(family):
    return pytest.mark.parametrize(
        "case", [pytest.param(c, id=c["name"]) for c in CASES if c["family"] == family]
    )


def check_shape(case, term):
    shape = case["expect"]["shape"]
    assert (list(term.outer), list(term.item)) == (shape["outer"], shape["item"])


@named("shape")
def test_shape(case):
    check_shape(case, term_of(case))


@named("value")
def test_value(case):
    term, expected = term_of(case), case["expect"]
    check_shape(case, term)
    env = {name: np.array(value, "float32") for name, value in expected["values"].items()}
    np.testing.assert_array_equal(evaluate([term], env)[0], np.array(expected["value"]))


@named("error")
def test_error(case):
    assert case["expect"]["error"] is True
    with pytest.raises(ShapeError):
        term_of(case)


@named("shape")
def test_the_text_form_is_the_notation(case):
    if "systolic" not in case["term"]:
        inputs = {name: tuple(shape) for name, shape in case["inputs"].items()}
        assert parse(case["term"], inputs) is term_of(case)


def test_every_family_has_cases():
    assert {case["family"] for case in CASES} == {"shape", "value", "error"}
