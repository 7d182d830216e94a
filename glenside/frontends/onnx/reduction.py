"""Reductions over axes, and sums along one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from glenside.frontends.lowering.phrases import (
    add,
    div,
    elementwise,
    reduce,
    select,
    square,
    sub,
    to_end,
)
from glenside.frontends.onnx.node import Node, operator
from glenside.language import Term, builders
from glenside.language.builders import access, compute
from glenside.language.shape import FLOATS

_REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceMean": "mean",
}


def read_axes(node: Node, rank: int) -> list[int]:
    """The axes to reduce, from the attribute or (newer opsets) the second operand."""
    since = 13 if node.operator == "ReduceSum" else 18
    idle = False
    given: list[int] | None = None
    if node.opset >= since:
        idle = node.attributes.flag("noop_with_empty_axes")
        if node.get(1) is not None:
            given = node.ints(1, "axes")
    else:
        given = node.attributes.integers("axes")
    if given:
        return node.axes(given, rank)
    return [] if idle else list(range(rank))


@operator(*_REDUCTIONS)
def _reduction(node: Node) -> Term:
    x = node[0]
    keep = node.attributes.flag("keepdims", True)
    axes = read_axes(node, x.type.rank)
    if not axes:
        return x
    function = _REDUCTIONS[node.operator]
    if function == "mean" and x.dtype not in FLOATS:
        count = int(np.prod([x.shape[axis] for axis in axes]))
        return div(reduce("sum", x, axes, keep), count)
    return reduce(function, x, axes, keep)


@operator("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")
def _norm(node: Node) -> Term:
    x = node[0]
    keep = node.attributes.flag("keepdims", True)
    axes = read_axes(node, x.type.rank)
    if node.operator == "ReduceL1":
        x = elementwise("abs", x)
    elif node.operator in ("ReduceL2", "ReduceSumSquare"):
        x = square(x)
    total = reduce("sum", x, axes, keep) if axes else x
    if node.operator == "ReduceL2":
        return as_float(total, lambda value: elementwise("sqrt", value))
    if node.operator == "ReduceLogSum":
        return as_float(total, lambda value: elementwise("log", value))
    return total


def as_float(x: Term, function: Callable[[Term], Term]) -> Term:
    """A function of floats applied to any number, in float64 where it is an integer."""
    if x.dtype in FLOATS:
        return function(x)
    return builders.cast(function(builders.cast(x, "float64")), x.dtype)


@operator("ReduceLogSumExp")
def _log_sum_exp(node: Node) -> Term:
    x = node[0]
    keep = node.attributes.flag("keepdims", True)
    axes = read_axes(node, x.type.rank)
    if not axes:
        return x

    def lower(value: Term) -> Term:
        # The maximum is taken out so that no power overflows; an infinite one stays in.
        top = reduce("max", value, axes, True)
        finite = elementwise("less", elementwise("abs", top), _like_inf(top))
        top = select(finite, top, 0.0)
        total = reduce("sum", elementwise("exp", sub(value, top)), axes, True)
        result = add(elementwise("log", total), top)
        if not keep:
            for axis in sorted(axes, reverse=True):
                result = builders.squeeze(result, axis)
        return result

    return as_float(x, lower)


def _like_inf(x: Term) -> Term:
    return builders.constant(float("inf"), (), x.dtype)


@operator("ArgMax", "ArgMin")
def _arg(node: Node) -> Term:
    x = node[0]
    axis = node.axis(node.attributes.integer("axis", 0), x.type.rank)
    keep = node.attributes.flag("keepdims", True)
    last = node.attributes.flag("select_last_index")
    length = x.shape[axis]
    if not length:
        shape = [n for i, n in enumerate(x.shape) if i != axis or keep]
        shape = [1 if keep and i == axis else n for i, n in enumerate(shape)]
        if math.prod(shape):
            raise node.error(f"axis {axis} of shape {x.shape} is empty: no position is the best")
        return builders.constant(0, shape, "int64")
    if last:
        # Backwards, the last of equal elements comes first.
        back = node.parameter(np.arange(length - 1, -1, -1), "backwards")
        x = builders.gather(x, back, axis)
    moved, _ = to_end(x, [axis])
    found = compute(
        "argmax" if node.operator == "ArgMax" else "argmin", access(moved, -1 + x.type.rank)
    )
    if last:
        found = sub(builders.constant(length - 1, (), "int64"), found)
    return builders.unsqueeze(found, axis) if keep else found


@operator("Hardmax")
def _hardmax(node: Node) -> Term:
    x = node[0]
    axis = node.attributes.integer("axis", -1 if node.opset >= 13 else 1)
    axis = node.axis(axis, x.type.rank)
    shape = x.shape
    if not x.type.size:
        return x
    if node.opset < 13:
        flat = (int(np.prod(shape[:axis])), int(np.prod(shape[axis:])))
        x, axis = builders.reshape(x, flat), 1
    moved, inverse = to_end(x, [axis])
    best = compute("argmax", access(moved, moved.type.rank - 1))
    positions = node.parameter(np.arange(moved.shape[-1]), "positions")
    hot = elementwise("equal", builders.unsqueeze(best, best.type.rank), positions)
    result = builders.cast(builders.transpose(hot, inverse), x.dtype)
    return builders.reshape(result, shape)
