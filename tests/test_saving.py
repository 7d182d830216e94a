"""Saved programs are whole, whoever saves, reads, damages or forges them meanwhile."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import glenside
from glenside import saved_folder
from glenside.codegen import linking
from glenside.errors import Damaged, GlensideError, InputError, TargetError
from glenside.verify import verify
from tests.models import onnxruntime_answers, small_network
from tests.saving import code_of, edit_plan, reseal

A = np.arange(6, dtype="float32").reshape(2, 3) - 2.5
W = np.arange(1, 7, dtype="float32").reshape(2, 3)
RIGHT = {"Add": np.maximum(A + W, 0), "Mul": np.maximum(A * W, 0)}


@functools.cache
def _of(operator: str) -> glenside.Program:
    graph = helper.make_graph(
        [helper.make_node(operator, ["a", "w"], ["b"]), helper.make_node("Relu", ["b"], ["y"])],
        operator,
        [helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (2, 3))],
        [onnx.numpy_helper.from_array(W, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return glenside.optimize(model, check=False)


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


# --- many at once ---------------------------------------------------------------------------------

WORKER = """
import sys
import numpy as np
import glenside
kind, folder, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
programs = [glenside.load(f"{folder}/{name}") for name in ("Add", "Mul")]
a = np.arange(6, dtype="float32").reshape(2, 3) - 2.5
right = {program.text: program(a) for program in programs}
print("ready", flush=True)
for count in range(times):
    if kind == "save":
        programs[count % 2].save(f"{folder}/out")
    else:
        program = glenside.load(f"{folder}/out", trusted=count % 3 > 0)
        assert np.array_equal(program(a), right[program.text])
