"""Some hundred mutated ONNX files: each ends in a right answer or in one of our errors.

The same cases on every run; ``benchmarks/onnx_fuzz.py`` runs as many as one likes.
"""

from __future__ import annotations

import random
from collections import Counter

from tests.fuzz import judging, runner
from tests.fuzz.corpus import corpus
from tests.fuzz.mutations import mutate

COUNT = 250


def test_mutated_models_end_well():
    cases = list(runner.fuzz(seed=0, count=COUNT))
    assert sorted(case["number"] for case in cases) == list(range(COUNT))
    assert not [case for case in cases if case["word"] in judging.BAD]
    # The fuzzer has to reach what comes after the first look at a file.
    counts = Counter(case["word"] for case in cases)
    assert counts[judging.AGREES] >= COUNT / 8


def test_a_number_is_always_the_same_file():
    first, second = runner.make(7), runner.make(7)
    assert first[:3] == second[:3]


def test_the_bytes_of_a_file_change_with_the_number():
    models = [data for _, data in corpus()["networks"]]
    files = {mutate(models[0], models, random.Random(number))[0] for number in range(50)}
    assert len(files) > 40


def test_a_crash_a_hang_and_an_exception_are_told_apart(tmp_path, monkeypatch):
    path = tmp_path / "case.onnx"
    path.write_bytes(corpus()["networks"][0][1])

    def ends(action):
        monkeypatch.setattr(judging, "import_model", action)
        return runner.judge_apart(path, random.Random(0), False).word

    def crash(*args, **kwargs):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)

    def hang(*args, **kwargs):
        while True:
            pass

    def fail(*args, **kwargs):
        raise KeyError("x")

    def grow(*args, **kwargs):
        return bytearray(2**40)

    monkeypatch.setattr(runner, "SECONDS", 1)
    assert ends(crash) == judging.CRASHED
    assert ends(hang) == judging.HUNG
    assert ends(fail) == judging.RAISED
    assert ends(grow) == judging.RAISED
