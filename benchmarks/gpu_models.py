"""Whole networks on a GPU beside PyTorch (cuDNN), each as one CUDA graph.

In two halves: ``build`` compiles programs where no GPU need be, ``measure`` runs them on the GPU's
machine, which needs CuPy and, for the peers, PyTorch with torchvision::

    python benchmarks/gpu_models.py build DIR --networks squeezenet resnet50 --dtypes float32
    python benchmarks/gpu_models.py measure DIR --json FILE

Numbers are held against the NumPy interpreter in float64 on the same (rounded) weights and inputs;
times are medians over replays of the graph, in turns over several inputs at addresses of their own.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from _table import show

PACKED = "packed.tar.xz"
SEEDS = (11, 12, 13)
PEERS = {"squeezenet": "squeezenet1_0", "mobilenet_v2": "mobilenet_v2"}
"""What torchvision calls a network, where the names differ."""


def inputs_of(types: dict[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Random inputs, standard normal."""
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal(t.shape, np.float32).astype(t.dtype) for n, t in types.items()}


# --- build ----------------------------------------------------------------------------------------


def build(options: Any) -> None:
    from _networks import network, retyped

    import glenside
    from glenside.language import evaluate

    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.networks:
        for batch in options.batches:
            model = network(name, batch)
            for dtype in options.dtypes:
                typed = retyped(model, dtype)
                label = f"{typed.name}-b{batch}-{dtype}-{options.target.partition(':')[0]}"
                start = time.perf_counter()
                program = glenside.optimize(typed, options.target, check=False)
                seconds = time.perf_counter() - start
                program.save(options.folder / label)
                double = retyped(_single(typed), "float64")
                answers = {}
                for seed in SEEDS[: options.references]:
                    given = inputs_of(typed.inputs, seed)
                    env = {n: a.astype("float64") for n, a in given.items()} | double.params
                    answers[f"seed_{seed}"] = evaluate(double.roots, env)[0].astype("float32")
                np.savez(options.folder / f"{label}.npz", **answers)
                print(f"{label}: {len(program.source):,} bytes of source, {seconds:.1f} s")
    if options.pack:
        pack(options.folder)


def _single(model: Any) -> Any:
    """Back from half precision: weights stay rounded."""
    from dataclasses import replace

    from glenside.language import AccessType, builders, map_terms, rebuild

    def change(term: Any, children: Any) -> Any:
        if term.dtype == "float16" and term.op == "tensor":
            return builders.tensor(term["name"], term.shape, "float32")
        if term.dtype == "float16" and term.op == "constant":
            return builders.constant(term["value"], term.shape, "float32")
        return rebuild(term, children)

    new = map_terms(model.roots, change)
    inputs = {n: AccessType(t.outer, t.item, "float32") for n, t in model.inputs.items()}
    params = {
        n: a.astype("float32") if a.dtype == np.float16 else a for n, a in model.params.items()
    }
    outputs = {n: new[t] for n, t in model.outputs.items()}
    return replace(model, inputs=inputs, outputs=outputs, params=params)


def pack(folder: Path) -> None:
    """One compressed file of all that was built, for machines that are far away."""
    with tarfile.open(folder / PACKED, "w:xz", preset=1) as archive:
        for path in sorted(folder.iterdir()):
            if path.name != PACKED:
                archive.add(path, path.name)
                _remove(path)


def unpacked(options: Any) -> Path:
    """The folder with what was built, taken out of its compressed file where there is one."""
    folder: Path = options.folder
    if (folder / PACKED).is_file():
        with tarfile.open(folder / PACKED) as archive:
            folder = Path(options.unpack)
            archive.extractall(folder, filter="data")
    return folder


def _remove(path: Path) -> None:
    import shutil

    shutil.rmtree(path) if path.is_dir() else path.unlink()


# --- measure --------------------------------------------------------------------------------------