"""


def test_readers_see_whole_programs_though_savers_are_killed(tmp_path):
    for name in RIGHT:
        _of(name).save(tmp_path / name)
    _of("Add").save(tmp_path / "out")

    def started(kind, times):
        command = [sys.executable, "-c", WORKER, kind, str(tmp_path), str(times)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    doomed = [started("save", 1_000_000) for _ in range(2)]
    others = [started("load", 40), started("load", 40), started("save", 20)]
    for each in (*doomed, *others):
        assert each.stdout.readline() == "ready\n"
    for each in doomed:
        time.sleep(0.2)
        each.send_signal(signal.SIGKILL)
    for each in (*doomed, *others):
        _, problems = each.communicate(timeout=120)
        assert each.returncode == (-signal.SIGKILL if each in doomed else 0), problems
    _of("Mul").save(tmp_path / "out")
    assert len(_names(tmp_path / "out")) == 2  # Nothing is left of those that were killed.
    np.testing.assert_array_equal(glenside.load(tmp_path / "out")(A), RIGHT["Mul"])


def test_what_a_killed_saver_left_is_removed_and_what_a_living_one_makes_is_not(tmp_path):
    (tmp_path / ".saving-dead").mkdir()
    (tmp_path / ".saving-dead" / "file").write_text("half")
    (tmp_path / "code-0123456789abcdef").mkdir()
    (tmp_path / "mine.txt").write_text("mine")
    with saved_folder._private(tmp_path) as living:
        _of("Add").save(tmp_path)
        assert living.is_dir()
        assert not (tmp_path / ".saving-dead").exists()
    assert _names(tmp_path) == [code_of(tmp_path).name, "mine.txt", "program.json"]


def test_a_reader_begins_again_where_a_program_was_replaced(tmp_path):
    _of("Add").save(tmp_path)
    seen = []

    def use(saved):
        seen.append(saved.manifest["name"])
        if len(seen) == 1:
            _of("Mul").save(tmp_path)
            raise ValueError("the files are gone")
        return saved.text("program.glenside")

    assert "mul" in saved_folder.read(tmp_path, use)
    assert seen == ["Add", "Mul"]


@pytest.mark.parametrize("fails", ["write", "rename"])
def test_a_failed_save_leaves_the_folder_as_it_was(fails, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    _of("Add").save(tmp_path / "out")
    before = {f: f.read_bytes() for f in (tmp_path / "out").rglob("*") if f.is_file()}
    monkeypatch.setattr(*((saved_folder, "sync") if fails == "write" else (os, "replace")), full)
    for place in ("out", "new/below"):
        with pytest.raises(GlensideError, match=r"cannot save to .*: No space left on device"):
            _of("Mul").save(tmp_path / place)
    assert {f: f.read_bytes() for f in (tmp_path / "out").rglob("*") if f.is_file()} == before
    assert _names(tmp_path) == ["out"]


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_disk_that_is_full_for_the_linker_is_told(when, tmp_path, monkeypatch):
    """LLVM ends the process where it cannot write, so it is not asked to where there is no room."""
    monkeypatch.setenv("GLENSIDE_CACHE", "off")
    if when == "before":
        used = shutil.disk_usage(tmp_path)._replace(free=1000)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: used)
    else:
        compiler = tmp_path / "linker"
        compiler.write_text(
            "#!/bin/sh\necho ld: final link failed: No space left on device\nexit 1"
        )
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
    program = _of.__wrapped__("Add")
    np.testing.assert_array_equal(program(np.ones_like(W)), np.maximum(1 + W, 0))
    with pytest.raises(GlensideError, match=r"^cannot save to .*: No space left on device$"):
        program.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", [None, 3, b"out", ["out"], "a\0b"])
def test_what_is_no_path_is_refused(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = _of("Add")
    for use in (program.save, program.to_c, glenside.load, verify):
        with pytest.raises(
            InputError, match=r"^(a folder is named by a path|no path holds a zero)"
        ):
            use(place)
    assert not list(tmp_path.iterdir())


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "opencl:mali-g72"])
def test_a_changed_byte_anywhere_is_told(target, tmp_path):
    glenside.optimize(small_network(), target, check=False).save(tmp_path)
    rng = np.random.default_rng(0)
    files = [each for each in sorted(tmp_path.rglob("*")) if each.is_file()]
    assert len(files) >= 9
    for file in files:
        data = file.read_bytes()
        for at in {0, len(data) - 1, *rng.integers(0, len(data), 6).tolist()}:
            changed = bytearray(data)
            changed[at] ^= 1 << int(rng.integers(8))
            file.write_bytes(changed)
            for trusted in (True, False):
                with pytest.raises(GlensideError, match=r"damaged|another format") as told:
                    glenside.load(tmp_path, trusted=trusted)
                assert len(str(told.value).splitlines()) == 1
        file.write_bytes(data)
    glenside.load(tmp_path)


def test_a_file_more_or_less_is_told(tmp_path):
    _of("Add").save(tmp_path)
    code = code_of(tmp_path)
    (code / "more.txt").write_text("")
    with pytest.raises(Damaged, match=r"more\.txt does not belong to it"):
        glenside.load(tmp_path)
    (code / "more.txt").unlink()
    for file in sorted(code.iterdir()):
        data = file.read_bytes()
        file.unlink()
        with pytest.raises(Damaged, match=f"{file.name} is missing"):
            glenside.load(tmp_path)
        file.write_bytes(data)
    shutil.rmtree(code)
    with pytest.raises(Damaged, match="No such file"):
        glenside.load(tmp_path)


def test_a_manifest_that_is_nested_deeply_is_damaged(tmp_path):
    _of("Add").save(tmp_path)
    (tmp_path / "program.json").write_text("[" * 200_000)
    with pytest.raises(Damaged, match="nested too deeply"):
        glenside.load(tmp_path)
    _of("Add").save(tmp_path)
    (code_of(tmp_path) / "plan.json").write_text('{"slots":' * 100_000)
    reseal(tmp_path)
    with pytest.raises(Damaged, match="is damaged"):
        glenside.load(tmp_path)


# --- plans that were sealed anew ------------------------------------------------------------------

LEAVES = [
    ("arena", lambda plan: plan, "arena"),
    ("threads", lambda plan: plan, "threads"),
    ("offset", lambda plan: next(s for s in plan["slots"] if s["offset"] is not None), "offset"),
    ("size", lambda plan: plan["slots"][0], "size"),
    ("parameter", lambda plan: next(s for s in plan["slots"] if s["parameter"] is not None), ""),
    ("offset", lambda plan: plan["inputs"]["image"], "in"),
    ("offset", lambda plan: plan["outputs"][0], "out"),
    ("buffer", lambda plan: plan["outputs"][0], "out"),
    (0, lambda plan: plan["inputs"]["image"]["axes"][1][0], "atom"),
    (1, lambda plan: plan["inputs"]["image"]["axes"][1][0], "stride"),
    (1, lambda plan: plan["inputs"]["image"]["shape"], "shape"),
    (0, lambda plan: plan["steps"][0]["arguments"][0], "argument"),
    (1, lambda plan: plan["steps"][0]["arguments"][0], "first"),
    (2, lambda plan: plan["steps"][0]["arguments"][0], "extent"),
]
WRONG = (-1, 2**31, 2**70, 1e9, "1", None, True, [1])


@pytest.mark.parametrize(("key", "where", "what"), LEAVES, ids=[f"{k}-{w}" for k, _, w in LEAVES])
def test_a_wrong_number_in_a_plan_is_told_before_anything_runs(
    key, where, what, tmp_path, monkeypatch
):
    _network().save(tmp_path)

    def never(*_):
        raise AssertionError("a library was loaded")

    monkeypatch.setattr("glenside.codegen.load.KernelLibrary", never)
    for value in WRONG:
        if key == "offset" and what == "offset" and value is None:
            continue

        def change(plan, value=value):
            where(plan)[key] = value

        whole = (code_of(tmp_path) / "plan.json").read_bytes()
        edit_plan(tmp_path, change)
        with pytest.raises(GlensideError) as told:
            glenside.load(tmp_path)
        assert len(str(told.value).splitlines()) == 1
        assert isinstance(told.value, Damaged) or "takes" in str(told.value)  # Memory.
        (code_of(tmp_path) / "plan.json").write_bytes(whole)
    reseal(tmp_path)
    monkeypatch.undo()
    glenside.load(tmp_path)


@functools.cache
def _network() -> glenside.Program:
    return glenside.optimize(small_network(), check=False)


def _swap(plan):
    arguments = plan["steps"][1]["arguments"]
    arguments[0], arguments[1] = arguments[1], arguments[0]


def _drop(plan):
    plan["steps"][0]["arguments"].pop()


def _far(plan):
    plan["inputs"]["image"]["axes"][3][0][1] = 100_000


def _unaligned(plan):
    next(s for s in plan["slots"] if s["offset"] == 0)["offset"] = 4


def _other_dtype(plan):
    plan["outputs"][0]["dtype"] = "float64"


def _other_input(plan):
    plan["inputs"]["other"] = plan["inputs"].pop("image")
    plan["input_types"]["other"] = plan["input_types"].pop("image")


def _import(plan):
    plan["steps"][0] = {
        "operator": "host_op",
        "attributes": {"operator": "os.system"},
        "types": [],
        "operands": [],
        "result": plan["outputs"][0],
        "module": "antigravity",
    }


def _read_what_is_an_operator(plan):
    plan["steps"][0] = {
        "operator": "transpose",
        "attributes": {"permutation": [0]},
        "types": [],
        "operands": [],
        "result": plan["outputs"][0],
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_swap, "argument 0: kernel_1 takes"),
        (_drop, "takes . buffers, got"),
        (_far, "input 'image' lies at elements"),
        (_unaligned, "no multiple of 64"),
        (_other_dtype, "is float64 in a buffer of float32"),
        (_other_input, "other inputs than the program"),
        (_import, "unexpected keyword argument 'module'"),
        (_read_what_is_an_operator, "Python executes no 'transpose'"),
    ],
)
def test_a_forged_plan_is_refused(change, said, tmp_path):
    _network().save(tmp_path)
    edit_plan(tmp_path, change)
    with pytest.raises(Damaged, match=f"is damaged: .*{said}.*: save it anew"):
        glenside.load(tmp_path)
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    untrusted = glenside.load(tmp_path, trusted=False)  # Which takes no notice of plans.
    np.testing.assert_allclose(untrusted(IMAGE), expected, rtol=1e-4, atol=1e-5)


IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")

CONSTRUCTOR = """
#include <stdlib.h>
__attribute__((constructor)) static void run(void) { system("touch %s"); }
"""


def test_the_code_of_an_untrusted_program_never_runs(tmp_path):
    _network().save(tmp_path / "out")
    source, ran = tmp_path / "evil.c", tmp_path / "ran"
    source.write_text(CONSTRUCTOR % ran)
    (library,) = code_of(tmp_path / "out").glob("kernels-*.so")
    linking.compile_c(source, library)
    with pytest.raises(Damaged):
        glenside.load(tmp_path / "out")
    forged = saved_folder.file_digest(library)[:16]
    library.rename(library.with_name(f"kernels-{forged}.so"))
    edit_plan(tmp_path / "out", lambda plan: plan.update(library=forged))
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    untrusted = glenside.load(tmp_path / "out", trusted=False)
    np.testing.assert_allclose(untrusted(IMAGE), expected, rtol=1e-4, atol=1e-5)
    assert untrusted.report == _network().report
    assert not ran.exists()
    edit_plan(tmp_path / "out", lambda plan: plan.update(arena=-1))
    with pytest.raises(Damaged):  # Nor that of a trusted one whose plan is wrong.
        glenside.load(tmp_path / "out")
    assert not ran.exists()


@pytest.mark.parametrize("target", ["cpu", "vta", "opencl:mali-g72"])
def test_verify_says_what_was_checked(target, tmp_path):
    from glenside.verify import verify

    glenside.optimize(small_network(), target, check=False).save(tmp_path)
    found = {each.what: each.found for each in verify(tmp_path)}
    assert list(found) == ["manifest", "files", "plan", "program"]
    assert "buffers" in found["plan"]
    if target == "cpu":
        results = {each.what: each.found for each in verify(tmp_path, run=True)}["results"]
        assert results.startswith("as the interpreter's, up to ")


def test_verify_compares_with_the_interpreter(tmp_path):
    """A parameter of the kernels is changed, and all is sealed again: only running it tells."""
    from glenside.errors import CheckFailed
    from glenside.verify import verify

    _network().save(tmp_path)
    file = code_of(tmp_path) / "parameters.bin"
    values = np.fromfile(file, "float32")
    values[:16] += 1
    values.tofile(file)
    reseal(tmp_path)
    verify(tmp_path)
    with pytest.raises(CheckFailed, match="differs from the interpreter by"):
        verify(tmp_path, run=True)


# --- linkers --------------------------------------------------------------------------------------


def test_without_a_compiler_saving_says_what_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(TargetError, match=r"one of g\+\+, gcc, .*, ld, .*, or name one in \$CXX"):
        _of.__wrapped__("Add").save(tmp_path / "some" / "folder")
    assert _names(tmp_path) == []


@pytest.mark.skipif(shutil.which("ld") is None, reason="there is no bare linker here")
def test_a_bare_linker_is_enough(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ld").symlink_to(shutil.which("ld"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for variable in ("CXX", "CC"):
        monkeypatch.delenv(variable, raising=False)
    glenside.optimize(small_network(), check=False).save(tmp_path / "out")
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    got = glenside.load(tmp_path / "out")(IMAGE)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_a_linker_that_fails_is_one_line(tmp_path, monkeypatch):
    script = tmp_path / "linker"
    script.write_text("#!/bin/sh\necho what it says\necho error: of a kind >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    with pytest.raises(TargetError, match=r"linker does not link the kernels: error: of a kind$"):
        _of.__wrapped__("Add").save(tmp_path / "out")
    assert _names(tmp_path) == ["linker"]


def test_the_manifest_is_plain_json(tmp_path):
    _of("Add").save(tmp_path)
    manifest = json.loads((tmp_path / "program.json").read_text())
    assert manifest["inputs"] == {"a": {"shape": [2, 3], "dtype": "float32"}}
    assert manifest["files"].keys() == {each.name for each in code_of(tmp_path).iterdir()}
