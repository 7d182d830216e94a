"""Programs are saved, loaded and looked into."""

import subprocess
import sys

import numpy as np
import pytest

import glenside
from glenside.errors import GlensideError
from glenside.language import parse
from tests.models import onnxruntime_answers, small_network, two_outputs

IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")


@pytest.mark.parametrize("target", ["cpu", "systolic-array:16x16"])
def test_a_saved_program_runs_in_a_process_without_the_compiler(target, tmp_path):
    program = glenside.optimize(small_network(), target)
    program.save(tmp_path / "out")
    np.save(tmp_path / "image.npy", IMAGE)
    script = f"""
import sys
import numpy as np
import glenside
program = glenside.load({str(tmp_path / "out")!r})
y = program(np.load({str(tmp_path / "image.npy")!r}))
np.save({str(tmp_path / "scores.npy")!r}, y)
banned = [name for name in ("egglog", "onnx", "onnxruntime", "tvm") if name in sys.modules]
assert not banned, banned
maps = open("/proc/self/maps").read()
assert "libtvm_compiler" not in maps and "libtvm.so" not in maps
print(program.report.target)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == target
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, rtol=1e-4, atol=1e-5)


def test_a_loaded_program_tells_what_the_saved_one_told(tmp_path):
    program = glenside.optimize(two_outputs(), check=False)
    program.save(tmp_path)
    loaded = glenside.load(tmp_path)
    assert loaded.report == program.report
    assert loaded.inputs == program.inputs
    assert loaded.output_names == ("total", "product")
    assert loaded.terms == program.terms
    assert loaded.source == program.source


def test_a_loaded_program_can_be_saved_elsewhere(tmp_path):
    glenside.optimize(two_outputs(), check=False).save(tmp_path / "one")
    loaded = glenside.load(tmp_path / "one")
    loaded.save(tmp_path / "one")
    loaded.save(tmp_path / "two")
    a, c = np.ones((2, 3), "float32"), np.ones(3, "float32")
    np.testing.assert_array_equal(glenside.load(tmp_path / "two")(a, c)[0], a + c)
    with pytest.raises(GlensideError, match="was loaded"):
        loaded.trace(a, c)


def test_loading_what_is_no_program_is_one_clear_error(tmp_path):
    with pytest.raises(GlensideError, match="holds no saved program"):
        glenside.load(tmp_path)
    (tmp_path / "program.json").write_text('{"format": 99}')
    (tmp_path / "program.glenside").write_text("")
    with pytest.raises(GlensideError, match="another format"):
        glenside.load(tmp_path)


def test_a_program_can_be_looked_into():
    program = glenside.optimize(small_network(), check=False)
    assert parse(program.text) is program.term
    assert len(program.tir.functions) >= 1
    assert program.source.strip()
    assert "small_network" in repr(program) and "image" in repr(program)


def test_the_term_of_several_outputs_is_not_one():
    program = glenside.optimize(two_outputs(), check=False)
    assert len(program.terms) == 2
    with pytest.raises(GlensideError, match="2 outputs"):
        _ = program.term


def test_results_are_the_callers_own():
    program = glenside.optimize(two_outputs(), check=False)
    a, c = np.ones((2, 3), "float32"), np.ones(3, "float32")
    first, _ = program(a, c)
    kept = first.copy()
    program(a * 5, c)
    np.testing.assert_array_equal(first, kept)


def test_a_program_becomes_an_onnx_model_again():
    import onnx

    program = glenside.optimize(small_network(), "systolic-array:16x16", check=False)
    exported = program.to_onnx()
    onnx.checker.check_model(exported, full_check=True)
    assert {f.domain for f in exported.functions} == {"glenside"}
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    (got,) = onnxruntime_answers(exported, image=IMAGE)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_a_program_becomes_a_relax_module():
    import tvm
    from tvm import relax

    program = glenside.optimize(small_network(), "systolic-array:16x16", check=False)
    machine = relax.VirtualMachine(tvm.compile(program.to_relax(), target="llvm"), tvm.cpu())
    got = machine["main"](tvm.runtime.tensor(IMAGE))
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    np.testing.assert_allclose(np.asarray(got.numpy()), expected, rtol=1e-4, atol=1e-5)


def test_a_loaded_program_says_why_it_cannot_be_exported(tmp_path):
    glenside.optimize(two_outputs(), check=False).save(tmp_path)
    with pytest.raises(GlensideError, match="keeps no parameters"):
        glenside.load(tmp_path).to_onnx()


def test_threads_may_share_a_program():
    from concurrent.futures import ThreadPoolExecutor

    program = glenside.optimize(small_network(), check=False)
    images = [IMAGE * scale for scale in range(1, 9)]
    expected = [program(image) for image in images]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            for got, right in zip(pool.map(program, images), expected, strict=True):
                np.testing.assert_array_equal(got, right)
