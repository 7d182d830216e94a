"""Saved programs run where there is NumPy and nothing else."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import glenside
from glenside.codegen.cpu.threads import LIBRARY, OwnThreads, one_thread
from glenside.language import builders as b
from tests.models import onnxruntime_answers, small_network

ROOT = Path(__file__).parents[1]
IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")
MOST = 10e6
"""Bytes that may be installed beside NumPy."""
RUNS = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import numpy as np
import glenside
loaded = set(sys.modules)
program = glenside.load(sys.argv[2])
np.save(sys.argv[4], program(np.load(sys.argv[3])))
import json
print(json.dumps([sorted(loaded), sorted(sys.modules)]))
"""


def alone(folder: Path, *packages: str) -> Path:
    """A folder of these packages and nothing else, for a Python without site-packages."""
    folder.mkdir()
    for name in packages:
        for path in {Path(str(f.locate())).resolve() for f in distribution(name).files or ()}:
            found = next((p for p in path.parents if p.parent.name == "site-packages"), path)
            if found.name.startswith((".", "_")) and found.suffix not in ("", ".so", ".py"):
                continue
            if found.parent.name == "site-packages" and not (folder / found.name).exists():
                (folder / found.name).symlink_to(found)
    return folder


def run(code: str, *arguments: object) -> list[list[str]]:
    """What a Python without any site-packages prints last, as JSON."""
    command = [sys.executable, "-I", "-S", "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def imported_from(modules: list[str]) -> set[str]:
    """What is not of Python itself."""
    tops = {name.partition(".")[0] for name in modules}
    ours = ("__", "_cython", "cython")  # The latter is part of NumPy.
    return {t for t in tops if t not in sys.stdlib_module_names and not t.startswith(ours)}


@pytest.mark.parametrize("target", ["cpu", "systolic-array:4x4", "vta:int8"])
def test_a_program_runs_with_numpy_alone(target, tmp_path):
    model = small_network()
    quantize = {"image": IMAGE[None]} if ":int8" in target else None
    program = glenside.optimize(model, target, quantize=quantize, check=False)
    program.save(tmp_path / "program")
    np.save(tmp_path / "image.npy", IMAGE)
    path = f"{ROOT}:{alone(tmp_path / 'packages', 'numpy')}"
    out = tmp_path / "scores.npy"
    before, after = run(RUNS, path, tmp_path / "program", tmp_path / "image.npy", out)
    np.testing.assert_array_equal(np.load(out), program(IMAGE))
    if quantize is None:
        (expected,) = onnxruntime_answers(model, image=IMAGE)
        np.testing.assert_allclose(np.load(out), expected, rtol=1e-4, atol=1e-5)
    assert imported_from(after) == {"numpy", "glenside"}
    assert not [m for m in before if m.startswith(("glenside.rewrites", "glenside.frontends"))]


def test_a_program_for_opencl_runs_with_pyopencl(tmp_path):
    program = glenside.optimize(small_network(), "opencl", check=False)
    if reason := program.unavailable():
        pytest.skip(reason)
    program.save(tmp_path / "program")
    np.save(tmp_path / "image.npy", IMAGE)
    needed = ("numpy", "pyopencl", "pytools", "platformdirs", "siphash24", "typing-extensions",
              "pocl-binary-distribution")  # fmt: skip
    path = f"{ROOT}:{alone(tmp_path / 'packages', *needed)}"
    out = tmp_path / "scores.npy"
    _, after = run(RUNS, path, tmp_path / "program", tmp_path / "image.npy", out)
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    np.testing.assert_allclose(np.load(out), expected, rtol=1e-4, atol=1e-5)
    assert not imported_from(after) & {"tvm", "tvm_ffi", "egglog", "onnx", "ortools"}


def test_what_only_a_compiler_does_says_what_to_install(tmp_path):
    code = """
        import sys
        sys.path[:0] = sys.argv[1].split(":")
        import glenside, json
        try:
            glenside.optimize("model.onnx")
        except glenside.GlensideError as problem:
            print(json.dumps([[str(problem)]]))
    """
    ((said,),) = run(code, f"{ROOT}:{alone(tmp_path / 'packages', 'numpy')}")
    assert said == (
        "models are rewritten and compiled with egglog, onnx, ortools, apache-tvm: "
        "pip install 'glenside[compiler]'"
    )


def test_the_command_line_says_what_to_install(tmp_path):
    path = f"{ROOT}:{alone(tmp_path / 'packages', 'numpy')}"
    code = f"import sys; sys.path[:0] = {path.split(':')}; import glenside.__main__ as m; m.main()"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the command line needs")
    assert done.stderr.endswith("pip install 'glenside[compiler]'\n")


def test_the_wheel_runs_a_program_and_is_small(tmp_path):
    """The package as it is installed has all that running takes, and little else."""
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "glenside", source / "glenside", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    command = [*pip, "wheel", "--no-deps", "--quiet", "-w", str(tmp_path), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"pip cannot build wheels here: {built.stderr.strip().splitlines()[-1]}")
    (wheel,) = tmp_path.glob("glenside-*.whl")
    installed = tmp_path / "installed"
    command = [*pip, "install", "--no-deps", "--no-compile", "--quiet", "--target"]
    subprocess.run([*command, str(installed), str(wheel)], check=True)
    assert sum(each.stat().st_size for each in installed.rglob("*")) < MOST
    x = b.tensor("x", (64, 4096))
    program = glenside.optimize(b.compute("exp", x), "cpu", check=False)
    program.save(tmp_path / "program")  # Large enough for its loop to be shared.
    assert [*(tmp_path / "program").glob(f"code-*/{LIBRARY}")]
    values = np.linspace(-1, 1, 64 * 4096, dtype="float32").reshape(64, 4096)
    np.save(tmp_path / "x.npy", values)
    path = f"{installed}:{alone(tmp_path / 'packages', 'numpy')}"
    run(RUNS, path, tmp_path / "program", tmp_path / "x.npy", tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), np.exp(values), rtol=1e-5)


