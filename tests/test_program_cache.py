"""The command line takes what it made before, and only that."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest

import glenside
from glenside.program_cache import ProgramCache
from tests.models import onnxruntime_answers, small_network

IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a model and a cache, in which the model was made once."""
    folder = tmp_path_factory.mktemp("programs")
    onnx.save(small_network(), folder / "small.onnx")
    done = command(folder, "-o", folder / "first")
    assert not done["from_cache"]
    return folder


def command(folder, *options, model="small.onnx", target="cpu"):
    """The report of ``glenside optimize``, and which modules it loaded."""
    code = (
        "import sys; sys.argv[0] = 'glenside'\n"
        "from glenside.__main__ import main\n"
        "try: main()\n"
        "finally: print(sorted(sys.modules), file=sys.stderr)\n"
    )
    words = ["optimize", folder / model, "-t", target, "--json", *options]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True, text=True, check=False,
        env={**os.environ, "GLENSIDE_CACHE": str(folder / "cache")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"modules": done.stderr}


def test_another_process_takes_the_program_as_it_is(home):
    found = command(home, "-o", home / "second")
    assert found["from_cache"]
    assert not [each for each in ("tvm", "egglog", "onnx") if f"'{each}'" in found["modules"]]
    first, second = home / "first", home / "second"
    names = sorted(each.relative_to(first) for each in first.rglob("*"))
    assert names == sorted(each.relative_to(second) for each in second.rglob("*"))
    for name in names:
        if (first / name).is_file():
            assert (first / name).read_bytes() == (second / name).read_bytes()
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    got = glenside.load(second)(IMAGE)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def key(path, target="cpu", *, files=(), unknown=(), options=()):
    """Under what the program of a call would be kept."""
    found = ProgramCache.of(str(path), target, files=files, unknown=unknown, options=options)
    return found._key


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("GLENSIDE_CACHE", str(tmp_path / "cache"))
    onnx.save(small_network(), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def test_all_that_decides_counts(model, tmp_path, monkeypatch):
    (tmp_path / "a.npz").write_bytes(b"a")
    first = key(model, files=(None, tmp_path / "a.npz"), options=[50, None])
    assert first == key(model, files=(None, tmp_path / "a.npz"), options=[50, None])
    others = [
        key(model, "vta", files=(None, tmp_path / "a.npz"), options=[50, None]),
        key(model, files=(None, tmp_path / "a.npz"), options=[51, None]),
        key(model, options=[50, None]),
    ]
    (tmp_path / "a.npz").write_bytes(b"b")
    others.append(key(model, files=(None, tmp_path / "a.npz"), options=[50, None]))
    changed = small_network()
    changed.graph.initializer[0].raw_data = bytes(len(changed.graph.initializer[0].raw_data))
    onnx.save(changed, model)
    (tmp_path / "a.npz").write_bytes(b"a")
    others.append(key(model, files=(None, tmp_path / "a.npz"), options=[50, None]))
    monkeypatch.setattr("glenside.program_cache._processor", lambda: "another")
    others.append(key(model, files=(None, tmp_path / "a.npz"), options=[50, None]))
    assert None not in others and len({first, *others}) == len(others) + 1


def test_nothing_is_kept_where_no_hash_tells(model, monkeypatch):
    assert key(model) is not None
    assert key(model, unknown=[0.5]) is None  # A time limit, say.
    assert key(model, "cuda") is None  # The device at hand.
    assert key(model, "vta+opencl") is None
    assert key(model.with_name("missing.onnx")) is None
    monkeypatch.setenv("GLENSIDE_CACHE", "off")
    assert key(model) is None


def test_data_beside_a_model_counts(model):
    folder = model.parent
    onnx.save(
        small_network(), folder / "m.onnx", save_as_external_data=True, location="m.bin",
        size_threshold=0,
    )  # fmt: skip
    before = key(folder / "m.onnx")
    assert before is not None
    data = bytearray((folder / "m.bin").read_bytes())
    data[3] ^= 1
    (folder / "m.bin").write_bytes(data)
    assert key(folder / "m.onnx") not in (None, before)
    (folder / "m.bin").unlink()
    assert key(folder / "m.onnx") is None  # Whoever reads the model says what is missing.


def test_a_damaged_program_is_made_anew(home):
    (entry,) = (home / "cache" / "programs").iterdir()
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)
    assert not command(home, "-o", home / "third")["from_cache"]
