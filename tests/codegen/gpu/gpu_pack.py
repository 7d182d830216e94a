"""Programs for a GPU tested in two halves, for its machine has no compiler of ours.

``python -m tests.codegen.gpu.gpu_pack build DIR`` compiles random terms and convolutions that
nobody listed, and saves each with inputs and the interpreter's answers (a number of random terms
and a target, as ``80 opencl:nvidia-h200``, may follow); the same with ``run DIR`` runs them where
the GPU is, on poisoned memory, with NumPy arrays and, on CUDA, with tensors, and exits with code 1
where an element differs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 1e-9}
"""Relative to the largest magnitude of an output."""


# --- build ----------------------------------------------------------------------------------------


def programs(examples: int) -> Iterator[tuple[str, Any, dict[str, np.ndarray], dict[str, Any]]]:
    """Name, term, parameters and inputs of each."""
    from glenside.language import builders as b
    from tests.codegen.codegen_help import convolution, leaves, weights

    for number, term in enumerate(_random_terms(examples)):
        from tests.strategies import environment

        values = environment([term])
        names = sorted(leaves([term]))
        params = {name: values[name] for name in names[1::2]}
        yield f"random_{number}", term, params, {n: values[n] for n in names if n not in params}
    shapes: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ("odd", (1, 13, 11, 9), (7, 13, 3, 3), {"pads": (1, 1, 1, 1)}),
        ("stride_2", (1, 16, 15, 15), (24, 16, 3, 3), {"stride": (2, 2), "pads": (1, 0, 0, 1)}),
        ("stride_3", (2, 8, 20, 20), (16, 8, 2, 2), {"stride": (3, 3)}),
        ("five", (1, 3, 32, 30), (10, 3, 5, 5), {"pads": (2, 2, 2, 2)}),
        ("one_by_seven", (1, 20, 9, 23), (12, 20, 1, 7), {"pads": (0, 3, 0, 3)}),
        ("dilated", (1, 10, 17, 17), (9, 10, 3, 3), {"dilation": (2, 3), "pads": (2, 3, 2, 3)}),
        ("grouped", (1, 12, 14, 14), (18, 4, 3, 3), {"groups": 3, "pads": (1, 1, 1, 1)}),
        ("depthwise", (1, 37, 14, 14), (37, 1, 3, 3), {"groups": 37, "pads": (1, 1, 1, 1)}),
        ("batch_3", (3, 64, 14, 14), (64, 64, 3, 3), {"pads": (1, 1, 1, 1)}),
        ("empty", (0, 4, 8, 8), (5, 4, 3, 3), {}),
        ("pointwise", (1, 96, 28, 28), (50, 96, 1, 1), {}),
        ("small", (1, 512, 7, 7), (512, 512, 3, 3), {"pads": (1, 1, 1, 1)}),
        ("wide", (1, 64, 56, 56), (128, 64, 3, 3), {"pads": (1, 1, 1, 1)}),
    ]
    for dtype in ("float32", "float16"):
        for name, image, filters, options in shapes:
            x, w = b.tensor("x", image, dtype), b.tensor("w", filters, dtype)
            term = convolution(x, w, **options)
            bias = b.constant(0.25, term.shape, dtype)
            term = b.elementwise("relu", b.elementwise("add", term, bias))
            scale = np.sqrt(np.prod(filters[1:]))
            params = {"w": (weights(*filters) / scale).astype(dtype)}
            yield f"{name}_{dtype}", term, params, {"x": weights(*image, seed=1).astype(dtype)}
        for m, n, k in ((757, 757, 757), (1, 1000, 512), (5, 3, 4096), (128, 129, 130)):
            one, two = b.tensor("a", (m, k), dtype), b.tensor("b", (n, k), dtype)
            term = b.compute("dot", b.cart_prod(b.access(one, 1), b.access(two, 1)))
            arrays = {"a": weights(m, k), "b": weights(n, k, seed=2) / np.sqrt(k)}
            inputs = {name: array.astype(dtype) for name, array in arrays.items()}
            yield f"matmul_{m}_{n}_{k}_{dtype}", term, {}, inputs
    streamed: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((3, 96, 13, 13), (130, 96, 3, 3), {"pads": (1, 1, 1, 1)}),
        ((5, 48, 13, 11), (72, 48, 3, 3), {"pads": (1, 0, 1, 1), "stride": (2, 2)}),
        ((2, 24, 28, 28), (64, 24, 3, 3), {"pads": (2, 2, 2, 2), "dilation": (2, 2)}),
        ((1, 64, 757, 1), (250, 64, 1, 1), {}),
        ((4, 128, 14, 14), (256, 128, 3, 3), {"pads": (1, 1, 1, 1)}),
        ((2, 40, 9, 23), (64, 40, 1, 7), {"pads": (0, 3, 0, 3)}),
    ]
    for number, (image, filters, options) in enumerate(streamed * 4):
        n, c, *size = image
        last = b.tensor("x", (n, *size, c), "float16")
        w = b.tensor("w", filters, "float16")
        term = convolution(b.transpose(last, (0, 3, 1, 2)), w, **options)
        if number % 2:
            other = b.tensor("other", term.shape, "float16")
            term = b.elementwise("relu", b.elementwise("add", term, other))
        inputs = {"x": weights(*last.shape, seed=1).astype("float16")}
        if number % 2:
            inputs["other"] = weights(*term.shape, seed=2).astype("float16")
        scale = np.sqrt(np.prod(filters[1:]))
        yield f"streamed_{number}", term, {"w": (weights(*filters) / scale).astype("f2")}, inputs
    a, c = b.tensor("a", (7, 5)), b.tensor("c", (7, 5))
    hosted = b.host_op("Elu", [b.elementwise("sub", a, c)], (7, 5), version=17)
    term = b.elementwise(
        "add", b.elementwise("mul", hosted, c), b.host_op("Elu", [a], (7, 5), version=17)
    )
    yield "host", term, {}, {"a": weights(7, 5), "c": weights(7, 5, seed=1)}


def _random_terms(count: int) -> list[Any]:
    from hypothesis import HealthCheck, given, settings

    from glenside.language import OPERATORS, evaluate
    from tests.codegen.codegen_help import leaves
    from tests.strategies import environment, terms

    found: list[Any] = []
    names = [name for name in OPERATORS if name not in ("host_op", "call", "blocked")]

    @settings(max_examples=4 * count, derandomize=True, database=None, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(terms(operators=names, most=7))
    def collect(term: Any) -> None:
        try:
            with np.errstate(all="ignore"):
                evaluate([term], environment([term]))
        except IndexError:
            return  # A gather position outside.
        if leaves([term]) and len(found) < count:
            found.append(term)

    collect()
    return found


def build(folder: Path, examples: str = "80", target_name: str = "cuda:sm_90") -> None:
    from glenside.codegen.device.compile import compile_for_device
    from glenside.errors import TargetError
    from glenside.hw_targets import find_target
    from glenside.language import evaluate
    from tests.codegen.codegen_help import leaves

    target: Any = find_target(target_name)
    folder.mkdir(parents=True, exist_ok=True)
    for name, term, params, inputs in programs(int(examples)):
        types = {n: t for n, t in leaves([term]).items() if n not in params}
        limits, choose = target.limits, None
        if name.startswith("streamed"):
            limits, choose = replace(limits, compute_units=2), _streamed(int(name.split("_")[1]))
        try:
            program = compile_for_device(
                [term], types, params, limits, target.dialect, choose=choose, build=target.builder()
            )
        except TargetError as problem:
            if "has no float16" not in str(problem):
                raise
            continue  # Not a program for this device.
        program.save(folder / name)
        with np.errstate(all="ignore"):
            (answer,) = evaluate([term], {**inputs, **params})
        np.savez(folder / f"{name}.npz", answer=answer, **{f"in_{n}": a for n, a in inputs.items()})


def _streamed(seed: int) -> Any:
    """Chooses any mapping whose groups stay."""
    from glenside.codegen.gpu.streams.kind import Streams

    def choose(space: Any, limits: Any) -> Any:
        (problem,) = Streams().problems(space, limits)
        found = problem.solutions()
        return found[int(np.random.default_rng(seed).integers(len(found)))]

    return choose


# --- run ------------------------------------------------------------------------------------------


def run(folder: Path, only: str = "") -> int:
    import traceback

    from glenside.codegen.load import load

    failed = []
    files = [file for file in sorted(folder.glob("*.npz")) if only in file.stem]
    for file in files:
        try:
            with np.load(file) as held:
                inputs = {n.removeprefix("in_"): held[n] for n in held.files if n != "answer"}
                answer = held["answer"]
            program: Any = load(folder / file.stem)
            problem = _differs(program, inputs, answer)
        except Exception:  # It is told as a failure, and the others are still run.
            problem = traceback.format_exc(limit=-2).replace("\n", " | ")
        if problem:
            failed.append(file.stem)
            print(f"{file.stem}: {problem}", flush=True)
    print(f"{len(files)} programs, {len(failed)} wrong: {' '.join(failed)}")
    return 1 if failed else 0


def _differs(program: Any, inputs: dict[str, np.ndarray], answer: np.ndarray) -> str | None:
    opened = program._open()
    for _ in range(2):
        opened.device.write(opened.arena, 0, np.full(program.plan.arena, 0xFF, np.uint8))
        (got,) = program.run(inputs)
        problem = compare(got, answer)
        if problem:
            return problem
    if not program.takes_tensors:
        return None
    import cupy

    # All inputs on the device, then each of them alone: which buffers lie elsewhere matters.
    names = list(inputs)
    for chosen in [names, *([name] for name in names if len(names) > 1)]:
        tensors = {n: cupy.asarray(a) if n in chosen else a for n, a in inputs.items()}
        opened.device.write(opened.arena, 0, np.full(program.plan.arena, 0xFF, np.uint8))
        if names:
            problem = compare(cupy.asnumpy(program.run(tensors)[0]), answer)
            if problem:
                return f"with tensors {chosen}: {problem}"
    return None


def compare(got: np.ndarray, right: np.ndarray) -> str | None:
    if (got.shape, got.dtype) != (right.shape, right.dtype):
        return f"{got.dtype}{got.shape} instead of {right.dtype}{right.shape}"
    if right.dtype.kind != "f":
        wrong = int((got != right).sum())
        return f"{wrong} of {right.size} differ" if wrong else None
    a, b = got.astype("float64"), right.astype("float64")
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "NaN or infinity in other places"
    scale = float(np.abs(b[finite]).max(initial=0.0)) or 1.0
    error = np.abs(a[finite] - b[finite]) / scale
    wrong = int((~(error <= TOLERANCE[right.dtype.name])).sum())
    return f"{wrong} of {right.size} differ, by {np.nanmax(error):.1e}" if wrong else None


if __name__ == "__main__":
    verb, folder, *rest = sys.argv[1:]
    sys.exit(build(Path(folder), *rest) if verb == "build" else run(Path(folder), *rest))
