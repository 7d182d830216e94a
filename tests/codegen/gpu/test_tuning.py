"""Tuning files: merging, concurrent writers, what is refused; and tuning itself, on PoCL."""

from __future__ import annotations

import json
import multiprocessing
from types import SimpleNamespace

import numpy as np
import pytest

import glenside
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.mapping import tuning
from glenside.codegen.gpu.mapping.tuning import Tuned
from glenside.errors import InputError, NotOptimised, TargetError


def entry(seconds: float, space: str = "m4 n4 k4") -> Tuned:
    return Tuned(space, {"threads": [1]}, seconds, 3)


def test_the_faster_of_two_stays(tmp_path):
    path = tmp_path / "deep" / "tuning.json"
    assert tuning.read(path, "a") == {}
    tuning.record(path, "a", {"x": entry(2.0), "y": entry(1.0)})
    tuning.record(path, "a", {"x": entry(1.0), "y": entry(2.0)})
    tuning.record(path, "b", {"x": entry(9.0)})
    assert tuning.read(path, "a") == {"x": entry(1.0), "y": entry(1.0)}
    assert tuning.read(path, "b") == {"x": entry(9.0)}
    assert json.loads(path.read_text())["format"] == tuning.FORMAT


def _write(path, worker):
    for k in range(20):
        tuning.record(path, "device", {f"{worker}-{k}": entry(1.0), "all": entry(1.0 + worker)})


def test_concurrent_writers_lose_nothing(tmp_path):
    path = tmp_path / "tuning.json"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write, args=(path, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    found = tuning.read(path, "device")
    assert len(found) == 4 * 20 + 1 and found["all"].seconds == 1.0
    assert {file.name for file in tmp_path.iterdir()} == {"tuning.json", "tuning.json.lock"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no tuning file"),
        ('{"format": 99, "devices": {}}', "has format 99"),
        ('{"format": 1, "devices": {"a": {"x": {"seconds": 1}}}}', "is no tuning file"),
        ("[]", "is no tuning file"),
        (
            '{"format": 1, "devices": {"a": {"x": '
            '{"space": "m", "mapping": {}, "seconds": "fast", "tried": 1}}}}',
            "seconds is 'fast'",
        ),
    ],
)
def test_a_damaged_file_is_named(tmp_path, text, said):
    path = tmp_path / "tuning.json"
    path.write_text(text)
    with pytest.raises(TargetError, match=said) as caught:
        tuning.read(path, "a")
    assert str(path) in str(caught.value)
    with pytest.raises(TargetError, match=said):
        tuning.record(path, "a", {"x": entry(1.0)})
    assert path.read_text() == text


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match="cannot write the tuning file"):
        tuning.record(tmp_path / "file" / "tuning.json", "a", {"x": entry(1.0)})


def test_the_files_that_ship_can_be_read():
    for path in tuning.SHIPPED.glob("*.json"):
        devices = json.loads(path.read_text())["devices"]
        assert devices
        for device, entries in devices.items():
            assert len(tuning.read(path, device)) == len(entries) > 0
            assert all(tuning.key_of(each["space"]) == key for key, each in entries.items())


class Space:
    axes = (None,)

    def __init__(self, text: str) -> None:
        self.text = text

    def key(self) -> str:
        return self.text


def test_the_users_file_comes_first(tmp_path, monkeypatch):
    mapping = {name: [1] for name in ("threads", "registers", "vector", "chunk", "split")}
    limits = device_profile("opencl:cpu")
    shipped = {tuning.key_of(s): Tuned(s, mapping, 1.0, 1) for s in ("one", "two")}
    tuning.record(tmp_path / "shipped" / "cpu.json", limits.name, shipped)
    own = {tuning.key_of("two"): Tuned("two", mapping | {"threads": [7]}, 2.0, 1)}
    tuning.record(tmp_path / "own.json", limits.name, own)
    monkeypatch.setattr(tuning, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv(tuning.VARIABLE, str(tmp_path / "own.json"))
    choose = tuning.chooser(limits)
    assert choose(Space("one"), limits).threads == (1,)
    assert choose(Space("two"), limits).threads == (7,)
    assert choose(Space("three"), limits) is None
    # What differs only by the work that follows is next best.
    more = {tuning.key_of(s): Tuned(s, mapping | {"threads": [t]}, seconds, 1)
            for s, t, seconds in (("a; b; relu", 3, 2.0), ("a; b; store", 4, 1.0))}  # fmt: skip
    tuning.record(tmp_path / "own.json", limits.name, more)
    choose = tuning.chooser(limits)
    assert choose(Space("a; b; relu"), limits).threads == (3,)
    assert choose(Space("a; b; add relu"), limits).threads == (4,)
    assert choose(Space("a; c; relu"), limits) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"newer": 1}, "unexpected keyword argument 'newer'"),
        ({"threads": [1, 2]}, "threads is .* for 1 loops"),
        ({"threads": ["x"]}, "threads is .'x',."),
        ({"chunk": [0]}, "chunk is"),
        ({"split": 1}, "no len"),
        ({"depth": 4}, "MatrixMapping.* unexpected keyword argument"),
        ({"kind": "waves"}, "waves"),
        ({"registers": [10**9]}, "registers is .1000000000,.: 512 is the most"),
        ({"threads": [10**9]}, "threads is .1000000000,.: .* is the most"),
        ({"split": [2**40]}, "split is"),
        ({"buffers": 10**9}, "buffers is"),
        ({"buffers": 0}, "buffers is"),
        ({"staged": 7}, "staged is"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(tmp_path, monkeypatch, change, said):
    mapping = {name: [1] for name in ("threads", "registers", "vector", "chunk", "split")}
    limits = device_profile("opencl:cpu")
    monkeypatch.setattr(tuning, "SHIPPED", tmp_path / "none")
    monkeypatch.setenv(tuning.VARIABLE, str(tmp_path / "own.json"))
    entries = {tuning.key_of("m4 k4"): Tuned("m4 k4", mapping | change, 1.0, 1)}
    tuning.record(tmp_path / "own.json", limits.name, entries)
    with pytest.raises(TargetError, match=f"no mapping for 'm4 k4' .*{said}"):
        tuning.chooser(limits)(Space("m4 k4"), limits)


def test_only_gpus_are_tuned():
    from glenside.tune import tune
    from tests.models import small_network

    with pytest.raises(TargetError, match="only opencl and cuda targets are tuned, not 'cpu'"):
        tune(small_network(), "cpu")


def test_what_was_not_built_is_not_measured(tmp_path):
    from glenside.tune import measure, record

    with pytest.raises(InputError, match="holds no mappings to be measured"):
        measure(tmp_path)
    with pytest.raises(InputError, match="holds no measured mappings"):
        record(tmp_path / "results.json")
    (tmp_path / "limits.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match="holds no mappings to be measured"):
        measure(tmp_path)


_ENTRY = {"space": "m", "mapping": {}, "times": [], "predicted": 1, "seconds": 1, "tried": 1}


@pytest.mark.parametrize(
    "best", [None, [], {"a": 1}, {"a": _ENTRY | {"seconds": "fast"}}, {"a": _ENTRY | {"more": 1}}]
)
def test_damaged_results_are_refused(tmp_path, best):
    from glenside.tune import measure, record

    (tmp_path / "limits.json").write_text('"opencl:cpu"')
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"limits": "opencl:cpu", "best": best}))
    with pytest.raises(InputError, match="holds no measured mappings"):
        record(results, file=tmp_path / "tuning.json")
    with pytest.raises(InputError, match="holds no measured mappings"):
        measure(tmp_path, device=SimpleNamespace(name="none"))
    assert not (tmp_path / "tuning.json").exists()


