"""The command line."""

import contextlib
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from rich.console import Console

from glenside import cli, optimize
from glenside.codegen.program.cut import PASSES
from glenside.extraction import COST_MODELS, MaximiseOffload
from glenside.hw_targets.operation import accelerator_of, target_of
from glenside.hw_targets.registry import SHIPPED
from glenside.language.units import known_units
from tests.models import LIGHT, onnxruntime_answers, small_network

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def glenside(*arguments, cwd=None):
    """Runs the command line in this process, which has imported all it needs; modules of the user's
    own are forgotten afterwards."""
    out, err = io.StringIO(), io.StringIO()
    path, argv, modules = list(sys.path), sys.argv, set(sys.modules)
    code = 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(cwd or "."))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        sys.argv = ["glenside", *map(str, arguments)]
        try:
            cli.main()
        except SystemExit as done:
            code = done.code or 0
        finally:
            sys.argv, sys.path[:] = argv, path
            for name in set(sys.modules) - modules:
                if cwd is not None and str(cwd) in str(getattr(sys.modules[name], "__file__", "")):
                    del sys.modules[name]
    return Done(code, out.getvalue(), err.getvalue())


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
    assert report["seconds"].keys() == {
        "import",
        "saturate",
        "extract",
        "compile",
        "explain",
        "quantise",
        "check",
    }
    assert report["exact"] == {"systolic-array": 1}
    assert report["left"] == []
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


