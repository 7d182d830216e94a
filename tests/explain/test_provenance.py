"""Which layers calls came from, and by which rules: checked step by step against the e-graph."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import glenside
from glenside.errors import GlensideError, InputError
from glenside.explain import CallOrigin, Explanation, Left, RuleStep
from glenside.language import Model, Term, topological_order
from glenside.language import builders as b
from glenside.rewrites import EGraph, FrozenEGraph, tile_to
from tests.explain.helpers import optimised
from tests.models import small_network, two_outputs
from tests.saving import reseal


def test_a_convolution_becomes_a_product_of_matrices_by_these_rules() -> None:
    conv, dense = optimised(small_network(), "vta").account.explain().calls
    assert (conv.unit, conv.layers) == ("vta-batch-dense", ("conv",))
    assert [step.rule for step in conv.rules] == [
        "flatten-unflatten",
        "reshape-out-of-cart-prod",
        "reshape-out-of-dot",
        "vta-batch-dense",
    ]
    assert (dense.unit, dense.layers) == ("vta-dense", ("scores",))
    assert dense.rules == (RuleStep("vta-dense", 1),)


def _holds(egraph: FrozenEGraph, call: Term) -> bool:
    """Whether it has such a call, whatever its operands."""
    return any(
        (node.op, node.values, type_) == (call.op, call.values, call.type)
        for nodes, type_ in zip(egraph.classes, egraph.types, strict=True)
        for node in nodes
    )


@pytest.mark.parametrize("target", ["vta", "hlscnn+vta", "systolic-array:16x16"])
def test_the_last_rule_is_that_after_which_the_call_is_there(target: str) -> None:
    run = optimised(small_network(), target)
    calls = [t for t in topological_order(run.extracted.terms) if t.op in ("call", "blocked")]
    origins = run.account.explain().calls
    assert [origin.unit for origin in origins] == [call["unit"] for call in calls]
    egraph = EGraph([rule for each in run.rules for rule in each])
    egraph.load(run.model.roots)
    came: dict[int, RuleStep] = {}
    for step in run.explored.steps:
        egraph.apply(step.rule)
        frozen = egraph.freeze()
        for number, call in enumerate(calls):
            if number not in came and _holds(frozen, call):
                came[number] = RuleStep(step.rule.name, step.iteration)
    egraph.close()
    for number, (origin, call) in enumerate(zip(origins, calls, strict=True)):
        assert came[number] in origin.rules, origin
        later = {r.rule for r in origin.rules if r.iteration > came[number].iteration}
        # The results of a batch of calls are moved to where the layer has them.
        batch = call.op == "call" and call["batch"]
        moved = {"merge-accesses", "merge-transposes"} if batch else set()
        assert later == moved


def test_a_bias_behind_a_reshape_is_moved_and_both_layers_are_told() -> None:
    x, w = b.tensor("x", (6, 8)), b.tensor("w", (4, 8))
    product = b.compute("dot", b.cart_prod(b.access(x, 1), b.access(w, 1)))
    grouped = b.reshape(product, (2, 3, 4), ())
    spread = b.broadcast(b.unsqueeze(b.unsqueeze(b.tensor("c", (4,)), 0), 0), (2, 3, 4))
    biased = b.compute("add", b.pair(b.access(grouped, 0), b.access(spread, 0)))
    layers = {"dense": product, "bias": b.access(biased, 3)}
    leaves = {t["name"]: t.type for t in topological_order([biased]) if t.op == "tensor"}
    model = Model("net", leaves, {}, {"bias": layers["bias"]}, {t: n for n, t in layers.items()})
    (call,) = optimised(model, "flexasr").account.explain().calls
    assert (call.unit, call.layers) == ("flex-linear", ("dense", "bias"))
    assert [step.rule for step in call.rules] == ["bias-out-of-reshape", "flex-linear"]


def test_maxima_of_maxima_all_come_from_one_pool() -> None:
    x = b.tensor("x", (1, 3, 8, 8))
    looks = b.windows(b.access(x, 2), (2, 2), (2, 2))
    calls = optimised(b.compute("max", looks), "flexasr").account.explain().calls
    assert [call.unit for call in calls] == ["flex-maxpool", "flex-maxpool"]
    for call in calls:
        assert call.layers == ("output",)
        names = [step.rule for step in call.rules]
        assert "reassociate-max(2,2)" in names and "flex-maxpool" in names
    # What regrouped the windows led to the call that reads them.
    assert ["flatten-unflatten" in str(call) for call in calls] == [True, False]


def test_a_call_of_the_model_itself_came_by_no_rule() -> None:
    x, w = b.access(b.tensor("x", (2, 3)), 1), b.access(b.tensor("w", (4, 3)), 1)
    (call,) = optimised(b.call("vta-dense", (), x, w), "vta").account.explain().calls
    assert call == CallOrigin("vta-dense", "((2 4) ()) float32", ("output",), ())
    assert "it stands in the model" in str(call)


def test_exact_matching_finds_what_needs_no_other_rule() -> None:
    run = optimised(small_network(), "vta")
    assert run.account.exact == {"vta": 1}
    assert len(run.account.explain().calls) == 2
    # The groups of its convolution are a batch of calls.
    assert optimised(small_network(), "hlscnn").account.exact == {"hlscnn": 1}
    assert optimised(small_network(), "cpu").account.exact is None


EXPLANATION = Explanation(
    "net[red]",
    "vta",
    (CallOrigin("vta-dense", "((2 4) ()) float32", ("fc:smile:",), (RuleStep("vta-dense", 1),)),),
    (Left("pool", "flex-maxpool", "T is odd"),),
    ("fc:smile:", "relu", "pool"),
)


def test_an_explanation_is_written_and_read() -> None:
    assert Explanation.from_json(json.loads(json.dumps(EXPLANATION.to_json()))) == EXPLANATION
    shown = str(EXPLANATION)
    for words in ("net[red] on vta", "fc:smile:", "pass 1: vta-dense", "pool", "T is odd"):
        assert words in shown
    assert str(EXPLANATION.calls[0]) == (
        "fc:smile: → vta-dense (pass 1): vta-dense ((2 4) ()) float32"
    )


def test_one_node_of_it() -> None:
    only = EXPLANATION.of("fc:smile:")
    assert (only.calls, only.left) == (EXPLANATION.calls, ())
    only = EXPLANATION.of("pool")
    assert (only.calls, only.left) == ((), EXPLANATION.left)
    assert "relu is computed on the host" in str(EXPLANATION.of("relu"))
    with pytest.raises(InputError, match="computes no value called 'pol': is it 'pool'"):
        EXPLANATION.of("pol")


def test_rules_that_were_not_found_out_are_not_passed_over() -> None:
    call = CallOrigin("unit", "", ("conv",), (RuleStep("flatten", 1),), complete=False)
    assert "flatten (pass 1), others that were not found out: unit" in str(call)
    assert call.by_pass == "pass 1: flatten\nothers that were not found out"


def test_many_layers_of_one_call_are_counted() -> None:
    names = tuple(f"%{i}" for i in range(566))
    assert "... and 556 more → " in str(CallOrigin("lstm", "", names, ()))


def test_a_saved_program_that_was_explained_needs_no_egglog_to_explain_itself(
    tmp_path: Path,
) -> None:
    program = glenside.optimize(small_network(), "vta", check=False)
    told = program.explain()
    program.save(tmp_path / "one")
    script = f"""