def measure(options: Any) -> None:
    import glenside

    folder = unpacked(options)
    rows = []
    for file in sorted(folder.glob("*.npz")):
        label = file.stem
        program = glenside.load(folder / label)
        with np.load(file) as answers:
            error, same = errors(program, answers)
        times = time_program(program, options.repeat)
        row = {
            "network": label,
            "us": median(times) * 1e6,
            "kernels": len(program._executable.plan.steps),
            "error": error,
            "tensors agree": same,
            "arena MB": program._executable.plan.arena / 1e6,
        }
        name, batch, dtype, _ = label.rsplit("-", 3)
        for layout, us in peer(name, int(batch[1:]), dtype, options.repeat).items():
            row[layout] = us
        known = [row[key] for key in ("torch NCHW", "torch NHWC") if key in row]
        row["ratio"] = min(known) / row["us"] if known else 0.0
        rows.append(row)
        print(json.dumps(row), flush=True)
        if options.kernels:
            each = program._executable.kernel_seconds()
            slow = sorted(each, key=lambda pair: -pair[1])[: options.kernels]
            print("  " + ", ".join(f"{kernel} {s * 1e6:.1f}" for kernel, s in slow), flush=True)
    keys = dict.fromkeys(key for row in rows for key in row)
    show("GPU networks", [{k: row.get(k, 0.0) for k in keys} for row in rows], options.json)
    known = [row["ratio"] for row in rows if row["ratio"]]
    if known:
        print(f"geometric mean of torch / ours: {geometric_mean(known):.2f}")


def errors(program: Any, answers: Any) -> tuple[float, bool]:
    """The largest error over the reference inputs, by norm; and whether tensors give the same."""
    worst, same = 0.0, True
    for key in answers.files:
        given = inputs_of(program.inputs, int(key.removeprefix("seed_")))
        got = program.run(given)[0].astype("float64")
        right = answers[key].astype("float64")
        error = float(np.linalg.norm(got - right) / np.linalg.norm(right))
        worst = max(worst, error if np.isfinite(error) else np.inf)
        same = same and np.array_equal(got, through_tensors(program, given), equal_nan=True)
    return worst, same


def through_tensors(program: Any, given: dict[str, np.ndarray]) -> np.ndarray:
    """The same run with PyTorch's tensors on the device (CuPy's where there is no PyTorch)."""
    try:
        import torch

        tensors = {n: torch.from_numpy(a).cuda() for n, a in given.items()}
        return np.asarray(program.run(tensors)[0].cpu().numpy())
    except ImportError:
        import cupy

        return cupy.asnumpy(program.run({n: cupy.asarray(a) for n, a in given.items()})[0])


def time_program(program: Any, repeat: int) -> list[float]:
    """Seconds of the device for one run, over inputs at several addresses."""
    sets = [inputs_of(program.inputs, seed) for seed in SEEDS]
    times: list[float] = program._executable.run_seconds(sets, repeat, len(SEEDS))
    return times


def peer(name: str, batch: int, dtype: str, repeat: int) -> dict[str, float]:
    """Microseconds of torchvision's network of that name as one CUDA graph, by layout."""
    try:
        import torch
        import torchvision
    except ImportError:
        return {}
    make: Callable[[], Any] | None = getattr(torchvision.models, PEERS.get(name, name), None)
    if make is None:
        return {}
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    result = {}
    for layout, form in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
        with torch.no_grad():
            net = make().eval().cuda().to(getattr(torch, dtype)).to(memory_format=form)
            x = torch.randn(batch, 3, 224, 224, device="cuda", dtype=getattr(torch, dtype))
            x = x.to(memory_format=form)
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(3):
                    net(x)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                net(x)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            times = []
            for _ in range(repeat + 3):
                start.record()
                graph.replay()
                end.record()
                torch.cuda.synchronize()
                times.append(start.elapsed_time(end) * 1e3)
            result[f"torch {layout}"] = median(times[3:])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb")
    first = verbs.add_parser("build")
    first.add_argument("folder", type=Path)
    first.add_argument("--networks", nargs="*", default=["squeezenet", "resnet50", "vgg19"])
    first.add_argument("--dtypes", nargs="*", default=["float32", "float16"])
    first.add_argument("--batches", nargs="*", type=int, default=[1, 16])
    first.add_argument("--target", default="cuda:sm_90")
    first.add_argument("--references", type=int, default=1, help="inputs with right answers")
    first.add_argument("--pack", action="store_true", help="into one compressed file")
    second = verbs.add_parser("measure")
    second.add_argument("folder", type=Path)
    second.add_argument("--json", type=Path, help="where the figures go")
    second.add_argument("--repeat", type=int, default=50)
    second.add_argument("--unpack", default="/tmp/glenside-programs")
    second.add_argument("--kernels", type=int, default=0, help="show the slowest so many")
    options = parser.parse_args()
    if options.verb is None:
        print("built on one machine, measured on one with a GPU: see --help")
        return
    (build if options.verb == "build" else measure)(options)


if __name__ == "__main__":
    main()
