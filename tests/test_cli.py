"""The command line."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest

from tests.models import LIGHT, onnxruntime_answers, small_network

IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")


def glenside(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "glenside", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(small_network(), str(path))
    return path


def test_optimize_prints_one_json_object(model):
    done = glenside("optimize", model, "--target", "systolic-array:16x16", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["target"] == "systolic-array:16x16"
    assert report["model"] == "net"
    assert report["operators"] == 5
    assert report["offloads"] == {"systolic-array": 2}
    assert report["host_ops"] == {}
    assert report["stop_reason"] == "saturated"
    assert report["max_rel_error"] < 1e-4
    assert report["seconds"].keys() == {"import", "saturate", "extract", "compile"}
    assert report["cost"]["after"] < report["cost"]["before"]
    for count in ("iterations", "nodes", "classes"):
        assert report[count] > 0


def test_optimize_shows_a_table_and_no_check_skips_the_comparison(model):
    done = glenside("optimize", model, "--no-check")
    assert done.returncode == 0, done.stderr
    assert "saturated" in done.stdout and "not asked for" in done.stdout


def test_a_saved_program_is_run_on_files(model, tmp_path):
    assert glenside("optimize", model, "-o", tmp_path / "out", "--no-check").returncode == 0
    np.save(tmp_path / "image.npy", IMAGE)
    result = tmp_path / "result.npz"
    done = glenside("run", tmp_path / "out", "--input", tmp_path / "image.npy", "-o", result)
    assert done.returncode == 0, done.stderr
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    np.testing.assert_allclose(np.load(result)["scores"], expected, rtol=1e-4, atol=1e-5)


def test_run_takes_a_model_and_random_inputs(model):
    done = glenside("run", model, "--json", "--repeat", 3)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)["outputs"]
    assert outputs["scores"]["shape"] == [1, 5]


def test_targets_are_listed():
    done = glenside("targets")
    assert done.returncode == 0
    assert "cpu" in done.stdout and "systolic-array" in done.stdout


def test_the_version_is_told():
    assert glenside("--version").stdout.startswith("glenside 0.")


@pytest.fixture
def bad_files(tmp_path):
    whole = (LIGHT / "light_squeezenet.onnx").read_bytes()
    (tmp_path / "text.onnx").write_text("this is not a model\n")
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "zip.npz").write_bytes(b"PK\x03\x04" + bytes(50))
    onnx.save(small_network("batch"), str(tmp_path / "dynamic.onnx"))
    onnx.save(small_network(), str(tmp_path / "net.onnx"))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["optimize", "text.onnx"], "text.onnx"),
        (["optimize", "empty.onnx"], "empty.onnx"),
        (["optimize", "cut.onnx"], "cut.onnx"),
        (["optimize", "missing.onnx"], "no such file"),
        (["optimize", "."], "no such file"),
        (["optimize", "dynamic.onnx"], "image"),
        (["optimize", "net.onnx", "--target", "nope"], "unknown target 'nope'"),
        (["optimize", "net.onnx", "--target", "systolic-array:x"], "systolic-array:RxC"),
        (["optimize", "net.onnx", "--shape", "image"], "NAME=D,D"),
        (["optimize", "net.onnx", "--shape", "imag=1,2"], "imag"),
        (["optimize", "net.onnx", "--extractor", "magic"], "magic"),
        (["optimize", "net.onnx", "--cost-model", "magic"], "magic"),
        (["optimize", "net.onnx", "--params", "zip.npz"], "zip.npz"),
        (["run", "net.onnx", "--input", "text.onnx"], "text.onnx"),
        (["run", "net.onnx", "--input", "zip.npz"], "zip.npz"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line_and_exit_code_2(bad_files, arguments, said):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    env = os.environ | {"PYTHONPATH": root}
    done = glenside(*arguments, cwd=bad_files, env=env)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ")
    assert said in lines[0]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


STAGES = """
import sys
import glenside
from glenside import cli

def optimize(*args, **kwargs):
    def announce(what, done, total):
        print(what, file=sys.stderr, flush=True)
    return real(*args, **kwargs | {"progress": announce})

real = glenside.optimize
glenside.optimize = optimize
cli.main()
"""


@pytest.mark.parametrize("stage", ["import", "saturate", "compile", "check"])
def test_ctrl_c_stops_cleanly_in_every_stage(stage):
    model = LIGHT / "light_resnet50.onnx"
    process = subprocess.Popen(
        [sys.executable, "-c", STAGES, "optimize", str(model), "--target", "systolic-array:8x8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.startswith(stage):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.strip().endswith("stopped") and out == ""


MY_RULES = """
from egglog import eq, i64, rewrite, ruleset, union, var, vars_
from glenside.rewrites.vocabulary import Access

x = var("x", Access)
m, n = vars_("m n", i64)
GOOD = ruleset(rewrite(x.access(m).access(n)).to(x.access(n)), name="good")
BAD = ruleset(rewrite(x.access(m).access(n)).to(x.access(m)), name="bad")
"""


def test_a_users_own_rules_are_checked(tmp_path):
    (tmp_path / "my_rules.py").write_text(MY_RULES)
    env = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}
    good = glenside("check-rules", "my_rules:GOOD", "--examples", 20, cwd=tmp_path, env=env)
    assert good.returncode == 0, good.stdout + good.stderr
    assert "sound" in good.stdout

    bad = glenside("check-rules", "my_rules:BAD", "--json", cwd=tmp_path, env=env)
    assert bad.returncode == 1, bad.stdout + bad.stderr
    (verdict,) = json.loads(bad.stdout)
    assert verdict["verdict"] == "unsound"
    assert "(access" in verdict["counterexample"]

    for name in ("my_rules", "my_rules:NONE", "nothing:AT_ALL"):
        missing = glenside("check-rules", name, cwd=tmp_path, env=env)
        assert missing.returncode == 2
        assert len(missing.stderr.strip().splitlines()) == 1
