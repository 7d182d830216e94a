"""What a call costs the caller beyond its kernels, by what it is given.

Without a verb: on the processor, programs small enough for the call to be seen, and what importing,
checking and saving take. On a GPU, in two halves as ``gpu_models.py``::

    python benchmarks/calls.py build DIR --networks resnet50 mobilenet_v2
    python benchmarks/calls.py measure DIR --json FILE

There each program is called with tensors of PyTorch, CuPy and JAX: the same, new ones, and 16 in
turn; with ``out=``; bound; and with NumPy arrays. ``us`` is the time of a call in a loop of calls
that nobody waits for, ``host`` what one keeps the host busy for, ``device`` the kernels alone,
``beyond`` their difference to ``us``. ``torch.compile`` with mode ``reduce-overhead``, its result
cloned, is measured beside them; NumPy's transfers are PyTorch's of the same arrays.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _notes import Notes
from _packs import compile_sources, pack, sources_only, unpacked
from _table import show

PRODUCT = (128, 3072, 768)
"""Rows, columns and reduced length of the product of two inputs."""
TURNS = 16
"""Sets of inputs that are given in turn."""
_LOOPS = 9


def loop(run: Callable[[], object], wait: Callable[[], object], count: int) -> float:
    """Seconds of a call among ``count``, waited for at the end: the least of several loops, since
    whatever else a machine does only adds to it."""
    run()
    wait()
    times = []
    for _ in range(_LOOPS):
        start = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def _nothing() -> None:
    """Nobody need wait on the processor."""


def busy(run: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds that a call keeps the host busy: the median of calls while nothing is under way."""
    times = []
    for _ in range(50):
        wait()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times)


def in_turn(function: Callable[..., object], sets: Sequence[Sequence[Any]]) -> Callable[[], object]:
    """Calls it with one set after the other."""
    turns = cycle(sets)
    return lambda: function(*next(turns))


# --- on the processor -----------------------------------------------------------------------------


def on_processor(options: Any) -> None:
    import glenside
    from glenside.language import builders

    x, y = (builders.tensor(name, (16, 16)) for name in "xy")
    small = builders.elementwise("relu", builders.elementwise("add", x, y))
    programs = {"relu(x + y), 16 x 16": small}
    rows = []
    for label, model in programs.items():
        program = glenside.optimize(model, "cpu", check=False)
        rows += _on_processor(label, program)
    show("calls on the processor", rows, options.json)
    once = options.json and options.json.with_stem(f"{options.json.stem}-once")
    show("once", _once(small), once)