def test_a_saved_program_is_verified_and_run_without_its_code(model, tmp_path):
    out = tmp_path / "out"
    assert glenside("optimize", model, "--output", out).returncode == 0
    done = glenside("verify", out, "--run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).keys() == {"manifest", "files", "plan", "program", "results"}
    assert "as their SHA-256 says" in glenside("verify", out).stdout
    np.save(tmp_path / "x.npy", IMAGE)
    done = glenside("run", out, "--untrusted", "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npz")
    assert done.returncode == 0, done.stderr
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    with np.load(tmp_path / "y.npz") as written:
        np.testing.assert_allclose(written["scores"], expected, rtol=1e-4, atol=1e-5)
    done = glenside("run", model, "--untrusted")
    assert (done.returncode, "is for a saved program" in done.stderr) == (2, True)
    (file,) = out.glob("code-*/parameters.bin")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    done = glenside("verify", out)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "parameters.bin is not the file" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert glenside("run", out).returncode == 2
    assert glenside("verify", tmp_path).returncode == 2  # There is none.


def test_without_a_linker_nothing_is_begun(model, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    for variable in ("CXX", "CC"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(cli.glenside, "optimize", lambda *_, **__: pytest.fail("it has begun"))
    done = glenside("optimize", model, "--output", tmp_path / "out")
    assert done.returncode == 2 and "needs a C compiler or a linker" in done.stderr
    assert not (tmp_path / "out").exists()


COMMAND = [sys.executable, "-m", "glenside"]


def test_ctrl_c_while_the_command_line_is_imported(tmp_path):
    """The import is held up where NumPy would be found, so that the signal comes right then."""
    (tmp_path / "numpy.py").write_text("print('here', flush=True)\nimport time\ntime.sleep(60)\n")
    paths = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    process = subprocess.Popen(
        [*COMMAND, "targets"],
        cwd=tmp_path,
        env={**os.environ, **paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    _, problems = process.communicate(timeout=120)
    assert (process.returncode, problems) == (130, "stopped\n")


def test_an_output_that_takes_no_more_ends_the_command(tmp_path):
    """A reader that is gone ends it quietly; a full disk is one line. What lies in the current
    folder is not taken for a package meanwhile."""
    (tmp_path / "onnx.py").write_text("raise SystemExit('the wrong onnx')")
    (tmp_path / "numpy.py").write_text("raise SystemExit('the wrong numpy')")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    given = {"cwd": tmp_path, "env": environment, "stderr": subprocess.PIPE}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "targets"], stdout=write, **given)
    os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*COMMAND, "--version"], stdout=full, **given)
    assert done.returncode == 2
    assert done.stderr == b"error: cannot write: No space left on device\n"


def test_what_is_imported_takes_the_place_of_nothing(tmp_path, model):
    (tmp_path / "my_own_unit.py").write_text("NAME = 'mine'\n")
    (tmp_path / "colorsys.py").write_text("raise RuntimeError('the wrong one')\n")
    done = glenside("targets", "--import", "my_own_unit", "--import", "colorsys", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = glenside("targets", "--import", "colorsys.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "colorsys.py is called colorsys too" in done.stderr or "another module" in done.stderr
    (tmp_path / "folder").mkdir()
    done = glenside("targets", "--import", "folder", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: folder is a folder without an __init__.py: it declares nothing\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("optimize", "net.onnx", "--target", ""), "unknown target ''"),
        (("explain", ""), "the path of the model is empty"),
        (("run", "n" * 300), "cannot read the model .*: File name too long"),
        (("check-rules", ""), "rules are named module:name"),
        (("sample", "squeezenet", "-o", "."), "cannot write .: Is a directory"),
        (("sample", "squeezenet", "--seed", "-1"), "greater than or equal to 0"),
    ],
)
def test_an_empty_or_impossible_option_is_refused(arguments, said, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = Path(model) if arguments[1] == "net.onnx" else arguments[1]
    done = glenside(arguments[0], where, *arguments[2:], cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(said, done.stderr), done.stderr


def test_a_saved_program_is_explained(model, tmp_path):
    saving = glenside("optimize", model, "-t", "vta", "-o", tmp_path / "out", "--no-check")
    assert saving.returncode == 0, saving.stderr
    done = glenside("explain", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "net on vta" in done.stdout and "vta-batch-dense" in done.stdout
    told = json.loads(glenside("explain", tmp_path / "out", "--node", "conv", "--json").stdout)
    (call,) = told["calls"]
    assert (call["unit"], call["layers"]) == ("vta-batch-dense", ["conv"])
    assert call["rules"][-1] == {"rule": "vta-batch-dense", "iteration": 1}
    unknown = glenside("explain", tmp_path / "out", "--node", "convolution")
    assert unknown.returncode == 2
    assert "net computes no value called 'convolution'" in unknown.stderr


def test_a_model_is_explained_for_a_target(model):
    done = glenside("explain", model, "--target", "hlscnn", "--node", "scores")
    assert done.returncode == 0, done.stderr
    assert "hlscnn-conv2d" in done.stdout and "it takes" in done.stdout


@pytest.mark.parametrize("target", ["cpu", "vta"])
def test_how_a_model_is_cut_is_told(model, target):
    done = glenside("explain", model, "--passes", "--target", target)
    assert done.returncode == 0, done.stderr
    heads = [line.split(":")[0] for line in done.stdout.splitlines() if line[:1] not in (" ", "")]
    assert heads == [*(f"after {name}" for name in PASSES), "plan"]
    assert "kernel_0(" in done.stdout
    assert glenside("explain", model, "--passes", "--json").returncode == 2


def test_how_a_saved_program_was_cut_is_not_known(model, tmp_path):
    assert glenside("optimize", model, "-o", tmp_path / "out", "--no-check").returncode == 0
    done = glenside("explain", tmp_path / "out", "--passes")
    assert done.returncode == 2
    assert "only the program as compiled can do this" in done.stderr


def test_lengths_stay_open_and_sizes_are_compiled_ahead(tmp_path):
    onnx.save(small_network("n"), tmp_path / "net.onnx")
    done = glenside(
        "optimize", "net.onnx", "--shape", "n=1..8", "--size", "2,4", "-o", "out", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["inputs"] == {"image": "(n, 4, 9, 7)"} and report["ranges"] == {"n": "1..8"}
    assert [each.split(":")[0] for each in report["sizes"]] == ["n=2", "n=4"]
    np.save(tmp_path / "x.npy", np.zeros((3, 4, 9, 7), "float32"))
    done = glenside("run", "out", "--input", "x.npy", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["outputs"]["scores"]["shape"] == [3, 5], done.stderr
    fixed = ["run", "net.onnx", "--shape", "n=3", "--json"]
    assert json.loads(glenside(*fixed, cwd=tmp_path).stdout)["outputs"]["scores"]["shape"] == [3, 5]


def test_run_takes_a_model_and_random_inputs(model):
    done = glenside("run", model, "--json", "--repeat", 3)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)["outputs"]
    assert outputs["scores"]["shape"] == [1, 5]


def test_targets_are_listed():
    done = glenside("targets")
    assert done.returncode == 0
    assert "cpu" in done.stdout and "systolic-array" in done.stdout


def test_the_version_is_told_by_a_process():
    done = subprocess.run(
        [sys.executable, "-m", "glenside", "--version"], capture_output=True, text=True
    )
    assert done.stdout.startswith("glenside 0.")
    failed = subprocess.run([sys.executable, "-m", "glenside", "optimize", ""], capture_output=True)
    assert failed.returncode == 2
    assert failed.stderr == b"error: the path of the model is empty\n"


@pytest.fixture
def bad_files(tmp_path):
    whole = (LIGHT / "light_squeezenet.onnx").read_bytes()
    (tmp_path / "text.onnx").write_text("this is not a model\n")
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "zip.npz").write_bytes(b"PK\x03\x04" + bytes(50))
    onnx.save(small_network("batch"), str(tmp_path / "dynamic.onnx"))
    onnx.save(small_network(), str(tmp_path / "net.onnx"))
    np.save(tmp_path / "x.npy", IMAGE)
    np.savez(tmp_path / "objects.npz", w=np.array([{}], dtype=object))
    (tmp_path / "saved").mkdir()
    (tmp_path / "broken.py").write_text("1 / 0")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["optimize", "text.onnx"], "text.onnx"),
        (["optimize", "empty.onnx"], "empty.onnx"),
        (["optimize", "cut.onnx"], "cut.onnx"),
        (["optimize", "missing.onnx"], "no such file"),
        (["optimize", "."], ". is a directory"),
        (["optimize", ""], "the path of the model is empty"),
        (["run", ""], "the path of the model is empty"),
        (["optimize", "dynamic.onnx"], "image"),
        (["optimize", "net.onnx", "--target", "nope"], "unknown target 'nope'"),
        (["optimize", "net.onnx", "--target", "systolic-array:x"], "systolic-array:RxC"),
        (["optimize", "net.onnx", "--shape", "image"], "NAME=D,D"),
        (["optimize", "net.onnx", "--shape", "imag=1,2"], "imag"),
        (["optimize", "net.onnx", "--shape", "image=1-4,4,9,7"], "x=batch=1..64,3,224,224"),
        (["optimize", "dynamic.onnx", "--shape", "m=1..4"], "no name of a length (batch)"),
        (["optimize", "dynamic.onnx", "--shape", "batch=1..4", "--size", "x"], "batch=8,seq=128"),
        (["explore", "dynamic.onnx", "--shape", "batch=1..4"], "must give numbers for batch"),
        (["optimize", "net.onnx", "--extractor", "magic"], "magic"),
        (["optimize", "net.onnx", "--cost-model", "magic"], "magic"),
        (["optimize", "net.onnx", "--params", "zip.npz"], "zip.npz"),
        (["optimize", "net.onnx", "--params", "x.npy"], "x.npy holds one array without a name"),
        (["optimize", "net.onnx", "--params", "objects.npz"], "is not an .npz archive of arrays"),
        (["optimize", "net.onnx", "--params", "."], "cannot read .: "),
        (["optimize", "yx[/]:smile:"], "yx[/]:smile:: no such file"),
        (["run", "net.onnx", "--output", "y.txt"], "--output y.txt: outputs are written as .npz"),
        (["run", "saved", "--target", "cpu"], "--target is for a model; saved is a saved program"),
        (["run", "saved", "--shape", "x=1"], "--shape is for a model; saved is a saved program"),
        (["run", "saved", "--params", "zip.npz"], "--params is for a model"),
        (["run", "net.onnx", "--input", "image=objects.npz"], "names its arrays"),
        (["run", "net.onnx", "--input", "none.npy"], "cannot read none.npy: "),
        (["run", "net.onnx", "--input", "text.onnx"], "text.onnx holds no array"),
        (["run", "net.onnx", "--input", "zip.npz"], "zip.npz"),
        (["optimize", "net.onnx", "--percentile", "99"], "give --quantize as well"),
        (["optimize", "net.onnx", "--ilp-limit", "1"], "--ilp-limit is for --extractor ilp, not"),
        (["optimize", "net.onnx", "--import", "none.py"], "none.py cannot be imported: no such"),
        (["explain", "net.onnx", "--import", "nothing"], "no module nothing is found"),
        (["targets", "--import", "a/b"], "'a/b' is neither a module such as my_units nor a .py"),
        (["tune", "net.onnx", "-t", "x", "--import", "broken.py"], "broken.py cannot be imported"),
        (["check-rules", "--import", "text.onnx"], "no module text.onnx is found"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line_and_exit_code_2(bad_files, arguments, said):
    done = glenside(*arguments, cwd=bad_files)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ")
    assert said in lines[0]
    assert "Traceback" not in done.stderr and "pickle" not in done.stderr
    assert done.stdout == ""


PRESSED = """
import os, signal, sys
import glenside
from glenside import cli

def optimize(*args, **kwargs):
    def press(what, done, total):
        global pressed
        if what == stage and not pressed:
            pressed = True
            os.kill(os.getpid(), signal.SIGINT)
    return real(*args, **kwargs | {"progress": press})

stage, pressed = sys.argv.pop(1), False
real = glenside.optimize
glenside.optimize = optimize
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.main()
"""


@pytest.mark.parametrize("stage", ["import", "saturate", "compile", "check"])
def test_ctrl_c_stops_cleanly_in_every_stage(stage):
    """It is pressed in the process itself, so that how fast that runs does not matter."""
    model = LIGHT / "light_squeezenet.onnx"
    options = ["optimize", str(model), "--target", "systolic-array:8x8"]
    done = subprocess.run(
        [sys.executable, "-c", PRESSED, stage, *options], capture_output=True, text=True
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().endswith("stopped") and done.stdout == ""


MY_RULES = """
from egglog import eq, i64, rewrite, ruleset, union, var, vars_
from glenside.rewrites.vocabulary import Access

x = var("x", Access)
m, n = vars_("m n", i64)
GOOD = ruleset(rewrite(x.access(m).access(n)).to(x.access(n)), name="good")
BAD = ruleset(rewrite(x.access(m).access(n)).to(x.access(m)), name="bad")
IDLE = ruleset(rewrite(x.access(m).access(n)).to(x.access(m), n > 99), name="idle")
EMPTY = []
WORD = "rules"
"""


def test_a_users_own_rules_are_checked(tmp_path):
    (tmp_path / "my_rules.py").write_text(MY_RULES)
    good = glenside("check-rules", "my_rules:GOOD", "--examples", 20, cwd=tmp_path)
    assert good.returncode == 0, good.stdout + good.stderr
    assert "sound" in good.stdout

    bad = glenside("check-rules", "my_rules:BAD", "--json", cwd=tmp_path)
    assert bad.returncode == 1, bad.stdout + bad.stderr
    (verdict,) = json.loads(bad.stdout)
    assert verdict["verdict"] == "unsound"
    assert "(access" in verdict["counterexample"]

    proved = glenside("check-rules", "my_rules:GOOD", "--prove", "--json", cwd=tmp_path)
    assert proved.returncode == 0, proved.stdout + proved.stderr
    (verdict,) = json.loads(proved.stdout)
    assert (verdict["verdict"], verdict["ranks"]) == ("proved", None)
    refuted = glenside("check-rules", "my_rules:BAD", "--prove", cwd=tmp_path)
    assert refuted.returncode == 1, refuted.stdout + refuted.stderr
    assert "refuted" in refuted.stdout and "(access" in refuted.stdout
    idle = glenside("check-rules", "my_rules:IDLE", "--examples", 3, cwd=tmp_path)
    assert idle.returncode == 3 and "1/1" in idle.stderr and "never fired" in idle.stderr
    late = glenside("check-rules", "my_rules:GOOD", "--time-limit", 0, cwd=tmp_path)
    assert late.returncode == 3 and "not tried" in late.stdout

    (tmp_path / "broken.py").write_text("1 / 0")
    for name, said in {
        "my_rules": "module:name",
        "my_rules:NONE": "no rules are found",
        "nothing:AT_ALL": "no module nothing is found",
        "./my_rules.py:GOOD": "give a module name such as my_rules:RULES",
        "my_rules.py:GOOD": "give a module name such as my_rules:RULES",
        "my_rules:EMPTY": "nothing to check",
        "my_rules:WORD": "neither a rule nor a rule set",
        "broken:RULES": "ZeroDivisionError",
    }.items():
        missing = glenside("check-rules", name, cwd=tmp_path)
        assert missing.returncode == 2
        (line,) = missing.stderr.strip().splitlines()
        assert said in line


ADDED = """
from egglog import i64, rewrite, ruleset, var
from glenside.rewrites import rewrite_rule
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.vocabulary import Access

x = var("x", Access)
relu = x.compute("relu", "")
MINE = ruleset(rewrite(relu).to(relu.compute("relu", "")))

@rewrite_rule("neg-thrice", exact=True)
def neg_thrice():
    neg = x.compute("neg", "")
    yield rewrite(neg).to(neg.compute("neg", "").compute("neg", ""))

ONLY = [neg_thrice()]
"""


@pytest.fixture
def chains(tmp_path):
    """A model of relu relu and neg neg, and rules that say either in more words."""
    (tmp_path / "added.py").write_text(ADDED)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Neg", ["c"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy"]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, ir_version=8), tmp_path / "net.onnx")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "fired"),
    [
        (["--import", "added.py"], {"rule 0", "neg-thrice"}),
        (["--add-rules", "added:ONLY"], {"neg-thrice"}),
        (["--rules", "added:MINE"], {"rule 0"}),
        (["--rules", "added:MINE", "--add-rules", "added:ONLY"], {"rule 0", "neg-thrice"}),
        ([], set()),
    ],
)
def test_rules_of_ones_own_are_explored_beside_or_instead(options, fired, chains):
    done = glenside("optimize", "net.onnx", *options, "--json", cwd=chains)
    assert done.returncode == 0, done.stderr
    rules = json.loads(done.stdout)["rules"]
    assert {name for name, count in rules.items() if count} & {"rule 0", "neg-thrice"} == fired
    # Those of the target are there unless others were named in their place.
    assert ("merge-accesses" in rules) == ("--rules" not in options)


