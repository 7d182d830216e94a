"""What is done to a graph once all its nodes are written: summands taken in, and leftovers removed.

Only what no name outside depends on is changed: what several nodes read stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import onnx
from onnx import helper

from glenside.exporters.onnx.graph import Graph, Value
from glenside.language.builders import broadcast_shapes
from glenside.language.shape import Shape


def tidy(graph: Graph, outputs: Collection[str]) -> None:
    """Tidies the graph, whose outputs have these names."""
    _remove_unread(graph, outputs)
    _remove_renaming(graph, outputs)
    nodes, graph.nodes = graph.nodes, []
    readers, makers = _readers(nodes, outputs), _makers(nodes)
    for node in nodes:
        for simpler in (_with_padding, _with_summand, _with_kept_axes):
            node = simpler(graph, node, makers, readers) or node
        graph.nodes.append(node)
        if len(node.output) == 1:
            makers[node.output[0]] = node
    _remove_unread(graph, outputs)


def _readers(nodes: Sequence[onnx.NodeProto], outputs: Collection[str]) -> Counter[str]:
    """How many read a name."""
    return Counter([*outputs, *(name for node in nodes for name in _reads(node))])


def _makers(nodes: Sequence[onnx.NodeProto]) -> dict[str, onnx.NodeProto]:
    return {node.output[0]: node for node in nodes if len(node.output) == 1}


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, inside its subgraphs as well."""
    yield from node.input
    for attribute in node.attribute:
        graphs = [attribute.g] if attribute.HasField("g") else attribute.graphs
        for graph in graphs:
            for each in graph.node:
                yield from _reads(each)
            yield from (output.name for output in graph.output)


def _remove_unread(graph: Graph, outputs: Collection[str]) -> None:
    wanted, kept = set(outputs), []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(_reads(node))
    graph.nodes = kept[::-1]
    graph.initializers = [each for each in graph.initializers if each.name in wanted]


def _remove_renaming(graph: Graph, outputs: Collection[str]) -> None:
    """What an Identity alone reads has the Identity's name from the start."""
    readers, makers, kept = _readers(graph.nodes, outputs), _makers(graph.nodes), []
    for node in graph.nodes:
        maker = makers.get(node.input[0]) if node.op_type == "Identity" else None
        old = node.input[0] if maker is not None else ""
        if maker is None or node.domain or readers[old] > 1 or old not in graph.values:
            kept.append(node)
            continue
        value = graph.values[old]
        maker.output[0] = maker.name = node.output[0]
        makers[node.output[0]] = maker
        graph.values[node.output[0]] = Value(node.output[0], value.shape, value.dtype)
        if old in graph.padded:
            graph.padded[node.output[0]] = graph.padded[old]
    graph.nodes = kept


_BIASED = ("Conv", "ConvTranspose", "Gemm")
"""Operators that take a bias as their third operand."""


def _with_padding(
    graph: Graph, node: onnx.NodeProto, makers: dict[str, onnx.NodeProto], readers: Counter[str]
) -> onnx.NodeProto | None:
    """A convolution of what it alone reads padded, with that padding."""
    if node.op_type != "Conv" or node.domain or readers[node.input[0]] > 1:
        return None
    padding = graph.padded.get(node.input[0])
    if padding is None or padding.number != 0:
        return None
    if any(padding.before[:2]) or any(padding.after[:2]) or padding.of.dtype != "float32":
        return None
    given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    widths = [*padding.before[2:], *padding.after[2:]]
    old = given.get("pads", [0] * len(widths))
    given["pads"] = [a + b for a, b in zip(widths, old, strict=True)]
    operands = [padding.of.name, *node.input[1:]]
    return helper.make_node("Conv", operands, list(node.output), node.name, **given)


def _with_summand(
    graph: Graph, node: onnx.NodeProto, makers: dict[str, onnx.NodeProto], readers: Counter[str]
) -> onnx.NodeProto | None:
    """A sum as the convolution or matrix product that it alone reads, with the rest as its bias."""
    if node.op_type != "Add":
        return None
    for product, summand in (node.input, reversed(node.input)):
        maker = makers.get(product)
        if maker is None or maker.op_type not in _BIASED or readers[product] > 1:
            continue
        if len(maker.input) > 2 or maker.domain:
            continue
        bias = _bias(graph, maker.op_type, graph.values[product].shape, summand, makers)
        if bias is not None:
            fused = helper.make_node(
                maker.op_type, [*maker.input, bias], list(node.output), node.name
            )
            fused.attribute.extend(maker.attribute)
            return fused
    return None


def _bias(
    graph: Graph, operator: str, full: Shape, name: str, makers: dict[str, onnx.NodeProto]
) -> str | None:
    """The value to give as bias, where what is called ``name`` is one."""
    value = graph.values.get(name)
    if value is None:
        return None
    shape = value.shape
    if broadcast_shapes(shape, full) != full:
        return None
    if operator == "Gemm":
        return name
    wide = (1,) * (len(full) - len(shape)) + shape
    if wide != tuple(n if axis == 1 else 1 for axis, n in enumerate(full)):
        return None
    maker = makers.get(name)
    if maker is not None and maker.op_type == "Reshape":
        origin = graph.values.get(maker.input[0])
        if origin is not None and origin.shape == (full[1],):
            return origin.name
    return graph.reshape(value, (full[1],)).name


def _with_kept_axes(
    graph: Graph, node: onnx.NodeProto, makers: dict[str, onnx.NodeProto], readers: Counter[str]
) -> onnx.NodeProto | None:
    """A reduction that keeps its axes, where they come back by a Reshape which alone reads it."""
    if node.op_type != "Reshape":
        return None
    maker = makers.get(node.input[0])
    if maker is None or not maker.op_type.startswith("Reduce") or readers[node.input[0]] > 1:
        return None
    of = graph.values.get(maker.input[0])
    if of is None:
        return None
    full, narrow = of.shape, graph.values[node.input[0]].shape
    if graph.values[node.output[0]].shape != narrow + (1,) * (len(full) - len(narrow)):
        return None
    if maker.op_type == "ReduceMean" and len(narrow) == 2 and 3 <= len(full) <= 5:
        return helper.make_node("GlobalAveragePool", maker.input[:1], list(node.output), node.name)
    return helper.make_node(
        maker.op_type, list(maker.input), list(node.output), node.name, keepdims=1
    )