def _on_processor(label: str, program: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    sets = [
        [rng.standard_normal(t.shape).astype(t.dtype) for t in program.inputs.values()]
        for _ in range(TURNS)
    ]
    executable = program._executable
    kernels = loop(lambda: [each() for each in executable._actions], _nothing, 200)
    result = program(*sets[0])
    named = dict(zip(program.inputs, sets[0], strict=True))
    kinds: dict[str, Callable[[], object]] = {
        "same arrays": lambda: program(*sets[0]),
        f"{TURNS} in turn": in_turn(program, sets),
        "by name": lambda: program(**named),
        "out=": lambda: program(*sets[0], out=result),
        "bound": program.bind(*sets[0]),
        "executable alone": lambda: executable.call(sets[0]),
    }
    return [
        {
            "program": label,
            "given": kind,
            "us": (taken := loop(run, _nothing, 200)) * 1e6,
            "kernels": kernels * 1e6,
            "beyond": (taken - kernels) * 1e6,
        }
        for kind, run in kinds.items()
    ]


def _once(model: Any) -> list[dict[str, Any]]:
    """Seconds of what is done once a process or once a program."""
    import glenside

    def seconds(run: Callable[[], object]) -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    def imports(text: str) -> float:
        nothing = seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
        return seconds(lambda: subprocess.run([sys.executable, "-c", text], check=True)) - nothing

    program = glenside.optimize(model, "cpu", check=False)
    checked = glenside.optimize(model, "cpu")
    with tempfile.TemporaryDirectory() as folder:
        saved = seconds(lambda: program.save(folder))
        loaded = seconds(lambda: glenside.load(folder))
        first = f"import glenside; glenside.load({folder!r})"
        rows = {
            "import glenside": imports("import glenside"),
            "import and load a saved program": imports(first),
            "import, and all that optimize needs": imports(
                "import glenside; from glenside.optimize import optimize; "
                "import tvm, egglog, glenside.codegen.compile"
            ),
            "check, by the report": checked.report.seconds.check,
            "save": saved,
            "load": loaded,
        }
    return [{"what": what, "seconds": value} for what, value in rows.items()]


# --- build ----------------------------------------------------------------------------------------


def build(options: Any) -> None:
    from _networks import network, retyped
    from gpu_models import _save

    import glenside

    options.folder.mkdir(parents=True, exist_ok=True)
    models = [(product(), "float16")]
    models += [(retyped(network(name), "float16"), "float16") for name in options.networks]
    for model, dtype in models:
        target = sources_only(options.target) if options.sources else options.target
        program = glenside.optimize(model, target, check=False)
        folder = options.folder / model.name
        _save(program._executable, model, dtype, folder)
        print(f"{model.name}: {len(program._executable.plan.steps)} kernels", flush=True)
    if options.pack:
        pack(options.folder)


def product() -> Any:
    """The product of two inputs as a model."""
    from glenside.language import Model, builders

    m, n, k = PRODUCT
    a, b = builders.tensor("a", (m, k), "float16"), builders.tensor("b", (n, k), "float16")
    pairs = builders.cart_prod(builders.access(a, 1), builders.access(b, 1))
    term = builders.compute("dot", pairs)
    return Model("product", {"a": a.type, "b": b.type}, {}, {"y": term})


# --- measure --------------------------------------------------------------------------------------


def measure(options: Any) -> None:
    folder = unpacked(options.folder, options.unpack)
    folders = sorted(each for each in folder.iterdir() if (each / "plan.json").is_file())
    refused = compile_sources(folders)
    rows: list[dict[str, Any]] = []
    stages: list[dict[str, Any]] = []
    notes = Notes()
    for each in folders:
        if each in refused:
            continue
        with notes.of(each.name):
            more, told = _measured(each, options)
            rows += more
            stages.append(told)
    show("calls on a GPU", rows, options.json)
    show("host time by stage, microseconds", stages)
    notes.end()


def loaded(folder: Path) -> Any:
    """What was built there, as a program."""
    from gpu_models import restore

    from glenside.codegen.load import load
    from glenside.language import builders
    from glenside.program import Program
    from glenside.report import Report

    restore(folder)
    executable: Any = load(folder)
    outputs = {
        f"y{number}": builders.tensor(f"y{number}", tuple(place.shape), place.dtype)
        for number, place in enumerate(executable.plan.outputs)
    }
    none: Report = None  # type: ignore[assignment]
    return Program(folder.name, executable.plan.taken(), outputs, executable, none)


def _measured(folder: Path, options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    import torch

    program = loaded(folder)
    executable = program._executable
    rng = np.random.default_rng(0)
    arrays = [
        [rng.standard_normal(t.shape, np.float32).astype(t.dtype) for t in program.inputs.values()]
        for _ in range(TURNS)
    ]
    named = [dict(zip(program.inputs, each, strict=True)) for each in arrays[:3]]
    device = median(executable.run_seconds(named, options.repeat, 3))
    sets = [[torch.from_numpy(array).cuda() for array in each] for each in arrays]
    sync = torch.cuda.synchronize
    right = program(*arrays[0])
    count = min(max(int(0.02 / device), 20), 500)
    rows: list[dict[str, Any]] = []

    def row(given: str, run: Callable[[], object], floor: float = device) -> None:
        taken = loop(run, sync, count)
        rows.append(
            {
                "program": folder.name,
                "given": given,
                "us": taken * 1e6,
                "host": busy(run, sync) * 1e6,
                "device": floor * 1e6,
                "beyond": (taken - floor) * 1e6,
            }
        )
        print(rows[-1], flush=True)

    got = program(*sets[0])
    assert np.array_equal(got.cpu().numpy(), right), f"{folder.name}: tensors give other numbers"
    row("PyTorch, same", lambda: program(*sets[0]))
    row("PyTorch, new", lambda: program(*[torch.empty_like(each) for each in sets[0]]))
    row(f"PyTorch, {TURNS} in turn", in_turn(program, sets))
    out = torch.empty_like(got)
    row("PyTorch, out=", lambda: program(*sets[0], out=out))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        row("PyTorch, a stream of its own", in_turn(program, sets))
    bound = program.bind(*sets[0], out=out)
    row("PyTorch, bound", bound)
    for label, tensors in (("CuPy", _cupy(arrays)), ("JAX", _jax(arrays))):
        if tensors:
            got = program(*tensors[0])
            assert np.array_equal(_host(got), right), f"{folder.name}: {label}: other numbers"
            row(f"{label}, same", lambda tensors=tensors: program(*tensors[0]))
            row(f"{label}, {TURNS} in turn", in_turn(program, tensors))
            if label == "JAX":
                there = _cupy([[right]])[0][0]
                row(
                    "JAX, out= CuPy's",
                    lambda tensors=tensors, there=there: program(*tensors[0], out=there),
                )
    moved = loop(lambda: ([torch.from_numpy(a).cuda() for a in arrays[0]], out.cpu()), sync, 20)
    row("NumPy", lambda: program(*arrays[0]), device + moved)
    kept = np.empty_like(right)
    row("NumPy, out=", lambda: program(*arrays[0], out=kept), device + moved)
    if options.peers:
        _peer(folder.name, sets, row)
    return rows, _stages(program, sets)


def _cupy(arrays: Sequence[Sequence[np.ndarray]]) -> list[list[Any]]:
    import cupy

    return [[cupy.asarray(array) for array in each] for each in arrays]


def _jax(arrays: Sequence[Sequence[np.ndarray]]) -> list[list[Any]]:
    try:
        import jax
    except ImportError:
        return []
    return [[jax.device_put(array) for array in each] for each in arrays]


def _host(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.get() if hasattr(tensor, "get") else tensor)


def _peer(name: str, sets: Sequence[Sequence[Any]], row: Callable[..., None]) -> None:
    """The same of PyTorch's, compiled by itself."""
    import torch
    from _torch import exact, network

    exact()
    if name == "product":
        module: Any = lambda a, b: a @ b.T  # noqa: E731
    else:
        made = network(name)
        if made is None:
            return
        module = made.eval().cuda().half()
    with torch.no_grad():
        fast = torch.compile(module, mode="reduce-overhead")
        for _ in range(3):
            fast(*sets[0])
        row("torch.compile, same, cloned", lambda: fast(*sets[0]).clone())
        row(f"torch.compile, {TURNS} in turn", in_turn(lambda *each: fast(*each).clone(), sets))
        row("eager, same", lambda: module(*sets[0]))


def _stages(program: Any, sets: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Microseconds of the parts of a call with PyTorch's tensors."""
    import torch

    program(*sets[0])
    calls = program._executable._opened.tensor_calls()
    package = calls._packages["torch"]
    stream, sync = package.stream(), torch.cuda.synchronize
    parts: dict[str, Callable[[], object]] = {
        "checks": lambda: [package.address(v, n, stream, []) for n, v in enumerate(sets[0])],
        "a result": lambda: package.empty(0),
        "pointing": lambda: None,
        "launch": lambda: calls._graph(stream),
        "order of streams": lambda: (
            calls._order.captured(stream),
            calls._order.before(stream),
            calls._order.after(stream),
        ),
        "device entered": program._executable._opened.device.enter,
    }
    turns = cycle(sets)
    results = [package.empty(0) for _ in range(2)]

    def point() -> None:
        calls._prepare(package, next(turns), [results[0]], stream)

    told: dict[str, Any] = {"program": program.name, "kernels": len(calls._launches)}
    for part, run in parts.items():
        told[part] = busy(point if part == "pointing" else run, sync) * 1e6
    told["nodes renewed"] = len(calls._changed)
    renewed = sorted(calls._changed)
    told["renewing"] = busy(lambda: [calls._graph.renew(n) for n in renewed], sync) * 1e6
    return told


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="where the figures go (default: not written)")
    verbs = parser.add_subparsers(dest="verb")
    first = verbs.add_parser("build")
    first.add_argument("folder", type=Path)
    first.add_argument("--networks", nargs="*", default=["resnet50", "mobilenet_v2"])
    first.add_argument("--target", default="cuda:sm_90")
    first.add_argument("--pack", action="store_true", help="into one compressed file")
    first.add_argument("--sources", action="store_true", help="nvcc runs where the GPU is")
    second = verbs.add_parser("measure")
    second.add_argument("folder", type=Path)
    second.add_argument("--json", type=Path, help="where the figures go")
    second.add_argument("--repeat", type=int, default=30)
    second.add_argument("--unpack", default="/tmp/glenside-calls")
    second.add_argument("--no-peers", dest="peers", action="store_false", help="no torch.compile")
    options = parser.parse_args()
    {None: on_processor, "build": build, "measure": measure}[options.verb](options)


if __name__ == "__main__":
    main()