def test_every_verb_takes_rules(chains):
    tables = glenside("explore", "net.onnx", "--import", "added", "--json", cwd=chains)
    assert "neg-thrice" in tables.stdout, tables.stderr
    front = ("explore-hardware", "net.onnx", "--candidate", "vta", "--areas", "256", "--json")
    done = [
        json.loads(glenside(*front, *o, cwd=chains).stdout) for o in ([], ["--import", "added"])
    ]
    assert done[1]["nodes"] != done[0]["nodes"]
    ran = glenside("run", "net.onnx", "--add-rules", "added:ONLY", "--json", cwd=chains)
    assert ran.returncode == 0, ran.stderr
    told = glenside("explain", "net.onnx", "--rules", "added:MINE", cwd=chains)
    assert told.returncode == 0, told.stderr
    tuned = glenside("tune", "net.onnx", "-t", "opencl:mali-g72", "--build", "built",
                     "--add-rules", "added:ONLY", "--json", cwd=chains)  # fmt: skip
    assert tuned.returncode == 0, tuned.stderr
    glenside("optimize", "net.onnx", "--output", "saved", cwd=chains)
    refused = glenside("run", "saved", "--add-rules", "added:ONLY", cwd=chains)
    assert "--add-rules is for a model" in refused.stderr


ODD = ("yx[/]", "y[red]x", ":smile:", "file")


