"""The benchmark of convolutions goes on past layers that fail, and says which they were."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from glenside.codegen.device.limits import opencl_limits
from glenside.codegen.device.opencl import OpenCLDevice
from glenside.codegen.gpu.mapping import tuning
from glenside.errors import TargetError
from glenside.language import evaluate

pytest.importorskip("pyopencl")


@pytest.fixture
def benchmark(monkeypatch):
    """The module, with three tiny layers in place of the networks', and their values by NumPy."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import _conv_layers
    import gpu_conv

    def reference(layer, images, filters):
        term = _conv_layers.direct(layer, len(images), "float64")
        return evaluate([term], {"x": images.astype("float64"), "w": filters.astype("float64")})[0]

    sizes = {"one": 4, "two": 8, "three": 16}
    layers = tuple(_conv_layers.Layer(name, 4, 6, k) for name, k in sizes.items())
    monkeypatch.setattr(gpu_conv, "LAYERS", layers)
    monkeypatch.setattr(gpu_conv, "reference", reference)
    return gpu_conv


def run(benchmark, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["gpu_conv.py", *map(str, words)])
    benchmark.main()


def test_a_layer_that_fails_is_noted(benchmark, monkeypatch, tmp_path, capsys):
    build = ("build", tmp_path, "--target", "opencl:cpu", "--candidates", "1", "--no-peers")
    made = benchmark._candidates

    def failing(target, term, filters, options, name):
        if name.startswith("one-b1"):
            raise TargetError("\n no mapping")
        return made(target, term, filters, options, name)

    monkeypatch.setattr(benchmark, "_candidates", failing)
    with pytest.raises(SystemExit, match=r"^without one-b1-float32$"):
        run(benchmark, monkeypatch, *build)
    assert "one-b1-float32: no mapping\n" in capsys.readouterr().out
    built = {path.name for path in tmp_path.glob("*-predicted")}
    assert built == {"two-b1-float32-predicted", "three-b1-float32-predicted"}

    # Of what was built, the device does not run one program.
    of_one = json.loads((tmp_path / "two-b1-float32-predicted" / "plan.json").read_text())
    named = tmp_path / "two-b1-float32-predicted" / f"kernels-{of_one['library']}.cl"
    source = named.read_text()
    make = OpenCLDevice.build

    def refusing(self, code, kernels):
        if code.source == source:
            raise TargetError("cannot build the source")
        make(self, code, kernels)

    monkeypatch.setattr(OpenCLDevice, "build", refusing)
    results = tmp_path / "results.json"
    measure = ("measure", tmp_path, "--json", results, "--repeat", "1", "--no-cudnn")
    with pytest.raises(SystemExit, match=r"^without two-b1-float32-predicted$"):
        run(benchmark, monkeypatch, *measure)
    rows = {row["layer"]: row for row in json.loads(results.read_text())["rows"]}
    assert rows.keys() == {"two-b1-float32", "three-b1-float32"}
    for name, row in rows.items():
        assert row["best us"] > 0
        assert ("predicted us" in row) == (name != "two-b1-float32")
        assert row.get("predicted error", 0.0) < 1e-6

    # What was measured is recorded all the same.
    file = tmp_path / "tuning.json"
    run(benchmark, monkeypatch, "record", results, "--file", file)
    entries = tuning.read(file, opencl_limits().name)
    assert len(entries) == 2 and all(each.tried == 1 for each in entries.values())
