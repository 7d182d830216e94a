"""What a lowering sees: one node with its operands as terms, and the register of lowerings.

A lowering is a function of one :class:`Node` that returns what its outputs mean: a term (all axes
outer), an array (a value known while importing), or a list of these, ``None`` standing for an
output that it does not provide and a tuple for an ONNX sequence. It reads every attribute it knows
through ``node.attributes``; what is left unread is reported, never dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
import onnx

from glenside.errors import ModelError
from glenside.frontends.refusal import Refused
from glenside.language import Term, builders, memory
from glenside.language.requirements import outside
from glenside.language.shape import DTYPES

if TYPE_CHECKING:
    from glenside.frontends.onnx.scope import Scope

Array = np.ndarray[Any, Any]
Result = Term | Array | Sequence[Any]
Lowering = Callable[["Node"], Result]

LARGEST = 2**26
"""Elements of the largest array of indices or weights that a lowering makes."""

LOWERINGS: dict[tuple[str, str], Lowering] = {}
"""Lowerings by (domain, operator); the domain of standard ONNX is ``""``."""


def operator(*names: str, domain: str = "") -> Callable[[Lowering], Lowering]:
    """Registers a function as the meaning of the ONNX operators called ``names``."""

    def register(lowering: Lowering) -> Lowering:
        for name in names:
            LOWERINGS[domain, name] = lowering
        return lowering

    return register


class NeedsConstant(Refused):
    """A lowering needs the value of an operand that is only known at run time."""

    def __init__(self, reason: str, inputs: frozenset[str]) -> None:
        super().__init__(reason)
        self.inputs = inputs
        """The graph inputs whose values would settle it."""


def dtype_name(element_type: int) -> str:
    """The NumPy name of an ONNX element type; raises :class:`Refused` for others."""
    try:
        name = str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type)).name)
    except (KeyError, TypeError, ValueError):
        name = ""
    if name not in DTYPES:
        try:
            shown = onnx.TensorProto.DataType.Name(element_type).lower()
        except ValueError:
            shown = f"number {element_type}"
        raise Refused(f"element type {shown} is not supported")
    return name


class Attributes:
    """A node's attributes, each read by its type; remembers which were read."""

    _KINDS: ClassVar[dict[int, str]] = {
        onnx.AttributeProto.INT: "an integer",
        onnx.AttributeProto.INTS: "a list of integers",
        onnx.AttributeProto.FLOAT: "a number",
        onnx.AttributeProto.FLOATS: "a list of numbers",
        onnx.AttributeProto.STRING: "a string",
        onnx.AttributeProto.STRINGS: "a list of strings",
        onnx.AttributeProto.TENSOR: "a tensor",
        onnx.AttributeProto.SPARSE_TENSOR: "a sparse tensor",
        onnx.AttributeProto.GRAPH: "a graph",
    }

    def __init__(self, node: onnx.NodeProto, where: str) -> None:
        self._given = {a.name: a for a in node.attribute}
        self._read: set[str] = set()
        self._where = where
        for each in node.attribute:
            # Inside functions references are settled before a node is read.
            if each.ref_attr_name:
                raise ModelError(
                    f"{where}: attribute {each.name} refers to {each.ref_attr_name!r}, which no "
                    "function around it has"
                )

    def __contains__(self, name: str) -> bool:
        return name in self._given

    @property
    def unread(self) -> list[str]:
        """Names given by the model that no lowering has asked for."""
        return sorted(self._given.keys() - self._read)

    def _get(self, name: str, kind: int) -> Any:
        self._read.add(name)
        given = self._given.get(name)
        if given is None:
            return None
        if given.type != kind:
            raise ModelError(f"{self._where}: attribute {name} must be {self._KINDS[kind]}")
        return onnx.helper.get_attribute_value(given)

    def ignore(self, *names: str) -> None:
        """Attributes that are without meaning for inference."""
        self._read.update(names)

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer; without a default it is required."""
        value = self._get(name, onnx.AttributeProto.INT)
        return self._settle(name, value, default)

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer that is 0 or 1."""
        value = self.integer(name, default)
        if value not in (0, 1):
            raise ModelError(f"{self._where}: attribute {name} must be 0 or 1, got {value}")
        return bool(value)

    def integers(self, name: str) -> list[int] | None:
        """A list of integers, None when absent."""
        value = self._get(name, onnx.AttributeProto.INTS)
        return None if value is None else [int(each) for each in value]

    def real(self, name: str, default: float | None = None) -> float:
        """A number; without a default it is required."""
        value = self._get(name, onnx.AttributeProto.FLOAT)
        return self._settle(name, value, default)

    def reals(self, name: str) -> list[float] | None:
        """A list of numbers, None when absent."""
        value = self._get(name, onnx.AttributeProto.FLOATS)
        return None if value is None else [float(each) for each in value]

    def text(self, name: str, default: str | None = None) -> str:
        """A string; without a default it is required."""
        value = self._get(name, onnx.AttributeProto.STRING)
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return self._settle(name, text, default)

    def choice(self, name: str, default: str, *others: str) -> str:
        """A string out of a few."""
        value = self.text(name, default)
        if value not in (default, *others):
            accepted = ", ".join((default, *others))
            raise ModelError(
                f"{self._where}: attribute {name} is {value!r}, accepted are {accepted}"
            )
        return value

    def texts(self, name: str) -> list[str] | None:
        """A list of strings, None when absent."""
        value = self._get(name, onnx.AttributeProto.STRINGS)
        return None if value is None else [each.decode("utf-8", "replace") for each in value]

    def tensor(self, name: str) -> onnx.TensorProto | None:
        return self._get(name, onnx.AttributeProto.TENSOR)

    def sparse(self, name: str) -> onnx.SparseTensorProto | None:
        return self._get(name, onnx.AttributeProto.SPARSE_TENSOR)

    def graph(self, name: str) -> onnx.GraphProto | None:
        return self._get(name, onnx.AttributeProto.GRAPH)

    def _settle(self, name: str, value: Any, default: Any) -> Any:
        if value is None and default is None:
            raise ModelError(f"{self._where}: attribute {name} is missing")
        return default if value is None else value


