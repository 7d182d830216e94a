"""Walks an ONNX graph and builds the program that it means.

Every value of the graph becomes a term with all axes outer. Initializers and folded constants are
``tensor`` leaves under the names the file gives them, their arrays kept beside the program.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from glenside.errors import GlensideError, ModelError, ShapeError, Unsupported, UnsupportedOperator
from glenside.frontends.onnx import functions, host, loading
from glenside.frontends.onnx.folding import Folding
from glenside.frontends.onnx.node import (
    LOWERINGS,
    Lowering,
    NeedsConstant,
    Node,
    Result,
    dtype_name,
    node_name,
)
from glenside.frontends.onnx.ordering import needed, subgraphs
from glenside.frontends.onnx.tensors import (
    NARROW,
    STORING,
    WIDENING,
    dense,
    narrow_name,
    to_array,
)
from glenside.frontends.refusal import Refused
from glenside.language import (
    TRANSFORMERS,
    AccessType,
    Model,
    Requirement,
    Term,
    builders,
    can_require,
    topological_order,
)
from glenside.language.requirements import sources_of
from glenside.language.shape import DTYPES, FLOATS

Array = np.ndarray[Any, Any]
LOGGER = logging.getLogger(__name__)


class NeedsValues(UnsupportedOperator):
    """Some nodes could be read if the values of these inputs were known, see ``params=``."""

    def __init__(self, nodes: Sequence[Unsupported], inputs: frozenset[str]) -> None:
        super().__init__(nodes)
        self.inputs = inputs


class Missing:
    """Marks a value that a refused node would have made."""


MISSING = Missing()
Value = Term | tuple[Term, ...] | Missing | None
"""What a name stands for: a tensor, a sequence of them, or an operand that is left out."""

UNEXPECTED = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What a node that makes no sense may raise where nobody looks for it."""

UNKNOWN = "no meaning is known for this operator"

DEEPEST_CALL = 32
"""Functions that call themselves would never end."""

MOST_INLINED = 20_000
"""Nodes inside functions and unrolled loops: some lines of a file can stand for billions."""

FOLD_LIMIT = 16 * 2**20
"""Bytes up to which a constant is computed while importing, where its operands are smaller."""


def import_model(
    model: loading.Source,
    *,
    shapes: loading.Shapes | None = None,
    params: Mapping[str, Array] | None = None,
    fold_limit: int = FOLD_LIMIT,
    progress: Callable[[int, int], None] | None = None,
) -> Model:
    """Reads an ONNX model.

    :param model: path, serialised bytes or ``onnx.ModelProto``.
    :param shapes: axis lengths of inputs by name, for what the model leaves open. An input for
        which the model has a default is that constant, one of :attr:`Model.defaults`, unless it is
        named here or in ``params``.
    :param params: arrays of inputs that are known in advance: they become constants, and what
        depends on them alone (shapes, say) is worked out while importing.
    :param fold_limit: bytes up to which constants are computed now; larger ones stay terms.
    :param progress: called with (nodes done, nodes in all).
    :raises UnsupportedOperator: nodes have no meaning here; the error names all of them.
    :raises ModelError: the model cannot be read, contradicts itself or leaves a shape open.
    :raises InputError: ``params`` do not fit the model.
    """
    proto, name = loading.load(model)
    opsets = loading.opsets(proto)
    loading.check_text(proto)
    local = functions.local_functions(proto)
    unknown: list[Unsupported] = []
    try:
        unknown = _unknown_nodes(proto, local, opsets)
        fixed = loading.known_inputs(proto.graph, name, params or {}, shapes or {})
        shapes = {**(shapes or {}), **{key: value.shape for key, value in fixed.items()}}
        inputs = loading.input_types(proto.graph, shapes)
        importer = Importer(proto, opsets, inputs, fixed, fold_limit)
        importer.walk(proto.graph.node, [each.name for each in proto.graph.output], progress)
        return importer.finish(name)
    except UnsupportedOperator:
        raise
    except ModelError as problem:
        if unknown:
            # Whatever else is wrong, nothing helps while these are there.
            raise UnsupportedOperator(unknown) from problem
        raise


_PRODUCTS = frozenset({"MatMul", "Gemm"})


