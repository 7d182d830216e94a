"""Time of one inference on the CPU, as a ratio to onnxruntime with as many threads.

Both run in one process and take turns, so that both see the same machine:
``python benchmarks/inference.py [MODEL ...]``. onnxruntime keeps its default optimisations. The
light models' weights are one number a tensor; here they vary, since a constant would be folded.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _table import arguments, show
from optimize import light_models

PAUSE = 0.1
"""Seconds between the two, so that neither finds the other's threads still spinning."""


def vary(model: Any, seed: int = 0) -> Any:
    """The model with weights that differ by up to 0.1 % from those it has."""
    rng = np.random.default_rng(seed)
    params = {}
    for name, array in model.params.items():
        if array.dtype == np.float32 and array.size > 1:
            noise = rng.random(array.shape, np.float32)
            noise *= 1e-3
            noise += 1
            params[name] = noise * array
        else:
            params[name] = array
    return replace(model, params=params)


def seconds(run: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return clock() - start


def measure(
    path: Path, threads: int, rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any]:
    """One model: minima and medians of alternating runs, in milliseconds."""
    import onnxruntime

    from glenside.codegen.compile import compile_terms
    from glenside.frontends.onnx import import_model

    model = vary(import_model(path))
    start = time.perf_counter()
    program = compile_terms(model.roots, model.inputs, model.params, threads=threads)
    compiled = time.perf_counter() - start
    rng = np.random.default_rng(1)
    inputs = {name: rng.random(t.shape).astype(t.dtype) for name, t in model.inputs.items()}
    del model
    gc.collect()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    ours, theirs = [], []
    for _ in range(rounds):
        for run, times in (
            (lambda: program.run(inputs), ours),
            (lambda: session.run(None, inputs), theirs),
        ):
            # The other's idle workers spin for a while, which takes a core away; then one run
            # warms the caches again.
            time.sleep(PAUSE)
            run()
            times.append(seconds(run, clock))
    return {
        "model": path.stem.removeprefix("light_"),
        "compile s": compiled,
        "ours ms": 1e3 * min(ours),
        "onnxruntime ms": 1e3 * min(theirs),
        "ratio of minima": min(ours) / min(theirs),
        "ratio of medians": median(ours) / median(theirs),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("models", nargs="*", type=Path, help="model files (default: light models)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="processor time instead of time passed: for one thread on a busy machine",
    )
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter
    rows = [
        measure(path, options.threads, options.rounds, clock)
        for path in options.models or light_models()
    ]
    unit = "processor time" if options.cpu_time else "time"
    show(f"inference on {options.threads} threads, {unit}", rows, options.json)


if __name__ == "__main__":
    main()
