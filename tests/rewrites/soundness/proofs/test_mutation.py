"""Conditions of rules: without what soundness rests on a rule is refuted, guards are told apart."""

from __future__ import annotations

import pytest
from egglog import eq, i64, rule, union, var, vars_

from glenside.rewrites import Rule, rule_named
from glenside.rewrites.soundness.proofs import cache, mutation
from glenside.rewrites.vocabulary import Access

# A rule, and what each of its conditions is for.
SLICE = {
    "concat-out-of-dot-item": ["needed"],
    "drop-identity-access": ["needed"],
    "reshape-out-of-dot": ["needed", "needed"],
    "drop-identity-slice": ["needed"],
}


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "proofs.json"))


@pytest.mark.parametrize("name", SLICE)
def test_what_soundness_rests_on_is_refuted_without(name):
    found = mutation.conditions(rule_named(name).rules[0])
    assert [each.verdict for each in found] == SLICE[name], found
    assert all(each.detail.startswith("(") for each in found if each.verdict == "needed")


def test_a_condition_that_only_guards_against_growth_is_told_apart():
    x, whole = vars_("x whole", Access)
    m, n = vars_("m n", i64)
    guarded = rule(eq(whole).to(x.access(m).access(n)), m > n).then(union(whole).with_(x.access(n)))
    (found,) = mutation.conditions(Rule("guarded", (guarded,), True))
    assert (found.condition, found.verdict) == ("(> m n)", "guard")
    assert found.detail == "all sizes, all ranks, to the bit"


def test_a_fact_that_binds_is_no_condition():
    x, whole = vars_("x whole", Access)
    n = var("n", i64)
    bound = rule(eq(whole).to(x.access(n))).then(union(whole).with_(whole))
    assert list(mutation.mutants(Rule("bound", (bound,), True))) == []


def test_what_is_checked_in_is_of_rules_that_ship():
    rows = mutation.read_list()
    known = {each.rule for each in rows}
    assert len(known) >= 20
    assert {each.verdict for each in rows} <= {"needed", "guard", "open"}
    for name in sorted(known)[:3]:
        assert rule_named(name).rules[0].name == name