def _shared_weights(graph: onnx.GraphProto) -> set[str]:
    """Names of what several products multiply different values with, as those of a loop do."""
    others: dict[str, set[str]] = {}
    repeated: set[str] = set()
    pending = [(graph, False)]
    while pending:
        scope, loops = pending.pop()
        for node in scope.node:
            if node.op_type in _PRODUCTS and len(node.input) > 1:
                others.setdefault(node.input[1], set()).add(node.input[0])
                repeated |= {node.input[1]} if loops else set()
            within = loops or node.op_type in ("Loop", "Scan")
            pending += [(each, within) for each in subgraphs(node)]
    return repeated | {name for name, multiplied in others.items() if len(multiplied) > 1}


def _unknown_nodes(
    model: onnx.ModelProto, local: functions.Functions, opsets: Mapping[str, int]
) -> list[Unsupported]:
    """Every needed node whose operator nobody knows, those of functions that are called included.

    Which branch of an ``If`` is taken is not known yet: its nodes do not count.
    """
    unknown: list[Unsupported] = []
    called: set[functions.Identity] = set()
    pending = [needed(model.graph.node, [each.name for each in model.graph.output]).nodes]
    while pending:
        for proto in pending.pop(0):
            identity = functions.identity(proto)
            if identity in local and identity not in called:
                called.add(identity)
                body = local[identity]
                pending.append(needed(body.node, body.output).nodes)
            for graph in subgraphs(proto) if proto.op_type != "If" else ():
                pending.append(needed(graph.node, [each.name for each in graph.output]).nodes)
            if not _known(proto, local):
                unknown.append(_unsupported(proto, opsets, UNKNOWN))
    return unknown


def _known(proto: onnx.NodeProto, local: functions.Functions) -> bool:
    if functions.identity(proto) in local:
        return True
    key = functions.standard(proto.domain), proto.op_type
    known = key in LOWERINGS or host.knows(*key)
    return known and bool(proto.op_type) and not proto.overload


def _unsupported(proto: onnx.NodeProto, opsets: Mapping[str, int], reason: str) -> Unsupported:
    domain = functions.standard(proto.domain)
    version = opsets.get(domain)
    spelled = f"{domain}.{proto.op_type}" if domain else proto.op_type
    return Unsupported(
        node_name(proto), f"{spelled}, opset {'?' if version is None else version}", reason
    )


