"""Operators that pick elements by index."""

from __future__ import annotations

import math

import numpy as np

from glenside.frontends.lowering.phrases import (
    add,
    elementwise,
    like,
    mul,
    reshape,
    select,
    sub,
    transpose,
)
from glenside.frontends.lowering.places import (
    COMBINE,
    check_range,
    flat_indices,
    from_front,
    gather_elements,
    gather_nd,
    places_but,
    reversed_sequences,
    scatter,
    steps,
)
from glenside.frontends.onnx.node import Array, Node, operator
from glenside.frontends.onnx.shape_ops import take
from glenside.language import Term, builders
from glenside.language.shape import INTEGERS


@operator("Gather")
def _gather(node: Node) -> Term:
    x, indices = node[0], node[1]
    axis = node.axis(node.attributes.integer("axis", 0), x.type.rank)
    check_indices(node, indices)
    known = node.known(1)
    check_range(node, indices, x.shape[axis], axis)
    if known is not None and known.ndim == 0:
        at = int(known) % x.shape[axis]
        return builders.squeeze(builders.slice_(x, axis, at, at + 1), axis)
    return builders.gather(x, indices, axis)


def check_indices(node: Node, indices: Term) -> None:
    """Indices must be integers."""
    if indices.dtype not in INTEGERS:
        raise node.error(f"indices must be integers, got {indices.dtype}")


def _check_reach(node: Node, x: Term, indices: Term, axis: int) -> None:
    """Along other axes, indices pair with positions of the data: there must be enough of them."""
    pairs = enumerate(zip(indices.shape, x.shape, strict=True))
    if indices.type.size and any(n > m for i, (n, m) in pairs if i != axis):
        raise node.error(f"indices {indices.shape} reach over data {x.shape}")


@operator("GatherElements")
def _gather_elements(node: Node) -> Term:
    x, indices = node[0], node[1]
    axis = node.axis(node.attributes.integer("axis", 0), x.type.rank)
    check_indices(node, indices)
    if indices.type.rank != x.type.rank:
        raise node.error(f"data {x.shape} and indices {indices.shape} must have the same rank")
    _check_reach(node, x, indices, axis)
    check_range(node, indices, x.shape[axis], axis)
    return gather_elements(node, x, indices, axis)


@operator("GatherND")
def _gather_nd(node: Node) -> Term:
    x, indices = node[0], node[1]
    batch = node.attributes.integer("batch_dims", 0)
    check_indices(node, indices)
    return gather_nd(node, x, indices, batch)


@operator("OneHot")
def _one_hot(node: Node) -> Term:
    indices, values = node[0], node[2]
    depth = int(node.number(1, "depth"))
    axis = node.axis(node.attributes.integer("axis", -1), indices.type.rank + 1)
    if depth < 1 or values.shape != (2,):
        raise node.error(f"depth {depth} and values of shape {values.shape} do not fit")
    node.check_size(depth, "depth")
    places = from_front(indices, depth)
    hot = elementwise(
        "equal",
        builders.unsqueeze(places, indices.type.rank),
        node.parameter(np.arange(depth), "classes"),
    )
    order = list(range(indices.type.rank))
    order.insert(axis, indices.type.rank)
    off, on = (builders.squeeze(builders.slice_(values, 0, i, i + 1), 0) for i in (0, 1))
    return select(transpose(hot, order), on, off)


@operator("Compress")
def _compress(node: Node) -> Term:
    x = node[0]
    kept = np.flatnonzero(node.array(1, "condition"))
    if "axis" in node.attributes:
        axis = node.axis(node.attributes.integer("axis"), x.type.rank)
    else:
        x, axis = reshape(x, (x.type.size,)), 0
    kept = kept[kept < x.shape[axis]]
    return take(node, x, kept, axis)


@operator("NonZero")
def _non_zero(node: Node) -> Array:
    data = node.array(0, "the data, which decides the shape of the result,")
    if not data.ndim:
        # A single number has a place, but no axes to count it along.
        return np.zeros((0, np.count_nonzero(data)), np.int64)
    return np.array(np.nonzero(data), np.int64)


@operator("Unique")
def _unique(node: Node) -> list[Term | Array | None]:
    data = node.array(0, "the data, which decides the shape of the result,")
    axis = None
    if "axis" in node.attributes:
        axis = node.axis(node.attributes.integer("axis"), data.ndim)
    values, first, inverse, counts = np.unique(data, True, True, True, axis)
    inverse = inverse.reshape(-1)
    if not node.attributes.flag("sorted", True):
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return [values, *(each.astype(np.int64) for each in (first, inverse, counts))]


