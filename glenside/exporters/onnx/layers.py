"""Layers that ONNX has one operator for, found in the terms that say the same.

A convolution is a ``dot`` of windows with filters, a pooling a reduction of windows, and so on:
where a term says one of these it is written as runtimes know it, since they have a fast kernel for
it and none for what it is made of. What is not recognised is written operator by operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.exporters.onnx.graph import Graph, Value
from glenside.exporters.onnx.kernels import KERNELS, float_dtype
from glenside.exporters.onnx.steps import Emit, Program, Step
from glenside.language import Term
from glenside.language.operators import fill_value
from glenside.language.shape import FLOATS, Shape

Array = np.ndarray[Any, Any]

_SPATIAL = range(1, 4)
"""Spatial axes for which runtimes have convolutions and poolings."""

_LAYER_NORM_FROM = 17
"""The first opset that has LayerNormalization."""

_UNIT_ROUNDING = 1e-6
"""How far from 1 a factor is that only rounding keeps from it."""


def layer(term: Term, program: Program) -> Step | None:
    """The step of a term that is such a layer; None where it is none."""
    for recognise in _RECOGNISERS.get(_kind(term), ()):
        found = recognise(term, program)
        if found is not None:
            return found
    return None


def _kind(term: Term) -> str:
    return str(term["function"]) if term.op == "compute" else term.op


# --- windows --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Windows:
    """Windows over padded data: per item axis their size, step, dilation, count and padding.

    ``data`` has ``split`` outer axes and these item axes.
    """

    data: Term
    split: int
    size: Shape
    stride: Shape
    dilation: Shape
    count: Shape
    before: Shape
    after: Shape
    between: Shape
    """How many numbers of padding are between two neighbours of the data."""

    @property
    def item(self) -> range:
        return range(len(self.size))

    def whole(self, axis: int) -> bool:
        """Whether the only window takes the axis as it is."""
        padded = self.before[axis] or self.after[axis] or self.between[axis]
        return self.size[axis] == self._length(axis) and not padded

    def _length(self, axis: int) -> int:
        return self.data.shape[self.split + axis]


def _windows(term: Term, program: Program, fill: float, *, spread: bool = False) -> _Windows | None:
    """The windows that a term holds, whatever its outer axes are.

    :param fill: what the padding holds that becomes part of them.
    :param spread: whether padding between the data's elements becomes part of them, too.
    """
    windows = program.source[term]
    if windows.op != "windows" or windows.item != term.item:
        return None
    x = windows.children[0]
    split, rank, data = x.type.split, len(x.item), x
    before, after, between = [0] * rank, [0] * rank, [0] * rank
    while (moved := _same(data, program)).op in ("pad", "slice") and moved["axis"] >= split:
        axis = moved["axis"] - split
        if moved.op == "slice":
            # Less padding, as far as there is none around what is cut off.
            if not spread or moved["step"] != 1 or before[axis] or after[axis]:
                break
            before[axis] = -moved["low"]
            after[axis] = moved["high"] - moved.children[0].shape[moved["axis"]]
        else:
            # What is padded before its elements are moved apart is no longer beside them.
            if between[axis] or fill_value(moved["value"], moved.dtype) != fill:
                break
            if moved["interior"] and not spread:
                break
            between[axis] = moved["interior"]
            before[axis] += moved["before"]
            after[axis] += moved["after"]
        data = moved.children[0]
    return _Windows(
        data,
        split,
        windows["shape"],
        windows["stride"],
        windows["dilation"] or (1,) * rank,
        windows.outer[split:],
        tuple(before),
        tuple(after),
        tuple(between),
    )


def _same(term: Term, program: Program) -> Term:
    """What computes a term, if it has the same axes; else the term."""
    source = program.source[term]
    return source if source.shape == term.shape else term


def _attributes(windows: _Windows, axes: Sequence[int]) -> dict[str, Any]:
    """Attributes of a convolution or pooling along these item axes."""
    every: dict[str, Any] = {
        "kernel_shape": [windows.size[a] for a in axes],
        "strides": [windows.stride[a] for a in axes],
        "dilations": [windows.dilation[a] for a in axes],
        "pads": [*(windows.before[a] for a in axes), *(windows.after[a] for a in axes)],
    }
    for name, nothing in (("strides", 1), ("dilations", 1), ("pads", 0)):
        if set(every[name]) == {nothing}:
            del every[name]
    return every


# --- convolutions ---------------------------------------------------------------------------------


def _convolution(term: Term, program: Program) -> Step | None:
    """``dot`` of filters and windows, in either order, some axes in front shared as groups."""
    product = program.source[term.children[0]]
    if product.op != "cart_prod" or product.outer != term.outer:
        return None
    work = float_dtype("Conv", term.dtype)
    if work is None:
        return None
    for number, side in enumerate(product.children):
        windows = _windows(side, program, 0.0, spread=True)
        if windows is not None and (not any(windows.between) or _transposed(windows) is None):
            windows = _windows(side, program, 0.0)
        if windows is not None:
            found = _as_convolution(term, product, number, windows, work, program)
            if found is not None:
                return found
    return None


def _transposed(windows: _Windows) -> dict[str, Any] | None:
    """Attributes by which a transposed convolution makes the same sums, along all axes whose
    elements are moved apart; None where none does."""
    reach = [(n - 1) * step for n, step in zip(windows.size, windows.dilation, strict=True)]
    begin = [most - n for most, n in zip(reach, windows.before, strict=True)]
    end = [most - n for most, n in zip(reach, windows.after, strict=True)]
    more = [max(-n, 0) for n in end]
    axes = [axis for axis in windows.item if not windows.whole(axis)]
    fits = all(
        windows.stride[a] == 1 and begin[a] >= 0 and more[a] <= windows.between[a] for a in axes
    )
    if not fits:
        return None
    return {
        "strides": [n + 1 for n in windows.between],
        "begin": begin,
        "end": [max(n, 0) for n in end],
        "output_padding": more,
    }


def _as_convolution(
    term: Term, product: Term, number: int, windows: _Windows, work: str, program: Program
) -> Step | None:
    looks, filters = product.children[number], product.children[1 - number]
    batch = product["batch"]
    shared = math.prod(product.outer[:batch])
    # As many outer axes of the data as make the groups; the rest are images.
    outer = windows.data.shape[: windows.split]
    depth = next((n for n in range(len(outer) + 1) if math.prod(outer[:n]) == shared), None)
    channels = [axis for axis in windows.item if windows.whole(axis)][:1]
    space = [axis for axis in windows.item if axis not in channels]
    if depth is None or len(space) not in _SPATIAL or math.prod(looks.outer[:batch]) != shared:
        return None
    images, maps = math.prod(outer[depth:]), math.prod(filters.outer[batch:])
    length = math.prod(windows.size[axis] for axis in channels)
    extent = [windows.data.shape[windows.split + axis] for axis in space]
    count = [windows.count[axis] for axis in space]
    kernel = [windows.size[axis] for axis in space]
    order = [*channels, *space]
    attributes = _attributes(windows, space) | ({"group": shared} if shared > 1 else {})
    apart = _transposed(windows) if any(windows.between) else None
    if apart is not None:
        if float_dtype("ConvTranspose", term.dtype) != work:
            return None
        attributes["strides"] = [apart["strides"][axis] for axis in space]
        attributes["pads"] = [apart[side][axis] for side in ("begin", "end") for axis in space]
        attributes["output_padding"] = [apart["output_padding"][axis] for axis in space]

    # Filters that are parameters are turned here, so that no nodes do it.
    held = _array(filters, program) if apart is not None else None

    def emit(g: Graph, v: list[Value]) -> Value:
        x = g.cast(g.cast(v[0], term.dtype), work)
        # (groups, images, channels, space...) as (images, groups * channels, space...).
        lead = [shared, images] if shared > 1 else [images]
        x = _ordered(g, x, lead, windows.data.shape[windows.split :], order, len(channels))
        if shared > 1:
            x = g.transpose(x, [1, 0, *range(2, x.rank)])
        x = g.reshape(x, [images, shared * length, *extent])
        if held is None:
            w = g.cast(g.cast(v[1], term.dtype), work)
            w = _ordered(g, w, [shared * maps], filters.item, order, len(channels))
            w = g.reshape(w, [shared * maps, length, *kernel])
            w = w if apart is None else _turned(g, w, shared)
        else:
            array = held.reshape(shared * maps, *filters.item)
            array = array.transpose(0, *(1 + axis for axis in order))
            turned = _turned_array(array.reshape(shared, maps, length, *kernel))
            w = g.initializer(g.names.take("filters"), turned.astype(work), work)
        operator = "Conv" if apart is None else "ConvTranspose"
        y = g.node(operator, [x, w], [images, shared * maps, *count], work, **attributes)
        y = g.cast(y, term.dtype)
        if shared > 1:
            y = g.reshape(y, [images, shared, maps, *count])
        # (images, groups, maps, space...) to the axes of the product.
        groups = [1] if shared > 1 else []
        at = [len(groups) + 1], [0, *range(len(groups) + 2, y.rank)]
        first, second = at if number else at[::-1]
        return g.reshape(g.transpose(y, [*groups, *first, *second]), term.outer)

    return Step((windows.data, *([] if held is not None else [filters])), emit)


def _turned_array(filters: Array) -> Array:
    """As :func:`_turned`, of filters by group."""
    turned = np.flip(filters.swapaxes(1, 2), tuple(range(3, filters.ndim)))
    return turned.reshape(-1, *turned.shape[2:])


def _turned(g: Graph, w: Value, groups: int) -> Value:
    """Filters of a convolution as those of a transposed one: (maps of all groups, channels, ...) as
    (channels of all groups, maps, ...), and back to front."""
    maps, length, kernel = w.shape[0] // groups, w.shape[1], w.shape[2:]
    w = g.reshape(w, [groups, maps, length, *kernel])
    w = g.transpose(w, [0, 2, 1, *range(3, w.rank)])
    w = g.reshape(w, [groups * length, maps, *kernel])
    return g.flip(w, range(2, w.rank))


def _ordered(
    g: Graph, x: Value, lead: list[int], item: Sequence[int], order: list[int], channels: int
) -> Value:
    """``x`` with these axes in front and its item axes in order."""
    x = g.reshape(x, [*lead, *item])
    return g.transpose(x, [*range(len(lead)), *(len(lead) + axis for axis in order)])


# --- poolings -------------------------------------------------------------------------------------


def _max_pool(term: Term, program: Program) -> Step | None:
    lowest = fill_value("lowest", term.dtype) if term.dtype in FLOATS else 0.0
    return _pool(term, term, program, "MaxPool", lowest)


def _sum_pool(term: Term, program: Program) -> Step | None:
    """A sum over windows is their mean as often as they have elements."""
    return _pool(term, term, program, "AveragePool", 0.0, math.prod(term.children[0].item))


def _mean_pool(term: Term, program: Program) -> Step | None:
    return _pool(term, term, program, "AveragePool", 0.0)


def _scaled_sum_pool(term: Term, program: Program) -> Step | None:
    """A sum over windows times a number."""
    for x, number in _halves_with_number(term, program):
        total = _same(x, program)
        if total.op == "compute" and total["function"] == "sum":
            factor = number * math.prod(total.children[0].item)
            return _pool(term, total, program, "AveragePool", 0.0, factor)
    for x, other in _either_way(term, program):
        total, factors = _same(x, program), _array(program.compact(other), program)
        if factors is not None and total.op == "compute" and total["function"] == "sum":
            return _pool(term, total, program, "AveragePool", 0.0, counts=factors)
    return None


def _pool(
    term: Term,
    total: Term,
    program: Program,
    operator: str,
    fill: float,
    factor: float = 1.0,
    counts: Array | None = None,
) -> Step | None:
    """``total``, a reduction of windows, times ``factor``: what ``term`` is.

    :param counts: in place of a factor, what should be one over how many elements of a window are
        no padding.
    """
    work = float_dtype(operator, term.dtype)
    accumulate = total["accumulate"] or term.dtype
    windows = _windows(total.children[0], program, fill)
    if windows is None or work is None or accumulate != term.dtype:
        return None
    averages = operator == "AveragePool"
    small = all(max(windows.before[a], windows.after[a]) < windows.size[a] for a in windows.item)
    if len(windows.size) not in _SPATIAL or not small:
        return None
    if averages and set(windows.dilation) != {1}:
        return None
    attributes = _attributes(windows, windows.item)
    if counts is not None:
        held = _held(windows)
        one_over = np.broadcast_to(counts, total.shape)[(0,) * windows.split]
        if counts.size > held.size or not np.allclose(one_over * held, 1, rtol=_UNIT_ROUNDING):
            return None
    elif averages and "pads" in attributes:
        attributes["count_include_pad"] = 1
    outer, space = windows.data.shape[: windows.split], windows.data.shape[windows.split :]
    lead = outer if windows.split == 2 else (1, math.prod(outer))

    def emit(g: Graph, v: list[Value]) -> Value:
        x = g.cast(g.reshape(v[0], [*lead, *space]), work)
        y = g.node(operator, [x], [*lead, *windows.count], work, **attributes)
        if abs(factor - 1) > _UNIT_ROUNDING:
            y = g.apply("Mul", y, factor)
        return g.reshape(g.cast(y, term.dtype), term.shape)

    return Step((windows.data,), emit)


def _held(windows: _Windows) -> Array:
    """How many elements of each window are no padding."""
    held = np.ones(())
    for axis in windows.item:
        length = windows.data.shape[windows.split + axis]
        first = np.arange(windows.count[axis]) * windows.stride[axis] - windows.before[axis]
        inside = np.minimum(first + windows.size[axis], length) - np.maximum(first, 0)
        held = np.multiply.outer(held, inside)
    return held


# --- elementwise and normalisations ---------------------------------------------------------------


def _halves(term: Term, program: Program) -> tuple[Term, Term] | None:
    """The two operands of a fold, as far as they have all its axes."""
    pair = program.source[term.children[0]]
    if pair.op != "pair" or pair.type.split != 0 or pair.shape[1:] != term.shape:
        return None
    return pair.children[0], pair.children[1]


def _either_way(term: Term, program: Program) -> Iterator[tuple[Term, Term]]:
    halves = _halves(term, program)
    if halves is not None:
        yield halves
        yield halves[::-1]


def _number(term: Term, program: Program) -> float | None:
    """What a term is everywhere."""
    source = program.source[term]
    while source.op == "broadcast":
        source = program.source[source.children[0]]
    return float(source["value"]) if source.op == "constant" else None


def _array(term: Term, program: Program) -> Array | None:
    """The array of a term that is a parameter."""
    source = program.source[term]
    array = program.params.get(source["name"]) if source.op == "tensor" else None
    return None if array is None else np.reshape(array, term.shape)


def _halves_with_number(term: Term, program: Program) -> Iterator[tuple[Term, float]]:
    if term.dtype not in FLOATS:
        return
    for x, other in _either_way(term, program):
        number = _number(other, program)
        if number is not None:
            yield x, number


def _is(term: Term, function: str, program: Program) -> Term | None:
    """The ``compute`` of this function that a term is."""
    source = _same(term, program)
    found = source.op == "compute" and source["function"] == function
    return source if found else None


def _clip(term: Term, program: Program) -> Step | None:
    """The lesser of a number and the greater of another number and x, or the other way round."""
    if term.dtype not in KERNELS["Clip"]:
        return None
    outer = str(term["function"])
    inner = "maximum" if outer == "minimum" else "minimum"
    for below, first in _halves_with_number(term, program):
        other = _is(below, inner, program)
        for x, second in _halves_with_number(other, program) if other is not None else ():
            low, high = (second, first) if outer == "minimum" else (first, second)
            if low <= high:
                return Step((x,), _clipped(low, high))
    return None


def _clipped(low: float, high: float) -> Emit:
    return lambda g, v: g.apply("Clip", v[0], low, high)


def _per_channel(term: Term, program: Program) -> Term | None:
    """The vector that is spread over all axes but the second."""
    narrow = program.compact(term)
    full, rank = term.shape, term.type.rank
    shape = (1,) * (rank - narrow.type.rank) + narrow.shape
    wanted = tuple(n if axis == 1 else 1 for axis, n in enumerate(full))
    return narrow if rank >= 3 and shape == wanted and full[1] > 1 else None


def _affine(term: Term, program: Program) -> Step | None:
    """A factor and a summand for each channel: a batch normalisation by 0 and 1."""
    work = float_dtype("BatchNormalization", term.dtype)
    if work is None:
        return None
    for below, summand in _either_way(term, program):
        scaled, offset = _is(below, "mul", program), _per_channel(summand, program)
        if scaled is None or offset is None:
            continue
        for x, factor in _either_way(scaled, program):
            scale = _per_channel(factor, program)
            if scale is None:
                continue
            channels = term.shape[1]

            def emit(g: Graph, v: list[Value], channels: int = channels) -> Value:
                x = g.cast(v[0], work)
                scale, offset = (g.reshape(g.cast(each, work), [channels]) for each in v[1:])
                nothing, one = (g.fill(n, (channels,), work) for n in (0.0, 1.0))
                operands = [x, scale, offset, nothing, one]
                y = g.node("BatchNormalization", operands, x.shape, work, epsilon=0.0)
                return g.cast(y, term.dtype)

            return Step((x, scale, offset), emit)
    return None


def _layer_norm(term: Term, program: Program) -> Step | None:
    """What is normalised along its last axes, times a factor, perhaps with a summand."""
    if term.dtype not in KERNELS["LayerNormalization"] or program.opset < _LAYER_NORM_FROM:
        return None
    if term["function"] == "mul":
        return _normalisation(term, term, None, program)
    for scaled, summand in _either_way(term, program):
        product, offset = _is(scaled, "mul", program), _along_items(summand, program)
        if product is not None and offset is not None:
            found = _normalisation(term, product, offset, program)
            if found is not None:
                return found
    return None


def _normalisation(term: Term, scaled: Term, offset: Term | None, program: Program) -> Step | None:
    for normal, factor in _either_way(scaled, program):
        scale, found = _along_items(factor, program), _standardised(normal, program)
        if scale is None or found is None:
            continue
        x, split, epsilon = found
        item = x.shape[split:]
        if any(each is not None and each.shape != item for each in (scale, offset)):
            continue

        def emit(g: Graph, v: list[Value], split: int = split, epsilon: float = epsilon) -> Value:
            return g.node(
                "LayerNormalization", v, term.shape, term.dtype, axis=split, epsilon=epsilon
            )

        return Step((x, scale, *([] if offset is None else [offset])), emit)
    return None


def _along_items(term: Term, program: Program) -> Term | None:
    """What is repeated along axes in front."""
    below = program.source[program.compact(term)]
    rank = below.type.rank
    return below if rank > 0 and term.shape[term.type.rank - rank :] == below.shape else None


def _standardised(term: Term, program: Program) -> tuple[Term, int, float] | None:
    """x, the axes in front and ε where a term is ``(x - mean x) / sqrt(var x + ε)``."""
    divided = _is(term, "div", program)
    product = _is(term, "mul", program) if divided is None else None
    fold = divided if divided is not None else product
    if fold is None:
        return None
    ways = [*_either_way(fold, program)]
    for centred, deviation in ways if divided is None else ways[:1]:
        below = _repeated(deviation, program)
        if below is not None and divided is None:
            below = _below(below, "recip", program)
        if below is not None:
            below = _below(below, "sqrt", program)
        difference = _is(centred, "sub", program)
        halves = _halves(difference, program) if difference is not None else None
        if below is None or halves is None:
            continue
        x, mean = halves[0], _repeated(halves[1], program)
        split = _mean_of(mean, x, program)
        if split is None:
            continue
        if below.op != "compute" or below["function"] != "add":
            continue
        for variance, epsilon in _halves_with_number(below, program):
            total = program.source[variance]
            if total.op != "compute" or total["function"] != "mean":
                continue
            square = _is(total.children[0], "mul", program)
            factors = _halves(square, program) if square is not None else None
            same = program.source[centred]
            if factors is None or any(program.source[each] is not same for each in factors):
                continue
            if _mean_of(total, total.children[0], program) == split:
                return x, split, epsilon
    return None


def _mean_of(total: Term | None, x: Term, program: Program) -> int | None:
    """The axes in front of those along which ``total`` is the mean of x."""
    if total is None or total.op != "compute" or total["function"] != "mean":
        return None
    of = total.children[0]
    plain = (total["accumulate"] or total.dtype) == of.dtype == total.dtype
    return of.type.split if plain and program.source[of] is program.source[x] else None


def _repeated(term: Term, program: Program) -> Term | None:
    """What is repeated along the last axes."""
    source = program.source[term]
    if source.op != "broadcast" or source.shape != term.shape:
        return None
    narrow, full = source.children[0].shape, source.shape
    count = len(full)
    while count and narrow[count - 1] == 1:
        count -= 1
    return program.source[source.children[0]] if narrow[:count] == full[:count] else None


def _below(term: Term, function: str, program: Program) -> Term | None:
    """The operand of a map."""
    found = term.op == "compute" and term["function"] == function
    return program.source[term.children[0]] if found else None


Recogniser = Callable[[Term, Program], Step | None]

_RECOGNISERS: dict[str, tuple[Recogniser, ...]] = {
    "dot": (_convolution,),
    "max": (_max_pool,),
    "sum": (_sum_pool,),
    "mean": (_mean_pool,),
    "mul": (_scaled_sum_pool, _layer_norm),
    "minimum": (_clip,),
    "maximum": (_clip,),
    "add": (_layer_norm, _affine),
}
"""By the function that is computed last."""
