"""Pools: windows over each channel by itself, reduced. Data is (N, C, d...)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.constants import Arrays
from glenside.frontends.lowering.phrases import div, dot, maximum, reduce, to_end, transpose
from glenside.frontends.lowering.window import Window, patches, window
from glenside.language import Term, builders
from glenside.language.builders import access, compute


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


def adaptive_pool(
    arrays: Arrays, function: str, x: Term, output_size: Sequence[int] | None
) -> Term:
    """``mean`` or ``max`` of as many windows as the output has positions.

    They begin and end where the positions, scaled, are rounded down and up: windows may differ in
    length and overlap by one.
    """
    size = x.shape[2:]
    wanted = tuple(output_size or size)
    wanted = wanted * len(size) if len(wanted) == 1 else wanted
    if len(wanted) != len(size) or min((*wanted, *size)) < 1:
        raise ShapeError(
            f"output_size {list(wanted)} must be {len(size)} lengths, at least 1, for data of "
            f"size {list(size)}"
        )
    if not any(n % m for n, m in zip(size, wanted, strict=True)):
        return even_pool(function, x, wanted)
    for axis, (length, count) in enumerate(zip(size, wanted, strict=True), 2):
        edges = [(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]
        if function == "max":
            # The last position of shorter windows is seen again, which no maximum minds.
            widest = max(high - low for low, high in edges)
            looks = [[min(low + k, high - 1) for k in range(widest)] for low, high in edges]
            seen = builders.gather(x, arrays.parameter(np.array(looks), f"looks{axis}"), axis)
            x = reduce("max", seen, [axis + 1], False)
            continue
        weights = np.zeros((count, length), x.dtype)
        for position, (low, high) in enumerate(edges):
            weights[position, low:high] = 1 / (high - low)
        moved, inverse = to_end(x, [axis])
        means = arrays.parameter(weights, f"means{axis}")
        product = dot(access(moved, moved.type.rank - 1), access(means, 1))
        x = transpose(product, inverse)
    return x
