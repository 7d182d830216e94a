"""A part of the sweep over all operators, versions, attributes and dtypes.

The whole, :mod:`tests.fuzz.operators`, takes minutes: ``python -m tests.fuzz.operators``.
"""

import zlib

import onnx
import pytest

from tests.effort import EFFORT
from tests.fuzz.operators import CRASH, RIGHT, WRONG, cases, judge, schemas
from tests.fuzz.recipes import recipes

OPERATORS = list(dict.fromkeys(name for name, _ in recipes()))
ONE_IN = 48 / EFFORT
"""Of so many cases one is tried, by a hash of its name."""

ELSEWHERE = """Bernoulli Constant If ImageDecoder Loop Multinomial Optional OptionalGetElement
 OptionalHasElement RandomNormal RandomNormalLike RandomUniform RandomUniformLike RegexFullMatch
 Scan SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength
 SequenceMap SplitToSequence ConcatFromSequence StringConcat StringNormalizer StringSplit
 TfIdfVectorizer Col2Im LinearAttention"""
"""Operators of the standard domain without a recipe: random, of strings, or tested as structure."""


REFUSED = ("NonMaxSuppression",)
"""The shape of their results depends on the data."""


def chosen(name: str) -> bool:
    return name.endswith("as it is") or zlib.crc32(name.encode()) % ONE_IN < 1


@pytest.mark.parametrize("operator", OPERATORS)
def test_no_answer_differs_from_other_runtimes(operator):
    # The newest version is often known to nobody else yet.
    opsets = [opset for opset, _ in schemas(operator)]
    ends = tuple(f"{operator}-{opset} " for opset in (opsets[0], opsets[-1]))
    verdicts = [
        judge(case)
        for case in cases(operator, chosen)
        if not case.name.endswith("as it is") or case.name.startswith(ends)
    ]
    assert not [each for each in verdicts if each.word in (WRONG, CRASH)]
    assert any(each.word == RIGHT for each in verdicts) or operator in REFUSED


def test_every_operator_has_a_recipe():
    names = {s.name for s in onnx.defs.get_all_schemas() if s.domain == ""}
    assert names - set(OPERATORS) <= set(ELSEWHERE.split())
