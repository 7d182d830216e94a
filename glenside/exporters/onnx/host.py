"""Host operators: the opset of the model, and operators of other opsets.

A ``host_op`` is an operator of the opset that the imported model had; the exported model has one
opset for all. The newest opset is taken in which every host operator still means the same. Where
there is none, the newest one is taken and onnx's version converter rewrites the operators that
changed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import onnx
from onnx import helper, version_converter

from glenside.errors import GlensideError, InputError
from glenside.exporters.onnx.graph import Graph, Value, element_type
from glenside.language import Term
from glenside.language.host import HostNode, runtime_has

PLAIN_OPSET = 18
"""The nodes written here mean the same in every opset from this one on."""

OLDEST_OPSET = 13
"""The oldest opset in which they can be said otherwise."""

_WITHOUT_RUNTIME = 21
"""The opset when onnxruntime is not installed; its releases since 1.20 know it."""


@functools.cache
def newest_opset() -> int:
    """The newest opset that both onnx and the installed onnxruntime know."""
    try:
        import onnxruntime
    except ImportError:
        return min(_WITHOUT_RUNTIME, onnx.defs.onnx_opset_version())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for opset in range(onnx.defs.onnx_opset_version(), PLAIN_OPSET, -1):
        info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
        node = helper.make_node("Identity", ["x"], ["y"])
        result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
        model = make_model(helper.make_graph([node], "probe", [info], [result]), {"": opset})
        try:
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception:  # onnxruntime has no common class of its errors.
            continue
        return opset
    return PLAIN_OPSET


def make_model(
    graph: onnx.GraphProto,
    opsets: dict[str, int],
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model of these opsets by domain, of the oldest IR version that has them."""
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(
        graph, opset_imports=imports, functions=functions, producer_name="glenside"
    )
    # Local functions came with IR version 8.
    standard = [each for each in imports if each.domain == ""]
    model.ir_version = max(8, helper.find_min_ir_version_for(standard))
    return model


def check_opset(opset: object) -> int:
    """:raises InputError: programs are not written in that opset of ONNX."""
    newest = onnx.defs.onnx_opset_version()
    whole = isinstance(opset, int) and not isinstance(opset, bool)
    if not whole or not OLDEST_OPSET <= opset <= newest:  # type: ignore[operator]
        raise InputError(f"opset is a number from {OLDEST_OPSET} to {newest}, got {opset!r}")
    return opset  # type: ignore[return-value]


def check_nodes(nodes: Iterable[onnx.NodeProto], opset: int) -> None:
    """:raises GlensideError: the opset has not what one of them says."""
    for node in nodes:
        if node.domain or not onnx.defs.has(node.op_type):
            continue
        schema = _schema(node.op_type, "", opset)
        known = schema is not None and len(node.input) <= schema.max_input
        if not known or any(each.name not in schema.attributes for each in node.attribute):
            since = next(
                n
                for n in range(opset + 1, onnx.defs.onnx_opset_version() + 1)
                if (later := _schema(node.op_type, "", n)) is not None
                and len(node.input) <= later.max_input
                and all(each.name in later.attributes for each in node.attribute)
            )
            raise GlensideError(
                f"{node.name or node.op_type}: opset {opset} has no {node.op_type} that computes "
                f"this: it came with opset {since}"
            )


def choose_opsets(terms: Iterable[Term], asked: int | None = None) -> dict[str, int]:
    """The opset of every domain that a program with these host operators uses.

    In other domains than ONNX's own the newest of the versions is taken.

    :param asked: the opset of ONNX's own operators; host operators are converted to it.
    """
    uses = {(t["domain"], t["operator"], t["version"]) for t in terms if t.op == "host_op"}
    opsets: dict[str, int] = {}
    for domain, _, version in uses:
        opsets[domain] = max(version, opsets.get(domain, 0))
    standard = [
        (name, version)
        for domain, name, version in uses
        if domain == "" and onnx.defs.has(name)  # onnxruntime's own do not change.
    ]
    if asked is not None:
        opsets[""] = asked
        return opsets
    newest = newest_opset()
    opsets[""] = next(
        (
            opset
            for opset in range(newest, PLAIN_OPSET - 1, -1)
            if all(_means_the_same(name, version, opset) for name, version in standard)
        ),
        newest,
    )
    return opsets


@functools.cache
def _schema(operator: str, domain: str, opset: int) -> Any:
    """The definition of an operator in an opset; None where it has none, or is deprecated."""
    try:
        schema = onnx.defs.get_schema(operator, opset, domain)
    except onnx.defs.SchemaError:
        return None
    return None if schema.deprecated else schema


def _means_the_same(operator: str, version: int, opset: int) -> bool:
    """Whether an operator of the standard domain has one definition in both opsets."""
    old, new = _schema(operator, "", version), _schema(operator, "", opset)
    return bool(old and new and old.since_version == new.since_version)


def host_node(
    graph: Graph, term: Term, operands: Sequence[Value], outputs: Sequence[str], opset: int
) -> None:
    """Appends the operator of a ``host_op`` term.

    :param outputs: names of its outputs, ``""`` where one is not used.
    :param opset: of the model, in the operator's domain.
    :raises GlensideError: the operator cannot be said in that opset.
    """
    operator, version = term["operator"], term["version"]
    node = HostNode.of(term.attributes, [value.name for value in operands], outputs).proto()
    own = term["domain"] != "" or (not onnx.defs.has(operator) and runtime_has("", operator))
    if own or _means_the_same(operator, version, opset):
        graph.append(node)
        return
    for each in _converted(graph, node, term, operands, opset):
        graph.append(each)


def _converted(
    graph: Graph, node: onnx.NodeProto, term: Term, operands: Sequence[Value], opset: int
) -> list[onnx.NodeProto]:
    """``node`` in the model's opset, as nodes with names of their own."""
    operator, version = term["operator"], term["version"]
    inputs = {v.name: v for v in operands}
    results = [
        helper.make_tensor_value_info(name, element_type(term.dtype), None)
        for name in node.output
        if name
    ]
    alone = helper.make_graph(
        [node],
        operator,
        [
            helper.make_tensor_value_info(v.name, element_type(v.dtype), v.shape)
            for v in inputs.values()
        ],
        results,
    )
    try:
        converted = version_converter.convert_version(make_model(alone, {"": version}), opset)
    except (
        Exception
    ) as problem:  # The converter's errors are of many kinds, RuntimeError among them.
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else repr(problem)
        raise GlensideError(
            f"host operator {operator} of opset {version} cannot be said in opset {opset}: {first}"
        ) from problem
    kept = {*inputs, *(name for name in node.output if name)}
    names: dict[str, str] = {"": ""}
    nodes: list[onnx.NodeProto] = []
    for tensor in converted.graph.initializer:
        names[tensor.name] = graph.names.take(tensor.name)
        tensor.name = names[tensor.name]
        nodes.append(helper.make_node("Constant", [], [tensor.name], tensor.name, value=tensor))
    for each in converted.graph.node:
        for name in each.output:
            if name not in names:
                names[name] = name if name in kept else graph.names.take(name)
        each.input[:] = [names.get(name, name) for name in each.input]
        each.output[:] = [names[name] for name in each.output]
        each.name = next(name for name in each.output if name)
        nodes.append(each)
    return nodes