def test_the_source_distribution_has_all_that_is_checked_in(tmp_path):
    """Who gets the sources from an index can run the tests and build the pages."""
    listed = ["git", "-C", str(ROOT), "ls-files"]
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("these sources are not in a repository")  # They came from an index.
    known = subprocess.run(listed, capture_output=True, text=True, check=True)
    files = [each for each in known.stdout.splitlines() if (ROOT / each).is_file()]
    for each in files:
        (tmp_path / "source" / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / each, tmp_path / "source" / each)
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    tools = tmp_path / "tools"
    got = subprocess.run([*pip, "--target", str(tools), backend], capture_output=True, check=False)
    if got.returncode:
        pytest.skip("pip cannot install the build's tools here")  # There is no index to ask.
    code = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    command = [sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": str(tools)}
    subprocess.run(command, cwd=tmp_path / "source", env=env, check=True, capture_output=True)
    (archive,) = tmp_path.glob("glenside-*.tar.gz")
    with tarfile.open(archive) as opened:
        packed = {each.partition("/")[2] for each in opened.getnames()}
    assert not [each for each in files if each not in packed]


# --- threads --------------------------------------------------------------------------------------


def _threaded(folder: Path) -> Path:
    """A folder with the library that saved programs bring."""
    from glenside.codegen.cpu.tvm_loading import write_threads

    write_threads(folder)
    if not (folder / LIBRARY).is_file():
        pytest.skip("there is no C compiler here")
    return folder / LIBRARY


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_parts_are_all_run_once(count, tmp_path):
    """Launches in turn, with more and with fewer threads, as kernels make them."""
    import ctypes

    from glenside.codegen.cpu import threads

    made = OwnThreads(_threaded(tmp_path))
    for threads_now in (count, 1, count + 2, count):
        made.use(threads_now)
        for _ in range(20):
            seen = np.zeros(16, np.int64)

            def part(number: int, group: int, data: int | None, seen: np.ndarray = seen) -> int:
                tasks = threads._Group.from_address(group).tasks
                seen[number] += 1
                seen[15] = tasks
                return 0

            callback = threads._Part(part)
            launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(
                made.address("TVMBackendParallelLaunch")
            )
            assert launch(ctypes.cast(callback, ctypes.c_void_p), None, 0) == 0
            assert seen[:threads_now].tolist() == [1] * threads_now
            assert not seen[threads_now:15].any()


def test_a_shared_loop_is_right_with_any_threads(tmp_path):
    from glenside.codegen.cpu.library import KernelLibrary
    from glenside.codegen.launch import Executable
    from glenside.codegen.load import read_plan
    from glenside.codegen.plan import read_parameters

    x = b.tensor("x", (64, 4096))
    glenside.optimize(b.compute("exp", x), "cpu", check=False).save(tmp_path / "out")
    (code,) = (tmp_path / "out").glob("code-*")
    (library,) = code.glob("kernels-*.so")
    values = np.linspace(-1, 1, 64 * 4096, dtype="float32").reshape(64, 4096)
    for threads in (one_thread(), OwnThreads(_threaded(tmp_path))):
        for count in (1, 2, 5):
            plan = read_plan(code)
            plan.threads = count
            run_it = Executable(
                plan, read_parameters(plan, code), KernelLibrary(library, threads), threads
            )
            (got,) = run_it.run({"x": values})
            np.testing.assert_allclose(got, np.exp(values), rtol=1e-5)


def test_a_fork_has_threads_of_its_own(tmp_path):
    x = b.tensor("x", (64, 4096))
    glenside.optimize(b.compute("exp", x), "cpu", check=False).save(tmp_path / "out")
    code = """
        import sys, os, json
        sys.path[:0] = sys.argv[1].split(":")
        import numpy as np, glenside
        program = glenside.load(sys.argv[2])
        x = np.ones((64, 4096), "float32")
        program._executable.plan.threads = 3
        program(x)
        if (child := os.fork()) == 0:
            os._exit(0 if np.allclose(program(x), np.exp(1)) else 1)
        print(json.dumps([[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]]))
    """
    packages = alone(tmp_path / "packages", "numpy")
    assert run(code, f"{ROOT}:{packages}", tmp_path / "out") == [[0]]


# --- what the runtime is made of ------------------------------------------------------------------


def _at_import(path: Path) -> set[str]:
    """The modules that a file imports when it is imported."""
    found: set[str] = set()
    waiting: list[ast.AST] = [*ast.parse(path.read_text()).body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.If | ast.Try):
            waiting += [*node.body, *node.orelse, *getattr(node, "handlers", [])]
    return found


def test_the_runtime_imports_nothing_of_the_compiler():
    """What loading and running a program on a processor imports, wherever that leads."""
    waiting = ["glenside", "glenside.program", "glenside.codegen.load"]
    modules: set[str] = set()
    others: set[str] = set()
    while waiting:
        name = waiting.pop()
        path = ROOT / name.replace(".", os.sep)
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not name.startswith("glenside"):
            others.add(name.partition(".")[0])
        elif path.is_file() and name not in modules:
            modules.add(name)
            waiting += _at_import(path)
            waiting.append(name.rpartition(".")[0] or "glenside")
    packages = {name.split(".")[1] for name in modules if name.count(".") > 1}
    assert packages == {"codegen", "explain", "hw_targets", "language"}
    assert {n for n in modules if n.startswith("glenside.hw_targets.")} == {
        "glenside.hw_targets.target"
    }
    third = {n for n in others if n not in sys.stdlib_module_names and n != "__future__"}
    assert third <= {"numpy", "ml_dtypes", "_ctypes"}
