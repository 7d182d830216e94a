"""Turns a valid ONNX file into one that is somewhat wrong, or valid in a way nobody tried.

Most mutations edit the message: attributes, operands, shapes, initializers, the order of nodes,
opsets, subgraphs, functions. Some edit its bytes, as a broken download would. All that is random
comes from the ``random.Random`` they are given.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

INTEGERS = (
    0, 1, -1, 2, -2, 3, -3, 4, 5, 7, 16, 100, 255, 256, 2**20, -(2**20),
    2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1, -(2**63),
)  # fmt: skip
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, -1e38, float("inf"), float("-inf"), float("nan"))
STRINGS = (
    b"", b"x", b"\xff\xfe", b"SAME_UPPER", b"SAME_LOWER", b"VALID", b"NOTSET", b"nearest",
    b"linear", b"cubic", b"reflect", b"wrap", b"edge", b"constant", b"mean", b"add", b"mul",
    b"bidirectional", b"reverse", b"ij,jk->ik", b"...i->i", b"ii->", b"i,,j->", b"y" * 10_000,
)  # fmt: skip
LENGTHS = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 13, 100, 2**16, 2**20, 2**31, 2**40, 2**62, -1, -5)
NAMES = ("", "nowhere", "x y", "é", "a/b.c:0", "n" * 3000, "0", "../x", 'say "it"', "two\nlines")
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "nobody", "glenside")
VERSIONS = (-1, 0, 1, 5, *range(6, 29), 99, 2**40)
KINDS = (*range(0, 26), 99, -1)

Mutation = Callable[[ModelProto, random.Random], str | None]
"""Edits a model in place and says what it did; None where there is nothing to edit."""

_MUTATIONS: list[Mutation] = []
_WEIGHTS: list[int] = []

OPERATORS = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})


def mutate(data: bytes, others: Sequence[bytes], rng: random.Random) -> tuple[bytes, list[str]]:
    """A file that differs from ``data``, and what was done to it.

    :param others: files of which parts may be spliced in.
    """
    chance = rng.random()
    if chance < 0.08:
        return _mutate_bytes(data, others, rng)
    model = ModelProto.FromString(data)
    done: list[str] = []
    if chance < 0.25:
        done.append(_chain(model, ModelProto.FromString(rng.choice(others)), rng))
    wanted = rng.choice((1, 1, 1, 1, 1, 2, 2, 3, 5))
    for _ in range(10 * wanted):
        if len(done) >= wanted:
            break
        (mutation,) = rng.choices(_MUTATIONS, _WEIGHTS)
        said = mutation(model, rng)
        if said:
            done.append(said)
    changed = model.SerializeToString()
    if rng.random() < 0.02:
        changed, more = _mutate_bytes(changed, others, rng)
        done += more
    return changed, done


# --- bytes ----------------------------------------------------------------------------------------


def _mutate_bytes(
    data: bytes, others: Sequence[bytes], rng: random.Random
) -> tuple[bytes, list[str]]:
    changed, done = bytearray(data), []
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, kind = rng.randrange(len(changed) + 1), rng.randrange(7)
        if not changed or kind == 0:
            changed.insert(at, rng.randrange(256))
        elif kind == 1:
            del changed[at : at + rng.choice((1, 1, 2, 8, 40))]
        elif kind == 2 and rng.random() < 0.3:
            del changed[at:]
        elif kind == 3:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            changed[at : at + rng.choice((0, 5, 30))] = other[start : start + rng.randrange(1, 60)]
        elif kind == 4:
            changed[at:at] = changed[at : at + rng.randrange(1, 60)]
        elif kind == 5:
            changed[at % len(changed)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        else:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        done.append(f"bytes at {at} of {len(data)} ({kind})")
    return bytes(changed), done


# --- parts of a model -----------------------------------------------------------------------------


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    """The graph and the subgraphs inside it."""
    stack = [model.graph]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                stack += [attribute.g] if attribute.HasField("g") else []
                stack += attribute.graphs


def _node(model: ModelProto, rng: random.Random, holds: str = "") -> NodeProto | None:
    """Any node, inside subgraphs and functions too, with something in the field ``holds``."""
    nodes = [node for graph in _graphs(model) for node in graph.node]
    nodes += [node for function in model.functions for node in function.node]
    nodes = [node for node in nodes if not holds or getattr(node, holds)]
    return rng.choice(nodes) if nodes else None


def _graph(model: ModelProto, rng: random.Random) -> GraphProto:
    return model.graph if rng.random() < 0.6 else rng.choice(list(_graphs(model)))


def _names(model: ModelProto) -> list[str]:
    """Names of all values."""
    found = [x.name for graph in _graphs(model) for x in (*graph.input, *graph.initializer)]
    return found + [name for graph in _graphs(model) for x in graph.node for name in x.output]


def _value(rng: random.Random, kind: int) -> Any:
    """A value for an attribute of a kind."""
    match kind:
        case AttributeProto.INT:
            return rng.choice(INTEGERS)
        case AttributeProto.FLOAT:
            return rng.choice(REALS)
        case AttributeProto.STRING:
            return rng.choice(STRINGS)
        case AttributeProto.INTS:
            return [_value(rng, AttributeProto.INT) for _ in range(rng.choice((0, 1, 2, 3, 4, 9)))]
        case AttributeProto.FLOATS:
            return [_value(rng, AttributeProto.FLOAT) for _ in range(rng.choice((0, 1, 2, 4)))]
        case AttributeProto.STRINGS:
            return [_value(rng, AttributeProto.STRING) for _ in range(rng.choice((0, 1, 2)))]
        case AttributeProto.TENSOR:
            return _tensor(rng)
        case AttributeProto.GRAPH:
            inside = helper.make_node("Identity", ["x"], ["y"])
            return helper.make_graph([inside], "g", [], [onnx.ValueInfoProto(name="y")])
        case AttributeProto.SPARSE_TENSOR:
            return _sparse(rng)
    return rng.choice(INTEGERS)


def _tensor(rng: random.Random, name: str = "t") -> TensorProto:
    shape = [rng.choice((0, 1, 2, 3)) for _ in range(rng.choice((0, 1, 1, 2)))]
    count = 1
    for length in shape:
        count *= length
    kind = rng.choice((TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL))
    return helper.make_tensor(name, kind, shape, [rng.choice((0, 1, 2, -1)) for _ in range(count)])


def _sparse(rng: random.Random, name: str = "s") -> onnx.SparseTensorProto:
    values = helper.make_tensor(name, TensorProto.FLOAT, [2], [1.0, 2.0])
    flat = [rng.choice((0, 1, 5, -1, 2**40)) for _ in range(2)]
    indices = helper.make_tensor(f"{name}_indices", TensorProto.INT64, [2], flat)
    dims = [rng.choice(LENGTHS), rng.choice((1, 2, 3))]
    return helper.make_sparse_tensor(values, indices, dims)


_KINDS = (
    AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING, AttributeProto.INTS,
    AttributeProto.FLOATS, AttributeProto.STRINGS, AttributeProto.TENSOR, AttributeProto.GRAPH,
    AttributeProto.SPARSE_TENSOR,
)  # fmt: skip


def _attribute(name: str, kind: int, rng: random.Random) -> AttributeProto:
    attribute = AttributeProto(name=name, type=kind)
    value = _value(rng, kind)
    match kind:
        case AttributeProto.INT:
            attribute.i = value
        case AttributeProto.FLOAT:
            attribute.f = value
        case AttributeProto.STRING:
            attribute.s = value
        case AttributeProto.TENSOR:
            attribute.t.CopyFrom(value)
        case AttributeProto.GRAPH:
            attribute.g.CopyFrom(value)
        case AttributeProto.SPARSE_TENSOR:
            attribute.sparse_tensor.CopyFrom(value)
        case AttributeProto.INTS:
            attribute.ints.extend(value)
        case AttributeProto.FLOATS:
            attribute.floats.extend(value)
        case AttributeProto.STRINGS:
            attribute.strings.extend(value)
    return attribute


def mutation(weight: int = 2) -> Callable[[Mutation], Mutation]:
    """Registers a mutation, to be chosen ``weight`` times as often as one of weight 1."""

    def register(function: Mutation) -> Mutation:
        _MUTATIONS.append(function)
        _WEIGHTS.append(weight)
        return function

    return register


# --- attributes -----------------------------------------------------------------------------------


@mutation(6)
def _attribute_value(model: ModelProto, rng: random.Random) -> str | None:
    node = _node(model, rng, "attribute")
    if node is None:
        return None
    attribute = rng.choice(node.attribute)
    held = attribute.ints or attribute.floats
    match attribute.type:
        case AttributeProto.INT if rng.random() < 0.4:
            attribute.i = max(min(attribute.i + rng.choice((-1, 1)), 2**63 - 1), -(2**63))
        case AttributeProto.INTS | AttributeProto.FLOATS if held and rng.random() < 0.7:
            single = AttributeProto.INT if attribute.ints else AttributeProto.FLOAT
            small = rng.random() < 0.6
            held[rng.randrange(len(held))] = rng.randrange(-1, 4) if small else _value(rng, single)
        case AttributeProto.TENSOR:
            return _damage(attribute.t, rng)
        case AttributeProto.GRAPH:
            return None
        case kind:
            attribute.CopyFrom(_attribute(attribute.name, kind, rng))
    return f"{node.op_type}: another {attribute.name}"


@mutation()
def _attribute_length(model: ModelProto, rng: random.Random) -> str | None:
    node = _node(model, rng, "attribute")
    lists = [(a, x) for a in node.attribute for x in (a.ints, a.floats) if x] if node else []
    if not lists:
        return None
    attribute, held = rng.choice(lists)
    if rng.random() < 0.5:
        held.append(rng.choice(held))
    else:
        del held[rng.randrange(len(held)) :]
    return f"{node.op_type}: {attribute.name} has {len(held)} elements"


@mutation()
def _attribute_kind(model: ModelProto, rng: random.Random) -> str | None:
    """Another type, or one that is not the field which is set."""
    node = _node(model, rng, "attribute")
    if node is None:
        return None
    attribute = rng.choice(node.attribute)
    kind = rng.choice((*_KINDS, 0, 10, 13))
    if rng.random() < 0.3:
        attribute.type = kind
    else:
        attribute.CopyFrom(_attribute(attribute.name, kind, rng))
    return f"{node.op_type}: {attribute.name} is of type {kind}"


@mutation(3)
def _attribute_more(model: ModelProto, rng: random.Random) -> str | None:
    """One that the operator declares, or none that it does."""
    node = _node(model, rng)
    if node is None:
        return None
    declared: dict[str, Any] = {}
    if onnx.defs.has(node.op_type, node.domain):
        declared = dict(onnx.defs.get_schema(node.op_type, domain=node.domain).attributes)
    absent = sorted(declared.keys() - {each.name for each in node.attribute})
    if absent and rng.random() < 0.85:
        name = rng.choice(absent)
        kind = getattr(AttributeProto, declared[name].type.name, AttributeProto.INT)
    else:
        name, kind = rng.choice(("axis", "axes", "foo", "to", "")), rng.choice(_KINDS)
    node.attribute.append(_attribute(name, kind, rng))
    if kind == AttributeProto.INT and rng.random() < 0.6:
        node.attribute[-1].i = rng.choice((0, 1, -1, 2))
    return f"{node.op_type}: new {name}"


@mutation()
def _attribute_less(model: ModelProto, rng: random.Random) -> str | None:
    node = _node(model, rng, "attribute")
    if node is None:
        return None
    attribute = rng.choice(node.attribute)
    what = rng.randrange(4)
    said = f"{node.op_type}: {attribute.name} " + ("gone", "gone", "renamed", "twice")[what]
    if what < 2:
        node.attribute.remove(attribute)
    elif what == 2:
        attribute.name = rng.choice((attribute.name + "x", "", "axis"))
    else:
        node.attribute.append(attribute)
    return said


@mutation(1)
def _attribute_reference(model: ModelProto, rng: random.Random) -> str | None:
    node = _node(model, rng, "attribute")
    if node is None:
        return None
    attribute = rng.choice(node.attribute)
    attribute.ref_attr_name = rng.choice(("alpha", attribute.name))
    return f"{node.op_type}: {attribute.name} refers to {attribute.ref_attr_name}"


# --- operands and results -------------------------------------------------------------------------


@mutation(4)
def _operand(model: ModelProto, rng: random.Random) -> str | None:
    """Any other value, later ones included: that makes cycles."""
    node = _node(model, rng, "input")
    if node is None:
        return None
    position = rng.randrange(len(node.input))
    names = _names(model)
    made = [name for name in node.output if name in names]
    before = names[: min(map(names.index, made))] if made else []
    chance = rng.random()
    if before and chance < 0.75:
        node.input[position] = rng.choice(before)
    else:
        node.input[position] = rng.choice(names) if chance < 0.9 else rng.choice(("", *NAMES))
    return f"{node.op_type}: input {position} is {node.input[position]!r}"


@mutation(2)
def _operand_count(model: ModelProto, rng: random.Random) -> str | None:
    node = _node(model, rng, "input")
    if node is None:
        return None
    match rng.randrange(5):
        case 0:
            del node.input[rng.randrange(len(node.input))]
        case 1:
            node.input.append(rng.choice(_names(model)) if rng.random() < 0.8 else "")
        case 2:
            node.input.extend([""] * rng.choice((1, 2, 9)))
        case 3:
            del node.input[:]
        case _:
            shuffled = rng.sample(list(node.input), len(node.input))
            del node.input[:]
            node.input.extend(shuffled)
    return f"{node.op_type}: inputs are {list(node.input)[:9]}"


@mutation(1)
def _result(model: ModelProto, rng: random.Random) -> str | None:
    node = _node(model, rng, "output")
    if node is None:
        return None
    match rng.randrange(5):
        case 0:
            node.output[rng.randrange(len(node.output))] = rng.choice((*_names(model), ""))
        case 1:
            del node.output[-1]
        case 2:
            node.output.append(rng.choice((*_names(model), "", "more")))
        case 3:
            node.output.extend(f"more{i}" for i in range(rng.choice((1, 2, 5))))
            model.graph.output.add(name="more0")
        case _:
            node.output[rng.randrange(len(node.output))] = rng.choice(NAMES)
    return f"{node.op_type}: outputs are {list(node.output)[:9]}"


# --- nodes ----------------------------------------------------------------------------------------


@mutation(3)
def _operator(model: ModelProto, rng: random.Random) -> str | None:
    """Another operator, most often one that takes as many operands."""
    node = _node(model, rng)
    if node is None:
        return None
    before, count = node.op_type, len(node.input)

    def fits(name: str) -> bool:
        schema = onnx.defs.get_schema(name)
        return schema.min_input <= count <= schema.max_input

    near = [name for name in OPERATORS if fits(name)]
    node.op_type = rng.choice(near if near and rng.random() < 0.8 else OPERATORS)
    if rng.random() < 0.1:
        node.op_type = rng.choice(("", "NoSuchOperator", "relu", *NAMES))
    return f"{before} becomes {node.op_type}"


@mutation(1)
def _domain(model: ModelProto, rng: random.Random) -> str | None:
    node = _node(model, rng)
    if node is None:
        return None
    node.domain = rng.choice(DOMAINS)
    known = {each.domain for each in model.opset_import}
    if node.domain not in known and rng.random() < 0.7:
        model.opset_import.add(domain=node.domain, version=rng.choice(VERSIONS))
    return f"{node.op_type} in {node.domain!r}"


@mutation(2)
def _twice(model: ModelProto, rng: random.Random) -> str | None:
    """A node again, with the same results or others."""
    graph = _graph(model, rng)
    if not graph.node:
        return None
    copy = NodeProto()
    copy.CopyFrom(rng.choice(graph.node))
    if rng.random() < 0.8:
        renamed = [f"{name}_again" if name else "" for name in copy.output]
        del copy.output[:]
        copy.output.extend(renamed)
        if renamed and rng.random() < 0.7:
            graph.output.add(name=renamed[0])
    graph.node.insert(rng.randrange(len(graph.node) + 1), copy)
    return f"{copy.op_type} twice"


@mutation(1)
def _order(model: ModelProto, rng: random.Random) -> str | None:
    graph = _graph(model, rng)
    if len(graph.node) < 2 or len(graph.node) > 300:
        return None
    nodes = [NodeProto.FromString(each.SerializeToString()) for each in graph.node]
    rng.shuffle(nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    return "nodes shuffled"


@mutation(1)
def _node_gone(model: ModelProto, rng: random.Random) -> str | None:
    graph = _graph(model, rng)
    if not graph.node:
        return None
    at = rng.randrange(len(graph.node))
    said = f"{graph.node[at].op_type} gone"
    del graph.node[at]
    return said


def _kind_of(
    operator: str, source: str, given: dict[str, Any], model: ModelProto
) -> onnx.TypeProto:
    """The type of a result, of unknown shape: onnx.checker wants one for each output."""
    infos = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    known = {each.name: each.type.tensor_type.elem_type for each in infos}
    like = known.get(source, TensorProto.FLOAT)
    if operator in ("Shape", "Size", "ArgMax", "NonZero"):
        like = TensorProto.INT64
    elif operator in ("Not", "IsNaN", "Equal", "Less"):
        like = TensorProto.BOOL
    return helper.make_tensor_type_proto(given.get("to", like), None)


@mutation(10)
def _followed(model: ModelProto, rng: random.Random) -> str | None:
    """A new node after the last one: valid more often than not."""
    graph = model.graph
    made = [name for node in graph.node for name in node.output if name]
    if not made:
        return None
    source, result = rng.choice(made), f"follows{len(graph.node)}"
    twos = ("Add", "Sub", "Mul", "Div", "Pow", "MatMul", "Max", "Equal", "Less", "Mod", "PRelu")
    ones = (
        "Relu", "Neg", "Abs", "Exp", "Sqrt", "Log", "Tanh", "Sigmoid", "Softmax", "Transpose",
        "Shape", "Size", "Flatten", "Identity", "ReduceMax", "ReduceSum", "ReduceMean", "ArgMax",
        "Not", "Sign", "Floor", "Round", "NonZero", "Unsqueeze", "Squeeze", "Cast", "LeakyRelu",
        "GlobalAveragePool", "GlobalMaxPool", "Hardmax", "LogSoftmax", "Erf", "Gelu", "HardSwish",
        "MaxPool", "Dropout", "IsNaN", "Clip", "Reciprocal", "Softplus", "Elu", "Mean", "Trilu",
    )  # fmt: skip
    given: dict[str, Any] = {}
    if rng.random() < 0.3:
        operator, operands = rng.choice(twos), [source, rng.choice((*_names(model), source))]
        rng.shuffle(operands)
    else:
        operator, operands = rng.choice(ones), [source]
    if operator == "Cast":
        given["to"] = rng.choice((1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 8, 16))
    elif operator in ("Softmax", "ArgMax", "Hardmax", "LogSoftmax", "Flatten"):
        given["axis"] = rng.choice((-2, -1, 0, 1, 2))
    elif operator == "MaxPool":
        given["kernel_shape"] = [rng.choice((1, 2, 3))] * rng.choice((1, 2, 2, 3))
    elif operator == "Unsqueeze":
        graph.initializer.append(
            helper.make_tensor(f"at_{result}", TensorProto.INT64, [1], [rng.choice((0, -1, 1))])
        )
        operands.append(f"at_{result}")
    graph.node.append(helper.make_node(operator, operands, [result], name=result, **given))
    if rng.random() < 0.6:
        del graph.output[:]
    graph.output.add(name=result).type.CopyFrom(_kind_of(operator, source, given, model))
    return f"{operator} of {source!r}"


# --- inputs and outputs of the graph --------------------------------------------------------------


@mutation(4)
def _shape(model: ModelProto, rng: random.Random) -> str | None:
    graph = _graph(model, rng)
    infos = [*graph.input, *graph.input, *graph.value_info, *graph.output]
    if not infos:
        return None
    info = rng.choice(infos)
    dims = info.type.tensor_type.shape.dim
    match rng.randrange(8):
        case 0:
            dims.add().dim_value = rng.choice((1, 1, 2, 3))
        case 1 if dims:
            del dims[rng.randrange(len(dims))]
        case 2:
            info.type.tensor_type.ClearField("shape")
        case 3 if dims:
            rng.choice(dims).dim_param = rng.choice(("N", "N", "M", "", "a + b", "two\nlines"))
        case 4 if dims:
            rng.choice(dims).Clear()
        case 5 if len(dims) > 1:
            one, other = rng.sample(list(dims), 2)
            one.dim_value, other.dim_value = other.dim_value, one.dim_value
        case _ if dims:
            rng.choice(dims).dim_value = rng.choice(LENGTHS)
    return f"shape of {info.name!r}"


@mutation(3)
def _element(model: ModelProto, rng: random.Random) -> str | None:
    """Another element type: of one value, or of all that have the same."""
    graph = _graph(model, rng)
    infos = [*graph.input, *graph.output]
    if not infos:
        return None
    info = rng.choice(infos)
    before = info.type.tensor_type.elem_type
    after = rng.choice(KINDS if rng.random() < 0.2 else (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13))
    same = [x for x in infos if x.type.tensor_type.elem_type == before]
    for each in same if rng.random() < 0.5 else [info]:
        each.type.tensor_type.elem_type = after
    return f"{info.name!r} is of type {after}"


@mutation(1)
def _kind(model: ModelProto, rng: random.Random) -> str | None:
    graph = _graph(model, rng)
    infos = [*graph.input, *graph.output]
    if not infos:
        return None
    info = rng.choice(infos)
    match rng.randrange(4):
        case 0:
            info.type.sequence_type.elem_type.tensor_type.elem_type = 1
        case 1:
            info.type.optional_type.elem_type.tensor_type.elem_type = 1
        case 2:
            info.type.map_type.key_type = 7
        case _:
            info.ClearField("type")
    return f"{info.name!r} is no tensor"


@mutation(2)
def _interface(model: ModelProto, rng: random.Random) -> str | None:
    graph = _graph(model, rng)
    names = _names(model)
    match rng.randrange(8):
        case 0 if graph.output:
            rng.choice(graph.output).name = rng.choice((*names, "nowhere", ""))
        case 1:
            graph.output.add(name=rng.choice((*names, "nowhere", "")))
        case 2 if graph.output:
            del graph.output[rng.randrange(len(graph.output))]
        case 3 if graph.output:
            graph.output.append(rng.choice(graph.output))
        case 4 if graph.input:
            graph.input.append(rng.choice(graph.input))
        case 5 if graph.input:
            rng.choice(graph.input).name = rng.choice((*names, *NAMES))
        case 6 if graph.input:
            del graph.input[rng.randrange(len(graph.input))]
        case _:
            graph.output.extend(x for x in graph.input if x.name)
    return "inputs or outputs of the graph"


@mutation(2)
def _renamed(model: ModelProto, rng: random.Random) -> str | None:
    """One value by another name wherever it stands: valid, where the name is new."""
    names = [name for name in _names(model) if name]
    if not names:
        return None
    old, new = rng.choice(names), rng.choice((*NAMES[1:], *names))
    for graph in _graphs(model):
        for each in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
            each.name = new if each.name == old else each.name
        for node in graph.node:
            for names_of in (node.input, node.output):
                for at, name in enumerate(names_of):
                    if name == old:
                        names_of[at] = new
    return f"{old!r} is called {new[:20]!r}"


# --- initializers ---------------------------------------------------------------------------------


def _damage(tensor: TensorProto, rng: random.Random) -> str:
    raw = bytearray(tensor.raw_data)
    match rng.randrange(12):
        case 0 if tensor.dims:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(LENGTHS)
        case 1:
            tensor.dims.append(rng.choice((1, 1, 2, 0)))
        case 2 if tensor.dims:
            del tensor.dims[-1]
        case 3:
            tensor.data_type = rng.choice(KINDS)
        case 4 if raw:
            tensor.raw_data = bytes(raw[: rng.randrange(len(raw))])
        case 5 if raw:
            tensor.raw_data = bytes(raw + raw[: rng.choice((1, 4, 8))])
        case 6:
            tensor.data_location = TensorProto.EXTERNAL
            entry = tensor.external_data.add()
            entry.key = rng.choice(("location", "location", "nothing"))
            entry.value = rng.choice(("weights.bin", "/etc/passwd", "../x", "", "."))
            if rng.random() < 0.4:
                offset = tensor.external_data.add(key=rng.choice(("offset", "length")))
                offset.value = rng.choice(("0", "-1", "4096", "9" * 30, "x"))
        case 7:
            tensor.float_data.append(rng.choice(REALS))
        case 8:
            tensor.int64_data.append(rng.choice(INTEGERS))
        case 9:
            tensor.int32_data.append(rng.choice((0, -1, 2**31 - 1)))
            tensor.ClearField("raw_data")
        case 10 if raw:
            held = len(raw) // 8
            at = 8 * rng.randrange(held) if held else 0
            size = min(8, len(raw) - at)
            number = rng.choice(INTEGERS).to_bytes(8, "little", signed=True)
            raw[at : at + size] = number[:size]
            tensor.raw_data = bytes(raw)
        case _ if raw:
            raw[rng.randrange(len(raw))] = rng.randrange(256)
            tensor.raw_data = bytes(raw)
        case _:
            tensor.segment.begin = 1
    return f"tensor {tensor.name!r}"


@mutation(6)
def _initializer(model: ModelProto, rng: random.Random) -> str | None:
    graph = _graph(model, rng)
    return _damage(rng.choice(graph.initializer), rng) if graph.initializer else None


@mutation(4)
def _small_integer(model: ModelProto, rng: random.Random) -> str | None:
    """Another plausible number in a list of integers: a shape, an axis, a split."""
    held = [x for g in _graphs(model) for x in g.initializer if x.data_type == TensorProto.INT64]
    held = [x for x in held if len(x.raw_data) >= 8]
    if not held:
        return None
    tensor = rng.choice(held)
    raw = bytearray(tensor.raw_data)
    at = 8 * rng.randrange(len(raw) // 8)
    raw[at : at + 8] = rng.choice((-2, -1, 0, 1, 2, 3, 4, 6)).to_bytes(8, "little", signed=True)
    tensor.raw_data = bytes(raw)
    return f"a number in {tensor.name!r}"


@mutation(2)
def _initializers(model: ModelProto, rng: random.Random) -> str | None:
    graph = _graph(model, rng)
    names = [*_names(model), *NAMES]
    match rng.randrange(6):
        case 0:
            graph.initializer.append(_tensor(rng, rng.choice(names)))
        case 1:
            graph.sparse_initializer.append(_sparse(rng, rng.choice(names)))
        case 2 if graph.initializer:
            graph.initializer.append(rng.choice(graph.initializer))
        case 3 if graph.initializer:
            rng.choice(graph.initializer).name = rng.choice(names)
        case 4 if graph.initializer:
            del graph.initializer[rng.randrange(len(graph.initializer))]
        case _ if graph.initializer:
            # Held and computed with, no longer an input that may be given.
            named = {each.name for each in graph.initializer}
            kept = [x for x in graph.input if x.name not in named]
            del graph.input[:]
            graph.input.extend(kept)
        case _:
            return None
    return "initializers"


# --- the model ------------------------------------------------------------------------------------


@mutation(2)
def _opset(model: ModelProto, rng: random.Random) -> str | None:
    match rng.randrange(8):
        case 0:
            domain, version = rng.choice(DOMAINS), rng.choice(VERSIONS)
            model.opset_import.add(domain=domain, version=version)
        case 1:
            del model.opset_import[:]
        case 2 if model.opset_import:
            model.opset_import[0].domain = rng.choice(DOMAINS)
        case 3:
            model.ir_version = rng.choice((0, 3, 4, 7, 10, 11, 2**40, -1))
        case _ if model.opset_import:
            model.opset_import[0].version = rng.choice(VERSIONS)
    return f"opsets {[(x.domain, x.version) for x in model.opset_import]}"


@mutation(2)
def _function(model: ModelProto, rng: random.Random) -> str | None:
    """A node as a call of a function that holds it, or of one that calls itself."""
    nodes = [x for x in model.graph.node if all(x.input) and not any(a.g.node for a in x.attribute)]
    if not nodes:
        return None
    node = rng.choice(nodes)
    body = NodeProto()
    body.CopyFrom(node)
    opsets = [helper.make_opsetid(x.domain, x.version) for x in model.opset_import]
    name = rng.choice(("wrapped", "wrapped", "Relu", ""))
    domain = rng.choice(("mine", "mine", "mine", "", "ai.onnx"))
    if rng.random() < 0.15:
        body.op_type, body.domain = name, domain
    operands, results = list(dict.fromkeys(body.input)), [x for x in body.output if x]
    parameters = [each.name for each in body.attribute if rng.random() < 0.3]
    for attribute in body.attribute:
        if attribute.name in parameters:
            kind, parameter = attribute.type, attribute.name
            attribute.Clear()
            attribute.name, attribute.type, attribute.ref_attr_name = parameter, kind, parameter
    wrapped = helper.make_function(domain, name, operands, results, [body], opsets, parameters)
    model.functions.append(wrapped)
    kept = [each for each in node.attribute if each.name in parameters]
    call = helper.make_node(name, operands, results, domain=domain)
    call.attribute.extend(kept)
    before = node.op_type
    node.CopyFrom(call)
    if domain not in {each.domain for each in model.opset_import} and rng.random() < 0.9:
        model.opset_import.add(domain=domain, version=1)
    return f"{before} in function {domain}.{name}"


@mutation(2)
def _branch(model: ModelProto, rng: random.Random) -> str | None:
    """A node inside both branches of an If, or inside a Loop."""
    graph = model.graph
    nodes = [x for x in graph.node if x.output]
    if not nodes:
        return None
    node = rng.choice(nodes)
    inner = NodeProto()
    inner.CopyFrom(node)
    renamed = [f"{name}_in" if name else "" for name in inner.output]
    del inner.output[:]
    inner.output.extend(renamed)
    outputs = [onnx.ValueInfoProto(name=name) for name in renamed if name]
    results = [name for name in node.output if name]
    condition, before = f"if{len(graph.node)}", node.op_type
    if rng.random() < 0.7:
        branch = helper.make_graph([inner], "branch", [], outputs)
        call = helper.make_node("If", [condition], results, then_branch=branch, else_branch=branch)
    else:
        trip = f"trip{len(graph.node)}"
        graph.initializer.append(
            helper.make_tensor(trip, TensorProto.INT64, [], [rng.choice((0, 1, 3, 2**40))])
        )
        again = helper.make_node("Identity", ["go"], ["more"])
        infos = [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        ]
        more = helper.make_tensor_value_info("more", TensorProto.BOOL, [])
        body = helper.make_graph([again, inner], "body", infos, [more, *outputs])
        call = helper.make_node("Loop", [trip, condition], results, body=body)
    holds = [rng.random() < 0.5]
    if rng.random() < 0.8:
        graph.initializer.append(helper.make_tensor(condition, TensorProto.BOOL, [], holds))
    else:
        graph.input.append(helper.make_tensor_value_info(condition, TensorProto.BOOL, []))
    node.CopyFrom(call)
    return f"{before} in a {call.op_type}"


@mutation(1)
def _deep(model: ModelProto, rng: random.Random) -> str | None:
    """Ifs inside Ifs, or a long chain of nodes."""
    made = [name for node in model.graph.node for name in node.output if name]
    if not made:
        return None
    source = rng.choice(made)
    if rng.random() < 0.5:
        depth = rng.choice((50, 400))
        for i in range(depth):
            model.graph.node.add(op_type="Neg", input=[source], output=[f"deep{i}"])
            source = f"deep{i}"
        model.graph.output.add(name=source)
        return f"a chain of {depth}"
    depth = rng.choice((5, 30))
    inner = helper.make_node("Neg", [source], ["deep0"])
    for i in range(1, depth):
        info = onnx.ValueInfoProto(name=f"deep{i - 1}")
        branch = helper.make_graph([inner], "branch", [], [info])
        names = ["deep_c"], [f"deep{i}"]
        inner = helper.make_node("If", *names, then_branch=branch, else_branch=branch)
        if inner.ByteSize() > 2**14:
            break
    model.graph.initializer.append(helper.make_tensor("deep_c", TensorProto.BOOL, [], [True]))
    model.graph.node.append(inner)
    model.graph.output.add(name=inner.output[0])
    return f"Ifs inside Ifs, {depth} deep"


# --- two models -----------------------------------------------------------------------------------


def _chain(model: ModelProto, other: ModelProto, rng: random.Random) -> str:
    """Another model behind this one, one of its inputs being an output of this one."""

    def prefixed(names: Any) -> None:
        for at, name in enumerate(names):
            names[at] = f"other_{name}" if name else ""

    for graph in _graphs(other):
        for each in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
            each.name = f"other_{each.name}"
        for node in graph.node:
            prefixed(node.input)
            prefixed(node.output)
    joined = False
    if model.graph.output and other.graph.input:
        source = rng.choice(model.graph.output)
        kind = source.type.tensor_type.elem_type
        takes = [x for x in other.graph.input if x.type.tensor_type.elem_type == kind]
        sink = rng.choice(takes or list(other.graph.input))
        kept = [x for x in other.graph.input if x.name != sink.name]
        shape = [dim.dim_value for dim in sink.type.tensor_type.shape.dim]
        inner = source.name
        if rng.random() < 0.7:
            # Cut to the size that fits, so that most such models are valid.
            inner, count = "joined", 1
            for length in shape:
                count *= max(length, 0)
            flat, repeated = helper.make_tensor("j_flat", 7, [1], [-1]), max(1, min(count, 2000))
            model.graph.initializer.extend(
                [
                    flat,
                    helper.make_tensor("j_tile", 7, [1], [repeated]),
                    helper.make_tensor("j_low", 7, [1], [0]),
                    helper.make_tensor("j_high", 7, [1], [count]),
                    helper.make_tensor("j_shape", 7, [len(shape)], shape),
                ]
            )
            model.graph.node.extend(
                [
                    helper.make_node("Reshape", [source.name, "j_flat"], ["j_a"]),
                    helper.make_node("Tile", ["j_a", "j_tile"], ["j_b"]),
                    helper.make_node("Slice", ["j_b", "j_low", "j_high"], ["j_c"]),
                    helper.make_node("Reshape", ["j_c", "j_shape"], ["joined"]),
                ]
            )
        for graph in _graphs(other):
            for node in graph.node:
                for at, name in enumerate(node.input):
                    if name == sink.name:
                        node.input[at] = inner
        del other.graph.input[:]
        other.graph.input.extend(kept)
        joined = True
    model.graph.node.extend(other.graph.node)
    model.graph.input.extend(other.graph.input)
    model.graph.initializer.extend(other.graph.initializer)
    model.graph.output.extend(other.graph.output)
    known = {each.domain for each in model.opset_import}
    model.opset_import.extend(x for x in other.opset_import if x.domain not in known)
    for each in model.opset_import:
        theirs = [x.version for x in other.opset_import if x.domain == each.domain]
        each.version = max([each.version, *theirs])
    model.functions.extend(other.functions)
    return f"{other.graph.name[:40]} {'behind' if joined else 'beside'} it"
