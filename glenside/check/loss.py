"""What half precision costs: the compiled program against the model in float32.

Halves overflow and vanish where float32 does not, which inputs of one size do not show. So inputs
of several magnitudes are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from glenside.errors import GlensideError
from glenside.language import Model, evaluate
from glenside.language.model import Array
from glenside.language.shape import HALVES, is_float
from glenside.program import Program

MAGNITUDES = (1e-3, 1.0, 1e3)
"""Standard deviations of the inputs that are drawn."""

_MOST_PRODUCTS = 1 << 34
"""Multiplications of a model up to which more than one magnitude is tried."""


def loss(
    program: Program,
    full: Model,
    inputs: Mapping[str, Array],
    step: Callable[[int, int], None] | None = None,
) -> dict[str, float | None]:
    """By magnitude of the inputs (``"0.001"``, ``"1"``, ``"1000"``) the largest error of the
    outputs, relative to the largest magnitude of each; None where an output is not finite that is
    finite in float32.

    :param full: the model in float32, with the program's inputs.
    :param inputs: what the program takes, of magnitude 1.
    """
    result: dict[str, float | None] = {}
    for magnitude in MAGNITUDES if _products(full) <= _MOST_PRODUCTS else (1.0,):
        scaled = {name: _scaled(array, magnitude) for name, array in inputs.items()}
        wide = {
            name: array.astype("float32") if array.dtype.name in HALVES else array
            for name, array in scaled.items()
        }
        try:
            right = evaluate(full.roots, {**full.params, **wide}, step)
        except GlensideError:
            continue  # Not every model takes inputs of every size.
        got = program.run(scaled)
        errors = [_error(a, b) for a, b in zip(got, right, strict=True) if is_float(b.dtype)]
        worst = max(errors, default=0.0)
        result[f"{magnitude:g}"] = worst if math.isfinite(worst) else None
    return result


def _scaled(array: Array, magnitude: float) -> Array:
    if not is_float(array.dtype) or magnitude == 1:
        return array
    return (array.astype(np.float64) * magnitude).astype(array.dtype)


def _error(got: Array, right: Array) -> float:
    """The largest difference where ``right`` is finite, relative to its largest magnitude there;
    infinite where ``got`` is not finite and ``right`` is."""
    a, b = got.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(b)
    if not finite.any():
        return 0.0
    a, b = a[finite], b[finite]
    if not np.isfinite(a).all():
        return math.inf
    scale = float(np.abs(b).max())
    return float(np.abs(a - b).max()) / (scale or 1.0)


def _products(model: Model) -> int:
    dots = (t for t in model.terms() if t.op == "compute" and t["function"] == "dot")
    return sum(t.type.size * math.prod(t.children[0].item[1:]) for t in dots)
