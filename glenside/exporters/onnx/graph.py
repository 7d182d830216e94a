"""Nodes of one ONNX graph or function body while it is being written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from glenside.errors import GlensideError
from glenside.exporters.onnx.kernels import working_dtype
from glenside.language.builders import broadcast_shapes
from glenside.language.shape import Shape

Array = np.ndarray[Any, Any]

LARGEST_FILE = 2**31 - 1
"""Bytes that one protobuf message can hold."""

_LARGEST_PLAIN_FILL = 16
"""Elements up to which a constant is stored rather than computed."""

_AXES_ARE_OPERANDS = 18
"""The opset from which all reductions take their axes so."""

_BEFORE_ALL = -(2**63) + 1
"""Where a slice ends that goes backwards to the first element."""


@dataclass(frozen=True)
class Value:
    """A value of the graph: its name, shape and dtype."""

    name: str
    shape: Shape
    dtype: str

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class Padding:
    """A value with so many numbers before and after it along each axis."""

    of: Value
    before: Shape
    after: Shape
    number: float


class Names:
    """Hands out names that nothing else in a graph has."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """``wanted``, or that with a number behind it when it is taken."""
        name = wanted
        while not name or name in self._taken:
            self._counts[wanted] = self._counts.get(wanted, 0) + 1
            name = f"{wanted}_{self._counts[wanted]}"
        self._taken.add(name)
        return name


class Graph:
    """Nodes and constants, in order.

    Every method that computes appends nodes and returns the result's :class:`Value`; one that has
    nothing to do returns its operand. In a function body (``local``) constants are nodes, since
    functions have no initializers. ``opset`` is that of ONNX's own operators.
    """

    def __init__(self, names: Names, opset: int, local: bool = False) -> None:
        self.names = names
        self.opset = opset
        self.local = local
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.domains: set[str] = {""}
        """Operator domains that the nodes use."""
        self.known: dict[str, Array] = {}
        """Constants of one element, by the value's name."""
        self._bytes = 0
        self._constants: dict[tuple[str, Shape, bytes], Value] = {}
        self.values: dict[str, Value] = {}
        """By name, as far as made here."""
        self.padded: dict[str, Padding] = {}
        """What was padded, by the name of what came of it."""
        self._moved: dict[tuple[str, str, Shape], Value] = {}
        """What Reshape and Transpose made of a value."""
        self._origins: dict[str, tuple[str, Value, Shape]] = {}
        """The operator, operand and shape or order that made each of these."""

    def node(
        self,
        operator: str,
        operands: Sequence[Value],
        shape: Sequence[int],
        dtype: str,
        *,
        domain: str = "",
        **attributes: Any,
    ) -> Value:
        """One node with one output; ``shape`` and ``dtype`` are the output's."""
        name = self.names.take(operator.lower())
        self.append(
            helper.make_node(
                operator, [v.name for v in operands], [name], name, domain=domain, **attributes
            )
        )
        return self._known(Value(name, tuple(shape), dtype))

    def _known(self, value: Value) -> Value:
        self.values[value.name] = value
        return value

    def append(self, node: onnx.NodeProto) -> None:
        """A node made elsewhere."""
        self.nodes.append(node)
        self.domains.add(node.domain)

    def rename(self, value: Value, name: str) -> Value:
        """The output of the last node under another name, which must be taken already."""
        node = self.nodes[-1]
        assert list(node.output) == [value.name]
        node.output[0] = node.name = name
        renamed = self._known(Value(name, value.shape, value.dtype))
        if value.name in self.padded:
            self.padded[name] = self.padded.pop(value.name)
        if value.name in self._origins:
            operator, x, how = self._origins[name] = self._origins.pop(value.name)
            self._moved[operator, x.name, how] = renamed
        return renamed

    # --- constants ------------------------------------------------------------------------------

    def initializer(self, name: str, array: Array, dtype: str) -> Value:
        """A stored array; ``name`` must be taken already.

        :raises GlensideError: the model would exceed what one file can hold.
        """
        self._bytes += array.size * np.dtype(dtype).itemsize
        if self._bytes > LARGEST_FILE:
            raise GlensideError(
                f"the parameters up to {name!r} take {self._bytes / 2**30:.1f} GiB: "
                "an ONNX file holds less than 2 GiB"
            )
        # Not ascontiguousarray, which makes a scalar a vector.
        proto = numpy_helper.from_array(np.asarray(array, dtype, order="C"), name)
        if self.local:
            self.append(helper.make_node("Constant", [], [name], name, value=proto))
        else:
            self.initializers.append(proto)
        return self._known(Value(name, array.shape, dtype))

    def constant(self, array: Array, hint: str = "constant") -> Value:
        """A small array; equal ones are stored once."""
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            value = self.initializer(self.names.take(hint), array, array.dtype.name)
            self._constants[key] = value
            if array.size == 1:
                self.known[value.name] = array
        return self._constants[key]

    def scalar(self, value: float, dtype: str) -> Value:
        """One number as a value without axes."""
        return self.constant(np.array(value, dtype))

    def integers(self, numbers: Sequence[int], hint: str = "integers") -> Value:
        """A vector of int64, such as shapes and axes."""
        return self.constant(np.array(numbers, np.int64), hint)

    def fill(self, number: float, shape: Shape, dtype: str) -> Value:
        """An array of one number, computed when it is large."""
        element = np.array(number, dtype)
        if math.prod(shape) <= _LARGEST_PLAIN_FILL:
            return self.constant(np.full(shape, element))
        work = working_dtype("ConstantOfShape", dtype)
        tensor = numpy_helper.from_array(element.astype(work).reshape(1), "value")
        made = self.node("ConstantOfShape", [self.integers(shape, "shape")], shape, work,
                         value=tensor)  # fmt: skip
        return self.cast(made, dtype)

    # --- data movement --------------------------------------------------------------------------

    def cast(self, x: Value, dtype: str) -> Value:
        if x.dtype == dtype:
            return x
        return self.node("Cast", [x], x.shape, dtype, to=element_type(dtype))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if 0 in shape:
            # To Reshape a length of 0 means another thing.
            return self.constant(np.empty(shape, x.dtype), "empty")
        operator, origin, _ = self._origins.get(x.name, ("", x, ()))
        if operator == "Reshape":
            return self.reshape(origin, shape)
        return self._move("Reshape", x, shape, shape)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        if list(permutation) == list(range(x.rank)):
            return x
        operator, origin, before = self._origins.get(x.name, ("", x, ()))
        if operator == "Transpose":
            return self.transpose(origin, [before[axis] for axis in permutation])
        shape = tuple(x.shape[axis] for axis in permutation)
        return self._move("Transpose", x, tuple(permutation), shape)

    def _move(self, operator: str, x: Value, how: Shape, shape: Shape) -> Value:
        """A Reshape or Transpose, once."""
        key = (operator, x.name, how)
        if key not in self._moved:
            if operator == "Reshape":
                made = self.node(operator, [x, self.integers(how, "shape")], shape, x.dtype)
            else:
                made = self.node(operator, [x], shape, x.dtype, perm=list(how))
            self._moved[key] = made
            self._origins[made.name] = (operator, x, how)
        return self._moved[key]

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        if x.shape == tuple(shape):
            return x
        work = working_dtype("Expand", x.dtype)
        sizes = self.integers(shape, "shape")
        return self.cast(self.node("Expand", [self.cast(x, work), sizes], shape, work), x.dtype)

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.node("Concat", parts, shape, parts[0].dtype, axis=axis)

    def stack(self, parts: Sequence[Value], axis: int) -> Value:
        """Equal shapes side by side along a new axis."""
        shape = parts[0].shape
        tall = (*shape[:axis], 1, *shape[axis:])
        return self.concat([self.reshape(part, tall) for part in parts], axis)

    def slice(self, x: Value, axis: int, low: int, high: int, step: int = 1) -> Value:
        if (low, high, step) == (0, x.shape[axis], 1):
            return x
        shape = list(x.shape)
        shape[axis] = -(-(high - low) // step)
        bounds = [self.integers([number], "slice") for number in (low, high, axis, step)]
        return self.node("Slice", [x, *bounds], shape, x.dtype)

    def flip(self, x: Value, axes: Sequence[int]) -> Value:
        """``numpy.flip``."""
        axes = [axis for axis in axes if x.shape[axis] > 1]
        if not axes:
            return x
        last, end, step = ([number] * len(axes) for number in (-1, _BEFORE_ALL, -1))
        bounds = [self.integers(each, "flip") for each in (last, end, axes, step)]
        return self.node("Slice", [x, *bounds], x.shape, x.dtype)

    def gather(self, x: Value, indices: Value, axis: int) -> Value:
        """``numpy.take``."""
        if indices.dtype not in ("int32", "int64"):
            indices = self.cast(indices, "int64")
        shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
        return self.node("Gather", [x, indices], shape, x.dtype, axis=axis)

    def pad(self, x: Value, before: Sequence[int], after: Sequence[int], number: float) -> Value:
        """``numpy.pad`` by one number along all axes; one pad around another is one."""
        padding = self.padded.get(x.name)
        if padding is not None and _same_number(padding.number, number):
            x = padding.of
            before = [a + b for a, b in zip(padding.before, before, strict=True)]
            after = [a + b for a, b in zip(padding.after, after, strict=True)]
        if not any(before) and not any(after):
            return x
        work = working_dtype("Pad", x.dtype)
        # Of all axes: onnxruntime's transpose optimizer forgets Pad's operand that names some.
        widths = self.integers([*before, *after], "pads")
        shape = [sum(each) for each in zip(before, x.shape, after, strict=True)]
        # The filling may be -0.0 or NaN, so it too goes through the operand's dtype.
        filling = self.constant(np.array(number, x.dtype).astype(work), "filling")
        done = self.node("Pad", [self.cast(x, work), widths, filling], shape, work)
        done = self.cast(done, x.dtype)
        self.padded[done.name] = Padding(x, tuple(before), tuple(after), number)
        return done

    # --- computation ----------------------------------------------------------------------------

    def apply(
        self, operator: str, *operands: Value | float, result: str | None = None, **attributes: Any
    ) -> Value:
        """An elementwise operator with NumPy broadcasting.

        Numbers take the dtype of the first value. Where onnxruntime has no kernel for it the
        operands are cast, and the result is cast back unless ``result`` names its dtype.
        """
        dtype = next(v.dtype for v in operands if isinstance(v, Value))
        work = working_dtype(operator, dtype)
        values = [
            self.cast(v, work) if isinstance(v, Value) else self.scalar(v, work) for v in operands
        ]
        shape = broadcast_shapes(*(v.shape for v in values))
        done = self.node(operator, values, shape, result or work, **attributes)
        return done if result else self.cast(done, dtype)

    def where(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        """Elements of ``a`` where ``condition`` holds, else of ``b``; one of them is a value."""
        dtype = next(v.dtype for v in (a, b) if isinstance(v, Value))
        work = working_dtype("Where", dtype)
        a, b = (
            self.cast(v, work) if isinstance(v, Value) else self.scalar(v, work) for v in (a, b)
        )
        shape = broadcast_shapes(condition.shape, a.shape, b.shape)
        return self.cast(self.node("Where", [condition, a, b], shape, work), dtype)

    def reduce(self, operator: str, x: Value, split: int) -> Value:
        """A reduction over the axes from ``split`` on."""
        work = working_dtype(operator, x.dtype)
        axes = [*range(split, x.rank)]
        given = [self.cast(x, work)]
        attributes: dict[str, Any] = {"keepdims": 0}
        if self.opset < _AXES_ARE_OPERANDS and operator != "ReduceSum":
            attributes["axes"] = axes
        else:
            given.append(self.integers(axes, "axes"))
        done = self.node(operator, given, x.shape[:split], work, **attributes)
        return self.cast(done, x.dtype)

    def gemm(self, a: Value, b: Value) -> Value:
        """``a @ b.T`` of matrices; b is read where it lies, transposed or not."""
        shape = (a.shape[0], b.shape[0])
        operator, origin, _ = self._origins.get(b.name, ("", b, ()))
        if operator == "Transpose":
            return self.node("Gemm", [a, origin], shape, a.dtype)
        return self.node("Gemm", [a, b], shape, a.dtype, transB=1)

    def matmul(self, a: Value, b: Value, shape: Sequence[int]) -> Value:
        """``numpy.matmul``; integers wrap around."""
        work = working_dtype("MatMul", a.dtype)
        done = self.node("MatMul", [self.cast(a, work), self.cast(b, work)], shape, work)
        return self.cast(done, a.dtype)


def _same_number(a: float, b: float) -> bool:
    """Whether two fillings are one, -0.0 and 0.0 told apart."""
    return repr(float(a)) == repr(float(b))


def element_type(dtype: str) -> int:
    """ONNX's number for a dtype."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
