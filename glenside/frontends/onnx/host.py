"""Operators without a meaning as access patterns, left to onnxruntime as ``host_op`` terms.

Such a term needs the shape and dtype of its result. onnx infers them from the types of the
operands and the values that are known; where it cannot, the node is refused.
"""

from __future__ import annotations

import base64
import importlib.util
import json
from typing import Any

import onnx

from glenside.frontends.onnx.functions import operand_type, standard
from glenside.frontends.onnx.node import Node, dtype_name
from glenside.frontends.refusal import Refused
from glenside.language import Term, builders
from glenside.language.host import refusal

OUT_OF_SCOPE = ("ai.onnx.preview.training",)
"""Domains whose operators no program that only infers needs."""

_PLAIN = (
    onnx.AttributeProto.INT,
    onnx.AttributeProto.INTS,
    onnx.AttributeProto.FLOAT,
    onnx.AttributeProto.FLOATS,
)
_LISTS = (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)


ONNXRUNTIME = "com.microsoft"
"""The domain of onnxruntime's own operators, of which only it knows what they are."""


def knows(domain: str, operator: str) -> bool:
    """Whether onnx declares such an operator, or onnxruntime might have it."""
    if domain == ONNXRUNTIME:
        return importlib.util.find_spec("onnxruntime") is not None
    return domain not in OUT_OF_SCOPE and onnx.defs.has(operator, domain)


def lower(node: Node, reason: str) -> list[Term | None]:
    """The node's outputs as ``host_op`` terms.

    :raises Refused: onnx cannot infer what they are, the operator is random, or onnxruntime has no
        such operator; ``reason`` says why there is no other meaning.
    """
    domain = standard(node.proto.domain)
    if node.operator == "TfIdfVectorizer":
        _check_ngrams(node)
    versions = [node.opset]
    if domain == ONNXRUNTIME:
        types = _foreign_types(node, domain, reason)
    else:
        schema: Any = onnx.defs.get_schema(node.operator, node.opset, domain)
        if any(each.HasField("g") for each in node.proto.attribute):
            raise Refused(reason)  # Alone, it would not see the names around it.
        if schema.node_determinism == onnx.defs.OpSchema.NodeDeterminism.NonDeterministic:
            raise Refused(f"{reason} (its result may be random)")
        versions = _versions(schema, node.opset)
        types = _result_types(node, domain, reason)
    absent = [i for i, x in enumerate(node.inputs) if x is None]
    attributes: dict[str, Any] = {each.name: _spell(each) for each in node.proto.attribute}
    if absent:
        attributes["@absent"] = absent
    operands = [x for x in node.inputs if x is not None]
    spelled = json.dumps(attributes, sort_keys=True)

    def term(position: int, version: int) -> Term | None:
        found = types[position]
        return None if found is None else builders.host_op(
            node.operator, operands, *found,
            domain=domain, version=version, output=position, attributes=spelled,
        )  # fmt: skip

    first = next(i for i, found in enumerate(types) if found is not None)
    why: str | None = None
    for version in versions:
        probe = term(first, version)
        assert probe is not None
        why = refusal(probe.attributes, [(x.dtype, x.shape) for x in operands])
        if why is None:
            return [term(position, version) for position in range(len(types))]
    raise Refused(f"{reason}, and onnxruntime does not run it: {why}")


def _check_ngrams(node: Node) -> None:
    """Holds the lists of n-grams against each other: onnxruntime ends the process over them."""
    given = node.attributes
    pool = given.texts("pool_strings") or given.integers("pool_int64s") or []
    starts, places = given.integers("ngram_counts") or [], given.integers("ngram_indexes") or []
    ends = [*starts[1:], len(pool)]
    count, whole = 0, not starts or starts[0] == 0
    for words, (low, high) in enumerate(zip(starts, ends, strict=False), 1):
        whole = whole and low <= high and (high - low) % words == 0
        count += (high - low) // words
    if not whole:
        raise node.error(f"ngram_counts {starts} does not cut a pool of {len(pool)} into n-grams")
    weights = given.reals("weights")
    if len(places) != count or min(places, default=0) < 0:
        raise node.error(f"ngram_indexes {places} does not place {count} n-grams")
    if weights is not None and len(weights) != count:
        raise node.error(f"{len(weights)} weights are given for {count} n-grams")


def _versions(schema: Any, opset: int) -> list[int]:
    """The model's opset, then older ones with the same operands and attributes.

    onnxruntime is often behind where a new version only allows more types.
    """
    versions = [opset]
    while schema.since_version > 1:
        try:
            older: Any = onnx.defs.get_schema(schema.name, schema.since_version - 1, schema.domain)
        except onnx.defs.SchemaError:
            break
        if _signature(older) != _signature(schema):
            break
        schema = older
        versions.append(int(schema.since_version))
    return versions


def _signature(schema: Any) -> object:
    attributes = {
        name: each.default_value.SerializeToString() for name, each in schema.attributes.items()
    }
    return attributes, [x.name for x in schema.inputs], [x.name for x in schema.outputs]


def _spell(attribute: onnx.AttributeProto) -> Any:
    """An attribute as JSON; what has no plain spelling is its serialised form in base 64."""
    if attribute.type in _PLAIN:
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.type not in _LISTS:
            return value
        if len(value):
            return list(value)
    elif attribute.type == onnx.AttributeProto.STRING:
        return onnx.helper.get_attribute_value(attribute).decode("utf-8", "replace")
    return {"@proto": base64.b64encode(attribute.SerializeToString()).decode("ascii")}


def _result_types(node: Node, domain: str, reason: str) -> list[tuple[tuple[int, ...], str] | None]:
    """Shape and dtype of every output that the model names."""
    model, copy = _alone(node, domain)
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


def _foreign_types(
    node: Node, domain: str, reason: str
) -> list[tuple[tuple[int, ...], str] | None]:
    """As :func:`_result_types`, but onnxruntime is asked."""
    import onnxruntime

    model, copy = _alone(node, domain)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as problem:  # onnxruntime's errors share no base class.
        line = next(iter(str(problem).strip().splitlines()), "")
        raise Refused(f"{reason}, and onnxruntime does not run it: {line}") from None
    found = {each.name: each for each in session.get_outputs()}
    results: list[tuple[tuple[int, ...], str] | None] = []
    for name in copy.output:
        if not name:
            results.append(None)
            continue
        shape = found[name].shape
        if shape is None or not all(isinstance(length, int) for length in shape):
            raise Refused(f"{reason}, and the shape of its result is not known beforehand")
        element = found[name].type.removeprefix("tensor(").removesuffix(")")
        results.append(
            (tuple(shape), {"float": "float32", "double": "float64"}.get(element, element))
        )
    return results


def _alone(node: Node, domain: str) -> tuple[onnx.ModelProto, onnx.NodeProto]:
    """A model of the node alone, known operands as constants, and the node in it."""
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
    model.ir_version = min(model.ir_version, 10)
    return model, copy
