"""Operators without a meaning as access patterns, left to onnxruntime as ``host_op`` terms.

Such a term needs the shape and dtype of its result. onnx infers them from the types of the
operands and the values that are known; where it cannot, the node is refused.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import onnx

from glenside.frontends.onnx.functions import operand_type, standard
from glenside.frontends.onnx.node import Node, Refused, dtype_name
from glenside.language import Term, builders

OUT_OF_SCOPE = ("ai.onnx.preview.training",)
"""Domains whose operators no program that only infers needs."""

_PLAIN = (
    onnx.AttributeProto.INT,
    onnx.AttributeProto.INTS,
    onnx.AttributeProto.FLOAT,
    onnx.AttributeProto.FLOATS,
)
_TEXTS = (onnx.AttributeProto.STRING, onnx.AttributeProto.STRINGS)


def knows(domain: str, operator: str) -> bool:
    """Whether onnx declares such an operator."""
    return domain not in OUT_OF_SCOPE and onnx.defs.has(operator, domain)


def lower(node: Node, reason: str) -> list[Term | None]:
    """The node's outputs as ``host_op`` terms.

    :raises Refused: onnx cannot infer what they are, or the operator is random; ``reason`` says
        why there is no other meaning.
    """
    domain = standard(node.proto.domain)
    schema = onnx.defs.get_schema(node.operator, node.opset, domain)
    if schema.node_determinism == onnx.defs.OpSchema.NodeDeterminism.NonDeterministic:
        raise Refused(f"{reason}: its result is random")
    types = _result_types(node, domain, reason)
    absent = [i for i, x in enumerate(node.inputs) if x is None]
    attributes: dict[str, Any] = {each.name: _spell(each) for each in node.proto.attribute}
    if absent:
        attributes["@absent"] = absent
    operands = [x for x in node.inputs if x is not None]
    results: list[Term | None] = []
    for position, found in enumerate(types):
        if found is None:
            results.append(None)
            continue
        shape, dtype = found
        results.append(
            builders.host_op(
                node.operator,
                operands,
                shape,
                dtype,
                domain=domain,
                version=node.opset,
                output=position,
                attributes=json.dumps(attributes, sort_keys=True),
            )
        )
    return results


def _spell(attribute: onnx.AttributeProto) -> Any:
    """An attribute as JSON; what has no plain spelling is its serialised form in base 64."""
    if attribute.type in _PLAIN:
        value = onnx.helper.get_attribute_value(attribute)
        return list(value) if attribute.type in _PLAIN[1::2] else value
    if attribute.type in _TEXTS:
        return json.loads(
            json.dumps(onnx.helper.get_attribute_value(attribute), default=bytes.decode)
        )
    return {"@proto": base64.b64encode(attribute.SerializeToString()).decode("ascii")}


def _result_types(node: Node, domain: str, reason: str) -> list[tuple[tuple[int, ...], str] | None]:
    """Shape and dtype of every output that the model names."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(node.inputs)]
    copy = onnx.NodeProto()
    copy.CopyFrom(node.proto)
    del copy.input[:]
    copy.input.extend(names)
    inputs, known = [], []
    for i, (name, x) in enumerate(zip(names, node.inputs, strict=True)):
        if x is None:
            continue
        info = onnx.ValueInfoProto(name=name)
        info.type.CopyFrom(operand_type(x))
        inputs.append(info)
        value = node.known(i)
        if value is not None and value.size <= 4096:
            known.append(onnx.numpy_helper.from_array(value, name))
    outputs = [onnx.ValueInfoProto(name=name) for name in copy.output if name]
    graph = onnx.helper.make_graph([copy], "node", inputs, outputs, known)
    opsets = [onnx.helper.make_opsetid(domain, node.opset)]
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as problem:
        # onnx's inference raises several kinds, some of them only in its C++ half.
        line = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
        raise Refused(f"{reason}, and onnx finds no type for it: {line}") from None
    types = {each.name: each.type for each in inferred.graph.output}
    results: list[tuple[tuple[int, ...], str] | None] = []
    for name in copy.output:
        if not name:
            results.append(None)
            continue
        tensor = types[name].tensor_type
        dims = tensor.shape.dim
        if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in dims):
            raise Refused(f"{reason}, and the shape of its result depends on its operands' values")
        results.append((tuple(dim.dim_value for dim in dims), dtype_name(tensor.elem_type)))
    return results
