"""Operators without a meaning as access patterns, left to onnxruntime as ``host_op`` terms.

Such a term needs the shape and dtype of its results. onnx infers them from the types of the
operands and the values that are known, or onnxruntime does, or the model declares them; for
operators that are not standard ONNX, onnxruntime at last computes them on operands of the right
types. Where all fail, the node is refused; results are held against their types in every run.
"""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from glenside.frontends.onnx.functions import operand_type, standard
from glenside.frontends.onnx.node import Node, dtype_name
from glenside.frontends.refusal import Refused
from glenside.language import Term, builders
from glenside.language.host import ABSENT, OUTPUTS, PROTO, refusal, runtime_has
from glenside.language.shape import DTYPES

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

_ELEMENTS = {"float": "float32", "double": "float64"}
"""Element types that onnxruntime calls otherwise than NumPy does."""

Types = list[tuple[tuple[int, ...], str] | None]
"""Shape and dtype of every output, None where the node leaves it out."""


def knows(domain: str, operator: str) -> bool:
    """Whether onnx declares such an operator, or onnxruntime has it."""
    if onnx.defs.has(operator, domain):
        return domain not in OUT_OF_SCOPE
    # onnxruntime has operators of its own in ONNX's domain too.
    return domain in ("", ONNXRUNTIME) and runtime_has(domain, operator)


def lower(node: Node, reason: str) -> list[Term | None]:
    """The node's outputs as ``host_op`` terms.

    :raises Refused: onnx cannot infer what they are, the operator is random, or onnxruntime has no
        such operator; ``reason`` says why there is no other meaning.
    """
    domain = standard(node.proto.domain)
    if node.operator == "TfIdfVectorizer":
        _check_ngrams(node)
    versions = [node.opset]
    if onnx.defs.has(node.operator, domain):
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
        attributes[ABSENT] = absent
    named = [i for i, found in enumerate(types) if found is not None]
    if named != [0]:
        # Some operators give their results only together.
        attributes[OUTPUTS] = named
    operands = [x for x in node.inputs if x is not None]
    spelled = json.dumps(attributes, sort_keys=True)

    def term(position: int, version: int) -> Term | None:
        found = types[position]
        return None if found is None else builders.host_op(
            node.operator, operands, *found,
            domain=domain, version=version, output=position, attributes=spelled,
        )  # fmt: skip

    why: str | None = None
    for version in versions:
        probe = term(named[0], version)
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
    return {PROTO: base64.b64encode(attribute.SerializeToString()).decode("ascii")}


def _result_types(node: Node, domain: str, reason: str) -> Types:
    """Shape and dtype of every output that the model names."""
    model, copy = _alone(node, domain)
    standard_one = onnx.defs.has(node.operator, domain)
    found: dict[str, onnx.TypeProto] = {}
    if standard_one:
        try:
            inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except Exception as problem:
            # onnx's inference raises several kinds, some of them only in its C++ half.
            line = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
            raise Refused(f"{reason}, and onnx finds no type for it: {line}") from None
        found = {each.name: each.type for each in inferred.graph.output}
    names = [name for name in copy.output if name]
    types = {name: _static(found.get(name)) for name in names}
    if None in types.values():
        types = _asked_types(node, model, names, reason, trial=domain != "" or not standard_one)
    return [types[name] if name else None for name in copy.output]


def _static(found: onnx.TypeProto | None) -> tuple[tuple[int, ...], str] | None:
    """Shape and dtype, where nothing of them is left open."""
    if found is None or not found.HasField("tensor_type") or not found.tensor_type.elem_type:
        return None
    dims = found.tensor_type.shape.dim
    if not found.tensor_type.HasField("shape") or not all(d.HasField("dim_value") for d in dims):
        return None
    return tuple(dim.dim_value for dim in dims), dtype_name(found.tensor_type.elem_type)


def _asked_types(
    node: Node, model: onnx.ModelProto, names: Sequence[str], reason: str, trial: bool
) -> dict[str, tuple[tuple[int, ...], str] | None]:
    """Types that onnxruntime infers, the model declares, or, with ``trial``, that results have."""
    depends = f"{reason}, and the shape of its result depends on its operands' values"
    if importlib.util.find_spec("onnxruntime") is None:
        raise Refused(depends)
    try:
        session = _open(model)
    except Exception as problem:  # onnxruntime's errors share no base class.
        line = next(iter(str(problem).strip().splitlines()), "")
        raise Refused(f"{reason}, and onnxruntime does not run it: {line}") from None
    asked = {each.name: each for each in session.get_outputs()}
    types: dict[str, tuple[tuple[int, ...], str] | None] = {}
    for name in names:
        if not asked[name].type.startswith("tensor("):
            raise Refused(f"{reason}, and its result is a {asked[name].type.split('(')[0]}")
        element = asked[name].type.removeprefix("tensor(").removesuffix(")")
        dtype = _ELEMENTS.get(element, element)
        if dtype not in DTYPES:
            raise Refused(f"{reason}, and its result holds elements of type {element}")
        shape = asked[name].shape
        # A shape that it does not infer is told as that of a scalar.
        known = bool(shape) and all(isinstance(length, int) for length in shape)
        declared = _static(node.declared(list(node.proto.output).index(name)))
        types[name] = (tuple(shape), dtype) if known else declared
    if None in types.values():
        if not trial:
            raise Refused(depends)
        types = _tried_types(node, session, names)
    if None in types.values():
        raise Refused(depends)
    return types


def _tried_types(
    node: Node, session: Any, names: Sequence[str]
) -> dict[str, tuple[tuple[int, ...], str] | None]:
    """Types of the results on zeros, and on small values: None where these differ."""
    rng = np.random.default_rng(0)
    operands = {f"x{i}": x for i, x in enumerate(node.inputs) if x is not None}
    wanted = {each.name for each in session.get_inputs()}
    found: list[list[tuple[tuple[int, ...], str]]] = []
    for draw in (np.zeros, lambda shape: rng.integers(0, 2, shape)):
        feeds = {n: draw(x.shape).astype(x.dtype) for n, x in operands.items() if n in wanted}
        try:
            results = [np.asarray(each) for each in session.run(list(names), feeds)]
        except Exception:  # Not all values are operands of the operator: others may be.
            continue
        found.append([(each.shape, each.dtype.name) for each in results])
    if not found or any(each != found[0] for each in found):
        return dict.fromkeys(names)
    return dict(zip(names, found[0], strict=True))


def _open(model: onnx.ModelProto) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _model(graph: onnx.GraphProto, domain: str, version: int) -> onnx.ModelProto:
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, version)])
    model.ir_version = min(model.ir_version, 10)
    return model


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
    return _model(graph, domain, node.opset), copy
