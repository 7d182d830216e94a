"""Claims of declarations: those that ship are proved for all sizes, false ones never are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from glenside.errors import TargetError
from glenside.hw_targets import Accelerator
from glenside.hw_targets.declare import proved, tiling
from glenside.hw_targets.declare.claimed import Claim, claims
from glenside.hw_targets.declare.claims import prove_claim, prove_claims
from glenside.hw_targets.registry import REGISTRY
from glenside.language.units import find_unit, known_units
from glenside.rewrites.soundness.proofs import Proved, Sampled


def declared(name):
    REGISTRY.bring_in_what_ships()
    return find_unit(name).declaration


def test_all_that_shipped_units_claim_of_their_sizes_is_proved():
    REGISTRY.bring_in_what_ships()
    ours = [unit for unit in known_units() if unit.meaning.__module__.startswith("glenside.")]
    units = [unit.declaration for unit in ours if isinstance(unit.declaration, Accelerator)]
    verdicts = [verdict for unit in units for verdict in prove_claims(unit)]
    assert [verdict.detail for verdict in verdicts if not isinstance(verdict, Proved)] == []
    told = {verdict.rule: verdict.steps for verdict in verdicts}
    assert told["vta-dense: parts along K give the whole in sum"] == ("cuts sums",)
    assert told["vta-dense: parts along N give the whole side by side"] == ()
    assert told["flex-linear: zeros behind K change nothing"] == ("cuts sums",)
    assert len(told) >= 90


FALSE = [
    ("vta-dense", "K", "cut", "outer", 1),
    ("vta-dense", "K", "cut", "max", -1),
    ("vta-dense", "N", "cut", "sum", -1),
    ("vta-dense", "N", "cut", "outer", 0),
    ("vta-dense", "K", "padded", "lowest", -1),
    ("tensor-core", "K", "cut", "max", -1),
    ("tensor-core", "M", "cut", "sum", -1),
    ("tensor-core", "M", "cut", "outer", 1),
    ("flex-linear", "K", "cut", "max", -1),
    ("flex-linear", "N", "cut", "sum", -1),
    ("flex-maxpool", "H", "cut", "max", -1),
    ("flex-meanpool", "H", "cut", "sum", -1),
    ("flex-attention", "K", "cut", "sum", -1),
    ("flex-attention", "N", "padded", "zero", -1),
    ("flex-layer-norm", "H", "padded", "zero", -1),
    ("flex-layer-norm", "H", "cut", "outer", 1),
]


@pytest.mark.parametrize("parts", FALSE, ids=lambda parts: " ".join(map(str, parts)))
def test_false_claims_are_not_proved(parts):
    claim = Claim(*parts)
    unit = declared(claim.unit)
    assert claim.size in unit.checked.names
    verdict = prove_claim(claim, unit.checked)
    assert isinstance(verdict, Sampled)
    assert verdict.rule == str(claim) and "\n" not in verdict.obligation


def own(name, operands, computes, **options):
    return Accelerator(name, operands=operands, computes=computes, known=False, **options)


def test_a_maximum_is_cut_and_padded_with_the_lowest_value():
    unit = own("greatest", {"x": "((M) (K))"}, "(compute max ?x)", tile={"K": 4})
    assert [str(each) for each in claims(unit)] == [
        "greatest: parts along K give the whole as maximum",
        "greatest: lowest values behind K change nothing",
    ]
    assert [each.verdict for each in prove_claims(unit)] == ["proved", "proved"]
    zero = Claim("greatest", "K", "padded", "zero")
    assert prove_claim(zero, unit.checked).verdict == "sampled"


BIASED = (
    "(compute add (pair (access 0 (compute dot (cart-prod ?x ?w)))"
    " (access 0 (broadcast (M N) (unsqueeze 0 ?b)))))"
)


def test_a_bias_is_added_once():
    operands = {"x": "((M) (K))", "w": "((N) (K))", "b": "(() (N))"}
    unit = own("biased", operands, BIASED, tile={"K": 4, "N": 4})
    verdicts = prove_claims(unit)
    assert [each.verdict for each in verdicts] == ["proved"] * 4
    assert prove_claim(Claim("biased", "N", "cut", "sum"), unit.checked).verdict == "sampled"


def test_rows_behind_pools_are_in_windows_of_their_own():
    unit = declared("flex-maxpool")
    claim = Claim("flex-maxpool", "T", "padded", "zero")
    assert isinstance(prove_claim(claim, unit.checked), Proved)


def test_constraints_on_what_is_cut_are_not_used():
    """Parts need not satisfy them: K is 8 at least, a part of it is not."""
    unit = own(
        "long", {"x": "((M) (K))", "w": "((N) (K))"}, "(compute dot (cart-prod ?x ?w))",
        tile={"K": 4}, constraints=["K >= 8", "K % 4 == 0"],
    )  # fmt: skip
    (verdict,) = prove_claims(unit)
    assert verdict.rule == "long: parts along K give the whole in sum"
    assert isinstance(verdict, Proved)


def test_the_list_of_what_ships_knows_every_declaration():
    """So that nothing is proved while they are imported: run python tools/prove_rules.py."""
    REGISTRY.bring_in_what_ships()
    ours = [unit for unit in known_units() if unit.meaning.__module__.startswith("glenside.")]
    units = [unit.declaration for unit in ours if isinstance(unit.declaration, Accelerator)]
    missing = [
        unit.name
        for unit in units
        if list(claims(unit)) and proved.fingerprint(unit, unit.tiling) not in proved.shipped()
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("how", "computes", "fails"),
    [
        ("sum", "(compute max ?x)", "parts along K give the whole in sum: that is not so"),
        ("max", "(compute sum ?x)", "parts along K give the whole as maximum: that is not so"),
        ("sum", "(compute mean ?x)", "parts along K give the whole in sum: that is not so"),
    ],
)
def test_a_false_claim_is_refused_whatever_the_argument_on_the_term_says(
    monkeypatch, how, computes, fails
):
    monkeypatch.setattr(tiling, "_role", lambda *_: tiling.Role(how))
    monkeypatch.setattr(tiling, "_padding", lambda *_: None)
    monkeypatch.setattr(tiling, "_try", lambda *_: None)
    operands = {"x": "((M) (K))"}
    with pytest.raises(TargetError, match=f"{fails}; the result differs for .*K = 3") as refused:
        own("false", operands, computes, tile={"K": 2})
    assert "\n" not in str(refused.value)


def test_what_was_proved_of_a_declaration_is_remembered(monkeypatch, tmp_path):
    monkeypatch.setenv("GLENSIDE_PROOFS", str(tmp_path / "proofs.json"))
    operands, computes = {"x": "((M) (K))"}, "(compute sum ?x)"
    own("remembered", operands, computes, tile={"K": 6})
    monkeypatch.setattr(
        "glenside.hw_targets.declare.claims.prove_claim", lambda *_: pytest.fail("proved again")
    )
    own("remembered", operands, computes, tile={"K": 6})


def test_without_a_solver_the_argument_and_the_trials_decide(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(
        "glenside.hw_targets.declare.claims.prove_claim", lambda *_: pytest.fail("proved")
    )
    assert own("unsolved", {"x": "((M) (K))"}, "(compute sum ?x)", tile={"K": 7}).tiling.roles


def test_units_are_declared_where_there_is_no_solver():
    code = "import sys; sys.modules['z3'] = None; import glenside; print(len(glenside.targets()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5