@pytest.mark.parametrize("written", [None, "{", "[]", '{"space": "m"}'])
def test_what_was_built_in_part_is_told_and_left(tmp_path, written):
    from glenside.tune import measure

    (tmp_path / "limits.json").write_text('"opencl:cpu"')
    whole = {"architecture": "", "buffers": {}, "parameters": {}}
    (tmp_path / "one.json").write_text(json.dumps(whole) if written is None else written)
    with pytest.warns(UserWarning, match=r"one.json is damaged: .*: remove it"):
        assert measure(tmp_path, device=SimpleNamespace(name="none")) == []


def test_a_file_is_no_folder_to_build_into(tmp_path):
    from glenside.tune import build
    from tests.models import small_network

    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write into .*file: "):
        build(small_network(), "opencl:cpu", tmp_path / "file")


def test_where_rewriting_fails_the_products_are_those_of_the_model(monkeypatch):
    from glenside.hw_targets import find_target
    from glenside.tune import _products
    from tests.models import small_network

    def broken(*_, **__):
        raise ZeroDivisionError("broken")

    target = find_target("opencl:mali-g72")

    def spaces():
        return {
            each.space.key()
            for each in _products(small_network(), target, None, None, target.rules(), None).found
        }

    as_imported = {
        each.space.key() for each in _products(small_network(), target, None, None, (), None).found
    }
    assert len(as_imported) == 2
    monkeypatch.setattr("glenside.rewrites.saturate", broken)
    said = "products are those of the program as it was imported: ZeroDivisionError: broken"
    with pytest.warns(NotOptimised, match=said):
        assert spaces() == as_imported


def test_tuning_is_kept_resumed_and_used(tmp_path, monkeypatch):
    pytest.importorskip("pyopencl")
    from glenside.tune import RESULTS, build, measure, record, tune
    from tests.models import small_network

    path = tmp_path / "tuning.json"
    assert tune(small_network(), "opencl", time_limit=0, file=path) == []
    seen = []
    first = tune(
        small_network(),
        "opencl",
        candidates=3,
        file=path,
        progress=lambda what, done, total: seen.append((what, done, total)),
    )
    assert first and all(each.tried >= 1 and not each.wrong for each in first)
    assert all(0 < each.seconds <= each.predicted for each in first)
    assert seen[-1] == ("tune", len(first), len(first))
    again = tune(small_network(), "opencl", candidates=3, file=path)
    assert [each.tried for each in again] == [0] * len(first)
    assert [each.seconds for each in again] == [each.seconds for each in first]
    # The same in two halves, as where compiler and device are apart.
    folder, halves = tmp_path / "built", tmp_path / "halves.json"
    built = build(small_network(), "opencl", folder, candidates=1, most=1, file=halves)
    assert [each.built for each in built] == [1]
    more = build(small_network(), "opencl", folder, candidates=1, file=halves)
    assert len(built) + len(more) == len(first)
    assert built[0].predicted >= max(each.predicted for each in more)
    assert measure(folder, time_limit=0) == []
    done = measure(folder)
    assert {each.space for each in done} == {each.space for each in first}
    assert all(each.tried >= 1 and not each.wrong for each in done)
    assert measure(folder) == []
    assert record(folder / RESULTS, file=halves) == done
    assert [each.tried for each in tune(small_network(), "opencl", file=halves)] == [0] * len(done)
    assert build(small_network(), "opencl", folder, file=halves) == []
    monkeypatch.setenv(tuning.VARIABLE, str(path))
    program = glenside.optimize(small_network(), target="opencl")
    assert program.report.max_rel_error < 1e-4
    assert np.isfinite(program(np.ones((1, 4, 9, 7), "float32"))).all()
