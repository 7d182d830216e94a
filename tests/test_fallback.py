"""A fault of ours in rewriting keeps nobody from running a model."""

import itertools
import json

import numpy as np
import pytest

import glenside
from glenside import fallback
from glenside.errors import (
    ExtractionError,
    GlensideError,
    NotExplained,
    NotOptimised,
    UnsoundRewrite,
)
from glenside.extraction import MaximiseOffload, bottom_up, find_cost_model
from glenside.language import builders as b
from glenside.report import Report
from glenside.rewrites import RuleSet, StopReason, contains, saturate
from glenside.rewrites.engine import egraph
from tests.models import onnxruntime_answers, small_network

IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")
TARGET = "systolic-array:16x16"


class PanicException(BaseException):
    """What a panic in Rust becomes; pyo3 gives no way to import its own."""


def breaks(monkeypatch, stage, problem):
    def fail(*args, **kwargs):
        raise problem

    if stage == "saturate":
        monkeypatch.setattr(egraph.EGraph, "apply", fail)
    else:
        monkeypatch.setattr("glenside.extraction.bottom_up", fail)


@pytest.mark.parametrize("problem", [KeyError("x"), RecursionError("deep\n"), PanicException("oh")])
@pytest.mark.parametrize("stage", ["saturate", "extract"])
def test_an_unexpected_error_gives_the_unoptimised_program(monkeypatch, stage, problem, tmp_path):
    breaks(monkeypatch, stage, problem)
    said = rf"compiled as it was imported: {type(problem).__name__}: .*\(in the stage {stage}\)$"
    with pytest.warns(NotOptimised, match=said) as warned:
        program = glenside.optimize(small_network(), TARGET)
    assert len(warned) == 1 and warned[0].filename == __file__
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    np.testing.assert_allclose(program(IMAGE), expected, rtol=1e-4, atol=1e-5)
    report = program.report
    assert report.offloads == {} and report.extractor == "original"
    assert report.cost_after == report.cost_before != ()
    assert report.stop_reason in [*StopReason]
    assert report.failure.startswith(type(problem).__name__) and "not optimised" in str(report)
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert report.exact is None and report.left == ()
    program.save(tmp_path)
    for each in (program, glenside.load(tmp_path)):
        with pytest.raises(GlensideError, match=f"since optimisation failed: .*stage {stage}"):
            each.explain()
    if stage == "saturate":
        assert (report.stop_reason, report.iterations) == ("iter_limit", 0)


def test_an_unexpected_error_while_explaining_leaves_the_program_as_it_is(monkeypatch, tmp_path):
    def fail(*args):
        raise KeyError("x")

    right = glenside.optimize(small_network(), TARGET)
    monkeypatch.setattr("glenside.explain.accounting.exact_offloads", fail)
    with pytest.warns(NotExplained, match=r"came from: KeyError: 'x' \(in the stage explain\)"):
        program = glenside.optimize(small_network(), TARGET)
    assert program.text == right.text
    assert program.report.offloads == right.report.offloads != {}
    assert program.report.failure is None and program.report.exact is None
    with pytest.raises(GlensideError, match="nothing is known"):
        program.explain()
    program.save(tmp_path)
    assert glenside.load(tmp_path).text == right.text


@pytest.mark.parametrize(
    "problem", [ExtractionError("none"), KeyboardInterrupt(), MemoryError(), SystemExit()]
)
@pytest.mark.parametrize("stage", ["saturate", "extract"])
def test_what_is_meant_for_the_user_is_raised(monkeypatch, stage, problem):
    breaks(monkeypatch, stage, problem)
    with pytest.raises(type(problem)):
        glenside.optimize(small_network(), TARGET)


@pytest.mark.parametrize("stage", ["import", "saturate", "extract", "explain", "compile"])
def test_what_the_listener_raises_is_raised(stage):
    def listen(name, done, total):
        if name == stage:
            raise LookupError(name)

    with pytest.raises(LookupError, match=stage):
        glenside.optimize(small_network(), TARGET, progress=listen)


def test_what_a_cost_model_of_the_users_own_raises_is_raised():
    class Broken(MaximiseOffload):
        def node_cost(self, *args):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        glenside.optimize(small_network(), TARGET, cost_model=Broken())


def test_a_program_that_cannot_even_be_priced_runs(monkeypatch):
    monkeypatch.setattr(MaximiseOffload, "node_cost", lambda *_: 1 / 0)
    with pytest.warns(NotOptimised, match="ZeroDivisionError"):
        program = glenside.optimize(small_network(), TARGET)
    assert program.report.cost_after == (float("inf"),)


def test_what_stands_in_is_what_no_iteration_gives():
    x = b.tensor("x", (2, 3))
    roots = [b.elementwise("add", x, x), b.transpose(x, (1, 0)), x]
    mine = fallback.unexplored(roots, [RuleSet("none", ())])
    right = saturate(roots, [], iter_limit=0)
    assert (mine.nodes, mine.classes, mine.stop_reason) == (
        right.nodes,
        right.classes,
        "iter_limit",
    )
    assert [contains(mine.egraph, root) for root in roots] == list(mine.egraph.roots)
    costs = find_cost_model("roofline")
    extracted = fallback.as_imported(roots, costs)
    assert extracted.terms == roots and extracted.cost == extracted.original_cost
    assert bottom_up(glenside.extraction.pose(mine.egraph, costs)).order
    assert all(a != c for a, c in itertools.combinations([mine.term_classes[r] for r in roots], 2))


def test_hardware_is_chosen_without_units_where_a_rule_is_unsound(monkeypatch):
    breaks(monkeypatch, "saturate", UnsoundRewrite("rule mine is unsound"))
    with pytest.warns(NotOptimised, match="no unit is given any work: UnsoundRewrite: rule"):
        front = glenside.explore_hardware(small_network(), [16], ["systolic-array:4x4"])
    assert "is unsound" in front.failure and "not rewritten" in str(front)
    assert front.points and not any(point.units for point in front.points)
    assert front.to_json()["failure"] == front.failure
