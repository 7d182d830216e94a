"""Whole programs as ONNX models: inputs, parameters, outputs and local functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from glenside.errors import GlensideError, InputError
from glenside.exporters.onnx.graph import LARGEST_FILE, Graph, Names, Value, element_type
from glenside.exporters.onnx.host import (
    check_nodes,
    check_opset,
    choose_opsets,
    host_node,
    make_model,
)
from glenside.exporters.onnx.operators import step
from glenside.exporters.onnx.steps import Program, Step
from glenside.exporters.onnx.tidying import tidy
from glenside.language import (
    CALLS,
    AccessType,
    Term,
    builders,
    to_text,
    topological_order,
    units,
)
from glenside.language.host import named_outputs
from glenside.language.shape import Shape

Array = np.ndarray[Any, Any]

DOMAIN = "glenside"
"""Domain of the local functions, one for each kind of accelerator invocation."""

_COMPACT_FROM = 1024
"""Bytes from which a parameter that repeats itself is stored once."""


def to_onnx(
    name: str,
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    outputs: Mapping[str, Term],
    names: Mapping[Term, str] | None = None,
    *,
    opset: int | None = None,
) -> onnx.ModelProto:
    """A program as an ONNX model that onnxruntime runs to the same numbers.

    Accelerator invocations (``call``, ``blocked``) are calls of local functions of the domain
    ``glenside``, whose bodies are their meaning; host operators are the ONNX operators they are.
    Parameters become initializers; one that is a broadcast is stored small and expanded.
    An output with the name of an input keeps it where it is that input, and else gets a number
    behind it: in ONNX a name stands for one value.

    The opset is the newest that the installed onnxruntime knows and in which all host operators
    mean the same; where their versions conflict, the newest one, to which they are converted.

    :param inputs: types of the inputs, in order.
    :param params: arrays of the other tensors of the program.
    :param outputs: terms by output name.
    :param names: names that values shall have where possible.
    :param opset: the opset to write in; operators that it lacks are said in others.
    :raises InputError: programs are not written in that opset.
    :raises GlensideError: a tensor is neither an input nor a parameter, a host operator does not
        exist in any opset of the model, the opset asked for lacks what is computed, or the model
        exceeds the 2 GiB of an ONNX file.
    """
    asked = None if opset is None else check_opset(opset)
    opsets = choose_opsets(topological_order(outputs.values()), asked) | {DOMAIN: 1}
    program = Program(outputs.values(), opsets[""], params)
    for term in program.order:
        if term.op == "tensor":
            _check_leaf(term, inputs, params)

    taken = Names()
    for each in (*inputs, *(each for each in outputs if each not in inputs)):
        taken.take(each)
    outputs = {
        taken.take(each) if each in inputs and not _is_input(t, each, program) else each: t
        for each, t in outputs.items()
    }
    graph = Graph(taken, opsets[""])
    functions = _Functions(opsets)
    leaves = {each: Value(each, t.shape, t.dtype) for each, t in inputs.items()}
    _Writer(graph, program, leaves, params, functions).write(outputs, names or {})

    proto = helper.make_graph(
        graph.nodes,
        name or "glenside",
        [_info(each, t.shape, t.dtype) for each, t in inputs.items()],
        [_info(each, t.shape, t.dtype) for each, t in outputs.items()],
        graph.initializers,
    )
    if asked is not None:
        for nodes in (graph.nodes, *(each.node for each in functions.protos)):
            check_nodes(nodes, asked)
    used = graph.domains | functions.domains
    model = make_model(proto, {d: v for d, v in opsets.items() if d in used}, functions.protos)
    if model.ByteSize() > LARGEST_FILE:
        raise GlensideError(f"{name} takes more than the 2 GiB that an ONNX file can hold")
    return model


def _is_input(term: Term, name: str, program: Program) -> bool:
    """Whether a term is, but for where it is split, the tensor ``name``."""
    source = program.source[term]
    return source.op == "tensor" and source["name"] == name and source.shape == term.shape


def _check_leaf(term: Term, inputs: Mapping[str, AccessType], params: Mapping[str, Array]) -> None:
    name = term["name"]
    if name in inputs:
        shape, dtype = inputs[name].shape, inputs[name].dtype
    elif name in params:
        shape, dtype = params[name].shape, params[name].dtype.name
    else:
        raise InputError(f"tensor {name!r} is neither an input nor a parameter")
    if (shape, dtype) != (term.shape, term.dtype):
        raise InputError(
            f"tensor {name!r} is {term.dtype} of shape {term.shape}, got {dtype} of shape {shape}"
        )


def _info(name: str, shape: Shape, dtype: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type(dtype), shape)


Key = tuple[Term, Shape]
"""A value: the term whose elements it holds, and the shape it has them in."""


class _Writer:
    """Writes the terms of one graph or function body."""

    def __init__(
        self,
        graph: Graph,
        program: Program,
        leaves: Mapping[str, Value],
        params: Mapping[str, Array],
        functions: _Functions,
    ) -> None:
        self.graph = graph
        self.graph.values |= {value.name: value for value in leaves.values()}
        self.program = program
        self.functions = functions
        self._leaves = leaves
        self._params = params
        self._param_names = {
            term["name"]: graph.names.take(term["name"])
            for term in program.order
            if term.op == "tensor" and term["name"] not in leaves
        }
        self._values: dict[Key, Value] = {}
        self._wanted: dict[Key, str] = {}
        self._host_ops: dict[tuple[Any, ...], dict[int, Term]] = {}
        for term in program.order:
            if term.op == "host_op":
                self._host_ops.setdefault(_host_key(term), {})[term["output"]] = term

    def write(self, outputs: Mapping[str, Term], names: Mapping[Term, str]) -> None:
        """Nodes for everything below ``outputs``, whose names are taken already."""
        self._wish(outputs, names)
        for term, plan in self._plan(outputs.values()):
            key = (term, term.shape)
            if key not in self._values:
                reads = [self._value(each) for each in plan.reads]
                self._name(key, len(self.graph.nodes), plan.emit(self.graph, reads))
        for name, term in outputs.items():
            value = self._value(term)
            if value.name != name:
                self.graph.append(helper.make_node("Identity", [value.name], [name], name))
        tidy(self.graph, outputs)

    def _wish(self, outputs: Mapping[str, Term], names: Mapping[Term, str]) -> None:
        """Which value gets which name."""
        for name, term in outputs.items():
            self._wanted.setdefault(self._key(term), name)
        known = [(t, name) for t, name in names.items() if t in self.program.source]
        # A term's own name comes before that of one which differs from it in the split only.
        for direct in (True, False):
            for term, name in known:
                key = self._key(term)
                if (key[0] is term) == direct and key not in self._wanted:
                    self._wanted[key] = "" if key[0].op == "tensor" else self._take(name)

    def _take(self, name: str) -> str:
        return self.graph.names.take(name)

    def _key(self, term: Term) -> Key:
        return self.program.source[term], term.shape

    def _value(self, term: Term) -> Value:
        """The value of a term whose source is written."""
        key = self._key(term)
        if key not in self._values:
            source = self._values[key[0], key[0].shape]
            before = len(self.graph.nodes)
            self._name(key, before, self.graph.reshape(source, term.shape))
        return self._values[key]

    def _name(self, key: Key, before: int, value: Value) -> None:
        """Enters a value, under the name it should have if a node written since bears it."""
        wanted, nodes = self._wanted.get(key), self.graph.nodes
        written = len(nodes) > before and nodes[-1].op_type != "Constant"
        if wanted and written and list(nodes[-1].output) == [value.name]:
            value = self.graph.rename(value, wanted)
        self._values[key] = value

    def _plan(self, roots: Iterable[Term]) -> list[tuple[Term, Step]]:
        """The steps that the roots need, what they read first."""
        source = self.program.source
        plan: list[tuple[Term, Step]] = []
        seen: set[Term] = set()
        stack: list[tuple[Term, Step | None]] = []
        stack += [(source[root], None) for root in roots][::-1]
        while stack:
            term, ready = stack.pop()
            if ready is not None:
                plan.append((term, ready))
            elif term not in seen:
                seen.add(term)
                ready = self._step(term)
                stack.append((term, ready))
                stack += [(source[each], None) for each in reversed(ready.reads)]
        return plan

    def _step(self, term: Term) -> Step:
        if term.op == "tensor":
            return Step((), lambda g, _: self._leaf(term))
        if term.type.size and term.op in CALLS:
            function = self.functions.name_of(term)

            def call(g: Graph, v: list[Value]) -> Value:
                return g.node(function, v, term.shape, term.dtype, domain=DOMAIN)

            return Step(term.children, call)
        if term.type.size and term.op == "host_op":
            return Step(term.children, lambda g, v: self._host_op(term, v))
        return step(term, self.program)

    def _leaf(self, term: Term) -> Value:
        if term["name"] in self._leaves:
            return self._leaves[term["name"]]
        name, array = self._param_names[term["name"]], self._params[term["name"]]
        # Axes along which a broadcast array repeats itself.
        repeated = [n > 1 and step == 0 for n, step in zip(array.shape, array.strides, strict=True)]
        if array.nbytes < _COMPACT_FROM or not any(repeated):
            return self.graph.initializer(name, array, term.dtype)
        core = array[tuple(slice(0, 1) if each else slice(None) for each in repeated)]
        if core.size == 1:
            return self.graph.rename(self.graph.fill(core.item(), array.shape, term.dtype), name)
        stored = self.graph.initializer(self._take(f"{name}_once"), core, term.dtype)
        return self.graph.rename(self.graph.expand(stored, array.shape), name)

    def _host_op(self, term: Term, operands: list[Value]) -> Value:
        """One node for all outputs of an operator that the program uses."""
        used = self._host_ops[_host_key(term)]
        opset = self.functions.opsets[term["domain"]]
        named = {*named_outputs(term.attributes), *used}
        outputs = [""] * (max(named) + 1)
        for index in named:
            key = self._key(used[index]) if index in used else None
            name = (key and self._wanted.get(key)) or self._take(term["operator"].lower())
            outputs[index] = name
            if key is not None:
                self._values[key] = Value(name, key[1], key[0].dtype)
        host_node(self.graph, term, operands, outputs, opset)
        return self._values[self._key(term)]


def _host_key(term: Term) -> tuple[Any, ...]:
    """The same for host operators that differ only in which output they are."""
    told = (term[each] for each in ("domain", "operator", "version", "attributes"))
    return *told, *term.children


class _Functions:
    """The local functions of a model: one for each unit, parameters and operand types."""

    def __init__(self, opsets: dict[str, int]) -> None:
        self.opsets = opsets
        self.protos: list[onnx.FunctionProto] = []
        self.domains: set[str] = set()
        """Domains that the bodies use."""
        self._names = Names()
        self._made: dict[tuple[Any, ...], str] = {}

    def name_of(self, term: Term) -> str:
        """The function that a ``call`` or ``blocked`` term calls; written when it is new."""
        types = tuple(child.type for child in term.children)
        key = (term.op, term.values, types)
        if key not in self._made:
            words = [term["unit"], "x".join(map(str, term["parameters"]))]
            words += ["blocked"] if term.op == "blocked" else []
            self._made[key] = self._names.take(re.sub(r"\W+", "_", "_".join(filter(None, words))))
            self._write(self._made[key], term, types)
        return self._made[key]

    def _write(self, name: str, term: Term, types: Sequence[AccessType]) -> None:
        graph = Graph(Names(), self.opsets[""], local=True)
        operands = {
            graph.names.take(f"operand{i}"): AccessType(t.shape, (), t.dtype)
            for i, t in enumerate(types)
        }
        result = graph.names.take("result")
        meaning = units.meaning(
            term,
            [
                builders.access(builders.tensor(each, whole.shape, whole.dtype), t.split)
                for (each, whole), t in zip(operands.items(), types, strict=True)
            ],
        )
        program = Program([meaning], self.opsets[""])
        for domain, version in choose_opsets(program.order).items():
            self.opsets.setdefault(domain, version)
        leaves = {each: Value(each, t.shape, t.dtype) for each, t in operands.items()}
        _Writer(graph, program, leaves, {}, self).write({result: meaning}, {})
        self.domains |= graph.domains
        self.protos.append(
            helper.make_function(
                DOMAIN,
                name,
                list(operands),
                [result],
                graph.nodes,
                [helper.make_opsetid(d, self.opsets[d]) for d in sorted(graph.domains)],
                doc_string=f"{term!r} means {to_text(meaning)}",
            )
        )
