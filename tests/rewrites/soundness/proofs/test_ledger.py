"""The list of what is proved: it knows the rules as they are, and some of it is proved again."""

from __future__ import annotations

import pytest

from glenside.rewrites.ruleset import all_rules, rule_named
from glenside.rewrites.soundness.proofs import Proved, fingerprint, ledger, prove

# One of each kind, all of them quick.
SLICE = [
    "access-out-of-transpose",
    "concat-out-of-cart-item",
    "concat-out-of-dot-item",
    "merge-reshapes",
    "merge-transposes",
    "row-as-vector",
    "pad-product(2,2)",
    "reassociate-max(2,2)",
    "reassociate-mean(2)",
    "flatten-unflatten",
    "reshape-out-of-dot",
    "scale-out-of-dot",
    "slice-out-of-dot-zero",
    "softmax-as-cascade",
    "rebase-power",
    "softmax-out-of-reshape",
    "step-into-product",
    "systolic-tile(2,2)",
    "vta-dense",
]


def test_the_list_knows_every_rule_as_it_is():
    rules = list(all_rules())
    known = ledger.read()
    changed = [
        name
        for name, own in fingerprint.of_rules(rules).items()
        if name not in known or known[name].fingerprint != own
    ]
    assert not changed, f"run: python tools/prove_rules.py {' '.join(changed)}"
    assert set(known) == {rule.name for rule in rules}


def test_nothing_that_ships_is_refuted_and_nearly_all_is_proved():
    verdicts = [entry.verdict for entry in ledger.read().values()]
    proved = [each for each in verdicts if isinstance(each, Proved)]
    assert not [each.rule for each in verdicts if each.verdict == "refuted"]
    assert len(proved) >= 0.97 * len(verdicts)
    assert sum(each.ranks is None for each in proved) >= 0.85 * len(verdicts)


def test_no_rule_is_marked_exact_whose_proof_moves_bits():
    known = ledger.read()
    for rule in all_rules():
        verdict = known[rule.name].verdict
        assert not (rule.exact and isinstance(verdict, Proved) and verdict.steps), rule.name


@pytest.mark.parametrize("name", SLICE)
def test_what_is_on_the_list_is_proved_again(name):
    verdict = prove(rule_named(name), examples=0, keep=False)
    listed = ledger.read()[name].verdict
    assert isinstance(verdict, Proved), verdict.detail
    assert isinstance(listed, Proved)
    assert (verdict.ranks, verdict.steps) == (listed.ranks, listed.steps)
