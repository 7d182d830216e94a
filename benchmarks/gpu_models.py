"""Whole networks on a GPU beside PyTorch (cuDNN), each as one CUDA graph.

In two halves: ``build`` compiles programs where no GPU need be, ``measure`` runs them on the GPU's
machine, which needs CuPy and, for the peers, PyTorch with torchvision::

    python benchmarks/gpu_models.py build DIR --networks squeezenet resnet50 --dtypes float32
    python benchmarks/gpu_models.py measure DIR --json FILE

``trials`` builds mappings of the networks' products, for ``glenside tune --measure``.

What is built has no weights in it: they are drawn from a seed on both machines and packed anew by
the recipes that the compiler gives. Numbers are held against the NumPy interpreter in float64 on
the same (rounded) weights and inputs, in larger batches those of the first and the last image;
times are medians over replays of the graph, in turns over several inputs at addresses of their own.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from _notes import Notes
from _packs import (
    compile_sources,
    pack,
    restore_program,
    save_program,
    sources_only,
    told_of,
    unpacked,
)
from _table import show
from _torch import NETWORKS, network_microseconds
from _weights import draw, is_drawn

SEEDS = (11, 12, 13)


def images(shape: Any, dtype: str, seed: int) -> np.ndarray:
    """Random images, standard normal; the first ones are the same whatever the batch."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape, np.float32).astype(dtype)


# --- build ----------------------------------------------------------------------------------------


def build(options: Any) -> None:
    from _networks import network, retyped

    options.folder.mkdir(parents=True, exist_ok=True)
    notes = Notes()
    for name in options.networks:
        for dtype in options.dtypes:
            with notes.of(f"{name}-{dtype}"):
                answers = Answers(retyped(network(name), dtype))
                for batch in options.batches:
                    _build(retyped(network(name, batch), dtype), dtype, answers, options)
    if options.pack:
        pack(options.folder)
    notes.end()


def _build(model: Any, dtype: str, answers: Answers, options: Any) -> None:
    import glenside

    batch = next(iter(model.inputs.values())).shape[0]
    label = f"{model.name}-b{batch}-{dtype}-{options.target.partition(':')[0]}"
    start = time.perf_counter()
    target = sources_only(options.target) if options.sources else options.target
    program = glenside.optimize(model, target, check=False)
    seconds = time.perf_counter() - start
    _save(program._executable, model, dtype, options.folder / label)
    picked = sorted({0, batch - 1})
    np.savez(options.folder / f"{label}.npz", **{f"image_{k}": answers.of(k) for k in picked})
    print(f"{label}: {len(program.source):,} bytes of source, {seconds:.1f} s")


def trials(options: Any) -> None:
    from _networks import network, retyped

    from glenside.tune import build as build_trials

    for name in options.networks:
        for dtype in options.dtypes:
            for batch in options.batches:
                model = retyped(network(name, batch), dtype)
                built = build_trials(
                    model,
                    options.target,
                    options.folder,
                    candidates=options.candidates,
                    most=options.most,
                    compile=not options.sources,
                )
                for each in built:
                    us = each.predicted * 1e6
                    print(f"{name} b{batch}: {each.uses} x {each.space}: {us:.1f} us", flush=True)


class Answers:
    """A network's results in float64, image by image."""

    def __init__(self, model: Any) -> None:
        (given,) = model.inputs.values()
        self.dtype = given.dtype
        self.double = retyped_double(model)
        self.known: dict[int, np.ndarray] = {}

    def of(self, number: int) -> np.ndarray:
        """The result for image ``number`` of the first seed."""
        from glenside.language import evaluate

        if number not in self.known:
            ((name, given),) = self.double.inputs.items()
            many = images((number + 1, *given.shape[1:]), self.dtype, SEEDS[0])
            env = {name: many[number:].astype("float64")} | self.double.params
            self.known[number] = evaluate(self.double.roots, env)[0].astype("float32")
        return self.known[number]


def _save(executable: Any, model: Any, dtype: str, folder: Path) -> None:
    """The program, what weights it has, and the parameters that are none."""
    types = {n: (list(a.shape), _drawn_dtype(a)) for n, a in model.params.items()}
    save_program(executable, folder, types=types, dtype=dtype)
    kept = {n: a for n, a in model.params.items() if not is_drawn(*types[n])}
    np.savez(folder / "kept.npz", **kept)


def _drawn_dtype(array: np.ndarray) -> str:
    return "float32" if array.dtype == np.float16 else array.dtype.name


def retyped_double(model: Any) -> Any:
    """The same network in float64, with weights as the narrower dtype rounds them."""
    from dataclasses import replace

    from _networks import retyped

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
    return retyped(replace(model, inputs=inputs, outputs=outputs, params=params), "float64")


# --- measure --------------------------------------------------------------------------------------


def measure(options: Any) -> None:
    from glenside.codegen.load import load

    folder = unpacked(options.folder, options.unpack)
    rows, kernels = [], {}
    files = sorted(folder.glob("*.npz"))
    if options.only:
        files = [each for each in files if any(part in each.stem for part in options.only)]
    refused = compile_sources([each.with_suffix("") for each in files])
    notes = Notes()
    notes.reasons |= {each.name: "not compiled" for each in refused}
    for file in files:
        label = file.stem
        if folder / label in refused:
            continue
        with notes.of(label):
            row, kernels[label] = _measured(folder, file, load, options)
            rows.append(row)
    keys = dict.fromkeys(key for row in rows for key in row)
    show("GPU networks", [{k: row.get(k, 0.0) for k in keys} for row in rows], options.json)
    if options.kernels_json:
        options.kernels_json.write_text(json.dumps(kernels, indent=1) + "\n")
    known = [row["ratio"] for row in rows if row["ratio"]]
    if known:
        print(f"geometric mean of torch / ours: {geometric_mean(known):.2f}")
    notes.end()


