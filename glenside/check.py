"""Holds a compiled program against the NumPy interpreter on the program as imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glenside.errors import CheckFailed
from glenside.hw_targets.target import Progress
from glenside.language import Model, Term, evaluate, random_inputs, trace
from glenside.program import Program

Array = np.ndarray[Any, Any]

TOLERANCE = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-9}
"""Largest error by dtype, relative to the largest magnitude in the tensor; other dtypes: none.
Sums of thousands of float32 products in another order differ by some 1e-5."""


def check(program: Program, model: Model, seed: int = 0, progress: Progress | None = None) -> float:
    """The largest relative error over the outputs, on random inputs.

    :raises CheckFailed: it exceeds :data:`TOLERANCE`; names the first node that differs.
    """
    inputs = random_inputs(model.inputs, seed)
    env = {**model.params, **inputs}
    step = (lambda done, total: progress("check", done, total)) if progress else None
    expected = evaluate(model.roots, env, step)
    worst = 0.0
    for name, right, got in zip(model.outputs, expected, program.run(inputs), strict=True):
        error = relative_error(got, right)
        if not error <= TOLERANCE.get(right.dtype.name, 0.0):
            where = _first_difference(program, model, env, inputs)
            raise CheckFailed(
                f"output {name!r} of {model.name} differs from NumPy by {error:.2e} "
                f"(relative, {TOLERANCE.get(right.dtype.name, 0.0):.0e} is allowed): {where}"
            )
        worst = max(worst, error)
    return worst


def relative_error(got: Array, right: Array) -> float:
    """Largest difference over the largest magnitude of ``right``; infinite when NaNs or
    infinities do not stand in the same places."""
    if got.shape != right.shape or got.dtype != right.dtype:
        return float("inf")
    if not right.size:
        return 0.0
    a, b = got.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    a, b = a[finite], b[finite]
    if not b.size:
        return 0.0
    difference = float(np.abs(a - b).max())
    scale = float(np.abs(b).max())
    return difference / scale if scale else difference


def _first_difference(
    program: Program, model: Model, env: Mapping[str, Array], inputs: Mapping[str, Array]
) -> str:
    """Where the numbers part: in the compiled kernels, else in a rewrite."""
    names = {id(term): name for term, name in model.names.items()}

    def shown(term: Term) -> str:
        name = names.get(id(term))
        return f"node {name!r}" if name else f"{term!r}"

    compiled = program.trace(inputs)
    last_named = ""
    for term, right in trace(program.terms, env):
        if id(term) in names:
            last_named = f" after node {names[id(term)]!r}"
        if term not in compiled:
            continue
        got = compiled[term].reshape(term.shape)
        if not relative_error(got, np.asarray(right)) <= TOLERANCE.get(term.dtype, 0.0):
            return f"the first value that differs is {shown(term)}{last_named}, in generated code"
    imported = dict(_named(model, env))
    for term, right in trace(program.terms, env):
        name = names.get(id(term))
        if name is None or name not in imported:
            continue
        if not relative_error(np.asarray(right), imported[name]) <= TOLERANCE.get(term.dtype, 0.0):
            return f"the first node that differs is {name!r}, after rewriting"
    return "no node before it differs, so a rewrite is unsound"


def _named(model: Model, env: Mapping[str, Array]) -> list[tuple[str, Array]]:
    return [
        (model.names[term], np.asarray(value))
        for term, value in trace(model.roots, env)
        if term in model.names
    ]
