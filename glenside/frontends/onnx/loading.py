"""Reads a model file and settles the shapes of its inputs, before any node is looked at."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from glenside.errors import InputError, ModelError
from glenside.frontends.onnx.node import dtype_name
from glenside.frontends.refusal import Refused
from glenside.language import AccessType

OLDEST_OPSET = 6
"""Older models are read where all they use means the same in this one."""

DEPRECATED_YET_MEANT = ("GroupNormalization",)
"""Operators that ONNX deprecated when it changed them, though their first form is in use; its
checker and its inference refuse that form."""

Source = str | Path | bytes | onnx.ModelProto
Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int]]


def load(source: Source) -> tuple[onnx.ModelProto, str]:
    """The model and a name to call it by.

    :raises ModelError: the file is missing, unreadable, truncated or not ONNX.
    """
    if isinstance(source, onnx.ModelProto):
        model, name, shown = source, "", "the model"
    elif isinstance(source, bytes):
        name, shown = "", "the bytes given"
        model = _parse(source, shown)
    else:
        path = Path(source)
        name, shown = path.stem, str(path)
        if path.suffix in (".txt", ".onnxtxt"):
            raise ModelError(f"{shown}: only the binary form of ONNX is read")
        try:
            data = path.read_bytes()
        except OSError as problem:
            raise ModelError(f"cannot read {shown}: {problem.strerror or problem}") from None
        model = _parse(data, shown)
        try:
            onnx.load_external_data_for_model(model, str(path.parent))
        except Exception as problem:
            # onnx raises what it likes here: its own errors, OSError, ValueError.
            raise ModelError(f"{shown}: its external data: {_first_line(problem)}") from None
    for tensor in _tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            # Which would be looked for in the current folder, whatever that is.
            raise ModelError(
                f"{shown}: constant {tensor.name!r} lies in a file of its own: give the path of "
                "the model, or a ModelProto into which onnx.load has read it"
            )
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelError(f"{shown} is not an ONNX model: it has no graph")
    return model, name or model.graph.name or "model"


def _parse(data: bytes, shown: str) -> onnx.ModelProto:
    if not data:
        raise ModelError(f"{shown} is not an ONNX model: it is empty")
    try:
        return onnx.load_model_from_string(data)
    except (DecodeError, ValueError, RuntimeError):
        raise ModelError(f"{shown} is not an ONNX model, or it is truncated") from None


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All that a model holds, those of subgraphs and functions included."""
    graphs, nodes = [model.graph], [node for each in model.functions for node in each.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            graphs += (attribute.g, *attribute.graphs)


def _first_line(problem: BaseException) -> str:
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__)


def check_text(model: onnx.ModelProto) -> None:
    """Names must be UTF-8; protobuf hands out others as bytes. Raises :class:`ModelError`."""
    graphs = [model.graph]
    names: list[object] = [each.domain for each in model.opset_import]
    operators: set[str] = set()
    attributes: set[str] = set()
    nodes = [*model.graph.node, *(node for each in model.functions for node in each.node)]
    for each in model.functions:
        names += [each.name, each.domain, *each.input, *each.output]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            names += [graph.name, *(v.name for v in (*graph.input, *graph.output))]
            names += [tensor.name for tensor in graph.initializer]
            nodes += graph.node if graph is not model.graph else ()
            continue
        node = nodes.pop()
        operators |= {node.op_type, node.domain}
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            attributes.add(attribute.name)
            names.append(attribute.name)
            if attribute.HasField("g"):
                graphs.append(attribute.g)
    if not all(isinstance(name, str) for name in names):
        raise ModelError("the model is malformed: a name in it is not text in UTF-8")
    unprintable = [name for name in (*operators, *attributes) if not name.isprintable()]
    if unprintable:
        raise ModelError(f"the model is malformed: {unprintable[0]!r} names no operator")


def check_node(node: onnx.NodeProto, shown: str, versions: Mapping[str, int]) -> None:
    """Holds a node against ONNX's declaration of its operator: attributes, number of operands.

    Models are not checked as a whole: onnx then also wants types for all outputs, which nothing
    here needs or trusts.
    """
    if not onnx.defs.has(node.op_type, node.domain) or node.op_type in DEPRECATED_YET_MEANT:
        return
    if any(each.HasField("g") or each.graphs for each in node.attribute):
        node = _without_subgraphs(node)
    context = _context(tuple(sorted(versions.items())))
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as problem:
        raise ModelError(f"{shown}: {_first_line(problem)}") from None
    except UnicodeError:
        raise ModelError(f"{shown}: an attribute is not text in UTF-8") from None


