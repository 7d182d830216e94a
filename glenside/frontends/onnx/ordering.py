"""Which nodes of a graph are needed, and in which order they can be read.

ONNX asks that nodes stand in topological order; files that other tools wrote do not always, and
onnxruntime sorts them. What no output depends on is not read at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import onnx

from glenside.errors import ModelError
from glenside.frontends.onnx.node import node_name


@dataclass(frozen=True)
class Needed:
    """The nodes to read, each behind those that make its operands, and all names that they or the
    outputs read."""

    nodes: Sequence[onnx.NodeProto]
    names: Collection[str]


def needed(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]) -> Needed:
    """The nodes that ``outputs`` depend on; those that are in order stay in it.

    :raises ModelError: two nodes make a value of one name, or nodes wait for each other.
    """
    makers: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in filter(None, node.output):
            if makers.setdefault(name, position) != position:
                raise ModelError(f"value {name!r} is made more than once")
    reads: dict[int, set[str]] = {}
    names = set(outputs)
    pending = [makers[name] for name in names if name in makers]
    while pending:
        position = pending.pop()
        if position in reads:
            continue
        reads[position] = _reads(nodes[position])
        names |= reads[position]
        pending += [makers[name] for name in reads[position] if name in makers]
    before = {
        position: sorted({makers[name] for name in read if name in makers})
        for position, read in reads.items()
    }
    return Needed([nodes[position] for position in _sorted(before, nodes)], names)


def _sorted(before: dict[int, list[int]], nodes: Sequence[onnx.NodeProto]) -> list[int]:
    """Positions, lowest first, but each behind those that it waits for."""
    order: list[int] = []
    done: set[int] = set()
    for first in sorted(before):
        stack = [first]
        waiting: set[int] = set()
        while stack:
            position = stack[-1]
            if position in done:
                stack.pop()
                continue
            missing = [each for each in before[position] if each not in done]
            if not missing:
                order.append(position)
                done.add(position)
                stack.pop()
                continue
            waiting.add(position)
            for each in missing:
                if each in waiting:
                    node = nodes[position]
                    raise ModelError(
                        f"node {node_name(node)!r} ({node.op_type}) waits for its own result: "
                        "the graph has a cycle"
                    )
            stack += reversed(missing)
    return order


def _reads(node: onnx.NodeProto) -> set[str]:
    """Names of the values around a node that it reads, also from inside its subgraphs."""
    reads = set(filter(None, node.input))
    for graph in subgraphs(node):
        reads |= _free(graph)
    return reads


def _free(graph: onnx.GraphProto) -> set[str]:
    # Subgraphs nest as deep as protobuf reads them, some dozens: recursion is safe here.
    own = {each.name for each in (*graph.input, *graph.initializer)}
    own |= {each.values.name for each in graph.sparse_initializer}
    read = {each.name for each in graph.output}
    for node in graph.node:
        own |= set(node.output)
        read |= _reads(node)
    return read - own


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a node holds as attributes."""
    held: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            held.append(attribute.g)
        held += attribute.graphs
    return held
