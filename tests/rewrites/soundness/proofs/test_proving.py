"""What a user of the prover meets: verdicts, their file, helpers for tests."""

from __future__ import annotations

import dataclasses

import pytest
from egglog import i64, rewrite, ruleset, var, vars_

from glenside.errors import GlensideError
from glenside.language.syntax import parse
from glenside.rewrites import rule_named
from glenside.rewrites.soundness import proofs
from glenside.rewrites.soundness.proofs import cache, fingerprint, reader
from glenside.rewrites.soundness.proofs.verdicts import from_data
from glenside.rewrites.vocabulary import Access

x = var("x", Access)
m, n = vars_("m n", i64)
GOOD = ruleset(rewrite(x.access(m).access(n)).to(x.access(n)), name="good")
BAD = ruleset(rewrite(x.access(m).access(n)).to(x.access(m)), name="bad")


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "proofs.json"))


def test_a_users_own_rule_is_proved():
    verdict = proofs.prove(GOOD)
    assert isinstance(verdict, proofs.Proved) and verdict.ok
    assert verdict.holds == "all sizes, all ranks, to the bit"
    assert proofs.check_proved(GOOD).instances == verdict.instances > 0


def test_a_false_rule_comes_with_a_program_on_which_it_fails():
    verdict = proofs.prove(BAD)
    assert isinstance(verdict, proofs.Refuted) and not verdict.ok
    assert verdict.program.op == "access"
    assert parse(verdict.data()["program"]) is verdict.program
    with pytest.raises(AssertionError, match="refuted"):
        proofs.check_proved(BAD)


def test_what_stays_open_is_tried_on_programs():
    verdict = proofs.prove(rule_named("flex-lstm"), examples=5)
    assert isinstance(verdict, proofs.Sampled) and verdict.ok
    assert "\n" not in verdict.obligation


def test_a_rule_marked_exact_may_not_rearrange_sums():
    rule = rule_named("sum-of-products").rules[0]
    assert isinstance(proofs.prove(rule, examples=0), proofs.Proved)
    exact = dataclasses.replace(rule, exact=True)
    verdict = proofs.prove(exact, examples=0, keep=False)
    assert isinstance(verdict, proofs.Sampled) and "marked exact" in verdict.obligation


def test_verdicts_are_kept_until_the_rule_changes(monkeypatch):
    first = proofs.prove(GOOD)
    monkeypatch.setattr(
        "glenside.rewrites.soundness.proofs.cases.prove_cases",
        lambda *_: pytest.fail("proved again"),
    )
    assert proofs.prove(GOOD) == first
    with pytest.raises(pytest.fail.Exception, match="proved again"):
        proofs.prove(BAD)


def test_a_file_that_cannot_be_read_counts_as_empty(tmp_path):
    (tmp_path / "proofs.json").write_text("{")
    assert proofs.prove(GOOD).ok
    assert cache.read()


@pytest.mark.parametrize("rules", [GOOD, BAD])
def test_verdicts_survive_json(rules):
    verdict = proofs.prove(rules)
    assert from_data(verdict.data()).data() == verdict.data()


def test_a_fingerprint_follows_the_commands():
    rules = [rule_named("drop-identity-slice").rules[0], rule_named("join-slices").rules[0]]
    together = fingerprint.of_rules(rules)
    alone = {rule.name: fingerprint.of_rule(reader.read(rule)) for rule in rules}
    assert together == alone and len(set(together.values())) == 2


def test_one_rule_is_proved_at_a_time_unless_all_are_asked_for():
    with pytest.raises(GlensideError, match="one rule was expected"):
        proofs.prove([rule_named("merge-slices"), rule_named("join-slices")])
    several = proofs.prove_all([rule_named("merge-slices"), rule_named("join-slices")], jobs=2)
    assert [each.verdict for each in several] == ["proved", "proved"]