def _without_subgraphs(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with empty graphs: out of their place, they do not see the names around them."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            graph.Clear()
            graph.name = "subgraph"
    return copy


@functools.lru_cache(maxsize=16)
def _context(versions: tuple[tuple[str, int], ...]) -> Any:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = dict(versions)
    return context


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Opset version by domain (the standard one is ``""``); raises :class:`ModelError`."""
    if model.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"IR version {model.ir_version} is not supported: versions up to {onnx.IR_VERSION} are"
        )
    found: dict[str, int] = {}
    for each in model.opset_import:
        domain = "" if each.domain == "ai.onnx" else each.domain
        if not 0 <= each.version < 2**31:
            raise ModelError(f"opset {each.version} of {domain!r} is not a version")
        if found.setdefault(domain, each.version) != each.version:
            raise ModelError(
                f"the model imports two opsets of {domain!r}: {found[domain]} and {each.version}"
            )
    newest = onnx.defs.onnx_opset_version()
    if "" in found and not (OLDEST_OPSET <= found[""] <= newest or _unchanged(model, found[""])):
        raise ModelError(
            f"opset {found['']} is not supported: versions {OLDEST_OPSET} to {newest} are"
        )
    return found


def _unchanged(model: onnx.ModelProto, version: int) -> bool:
    """Whether all that an older model uses means the same in the oldest opset supported."""

    def since(operator: str, at: int) -> int:
        return int(onnx.defs.get_schema(operator, at, "").since_version)

    try:
        return version < OLDEST_OPSET and all(
            since(node.op_type, version) == since(node.op_type, OLDEST_OPSET)
            for node in model.graph.node
        )
    except onnx.defs.SchemaError:
        return False


def input_names(graph: onnx.GraphProto) -> list[str]:
    """The graph's inputs that are not initializers, in order."""
    initialized = initializer_names(graph)
    return [each.name for each in graph.input if each.name not in initialized]


def initializer_names(graph: onnx.GraphProto) -> set[str]:
    """What the graph holds the value of; inputs among these have it as a default."""
    initialized = {each.name for each in graph.initializer}
    return initialized | {each.values.name for each in graph.sparse_initializer}


def default_names(graph: onnx.GraphProto) -> list[str]:
    """The graph's inputs that it holds the value of, in order."""
    initialized = initializer_names(graph)
    return [each.name for each in graph.input if each.name in initialized]


def known_inputs(
    graph: onnx.GraphProto, model: str, params: Mapping[str, Array], shapes: Shapes
) -> dict[str, Array]:
    """``params`` as arrays; raises :class:`InputError` where they are not those of inputs.

    An input that has a default takes another value so.
    """
    names = input_names(graph)
    listed = {each.name for each in graph.input}
    unknown = [name for name in params if name not in listed]
    if unknown:
        raise InputError(
            f"params: {', '.join(map(repr, unknown))}: the inputs of {model} are "
            f"{', '.join(map(repr, names)) or 'none'}"
        )
    arrays = {name: np.asarray(array) for name, array in params.items()}
    for info in graph.input:
        if info.name not in arrays:
            continue
        array, dtype = arrays[info.name], _element(info)
        dims = list(shapes[info.name]) if info.name in shapes else _dims(info)
        fits = dims is None or (
            len(dims) == array.ndim
            and all(
                not isinstance(d, int) or d == n for d, n in zip(dims, array.shape, strict=True)
            )
        )
        if array.dtype.name != dtype or not fits:
            wanted = dtype if dims is None else f"{dtype} of shape {_spell(dims)}"
            raise InputError(
                f"params: {info.name!r} is {wanted}, got {array.dtype.name} of shape {array.shape}"
            )
    return arrays


def input_types(graph: onnx.GraphProto, shapes: Shapes) -> dict[str, AccessType]:
    """Types of the graph's inputs, in order; those with defaults only where ``shapes`` has them.

    :param shapes: axis lengths by input name; they settle what the file leaves open.
    :raises ModelError: a shape stays open, or ``shapes`` contradicts the model.
    """
    names = {*input_names(graph), *shapes}
    for name, times in Counter(each.name for each in graph.input).items():
        if times > 1:
            raise ModelError(f"input {name!r} is listed more than once")
    inputs = {each.name: each for each in graph.input if each.name in names}
    unknown = sorted(shapes.keys() - inputs.keys())
    if unknown:
        raise ModelError(
            f"shapes names {', '.join(map(repr, unknown))}, the inputs are "
            f"{', '.join(map(repr, inputs)) or 'none'}"
        )
    symbols: dict[str, tuple[int, str]] = {}
    for name, shape in shapes.items():
        _bind(inputs[name], shape, symbols)
    found: dict[str, AccessType] = {}
    still_open: dict[str, list[Dim]] = {}
    for name, info in inputs.items():
        dtype = _element(info)
        if name in shapes:
            found[name] = AccessType(tuple(int(each) for each in shapes[name]), (), dtype)
            continue
        dims = _dims(info)
        if dims is None:
            still_open[name] = ["..."]
            continue
        settled = [symbols[each][0] if each in symbols else each for each in dims]
        lengths = tuple(each for each in settled if isinstance(each, int))
        if len(lengths) == len(settled):
            found[name] = AccessType(lengths, (), dtype)
        else:
            still_open[name] = settled
    if still_open:
        listed = ", ".join(f"{n!r}: {_spell(d)}" for n, d in still_open.items())
        raise ModelError(
            f"the model leaves axis lengths of its inputs open, give them as shapes={{{listed}}} "
            "with a number for each name"
        )
    return {name: found[name] for name in inputs}


def _spell(dims: Sequence[object]) -> str:
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def _element(info: onnx.ValueInfoProto) -> str:
    if info.type.WhichOneof("value") != "tensor_type":
        kind = (info.type.WhichOneof("value") or "unknown").removesuffix("_type")
        raise ModelError(f"input {info.name!r} is a {kind}: only tensors are supported")
    try:
        return dtype_name(info.type.tensor_type.elem_type)
    except Refused as problem:
        raise ModelError(f"input {info.name!r}: {problem}") from None


@dataclass(frozen=True)
class Unnamed:
    """A length that the model leaves open without a name: no other one has to be the same."""

    position: int

    def __str__(self) -> str:
        return f"d{self.position}"


Dim = int | str | Unnamed

_UNNAMED = re.compile(r"\?*|-1|None|unk_.*")
"""What exporters write in place of a name."""


def _dims(info: onnx.ValueInfoProto) -> list[Dim] | None:
    """Axis lengths, a name where the model leaves one open; None for an unknown rank."""
    if not info.type.tensor_type.HasField("shape"):
        return None
    result: list[Dim] = []
    for position, dim in enumerate(info.type.tensor_type.shape.dim):
        # Exporters write 0 and -1 for "unknown" too, but 0 is a length that a tensor can have.
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            result.append(int(dim.dim_value))
        elif _UNNAMED.fullmatch(dim.dim_param):
            result.append(Unnamed(position))
        else:
            result.append(dim.dim_param)
    return result


def _bind(
    info: onnx.ValueInfoProto, shape: Sequence[int], symbols: dict[str, tuple[int, str]]
) -> None:
    """Holds a shape against what the model says of it, and enters the lengths that it names.

    :param symbols: by name, the length and which input's shape has it.
    """
    if not all(isinstance(n, int | np.integer) and n >= 0 for n in shape):
        raise ModelError(f"shapes for {info.name!r}: lengths must be whole numbers, got {shape}")
    if info.type.WhichOneof("value") != "tensor_type":
        return
    dims = _dims(info)
    if dims is None:
        return
    said = f"shapes gives {tuple(shape)} for {info.name!r}, the model says {_spell(dims)}"
    if len(dims) != len(shape):
        raise ModelError(said)
    for dim, length in zip(dims, shape, strict=True):
        if isinstance(dim, int) and dim != length:
            raise ModelError(said)
        if isinstance(dim, str):
            known, source = symbols.setdefault(dim, (int(length), info.name))
            if known != length:
                where = "another axis" if source == info.name else f"input {source!r}"
                raise ModelError(f"{said}, and {dim} is {known} by {where}")


def declared_lengths(info: onnx.ValueInfoProto) -> list[int | str | None] | None:
    """Axis lengths of an input: numbers, names, and None where the model has neither; None for an
    unknown rank or what is no tensor."""
    if info.type.WhichOneof("value") != "tensor_type":
        return None
    dims = _dims(info)
    return None if dims is None else [None if isinstance(each, Unnamed) else each for each in dims]