import sys
import glenside
program = glenside.load({str(tmp_path / "one")!r})
print(program.explain("conv"))
program.save({str(tmp_path / "two")!r})
assert glenside.load({str(tmp_path / "two")!r}).explain() == program.explain()
assert "egglog" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "reshape-out-of-dot" in done.stdout and "scores" not in done.stdout
    assert glenside.load(tmp_path / "one").explain() == told
    (file,) = tmp_path.glob("one/code-*/explain.json")
    file.unlink()
    with pytest.raises(GlensideError, match=r"explain\.json"):
        glenside.load(tmp_path / "one").explain()


@pytest.mark.parametrize("target", ["vta", "flexasr+hlscnn", "cpu"])
def test_saving_does_not_explore_again_and_explaining_later_tells_the_same(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = glenside.optimize(small_network(), target, check=False)

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("exploration was repeated")

    with monkeypatch.context() as patched:
        patched.setattr("glenside.explain.recipe.call_origins", fails)
        program.save(tmp_path / "one")
        loaded = glenside.load(tmp_path / "one")
        loaded.save(tmp_path / "two")
    assert glenside.load(tmp_path / "two").explain() == program.explain()


def test_a_rule_that_is_not_known_any_more_is_named(tmp_path: Path) -> None:
    program = glenside.optimize(small_network(), "vta", check=False)
    program.save(tmp_path)
    (file,) = tmp_path.glob("code-*/explain.json")
    file.write_text(file.read_text().replace("flatten-unflatten", "my-rule"))
    reseal(tmp_path)
    with pytest.raises(GlensideError, match="with the rule my-rule, which is not known here"):
        glenside.load(tmp_path).explain()


def test_a_program_without_calls_says_so() -> None:
    program = glenside.optimize(two_outputs(), check=False)
    told = program.explain()
    assert (told.calls, told.left, told.layers) == ((), (), ("total", "product"))
    assert "everything is computed on the host" in str(told)


def test_the_same_model_is_explained_alike_every_time() -> None:
    first, second = (optimised(small_network(), "flexasr").account.explain() for _ in range(2))
    assert first == second


def test_layers_that_were_explored_once_for_all_are_explained_each() -> None:
    x = b.tensor("x", (32, 32))
    for layer in range(6):
        w = b.access(b.tensor(f"w{layer}", (32, 32)), 1)
        product = b.compute("dot", b.cart_prod(b.access(x, 1), w))
        x = b.access(b.compute("tanh", b.access(product, 0)), 2)
    run = optimised(x, "systolic-array:16x16", rules=tile_to(16, 16))
    assert run.explored.explored is not None
    calls = run.account.explain().calls
    assert len(calls) == 6 * 4
    assert all(call.complete and "systolic-tile(16,16)" in str(call) for call in calls)
    assert run.account.exact == {}  # No product has the size of the array as it is.
