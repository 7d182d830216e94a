"""Relations are taken for what they say of values, and for no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from egglog import String, Vec, eq, i64, rule, union, var, vars_

from glenside.rewrites import Rule
from glenside.rewrites.rules import quantised
from glenside.rewrites.rules.quantised import DEEPEST, plain_operand, scale_out_of_dot
from glenside.rewrites.soundness.proofs import Proved, prove
from glenside.rewrites.soundness.proofs.reader import Call, Equation, read
from glenside.rewrites.vocabulary import Access

x, q, whole = vars_("x q whole", Access)
s = var("s", Vec[i64])
n = var("n", i64)
dtype = String("int8")


def proved(of: Rule) -> bool:
    return isinstance(prove(of, examples=0, keep=False), Proved)


def by_plain(name: str, right: Access) -> Rule:
    """``x.access(n)`` of a plain operand is something else."""
    fact = plain_operand(x, q, dtype, s)
    case = rule(eq(whole).to(x.access(n)), fact).then(union(whole).with_(right))
    return Rule(name, (case,), exact=True, meanings=quantised.meanings())


def test_a_relation_stands_for_its_equations():
    reading = read(by_plain("a", q.cast("int32").access(n)))
    (case,) = reading.cases
    terms = [fact.right for fact in case.facts if isinstance(fact, Equation)]
    assert any(isinstance(e, Call) and e.operator == "cast" for e in terms)
    assert "plain_operand" not in str(case)


def test_what_a_relation_says_is_used():
    assert proved(by_plain("a-cast-of-it", q.cast("int32").access(n)))


@pytest.mark.parametrize("other", ["uint8", "int64"])
def test_what_it_does_not_say_is_not(other: str):
    assert not proved(by_plain("another-cast", q.cast(other).access(n)))


def test_a_scale_leaves_a_product_only_where_its_integers_hold_the_sum():
    """Of rows longer by one element int32 might not; the rule itself is in the ledger's test."""
    longer = replace(scale_out_of_dot(), meanings=quantised.meanings(DEEPEST + 1))
    assert not proved(longer)
