"""Sequences and optionals: lists that exist while importing only, of tensors that stay terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.frontends.onnx.node import Array, Node, operator
from glenside.language import Term, builders


@operator("SequenceConstruct")
def _construct(node: Node) -> list[Any]:
    return [tuple(node.given())]


@operator("SequenceEmpty")
def _empty(node: Node) -> list[Any]:
    node.attributes.ignore("dtype")
    return [()]


def _position(node: Node, operand: int, length: int) -> int:
    position = int(node.number(operand, "the position"))
    if not -length <= position < length:
        raise node.error(f"position {position} is outside a sequence of {length}")
    return position % length


@operator("SequenceAt")
def _at(node: Node) -> Term:
    items = node.sequence(0)
    return items[_position(node, 1, len(items))]


@operator("SequenceErase")
def _erase(node: Node) -> list[Any]:
    items = node.sequence(0)
    last = len(items) - 1
    at = last if node.get(1) is None else _position(node, 1, len(items))
    return [items[:at] + items[at + 1 :]]


@operator("SequenceInsert")
def _insert(node: Node) -> list[Any]:
    items = node.sequence(0)
    length = len(items)
    at = length
    if node.get(2) is not None:
        position = int(node.number(2, "the position"))
        at = length if position == length else _position(node, 2, length)
    return [(*items[:at], node[1], *items[at:])]


@operator("SequenceLength")
def _length(node: Node) -> Array:
    return np.array(len(node.sequence(0)), np.int64)


MOST_PARTS = 2**16


def _check_count(node: Node, count: int) -> None:
    if count > MOST_PARTS:
        raise node.error(f"a sequence of {count} parts is longer than {MOST_PARTS}")


@operator("SplitToSequence")
def _split(node: Node) -> list[Any]:
    x = node[0]
    axis = node.axis(node.attributes.integer("axis", 0), x.type.rank)
    keep = node.attributes.flag("keepdims", True)
    length = x.shape[axis]
    if node.get(1) is None:
        _check_count(node, length)
        sizes = [1] * length
    else:
        keep = True  # Only single positions lose their axis.
        sizes = node.ints(1, "split")
        if not node[1].shape:
            size = sizes[0]
            if size < 1:
                raise node.error(f"split must be positive, got {size}")
            _check_count(node, length // size)
            sizes = [min(size, length - start) for start in range(0, length, size)]
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise node.error(f"split {sizes} does not add up to the {length} positions of axis {axis}")
    parts, start = [], 0
    for size in sizes:
        part = builders.slice_(x, axis, start, start + size)
        parts.append(part if keep else builders.squeeze(part, axis))
        start += size
    return [tuple(parts)]


@operator("ConcatFromSequence")
def _concat(node: Node) -> Term:
    items = node.sequence(0)
    fresh = node.attributes.flag("new_axis")
    if not items:
        raise node.error("an empty sequence cannot be joined")
    axis = node.axis(node.attributes.integer("axis"), items[0].type.rank + fresh)
    if fresh:
        items = tuple(builders.unsqueeze(each, axis) for each in items)
    return builders.concat(axis, *items)


@operator("SequenceMap")
def _map(node: Node) -> list[Any]:
    body = node.attributes.graph("body")
    if body is None or len(body.input) != len(node.inputs):
        raise node.error(f"its body does not take the {len(node.inputs)} operands")
    names = [each.name for each in body.input]
    length = len(node.sequence(0))
    made: list[tuple[Any, ...]] = [() for _ in body.output]
    for i in range(length):
        operands = []
        for position, x in enumerate(node.inputs):
            if isinstance(x, tuple) and len(x) != length:
                raise node.error(f"sequences of {length} and {len(x)} tensors do not fit")
            operands.append(x[i] if isinstance(x, tuple) else node[position])
        results = node.run(body, dict(zip(names, operands, strict=True)))
        if not all(isinstance(each, Term) for each in results):
            node.refuse("the body has nodes that are not supported")
        made = [(*before, each) for before, each in zip(made, results, strict=True)]
    return made


@operator("Optional", "OptionalGetElement", "Identity")
def _same(node: Node) -> list[Any]:
    node.attributes.ignore("type")
    if not node.inputs or node.inputs[0] is None:
        node.refuse("an optional without an element is not supported")
    return [node.inputs[0]]


@operator("OptionalHasElement")
def _has_element(node: Node) -> Array:
    return np.array(bool(node.inputs) and node.inputs[0] is not None)