@operator("ReverseSequence")
def _reverse_sequence(node: Node) -> Term:
    x, lengths = node[0], node[1]
    time = node.axis(node.attributes.integer("time_axis", 0), x.type.rank)
    batch = node.axis(node.attributes.integer("batch_axis", 1), x.type.rank)
    if {time, batch} != {0, 1} or lengths.shape != (x.shape[batch],):
        raise node.error(f"lengths of shape {lengths.shape} do not fit data of shape {x.shape}")
    longest = x.shape[time]
    node.require(lengths, 0, longest + 1, f"takes sequence lengths from 0 to {longest}")
    return reversed_sequences(node, x, lengths, time, batch)


# --- scattering ---------------------------------------------------------------------------------


@operator("ScatterElements", "Scatter")
def _scatter_elements(node: Node) -> Term:
    x, indices, updates = node[0], node[1], node[2]
    axis = node.axis(node.attributes.integer("axis", 0), x.type.rank)
    reduction = node.attributes.choice("reduction", "none", *COMBINE)
    check_indices(node, indices)
    if indices.shape != updates.shape or indices.type.rank != x.type.rank:
        raise node.error(f"indices {indices.shape} and updates {updates.shape} do not fit")
    _check_reach(node, x, indices, axis)
    check_range(node, indices, x.shape[axis], axis)
    along = mul(from_front(indices, x.shape[axis]), steps(x.shape)[axis])
    places = add(along, places_but(node, x.shape, indices.shape, axis))
    flat = (indices.type.size,)
    result = scatter(
        node,
        reshape(x, (x.type.size,)),
        node.fold(reshape(places, flat), "targets"),
        reshape(updates, flat),
        reduction,
    )
    return reshape(result, x.shape)


@operator("ScatterND")
def _scatter_nd(node: Node) -> Term:
    x, indices, updates = node[0], node[1], node[2]
    reduction = node.attributes.choice("reduction", "none", *COMBINE)
    check_indices(node, indices)
    depth = indices.shape[-1] if indices.shape else 0
    if not 1 <= depth <= x.type.rank or updates.shape != indices.shape[:-1] + x.shape[depth:]:
        raise node.error(f"indices {indices.shape} and updates {updates.shape} do not fit")
    rows, rest = x.shape[:depth], x.shape[depth:]
    count = math.prod(indices.shape[:-1])
    places = reshape(flat_indices(node, indices, rows), (count,))
    result = scatter(
        node,
        reshape(x, (math.prod(rows), *rest)),
        node.fold(places, "targets"),
        reshape(updates, (count, *rest)),
        reduction,
    )
    return reshape(result, x.shape)


@operator("TensorScatter")
def _tensor_scatter(node: Node) -> Term:
    past, update, starts = node[0], node[1], node.get(2)
    axis = node.axis(node.attributes.integer("axis", -2), past.type.rank)
    circular = node.attributes.choice("mode", "linear", "circular") == "circular"
    if axis == 0 or past.type.rank != update.type.rank:
        raise node.error(f"axis {axis} and update of shape {update.shape} do not fit")
    length, written = past.shape[axis], update.shape[axis]
    latest = length - written
    if starts is not None and not circular:
        node.require(starts, 0, latest + 1, f"takes starts from 0 to {latest} along axis {axis}")
    # Where in the update every position along the axis comes from, per batch entry.
    position = node.parameter(np.arange(length).reshape(1, -1), "positions")
    if starts is None:
        begin = builders.constant(0, (past.shape[0], 1), "int64")
    else:
        begin = builders.unsqueeze(builders.cast(starts, "int64"), 1)
    source = sub(position, begin)
    if circular:
        source = elementwise("mod", source, like(source, length))
    fresh = elementwise(
        "and",
        elementwise("greater_equal", source, like(source, 0)),
        elementwise("less", source, like(source, written)),
    )
    source = select(fresh, source, 0)
    shape = [past.shape[0], *[1] * (past.type.rank - 1)]
    shape[axis] = length
    full = past.shape
    indices = builders.broadcast(reshape(source, shape), full)
    moved = gather_elements(node, update, indices, axis)
    return select(reshape(fresh, shape), moved, past)
