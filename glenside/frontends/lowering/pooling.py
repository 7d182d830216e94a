"""Pools: windows over each channel by itself, reduced. Data is (N, C, d...)."""

from __future__ import annotations

from collections.abc import Sequence

from glenside.frontends.lowering.phrases import div, maximum, reduce
from glenside.frontends.lowering.window import Window, patches, window
from glenside.language import Term, builders
from glenside.language.builders import compute


def max_pool(x: Term, looks: Window) -> Term:
    """Greatest element of each window; padding never wins, and what is not a number always does.

    ONNX does not say what the maximum of a NaN is. NumPy and PyTorch hand it on, onnxruntime passes
    over it, and gives the least float where a window holds nothing else.
    """
    return compute("max", patches(looks.pad(x, "lowest"), looks))


def average_pool(x: Term, looks: Window, count_padding: bool) -> Term:
    """Mean of each window, of the positions inside or also of the padding.

    The overhang is never counted. A window that sees only what is not counted has the mean 0.
    """
    seen = patches(looks.pad(x, "zero"), looks)
    if not looks.padded or (count_padding and not any(looks.overhang)):
        return compute("mean", seen)
    # How many positions count depends on where the window is, not on batch or channel.
    inside = builders.constant(1, (1, 1, *x.shape[2:]), x.dtype)
    if count_padding:
        for axis, widths in enumerate(zip(looks.before, looks.after, strict=True), 2):
            inside = builders.pad(inside, axis, *widths, 1)
        for axis, over in enumerate(looks.overhang, 2):
            inside = builders.pad(inside, axis, 0, over)
    else:
        inside = looks.pad(inside, "zero")
    count = maximum(compute("sum", patches(inside, looks)), 1)
    return div(compute("sum", seen), count)


def even_pool(function: str, x: Term, counts: Sequence[int]) -> Term:
    """``function`` of equal windows side by side, so many along each axis; they divide it."""
    if all(count == 1 for count in counts):
        return reduce(function, x, range(2, x.type.rank), keepdims=True)
    size = x.shape[2:]
    step = tuple(n // m for n, m in zip(size, counts, strict=True))
    return compute(function, patches(x, window(size, step, step, (0,), (1,), False)))