def _measured(
    folder: Path, file: Path, load: Any, options: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A network's times and errors, and the times of its kernels."""
    label = file.stem
    restore(folder / label)
    program: Any = load(folder / label)
    (wanted,) = program.plan.inputs.values()
    sets = [images(wanted.shape, wanted.dtype, seed) for seed in SEEDS]
    with np.load(file) as answers:
        error, same = errors(program, sets[0], answers)
    named = [dict.fromkeys(program.plan.inputs, each) for each in sets]
    times = program.run_seconds(named, options.repeat, len(SEEDS))
    row = {
        "network": label,
        "us": median(times) * 1e6,
        "kernels": len(program.plan.steps),
        "error": error,
        "tensors agree": same,
        "arena MB": program.plan.arena / 1e6,
    }
    name, _, dtype, _ = label.rsplit("-", 3)
    if options.peers:
        row |= network_microseconds(name, wanted.shape, dtype, options.repeat)
    known = [row[key] for key in ("torch NCHW", "torch NHWC") if key in row]
    row["ratio"] = min(known) / row["us"] if known else 0.0
    print(json.dumps(row), flush=True)
    kernels = by_kernel(program, told_of(folder / label))
    slow = sorted(kernels, key=lambda each: -each["us"])[: options.kernels]
    if slow:
        print("  " + ", ".join(f"{each['kernel']} {each['us']:.1f}" for each in slow))
    return row, kernels


def restore(folder: Path) -> None:
    """Draws a program's weights and packs them."""
    told = told_of(folder)
    with np.load(folder / "kept.npz") as kept:
        params = draw(told["types"], {name: kept[name] for name in kept.files})
    for name, array in params.items():
        if array.dtype == np.float32:
            params[name] = array.astype(told["dtype"])
    restore_program(folder, params)


def by_kernel(program: Any, told: dict[str, Any]) -> list[dict[str, Any]]:
    """Every launch with its time and, where it computes a product, its space and mapping."""
    rows: list[dict[str, Any]] = []
    for number, (kernel, seconds) in enumerate(program.kernel_seconds()):
        row: dict[str, Any] = {"kernel": kernel, "us": seconds * 1e6}
        if str(number) in told["products"]:
            row["space"], row["mapping"] = told["products"][str(number)]
        rows.append(row)
    return rows


def errors(program: Any, batch: np.ndarray, answers: Any) -> tuple[float, bool]:
    """The largest error over the images with known answers, by norm; and whether tensors give the
    same."""
    worst = 0.0
    given = dict.fromkeys(program.plan.inputs, batch)
    got = program.run(given)[0]
    for key in answers.files:
        mine = got[int(key.removeprefix("image_"))].astype("float64").ravel()
        right = answers[key].astype("float64").ravel()
        error = float(np.linalg.norm(mine - right) / np.linalg.norm(right))
        worst = max(worst, error if np.isfinite(error) else np.inf)
    return worst, np.array_equal(got, through_tensors(program, given), equal_nan=True)


def through_tensors(program: Any, given: dict[str, np.ndarray]) -> np.ndarray:
    """The same run with PyTorch's tensors on the device (CuPy's where there is no PyTorch)."""
    try:
        import torch

        tensors = {n: torch.from_numpy(a).cuda() for n, a in given.items()}
        return np.asarray(program.run(tensors)[0].cpu().numpy())
    except ImportError:
        import cupy

        return cupy.asnumpy(program.run({n: cupy.asarray(a) for n, a in given.items()})[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb")
    first = verbs.add_parser("build")
    first.add_argument("folder", type=Path)
    first.add_argument("--networks", nargs="*", default=list(NETWORKS))
    first.add_argument("--dtypes", nargs="*", default=["float32", "float16"])
    first.add_argument("--batches", nargs="*", type=int, default=[1, 16])
    first.add_argument("--target", default="cuda:sm_90")
    first.add_argument("--pack", action="store_true", help="into one compressed file")
    first.add_argument("--sources", action="store_true", help="nvcc runs where the GPU is")
    third = verbs.add_parser("trials")
    third.add_argument("--sources", action="store_true", help="nvcc runs where the GPU is")
    third.add_argument("folder", type=Path)
    third.add_argument("--networks", nargs="*", default=list(NETWORKS))
    third.add_argument("--dtypes", nargs="*", default=["float32", "float16"])
    third.add_argument("--batches", nargs="*", type=int, default=[1])
    third.add_argument("--target", default="cuda:sm_90")
    third.add_argument("--candidates", type=int, default=8, help="mappings of each product")
    third.add_argument("--most", type=int, help="products of each network")
    second = verbs.add_parser("measure")
    second.add_argument("folder", type=Path)
    second.add_argument("--json", type=Path, help="where the figures go")
    second.add_argument("--repeat", type=int, default=50)
    second.add_argument("--unpack", default="/tmp/glenside-programs")
    second.add_argument("--only", nargs="*", help="networks whose label has one of these in it")
    second.add_argument("--no-peers", dest="peers", action="store_false", help="no PyTorch")
    second.add_argument("--kernels-json", type=Path, help="where every kernel's time goes")
    second.add_argument("--kernels", type=int, default=0, help="show the slowest so many")
    options = parser.parse_args()
    if options.verb is None:
        print("built on one machine, measured on one with a GPU: see --help")
        return
    {"build": build, "measure": measure, "trials": trials}[options.verb](options)


if __name__ == "__main__":
    main()
