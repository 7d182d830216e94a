"""That programs equal their models is shown by the rules it takes, and by no fewer."""

import json
from dataclasses import replace

import pytest

import glenside
from glenside.errors import GlensideError
from glenside.explain import proof as proofs
from glenside.explain.proof import ProgramProof, RuleUsed, prove_program
from glenside.explain.records import RuleStep
from glenside.language import builders as b
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.soundness.proofs import ledger
from glenside.rewrites.vocabulary import Access
from tests.explain.helpers import optimised
from tests.models import small_network


@pytest.fixture(scope="module")
def run():
    return optimised(small_network(), "vta")


def proof_of(run, steps=None, extracted=None):
    return prove_program(
        "net",
        "vta",
        run.model.roots,
        run.extracted.terms if extracted is None else extracted,
        run.rules,
        run.explored.steps if steps is None else steps,
        10_000,
        seconds=60,
    )


def test_a_convolution_is_a_product_of_matrices_by_these_rules(run) -> None:
    proof = proof_of(run)
    assert [each.rule for each in proof.rules] == [
        "merge-accesses",
        "flatten-unflatten",
        "reshape-out-of-cart-prod",
        "reshape-out-of-dot",
        "vta-dense",
        "vta-batch-dense",
    ]
    assert proof.minimal and not proof.sampled
    assert "dot([o|i]X) -> [o|](dot X)" in str(proof)
    assert proof.proved and proof.bounded == ()


def test_a_rule_that_is_proved_for_some_ranks_only_is_told(run, monkeypatch) -> None:
    def up_to_two(rule):
        verdict = ledger.verdict_of(rule)
        return replace(verdict, ranks=2) if verdict.rule == "flatten-unflatten" else verdict

    monkeypatch.setattr(proofs, "verdict_of", up_to_two)
    proof = proof_of(run)
    assert proof.bounded == ("flatten-unflatten",) and not proof.proved
    assert str(proof).endswith("axes beyond those of these rules (flatten-unflatten)")


def test_what_was_done_before_is_told() -> None:
    x = b.tensor("x", (3,))
    term = b.compute("relu", b.access(x, 0))
    proof = glenside.optimize(term, target="cpu", precision="float16").prove()
    assert proof.changed == ("precision",)
    assert "(after precision)" in str(proof)


@pytest.mark.parametrize("left_out", ["reshape-out-of-dot", "flatten-unflatten", "vta-dense"])
def test_without_a_rule_it_takes_there_is_no_proof(run, left_out: str) -> None:
    steps = [step for step in run.explored.steps if step.rule.name != left_out]
    with pytest.raises(GlensideError, match="does not lead to the program"):
        proof_of(run, steps)


def test_another_program_is_not_proved(run) -> None:
    (right,) = run.extracted.terms
    other = b.access(b.compute("relu", b.access(right, 0)), right.type.split)
    with pytest.raises(GlensideError, match="does not lead to the program"):
        proof_of(run, extracted=[other])


@rewrite_rule("relu-is-nothing-for-tests", exact=True)
def _relu_is_nothing():
    from egglog import rewrite, var

    x = var("x", Access)
    yield rewrite(x.compute("relu", "")).to(x)


def test_a_users_rule_is_judged_when_a_proof_asks_for_it() -> None:
    x = b.tensor("x", (3,))
    term = b.compute("relu", b.access(x, 0))
    rules = [RuleSet("own", (_relu_is_nothing(),))]
    run = optimised(term, "cpu", rules=rules)
    proof = proof_of(run)
    assert proof.rules == (RuleUsed("relu-is-nothing-for-tests", "refuted", "", True, ""),)
    assert not proof.proved
    assert proof.refuted == ("relu-is-nothing-for-tests",)
    assert str(proof).endswith("wrong: rules that are false (relu-is-nothing-for-tests)")


@rewrite_rule("flatten-twice-for-tests", exact=True)
def _flatten_twice():
    """``flatten flatten X -> flatten X``"""
    from egglog import rewrite, var

    x = var("x", Access)
    yield rewrite(x.flatten().flatten()).to(x.flatten())


def test_a_users_true_rule_is_proved_when_a_proof_asks_for_it() -> None:
    relu = b.compute("relu", b.access(b.tensor("x", (2, 3)), 2))
    rules = [RuleSet("own", (_flatten_twice(),))]
    proof = proof_of(optimised(b.flatten(b.flatten(relu)), "cpu", rules=rules))
    (used,) = proof.rules
    assert (used.verdict, used.ranks, used.to_the_bit) == ("proved", None, True)
    assert used.law == "``flatten flatten X -> flatten X``"
    assert proof.proved and str(proof).endswith("proved, to the bit")


def test_without_a_solver_a_users_rule_counts_as_sampled(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    x = b.tensor("x", (3,))
    rules = [RuleSet("own", (_relu_is_nothing(),))]
    proof = proof_of(optimised(b.compute("relu", b.access(x, 0)), "cpu", rules=rules))
    assert proof.sampled == ("relu-is-nothing-for-tests",)
    assert "not proved: rules that are only sampled" in str(proof)


def test_sums_that_are_rearranged_are_told() -> None:
    proof = proof_of(optimised(small_network(), "hlscnn+vta"))
    assert "hlscnn-conv2d" in proof.rearranging
    assert str(proof).endswith(
        f"proved, but for the order of sums ({', '.join(proof.rearranging)})"
    )
    laws = {each.rule: each.law for each in proof.rules}
    assert laws["hlscnn-conv2d"].endswith("-> hlscnn-conv2d x w``")
    assert proof.finite == ("hlscnn-conv2d",)  # It pads with zeros, whatever its weights are.
    assert "numbers are taken to be finite by hlscnn-conv2d" in str(proof)


def test_the_model_as_it_was_needs_no_rule() -> None:
    x = b.tensor("x", (3,))
    proof = glenside.optimize(b.access(x, 1), target="cpu").prove()
    assert proof.steps == proof.rules == ()
    assert proof.proved
    assert "is the model as it was imported" in str(proof)


def test_a_saved_program_is_proved_where_it_tells_how_it_was_explored(tmp_path) -> None:
    program = glenside.optimize(small_network(), target="vta")
    program.save(tmp_path / "program")
    assert glenside.load(tmp_path / "program").prove() == program.prove()
    program.explain()
    program.save(tmp_path / "explained")
    with pytest.raises(GlensideError, match="prove it before it is saved"):
        glenside.load(tmp_path / "explained").prove()


def test_a_proof_is_text_and_json() -> None:
    used = RuleUsed("merge", "proved", "all sizes", False, "``X@m@n -> X@n``")
    proof = ProgramProof("net", "vta", (RuleStep("merge", 2),), (used,), False)
    told = json.loads(json.dumps(proof.to_json()))
    assert told["rules"][0]["to_the_bit"] is False
    assert told["proved"] is True
    assert "no time to find out" in str(proof)
    assert "merge (pass 2)  ``X@m@n -> X@n``" in str(proof)


def test_time_ends_the_search_for_fewer_rules(run) -> None:
    proof = prove_program(
        "net", "vta", run.model.roots, run.extracted.terms, run.rules, run.explored.steps, 10_000,
        seconds=0,
    )  # fmt: skip
    assert not proof.minimal
    assert len(proof.rules) >= 6