class Importer:
    """The state of one import: values by name, arrays of constants, what was refused."""

    def __init__(
        self,
        proto: onnx.ModelProto,
        opsets: Mapping[str, int],
        inputs: Mapping[str, AccessType],
        fixed: Mapping[str, Array],
        fold_limit: int,
    ) -> None:
        self.opsets = opsets
        self._graph = proto.graph
        self._inputs = {name: kind for name, kind in inputs.items() if name not in fixed}
        self._folding = Folding(fold_limit)
        self._arrays: dict[str, Array] = {}
        self._names: dict[Term, str] = {}
        self._inner_names: dict[Term, str] = {}
        self._local = functions.local_functions(proto)
        self._calls: list[str] = []
        self._inlined = 0
        self._declared = {
            each.name: each.type
            for each in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output)
        }
        self._taken = set(self._inputs)
        self._suffixes: dict[str, int] = {}
        self._narrow: dict[Term, str] = {}
        self._varying: dict[Term, bool] = {}
        self._dequantised: set[Term] = set()
        self._shared_weights = _shared_weights(proto.graph)
        self._steps: dict[Term, bool] = {}
        self._counts: dict[str, int] = {}
        self._refused: list[Unsupported] = []
        self._requirements: list[Requirement] = []
        self._needed: set[str] = set()
        # One table of values per scope: the graph, and inside it the subgraphs being inlined.
        self._scopes: list[dict[str, Value]] = [{}]
        for name, kind in self._inputs.items():
            try:
                self._define(name, builders.tensor(name, kind.shape, kind.dtype))
            except ShapeError as problem:
                raise ModelError(f"input {name!r}: {problem}") from None
        for name, array in fixed.items():
            self._define(name, self.parameter(name, array))
        self._initializers(proto.graph, inputs)
        held = {name: self._scopes[0][name] for name in loading.default_names(proto.graph)}
        self._defaults = {
            name: term.type
            for name, term in held.items()
            if name not in inputs and isinstance(term, Term) and term not in self._narrow
        }

    def _initializers(self, graph: onnx.GraphProto, given: Collection[str] = ()) -> None:
        """Enters what a graph holds the value of, but for the inputs that are ``given``."""
        try:
            for tensor in graph.initializer:
                name = tensor.name
                if name in given:
                    continue
                term = self.parameter(name, to_array(tensor, name))
                if tensor.data_type in NARROW:
                    self._narrow[term] = narrow_name(tensor.data_type)
                self._define(name, term)
            for sparse in graph.sparse_initializer:
                name = sparse.values.name
                if name in given:
                    continue
                self._define(name, self.parameter(name, dense(sparse, name)))
        except Refused as problem:
            raise ModelError(f"initializer {name!r}: {problem}") from None

    # --- values ---------------------------------------------------------------------------------

    def value(self, name: str) -> Term | tuple[Term, ...] | None:
        """The term of a value; None where the operand is left out."""
        found = self._look_up(name)
        assert not isinstance(found, Missing), "nodes with such operands are not lowered"
        return found

    def _look_up(self, name: str) -> Value:
        if not name:
            return None
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise ModelError(f"value {name!r} is used, but no node makes it and nothing else gives it")

    def _define(self, name: str, term: Value) -> None:
        if name in self._scopes[-1]:
            raise ModelError(f"value {name!r} is made more than once")
        if isinstance(term, Term) and len(self._scopes) == 1 and not self._calls:
            self._check_declared(name, term)
        self._scopes[-1][name] = term
        if isinstance(term, Term):
            if self._calls:
                self._inner_names.setdefault(term, "/".join((*self._calls, name)))
            else:
                self._names.setdefault(term, name)

    def declared(self, name: str) -> onnx.TypeProto | None:
        """What the graph says of a value's type; nothing of values inside of functions."""
        return None if self._calls else self._declared.get(name)

    def _check_declared(self, name: str, term: Term) -> None:
        """Holds the type of a value against what the graph says of it, where it does."""
        declared = self._declared.get(name)
        if declared is None or declared.WhichOneof("value") is None:
            return
        element = declared.tensor_type.elem_type
        if not declared.HasField("tensor_type"):
            kind = str(declared.WhichOneof("value")).removesuffix("_type")
        elif name in self._arrays and not _is_of_shape(declared, term):
            raise ModelError(f"value {name!r} has shape {term.shape}, its declaration another")
        elif not element or (NARROW.get(element) == term.dtype and term in self._narrow):
            return
        else:
            try:
                kind = dtype_name(element)
            except Refused:
                kind = f"of element type {element}"
        if kind != term.dtype:
            raise ModelError(f"value {name!r} is declared as {kind}, it is {term.dtype}")

    def known(self, term: Term) -> Array | None:
        """The array of a term whose value is known while importing."""
        if term in self._dequantised and not self._varies(term):
            return self._folding.value(term, self._arrays)
        if term.op == "tensor":
            return self._arrays.get(term["name"])
        if term.op == "constant":
            return np.broadcast_to(np.array(term["value"], term.dtype), term.shape)
        return None

    def sources(self, term: Term) -> frozenset[str]:
        """Names of the graph inputs that a term depends on."""
        leaves = (each["name"] for each in topological_order([term]) if each.op == "tensor")
        return frozenset(name for name in leaves if name in self._inputs)

    def parameter(self, name: str, array: Array) -> Term:
        """A leaf that stands for ``array``, under ``name`` or, where that is taken, a variant."""
        unique = name
        while unique in self._taken:
            # From where the last search ended: a loop asks for the same name thousands of times.
            count = self._suffixes[name] = self._suffixes.get(name, 0) + 1
            unique = f"{name}_{count}"
        self._taken.add(unique)
        self._arrays[unique] = array
        return builders.tensor(unique, array.shape, array.dtype.name)

    # --- nodes ----------------------------------------------------------------------------------

    def walk(
        self,
        nodes: Sequence[onnx.NodeProto],
        outputs: Sequence[str],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Lowers the nodes that outputs need, in order; those that have no meaning are remembered,
        not raised."""
        read = needed(nodes, outputs)
        for done, proto in enumerate(read.nodes, 1):
            self._lower(proto, read.names)
            if progress:
                progress(done, len(read.nodes))

    def _lower(self, proto: onnx.NodeProto, used: Collection[str]) -> None:
        """Lowers one node; results that are not among the names ``used`` may be without meaning."""
        results: Sequence[Any]
        if self._calls or len(self._scopes) > 1:
            self._inlined += 1
            if self._inlined > MOST_INLINED:
                raise ModelError(
                    f"node {node_name(proto)!r}: the functions and loops of the model come to more "
                    f"than {MOST_INLINED} nodes"
                )
        if any(self._look_up(name) is MISSING for name in proto.input):
            # Made by a refused node, which is reported already.
            if not _known(proto, self._local):
                self._refused.append(_unsupported(proto, self.opsets, UNKNOWN))
            results = [MISSING] * len(proto.output)
        else:
            try:
                results = self._meaning(proto, used)
            except Refused as problem:
                self._refused.append(_unsupported(proto, self.opsets, str(problem)))
                self._needed |= getattr(problem, "inputs", frozenset())
                results = [MISSING] * len(proto.output)
        if proto.op_type == "DequantizeLinear":
            self._dequantised.update(each for each in results if isinstance(each, Term))
        try:
            settled = [
                self._settle(name, result, proto) if name else None
                for name, result in zip(proto.output, results, strict=False)
            ]
        except GlensideError as problem:
            raise ModelError(f"node {node_name(proto)!r} ({proto.op_type}): {problem}") from problem
        except UNEXPECTED as problem:
            raise _malformed(proto, problem) from problem
        if not self._calls and any(self._computed(proto, value) for value in settled):
            self._counts[proto.op_type] = self._counts.get(proto.op_type, 0) + 1
        for name, value in zip(proto.output, settled, strict=False):
            if name:
                self._define(name, value)

    def _computed(self, proto: onnx.NodeProto, value: Value) -> bool:
        """Whether a node's value is worked out at run time, not known or handed through."""
        return (
            isinstance(value, Term)
            and bool(value.children)
            and all(value is not self._look_up(name) for name in proto.input)
            and proto.op_type != "If"
        )

    def _meaning(self, proto: onnx.NodeProto, used: Collection[str]) -> Sequence[Any]:
        if not _known(proto, self._local):
            raise Refused(UNKNOWN)
        domain = functions.standard(proto.domain)
        if domain not in self.opsets:
            raise ModelError(f"node {node_name(proto)!r}: the model imports no opset of {domain!r}")
        lowering = LOWERINGS.get((domain, proto.op_type))
        node = Node(proto, self.opsets[domain], self, used)
        identity = functions.identity(proto)
        stored = {self._narrow[x] for x in node.inputs if x in self._narrow}
        if stored and proto.op_type not in (*WIDENING, *STORING):
            kinds = ", ".join(sorted(stored))
            raise Refused(f"values stored as {kinds} must be cast or dequantised before use")
        if identity not in self._local:
            loading.check_node(proto, str(node), self.opsets)
        try:
            if identity in self._local:
                results = self._expand(self._local[identity], node)
                self._check_outputs(node, results)
                return results
            native = self._native(node, lowering)
            if not stored:
                # Later than the lowering, which says better what is wrong.
                functions.check_types(node, native)
            return native
        except ShapeError as problem:
            raise ModelError(f"{node}: {problem}") from problem
        except GlensideError:
            raise
        except UNEXPECTED as problem:
            raise _malformed(proto, problem) from problem

    def _native(self, node: Node, lowering: Lowering | None) -> Sequence[Any]:
        """The node's lowering, else its definition by other operators, else the host's."""
        try:
            if lowering is None:
                raise Refused("it has no meaning as access patterns")
            results: list[Any] = _as_list(lowering(node))
            if node.attributes.unread:
                names = ", ".join(node.attributes.unread)
                raise Refused(f"attribute {names} is not supported")
            self._check_outputs(node, results)
            return results
        except NeedsConstant:
            raise
        except Refused as problem:
            body = functions.schema_body(node)
            if body is None:
                results = list(host.lower(node, str(problem)))
            else:
                results = self._by_definition(node, body)
            self._check_outputs(node, results)
            return results

    def _by_definition(self, node: Node, body: onnx.FunctionProto) -> list[Any]:
        """A standard operator as ONNX defines it, or by the host where that has no meaning."""
        refused, needed = len(self._refused), set(self._needed)
        results = self._expand(body, node)
        inner, wanted = self._refused[refused:], self._needed - needed
        if not inner:
            return results
        # The user knows this node, not those of its definition.
        del self._refused[refused:]
        self._needed = needed
        reason = f"its definition holds {inner[0].operator.split(',')[0]}: {inner[0].reason}"
        if wanted:
            raise NeedsConstant(reason, frozenset(wanted))
        return list(host.lower(node, reason))

    def _expand(self, body: onnx.FunctionProto, node: Node) -> list[Value]:
        """What a call of a function gives; its values are called ``node/value``."""
        if len(self._calls) >= DEEPEST_CALL:
            raise node.error(f"functions call each other more than {DEEPEST_CALL} deep")
        if len(node.inputs) > len(body.input):
            raise node.error(f"takes {len(body.input)} operands, got {len(node.inputs)}")
        outside = self.opsets, self._scopes
        operands = [*node.inputs, *[None] * len(body.input)]
        self._calls.append(node.name)
        try:
            self._scopes = [dict(zip(body.input, operands, strict=False))]
            own = {functions.standard(each.domain): each.version for each in body.opset_import}
            # ONNX's own bodies may leave out the standard operators they are made of.
            self.opsets = {"": onnx.defs.onnx_opset_version(), **outside[0], **own}
            wanted = [each for i, each in enumerate(body.output) if node.wants(i)]
            self.walk(functions.bound_nodes(body, node.proto), wanted)
            # An optional output may be one that the body does not make.
            made = self._scopes[-1]
            return [made.get(name) for name in body.output]
        finally:
            self.opsets, self._scopes = outside
            self._calls.pop()

    def _check_outputs(self, node: Node, results: Sequence[Any]) -> None:
        for position, name in enumerate(node.proto.output):
            missing = position >= len(results) or results[position] is None
            if missing and node.wants(position):
                raise Refused(f"output {position} ({name!r}) is not supported")

    def _settle(self, name: str, result: Any, proto: onnx.NodeProto) -> Value:
        """A result as a term: known values become parameters, small ones are folded."""
        if result is None or isinstance(result, Missing):
            return result
        if isinstance(result, tuple):
            return tuple(self.fold(f"{name}_{i}", each) for i, each in enumerate(result))
        if self._calls:
            name = "/".join((*self._calls, name))
        if isinstance(result, Term) and result in self._narrow and proto.op_type in WIDENING:
            # Widened to what it is held in already: from now on numbers like others.
            return self.parameter(name, self._arrays[result["name"]])
        if not isinstance(result, Term):
            array = np.asarray(result)
            if array.dtype.name not in DTYPES:
                raise ModelError(f"value {name!r} has the unsupported type {array.dtype}")
            return self.parameter(name, array)
        if proto.op_type in _PRODUCTS and proto.input[1] in self._shared_weights:
            self._steps[result] = result.dtype in FLOATS
        return self.fold(name, result)

    def fold(self, name: str, term: Term) -> Term:
        """``term`` as a parameter called ``name`` where it is constant and small enough."""
        if not term.children or self._varies(term) or self._is_dequantised(term):
            return term
        if self._is_step(term):
            return term
        folded = self._folding.fold(name, term, self._arrays)
        if folded is None:
            return term
        made = self.parameter(name, folded)
        if term in self._narrow:
            self._narrow[made] = self._narrow[term]
        return made

    def narrow(self, term: Term) -> str | None:
        """The narrow type that a value is of, though it is held in a wider one."""
        return self._narrow.get(term)

    def store(self, term: Term, kind: str) -> None:
        """Remembers that a value is of a narrow type."""
        self._narrow[term] = kind

    def _is_dequantised(self, term: Term) -> bool:
        """Whether a term is what a DequantizeLinear gives, moved about: units take the integers
        below it, and compilers fold what is constant."""
        while term not in self._dequantised:
            if term.op not in TRANSFORMERS or len(term.children) != 1:
                return False
            (term,) = term.children
        return True

    def _is_step(self, term: Term) -> bool:
        """Whether a constant is made of a product whose weights are those of another one too.

        It is the first step of a layer that an exporter unrolled, from a state that is known:
        rules find the layer by steps that are alike, and compilers fold what is constant."""
        if not self._shared_weights:
            return False
        for each in topological_order([term]):
            if each not in self._steps:
                self._steps[each] = any(self._steps[child] for child in each.children)
        return self._steps[term]

    def _varies(self, term: Term) -> bool:
        """Whether a term depends on what the program is run on, or on a host operator."""
        stack = [term]
        while stack:
            current = stack[-1]
            pending = [child for child in current.children if child not in self._varying]
            if pending:
                stack.extend(pending)
                continue
            stack.pop()
            if current.op == "tensor":
                self._varying[current] = current["name"] not in self._arrays
            else:
                varies = any(self._varying[child] for child in current.children)
                self._varying[current] = varies or current.op == "host_op"
        return self._varying[term]

    def require(self, term: Term, low: int, high: int, what: str) -> bool:
        """Has every call of the program hold a value against bounds, see :class:`Requirement`.

        The error says which inputs the value is made of, then ``what``.

        False where that cannot be done, since it depends on more than the inputs or takes long to
        work out.
        """
        if not can_require(term, self._inputs):
            return False
        told = f"{sources_of(term)}: {what}"
        self._requirements.append(Requirement(term, low, high, told))
        return True

    def attempt(self, graph: onnx.GraphProto) -> list[Value] | ModelError:
        """As :meth:`inline`; where the subgraph does not fit the values at hand, why."""
        refused, needs, asked = len(self._refused), set(self._needed), len(self._requirements)
        try:
            return self.inline(graph, {})
        except (NeedsValues, UnsupportedOperator):
            raise
        except ModelError as problem:
            del self._refused[refused:], self._requirements[asked:]
            self._needed = needs
            return problem

    def inline(self, graph: onnx.GraphProto, operands: Mapping[str, Term]) -> list[Value]:
        """The outputs of a subgraph; its free names are those of the scopes around it."""
        self._scopes.append(dict(operands))
        try:
            self._initializers(graph)
            self.walk(graph.node, [each.name for each in graph.output])
            return [self._look_up(output.name) for output in graph.output]
        finally:
            self._scopes.pop()

    # --- the end --------------------------------------------------------------------------------

    def finish(self, name: str) -> Model:
        """The model, once every node is lowered; raises :class:`UnsupportedOperator`."""
        # A refused node matters where an output hangs on it.
        if any(self._look_up(each.name) is MISSING for each in self._graph.output):
            refused = list(dict.fromkeys(self._refused))
            if self._needed and all(each.reason != UNKNOWN for each in refused):
                raise NeedsValues(refused, frozenset(self._needed))
            raise UnsupportedOperator(refused)
        if self._folding.kept:
            kept = ", ".join(self._folding.kept)
            LOGGER.info("constants that stay terms, being too large to fold: %s", kept)
        outputs: dict[str, Term] = {}
        for output in self._graph.output:
            term = self.value(output.name)
            if isinstance(term, Term) and term in self._narrow:
                kind = self._narrow[term]
                raise ModelError(
                    f"output {output.name!r} is of element type {kind}, which is not supported"
                )
            if not isinstance(term, Term):
                kind = "a sequence: only tensors are supported" if term else "without a value"
                raise ModelError(f"output {output.name!r} is {kind}")
            outputs[_unlisted(output.name, outputs)] = term
        used = {term["name"] for term in topological_order(outputs.values()) if term.op == "tensor"}
        return Model(
            name=name,
            inputs=self._inputs,
            params={key: array for key, array in self._arrays.items() if key in used},
            outputs=outputs,
            names={**self._inner_names, **self._names},
            operators=self._counts,
            requirements=tuple(dict.fromkeys(self._requirements)),
            defaults=self._defaults,
        )


def _unlisted(name: str, outputs: Collection[str]) -> str:
    """The name of an output, with a number behind it where the model lists it once more."""
    if name not in outputs:
        return name
    return next(each for i in itertools.count(1) if (each := f"{name}_{i}") not in outputs)


def _is_of_shape(declared: onnx.TypeProto, term: Term) -> bool:
    """Whether a declaration agrees with a shape, where it says something; 0 is often unknown."""
    if not declared.tensor_type.HasField("shape"):
        return True
    dims = declared.tensor_type.shape.dim
    return len(dims) == term.type.rank and all(
        dim.dim_value in (0, length) for dim, length in zip(dims, term.shape, strict=True)
    )


def _malformed(proto: onnx.NodeProto, problem: Exception) -> ModelError:
    """A malformed node, met in a place that does not expect it."""
    line = next(iter(str(problem).strip().splitlines()), "")
    where = f"node {node_name(proto)!r} ({proto.op_type})"
    if isinstance(problem, MemoryError):
        return ModelError(f"{where} takes more memory than there is: {line}")
    return ModelError(f"{where} is malformed: {type(problem).__name__}: {line}")


def _as_list(result: Result) -> list[Any]:
    return [result] if isinstance(result, Term | np.ndarray) else list(result)
