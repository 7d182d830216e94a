"""Whatever stage the time limit ends, the program is right, and the report says what was cut."""

import numpy as np
import pytest

import glenside
from glenside import extraction, rewrites
from glenside.check.inputs import drawn_inputs
from glenside.deadline import Deadline, TimeIsUp, check_time
from glenside.hw_targets import find_target
from glenside.rewrites.engine.program import program_for
from tests.models import onnxruntime_answers, small_network

IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")


class Clock:
    """Stands still until the test moves it."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    ticking = Clock()
    monkeypatch.setattr("glenside.pipeline.Deadline", lambda limit: Deadline(limit, ticking))
    return ticking


def late(*args, **kwargs):
    raise TimeIsUp


def assert_right(program):
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    np.testing.assert_allclose(program(IMAGE), expected, rtol=1e-4, atol=1e-5)


def test_too_late_while_exploring(monkeypatch):
    monkeypatch.setattr(rewrites, "saturate", late)
    program = glenside.optimize(small_network(), "systolic-array:16x16", time_limit=600)
    assert program.report.cut == ("saturate",)
    assert (program.report.stop_reason, program.report.offloads) == ("time_limit", {})
    assert program.report.max_rel_error < 1e-4
    assert_right(program)


@pytest.mark.parametrize(
    "stage", ["hw_targets.registry.rules_for", "rewrites.engine.program._declare"]
)
def test_too_late_for_the_rules(monkeypatch, stage):
    program_for.cache_clear()
    monkeypatch.setattr(f"glenside.{stage}", late)
    program = glenside.optimize(small_network(), "flexasr", time_limit=600)
    assert program.report.cut[0] == "saturate"
    assert (program.report.stop_reason, program.report.offloads) == ("time_limit", {})
    assert_right(program)


def test_too_late_for_exact_matching(monkeypatch):
    monkeypatch.setattr("glenside.explain.exact.extract", late)
    program = glenside.optimize(small_network(), "flexasr", time_limit=600)
    assert program.report.cut == ("explain",)
    assert program.report.exact is None
    assert program.report.offloads == {"flexasr": 2}


def test_too_late_while_extracting(monkeypatch):
    monkeypatch.setattr("glenside.extraction.bottom_up", late)
    program = glenside.optimize(small_network(), "systolic-array:16x16", time_limit=600)
    assert program.report.cut == ("extract", "explain")  # Which extracts, too.
    assert program.report.extractor == "original"
    assert_right(program)


def test_the_best_answer_so_far_is_taken(monkeypatch):
    monkeypatch.setattr(extraction, "greedy_dag", late)
    program = glenside.optimize(small_network(), "systolic-array:16x16", time_limit=600)
    assert program.report.cut == ()
    assert (program.report.extractor, program.report.offloads) == (
        "bottom-up", {"systolic-array": 2}
    )  # fmt: skip


class Slow:
    """The CPU, on which lowering a step takes a minute by a clock that stands still else."""

    def __init__(self, clock):
        self.cpu, self.clock, self.steps = find_target("cpu"), clock, []

    def __getattr__(self, name):
        return getattr(self.cpu, name)

    def compile(self, outputs, inputs, params, progress=None):
        def minute(what, done, total):
            self.steps.append((what, done))
            self.clock.now += 60
            progress(what, done, total)

        return self.cpu.compile(outputs, inputs, params, progress=minute)


def test_too_late_while_compiling_it_is_compiled_at_the_first_run(clock, tmp_path):
    slow = Slow(clock)
    program = glenside.optimize(small_network(), slow, time_limit=100)
    assert program.report.cut == ("compile",)
    assert slow.steps == [("lower", 0), ("lower", 1)]  # Nothing is begun after the end.
    assert program.report.max_rel_error is None
    assert program.report.unchecked == "the time was over"
    assert "compiled at its first run" in str(program.report)
    assert_right(program)
    once = len(slow.steps)
    assert_right(program)
    assert len(slow.steps) == once
    program.save(tmp_path)
    assert_right(glenside.load(tmp_path))


def test_a_program_that_never_ran_is_compiled_to_be_saved(clock, tmp_path):
    glenside.optimize(small_network(), Slow(clock), time_limit=100).save(tmp_path)
    assert_right(glenside.load(tmp_path))


def test_too_late_while_checking(monkeypatch):
    monkeypatch.setattr("glenside.check.drawn_inputs", late)
    program = glenside.optimize(small_network(), time_limit=600)
    assert (program.report.max_rel_error, program.report.unchecked) == (None, "the time was over")
    assert_right(program)


def test_checking_looks_at_the_clock_at_every_step(clock, monkeypatch):
    def drawn(model, seed):
        clock.now += 1_000
        return drawn_inputs(model, seed)

    monkeypatch.setattr("glenside.check.drawn_inputs", drawn)
    program = glenside.optimize(small_network(), time_limit=600)
    assert program.report.unchecked == "the time was over"


def test_without_a_limit_nothing_is_cut(clock):
    slow = Slow(clock)
    report = glenside.optimize(small_network(), slow).report
    assert (report.cut, report.unchecked) == ((), None)
    assert report.max_rel_error < 1e-4
    check_time()


def test_seconds_tell_every_stage():
    report = glenside.optimize(small_network(), time_limit=600).report
    seconds = report.to_json()["seconds"]
    stages = ["import", "saturate", "extract", "compile", "explain", "check"]
    assert all(seconds[stage] > 0 for stage in stages)
    assert ", check " in str(report)