def test_names_that_look_like_markup_or_emoji_are_shown_as_they_are(tmp_path):
    def value(name):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2])

    nodes = [
        helper.make_node(op, ["x[/]"], [name])
        for op, name in zip(("Relu", "Neg", "Abs", "Exp"), ODD, strict=True)
    ]
    graph = helper.make_graph(nodes, "odd", [value("x[/]")], [value(name) for name in ODD])
    path, result = tmp_path / "n[red]:smile:.onnx", tmp_path / "y.npz"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    done = glenside("run", path, "-o", result)
    assert done.returncode == 0, done.stderr
    assert all(f" {name} " in done.stdout for name in ODD)
    with np.load(result) as written:
        assert set(written.files) == set(ODD)


def test_progress_shows_names_as_they_are(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(cli, "_err", console)
    with cli._progress() as listener:
        listener("y[red]x[/] :smile:", 0, 2)
    assert "y[red]x[/] :smile:" in screen.getvalue()


def test_a_negative_seed_is_refused(model):
    done = glenside("run", model, "--seed", -1)
    assert done.returncode == 2
    assert "--seed" in done.stderr and "Traceback" not in done.stderr


MY_UNIT = """
from beside import DEPTH
from glenside import Accelerator

Accelerator(
    "imported-unit",
    operands={"x": "((M) (K))", "w": "((N) (K))"},
    computes="(compute dot (cart-prod ?x ?w))",
    constraints=[f"K <= {DEPTH}"],
    cycles="M * N",
    area=1.0,
)
"""


@pytest.fixture
def my_unit(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "beside.py").write_text("DEPTH = 8192")
    (tmp_path / "lib" / "imported_unit.py").write_text(MY_UNIT)
    onnx.save(small_network(), str(tmp_path / "net.onnx"))
    return tmp_path


@pytest.mark.parametrize("module", ["lib/imported_unit.py", "lib.imported_unit"])
def test_units_of_the_users_own_are_imported(my_unit, module):
    if "/" not in module:
        (my_unit / "lib" / "imported_unit.py").write_text(MY_UNIT.replace("from b", "from lib.b"))
    taking = ("--import", module)
    unknown = glenside("optimize", "net.onnx", "-t", "imported-unit", cwd=my_unit)
    assert unknown.returncode == 2 and "unknown target 'imported-unit'" in unknown.stderr
    saved = ("-o", "out", "--no-check", "--json")
    done = glenside("optimize", "net.onnx", "-t", "imported-unit", *taking, *saved, cwd=my_unit)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["offloads"] == {"imported-unit": 2}
    assert "imported-unit" in glenside("targets", cwd=my_unit).stdout
    front = glenside(
        "explore-hardware", "net.onnx", "--areas", "16", "--candidate", "imported-unit",
        "--json", *taking, cwd=my_unit,
    )  # fmt: skip
    assert json.loads(front.stdout)["candidates"] == {"imported-unit": 1}
    assert glenside("run", "out", *taking, cwd=my_unit).returncode == 0


def test_help_says_what_is_accepted(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = glenside("optimize", "--help").stdout
    for words in ("MODEL", "Relay", "repeat it", "weights of Relay text", *COST_MODELS):
        assert words in shown
    assert "PROGRAM" in glenside("run", "--help").stdout


def blocks(language, holding):
    found = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(block for block in found if holding in block)


def rows(header):
    """The cells of a table of the README."""
    table = README.partition(f"| {header} |\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[1:]]


def test_the_readme_tells_every_key_of_a_report_and_the_area_of_every_unit(model):
    keys = [key for names, _ in rows("key | meaning") for key in re.findall(r"`(\w+)`", names)]
    report = optimize(model, check=False).report.to_json()
    assert sorted(keys) == sorted(report)
    areas = {
        (re.findall(r"`([\w-]+)", unit)[0], area)
        for unit, _, area in rows("unit | cycles of a call | area")
    }
    # Other tests declare units as well, in this process.
    brought = (importlib.import_module(f"glenside.hw_targets.{each}") for each in SHIPPED)
    ours = {
        each.unit.name for module in brought for each in module.DECLARED if hasattr(each, "unit")
    }
    shipped = {
        (target_of(name), f"{accelerator_of(name).area:g}")
        for name in (unit.name for unit in known_units() if unit.rule)
        if name in ours
    }
    assert shipped == areas - {("systolic-array", "R C")}


def test_the_examples_of_the_readme_work(tmp_path):
    (tmp_path / "my_rules.py").write_text(blocks("python", "RULES ="))
    done = glenside("check-rules", "my_rules:RULES", "--examples", 20, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr

    (tmp_path / "net.relay").write_text(blocks("text", "def @main"))
    done = glenside("run", "net.relay", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (output,) = json.loads(done.stdout)["outputs"].values()
    assert output["shape"] == [1, 4]

    names = {}
    exec(blocks("python", "parse("), names)
    np.testing.assert_array_equal(names["y"], np.full((5, 4), 8, "float32"))
    assert names["program"].report.offloads == {"systolic-array": 1}
    assert names["program"].report.cost_parts == MaximiseOffload.components


def test_explore_hardware_prints_a_front_and_writes_it(model, tmp_path):
    done = glenside(
        "explore-hardware", model, "--areas", "16,64", "--json",
        "--candidate", "systolic-array:4x4", "--candidate", "systolic-array:8x8",
        "--output", tmp_path / "front.json", "--plot", tmp_path / "front.svg",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    front = json.loads(done.stdout)
    assert json.loads((tmp_path / "front.json").read_text()) == front
    assert [point["area"] for point in front["points"]] == [0, 16, 64]
    assert front["candidates"] == {"systolic-array:4x4": 16, "systolic-array:8x8": 64}
    assert all(point["optimal"] for point in front["points"])
    assert "<svg" in (tmp_path / "front.svg").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--areas", "5x"), "--areas is written A,A,..."),
        (("--plot", "front.pdf"), "charts are written as .html, .png, .svg"),
        (("--candidate", "cpu"), "is the target of one accelerator"),
    ],
)
def test_explore_hardware_says_what_is_wrong(model, options, says):
    done = glenside("explore-hardware", model, *options)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split()) and "Traceback" not in done.stderr


def test_the_ilp_extractor_and_the_e_graph_file(model, tmp_path):
    done = glenside(
        "optimize", model, "-t", "systolic-array:16x16", "--extractor", "ilp", "--ilp-limit", "5",
        "--cost-model", "cycles", "--egraph", tmp_path / "egraph.json", "--no-check", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["optimal"] is True
    assert report["cost_parts"] == ["cycles", "bytes moved", "nodes"]
    assert json.loads((tmp_path / "egraph.json").read_text())["root_eclasses"]


def test_a_saved_program_is_exported(model, tmp_path):
    optimize(str(model), check=False).save(tmp_path / "saved")
    out = tmp_path / "out.onnx"
    words = ("--onnx", out, "--opset", "17", "--relax", tmp_path / "r.json", "--c", tmp_path / "c")
    done = glenside("export", tmp_path / "saved", *words)
    assert done.returncode == 0, done.stderr
    assert [each.version for each in onnx.load(out).opset_import if not each.domain] == [17]
    assert (tmp_path / "c" / "Makefile").is_file()
    assert '"main"' in (tmp_path / "r.json").read_text()


def test_an_export_says_what_it_is_to_write(model):
    done = glenside("export", model)
    assert done.returncode == 2 and "say what to write: --onnx FILE.onnx" in done.stderr
    done = glenside("export", model, "--c", "out", "--opset", "17")
    assert done.returncode == 2 and "--opset is of an ONNX model" in done.stderr


def test_a_file_of_pytorch_needs_pytorch(tmp_path):
    (tmp_path / "model.pt2").write_bytes(b"?")
    done = glenside("optimize", tmp_path / "model.pt2")
    assert done.returncode == 2
    assert "pip install 'glenside[torch]'" in done.stderr or "torch.export.save" in done.stderr