class Node:
    """One node of the model, its operands already terms."""

    def __init__(
        self,
        proto: onnx.NodeProto,
        opset: int,
        importer: Scope,
        used: Collection[str] | None = None,
    ) -> None:
        """
        :param used: names that other nodes or outputs read; None where all may be.
        """
        self.proto = proto
        self._used = used
        self.opset = opset
        self.name = node_name(proto)
        self.attributes = Attributes(proto, str(self))
        self.inputs: list[Any] = [importer.value(name) for name in proto.input]
        self._importer = importer

    @property
    def operator(self) -> str:
        return self.proto.op_type

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.proto.op_type})"

    def __getitem__(self, position: int) -> Term:
        """A required operand."""
        found = self.get(position)
        if found is None:
            raise ModelError(f"{self}: input {position} is missing")
        return found

    def get(self, position: int) -> Term | None:
        """An operand that is a tensor, None where the model leaves it out."""
        found = self.inputs[position] if position < len(self.inputs) else None
        if isinstance(found, tuple):
            raise self.error(f"input {position} is a sequence, a tensor is wanted")
        return found

    def sequence(self, position: int) -> tuple[Term, ...]:
        """An operand that is a sequence of tensors."""
        found = self.inputs[position] if position < len(self.inputs) else None
        if not isinstance(found, tuple):
            raise self.error(f"input {position} is not a sequence")
        return found

    def given(self) -> list[Term]:
        """All operands of an operator that takes any number of them."""
        return [self[position] for position in range(len(self.inputs))]

    def scalar(self, position: int) -> Term:
        """An operand; one that is a single known number becomes a ``constant``."""
        term = self[position]
        value = self._importer.known(term) if term.type.size == 1 else None
        if value is None or term.op != "tensor":
            return term
        return builders.constant(value.item(), term.shape, term.dtype)

    def known(self, position: int) -> Array | None:
        """The value of an operand where it is known while importing, else None."""
        term = self.get(position)
        return None if term is None else self._importer.known(term)

    def declared(self, position: int) -> onnx.TypeProto | None:
        """What the graph around says of the type of an output, None where it says nothing."""
        return self._importer.declared(self.proto.output[position])

    def narrow(self, position: int) -> str | None:
        """The type of 8, 4 or 2 bits that an operand is of, held in a wider one; mostly None."""
        term = self.get(position)
        return None if term is None else self._importer.narrow(term)

    def stored(self, term: Term, kind: str) -> Term:
        """``term`` as a result of a narrow type, which only some operators take."""
        self._importer.store(term, kind)
        return term

    def array(self, position: int, what: str) -> Array:
        """The value of an operand that must be known while importing.

        :raises NeedsConstant: it depends on what the program is run on.
        """
        return self.value_of(self[position], what)

    def value_of(self, term: Term, what: str) -> Array:
        """The value of a term that must be known while importing, as :meth:`array`."""
        value = self._importer.known(term)
        if value is None:
            sources = self._importer.sources(term)
            raise NeedsConstant(
                f"{what} must be constant, but depends on "
                f"{', '.join(map(repr, sorted(sources))) or 'a value too large to fold'}",
                sources,
            )
        return value

    def ints(self, position: int, what: str) -> list[int]:
        """The known integers of an operand of rank 0 or 1."""
        value = self.array(position, what)
        if value.dtype.kind not in "iu" or value.ndim > 1:
            raise ModelError(f"{self}: {what} must be a list of integers")
        return [int(each) for each in value.reshape(-1)]

    def number(self, position: int, what: str) -> Any:
        """The known value of an operand with one element, as a Python number."""
        value = self.array(position, what)
        if value.size != 1:
            raise ModelError(f"{self}: {what} must be one number, got shape {value.shape}")
        return value.item()

    def parameter(self, array: Array, suffix: str) -> Term:
        """A new constant of the program, named after this node's first output."""
        return self._importer.parameter(f"{self.proto.output[0]}_{suffix}", array)

    def constant(self, array: Array, suffix: str) -> Term:
        """A known value: one number as ``constant``, others as a parameter."""
        if array.size == 1:
            return builders.constant(array.item(), array.shape, array.dtype.name)
        return self.parameter(array, suffix)

    def fold(self, term: Term, suffix: str) -> Term:
        """``term`` as a parameter where it is constant and small enough, else ``term``."""
        return self._importer.fold(f"{self.proto.output[0]}_{suffix}", term)

    def wants(self, output: int) -> bool:
        """Whether the model names this output, and anything reads it."""
        name = self.proto.output[output] if output < len(self.proto.output) else ""
        return bool(name) and (self._used is None or name in self._used)

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """``axis`` counted from the front; raises :class:`ModelError` when out of range."""
        if not -rank <= axis < rank:
            raise ModelError(f"{self}: {what} {axis} is not an axis of a tensor with {rank} axes")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Distinct axes counted from the front, in the order given."""
        result = [self.axis(each, rank, "axes:") for each in axes]
        if len(set(result)) != len(result):
            raise ModelError(f"{self}: axes {list(axes)} name an axis twice")
        return result

    def check_size(self, count: float, what: str) -> None:
        """Refuses to make an array while importing that no sane model asks for."""
        if not count <= LARGEST:
            raise self.error(f"{what}: {count} elements are too many")

    def make_room(self, shape: Sequence[float], what: str, each: int = 16) -> None:
        """Refuses to make an array while importing that does not fit in memory.

        :param each: bytes that an element takes on the way, copies included.
        :raises NotEnoughMemory: names the node.
        """
        memory.require(math.prod(map(float, shape)) * each, f"{self}: {what}")

    def run(self, graph: onnx.GraphProto, operands: Mapping[str, Term] | None = None) -> list[Any]:
        """The outputs of a subgraph, which sees the scope around it and ``operands`` by name."""
        return self._importer.inline(graph, operands or {})

    def attempt(self, graph: onnx.GraphProto) -> list[Any] | ModelError:
        """As :meth:`run`, or why the subgraph does not fit the shapes at hand."""
        return self._importer.attempt(graph)

    def require(self, term: Term, low: int, high: int, what: str) -> bool:
        """Has ``low <= term < high`` hold: now where it is known, else at every call if cheap.

        :param what: what this node asks of the value, as a clause without a subject.
        :returns: False where it cannot be told.
        :raises ModelError: it is known and outside.
        """
        known = self._importer.known(self.fold(term, "asked"))
        if known is not None:
            wrong = outside(known, low, high)
            if wrong is not None:
                raise self.error(f"{what}, got {wrong}")
            return True
        return self._importer.require(term, low, high, f"{self} {what}")

    def error(self, message: str) -> ModelError:
        """An error about this node, to be raised."""
        return ModelError(f"{self}: {message}")

    def refuse(self, reason: str) -> NoReturn:
        """Says that this node has no meaning here, though the model is right."""
        raise Refused(reason)


def node_name(proto: onnx.NodeProto) -> str:
    """The node's name; one without is called after its first output."""
    return proto.name or next(iter(filter(None, proto.output)), proto.op_type)
