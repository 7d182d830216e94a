"""Operators that are defined by other operators: the model's own functions, and ONNX's.

ONNX states many of its operators as function bodies (``onnx.defs``); one that has no lowering here
is replaced by its body, as a call of a function of the model's own is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from glenside.errors import ModelError
from glenside.frontends.onnx.loading import DEPRECATED_YET_MEANT
from glenside.frontends.onnx.node import Node
from glenside.language import Term

Identity = tuple[str, str, str]
"""What tells functions apart: domain, name and overload."""

Functions = dict[Identity, onnx.FunctionProto]


POOLS = ("AveragePool", "LpPool", "MaxPool")
"""ONNX's inference counts windows that start behind the data, which nobody computes."""


def local_functions(model: onnx.ModelProto) -> Functions:
    """The functions a model defines, by what tells them apart.

    :raises ModelError: two are the same, or one is called as a standard operator is; ONNX leaves
        open which counts.
    """
    versions = {standard(each.domain): each.version for each in model.opset_import}
    found: Functions = {}
    for each in model.functions:
        domain = standard(each.domain)
        plain = not each.overload and domain in versions
        if plain and _is_standard(each.name, versions[domain], domain):
            raise ModelError(f"function {each.name!r} has the name of a standard operator")
        key = domain, each.name, each.overload
        if found.setdefault(key, each) is not each:
            which = f", overload {each.overload!r}" if each.overload else ""
            raise ModelError(f"function {each.name!r}{which} is defined more than once")
    return found


def identity(call: onnx.NodeProto) -> Identity:
    """Which function a node calls, if it calls one."""
    return standard(call.domain), call.op_type, call.overload


def _is_standard(operator: str, version: int, domain: str) -> bool:
    try:
        onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return False
    return True


def standard(domain: str) -> str:
    """The domain's one spelling: that of standard ONNX is ``""``."""
    return "" if domain == "ai.onnx" else domain


def schema_body(node: Node) -> onnx.FunctionProto | None:
    """ONNX's own definition of a standard operator by others, for these operand types."""
    domain = standard(node.proto.domain)
    try:
        schema: Any = onnx.defs.get_schema(node.operator, node.opset, domain)
    except onnx.defs.SchemaError:
        return None
    data: object = None
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.opset]
        if versions:
            data = schema.get_function_with_opset_version(max(versions))
    if data is None and schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
        if versions:
            if any(isinstance(x, tuple) for x in node.inputs):
                return None
            types = [operand_type(x).SerializeToString() for x in node.inputs]
            data = schema.get_context_dependent_function_with_opset_version(
                max(versions), node.proto.SerializeToString(), types
            )
    if not data:
        return None
    if isinstance(data, onnx.FunctionProto):
        return data
    body = onnx.FunctionProto()
    body.ParseFromString(data)
    return body


def operand_type(operand: Term | None) -> onnx.TypeProto:
    """The ONNX type of an operand; an empty one where it is left out."""
    if operand is None:
        return onnx.TypeProto()
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(operand.dtype))
    return onnx.helper.make_tensor_type_proto(element, operand.shape)


def check_types(node: Node, results: Sequence[Any]) -> None:
    """Holds the types of a standard node's operands and results against ONNX's declaration of it.

    That finds what broadcasts or computes well enough, but is not what the operator is for.

    :raises ModelError: ONNX does not declare the operator for these types, finds that their shapes
        do not fit, or that the result is another one.
    """
    domain = standard(node.proto.domain)
    if not onnx.defs.has(node.operator, domain) or node.operator in DEPRECATED_YET_MEANT:
        return
    if any(each.HasField("g") or each.graphs for each in node.proto.attribute):
        return  # What goes into a subgraph is checked inside it.
    copy = onnx.NodeProto()
    copy.CopyFrom(node.proto)
    types: dict[str, onnx.TypeProto] = {}
    for position, operand in enumerate(node.inputs):
        if operand is None:
            # Inside a function it may have a name all the same: that of an operand left out.
            copy.input[position] = ""
            continue
        kind = _sequence_type(operand) if isinstance(operand, tuple) else operand_type(operand)
        if kind is None:
            return
        copy.input[position] = f"x{position}"
        types[f"x{position}"] = kind
    try:
        schema = onnx.defs.get_schema(node.operator, node.opset, domain)
        opsets = [onnx.helper.make_opsetid(domain, node.opset)]
        inferred = onnx.shape_inference.infer_node_outputs(
            schema, copy, types, opset_imports=opsets
        )
    except onnx.defs.SchemaError:
        return
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as problem:
        line = next(iter(str(problem).strip().splitlines()), "")
        raise node.error(f"its operands do not fit: {line}") from None
    if node.operator in POOLS:
        return
    for name, result in zip(node.proto.output, results, strict=False):
        if name in inferred and isinstance(result, Term) and not _fits(inferred[name], result):
            shown = ", ".join(str(x.shape) for x in node.inputs if isinstance(x, Term))
            raise node.error(
                f"operands of shapes {shown} give {result.dtype} of shape {result.shape}, "
                "which is not what ONNX says of this operator"
            )


def _fits(declared: onnx.TypeProto, result: Term) -> bool:
    """Whether a result is of the type that ONNX infers, as far as it does."""
    if declared.HasField("optional_type"):
        declared = declared.optional_type.elem_type
    kind = declared.tensor_type
    if not declared.HasField("tensor_type"):
        return False
    if kind.elem_type not in (0, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(result.dtype))):
        return False
    if not kind.HasField("shape"):
        return True
    return len(kind.shape.dim) == result.type.rank and all(
        dim.dim_value == length
        for dim, length in zip(kind.shape.dim, result.shape, strict=True)
        if dim.HasField("dim_value")
    )


def _sequence_type(parts: tuple[Term, ...]) -> onnx.TypeProto | None:
    """The ONNX type of a sequence, None where nothing tells it."""
    if not parts or not all(isinstance(each, Term) for each in parts):
        return None
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(parts[0].dtype))
    return onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(element, None))


def bound_nodes(body: onnx.FunctionProto, call: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of a function with the attributes of a call put in place of its parameters."""
    given = _defaults(call) if body.domain in ("", "ai.onnx") else {}
    given.update({each.name: each for each in body.attribute_proto})
    given.update({each.name: each for each in call.attribute})
    nodes = []
    for proto in body.node:
        bound = onnx.NodeProto()
        bound.CopyFrom(proto)
        _bind(bound, given)
        nodes.append(bound)
    return nodes


def _defaults(call: onnx.NodeProto) -> dict[str, onnx.AttributeProto]:
    """The attribute values that ONNX assumes where a standard node gives none."""
    try:
        schema = onnx.defs.get_schema(call.op_type, standard(call.domain))
    except onnx.defs.SchemaError:
        return {}
    given = {name: each.default_value for name, each in schema.attributes.items()}
    return {name: value for name, value in given.items() if value.name}


def _bind(node: onnx.NodeProto, given: dict[str, onnx.AttributeProto]) -> None:
    # Nesting is as deep as the function is written, a few levels: recursion is safe here.
    attributes = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            for graph in (attribute.g, *attribute.graphs):
                for inner in graph.node:
                    _bind(inner, given)
            attributes.append(_copy(attribute))
        elif attribute.ref_attr_name in given:
            bound = _copy(given[attribute.ref_attr_name])
            bound.name = attribute.name
            attributes.append(bound)
    del node.attribute[:]
    node.attribute.extend(attributes)


def _copy(attribute: onnx.AttributeProto) -> onnx.AttributeProto:
    copy = onnx.AttributeProto()
    copy.CopyFrom(attribute)
    return copy
