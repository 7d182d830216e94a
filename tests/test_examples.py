"""The examples run as they stand, from outside the package."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from glenside.hw_targets.registry import REGISTRY

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_an_accelerator_of_ones_own(tmp_path):
    source = (EXAMPLES / "my_accelerator.py").read_text()
    declaration = source[source.index("glenside.Accelerator(") : source.index("\n)\n")]
    assert declaration.count("\n") < 20
    done = subprocess.run(
        [sys.executable, EXAMPLES / "my_accelerator.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "my-unit 26" in done.stdout


@pytest.mark.parametrize(
    ("example", "printed"),
    [
        ("fused_units", ["('layer-unit', 1)", "('depthwise-unit', 1)", "('softmax-unit', 1)"]),
        (
            "rule_with_proof",
            ["all sizes, all ranks", "is refuted", "(slice 0 3 6 (tensor x"],
        ),
        ("measured_costs", ["{'systolic-array': 1}"]),
        ("hardware_under_an_area", ["area 64: systolic-array:8x8", "area 256: vta"]),
        ("quantised_to_c", ["{'vta': 2}", "from Python: 0.0e+00"]),
        ("im2col_figure", ["saturated: True", "without reshape-out-of-dot: False"]),
    ],
)
def test_an_example_prints_what_it_says(example, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = EXAMPLES / f"{example}.py"
    assert source.read_text("utf-8").count("\n") <= 60
    with REGISTRY.forgetting():
        runpy.run_path(str(source), run_name="__main__")
    told = capsys.readouterr().out
    for each in printed:
        assert each in told


def test_every_example_is_run():
    # That on PyTorch runs where PyTorch is.
    here = Path(__file__).read_text("utf-8")
    assert not [p.stem for p in EXAMPLES.glob("*.py") if f'"{p.stem}' not in here]


def test_a_pytorch_module_runs_on_a_target_of_the_users_choice(capsys):
    pytest.importorskip("torch")
    runpy.run_path(str(EXAMPLES / "torch_to_gpu.py"))["main"]("cpu")
    assert "largest error" in capsys.readouterr().out
