"""Streamed products of halves on matrix units: mappings to warps, and the CUDA text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits
from glenside.codegen.gpu.streamed.problem import StreamedProblem, problem_of
from glenside.codegen.gpu.tensor.kernel import (
    KINDS,
    enumerated,
    in_namespace,
    indented,
    kernel_head,
    primitives,
)
from glenside.codegen.gpu.tensor.printer import (
    Unprintable,
    print_expression,
    print_position,
)
from glenside.codegen.kernel.builder import Argument, KernelBuilder
from glenside.codegen.loops import unflatten
from glenside.codegen.program.record import Kernel, Streamed
from glenside.codegen.text.dialects import AFTER_EARLIER, CUDA
from glenside.codegen.views import View
from glenside.language.shape import HALVES
from glenside.language.term import Term

_TYPES = {
    "float16": "half",
    "bfloat16": "__nv_bfloat16",
    "uint16": "__nv_bfloat16",
    "float32": "float",
    "uint8": "unsigned char",
}
"""By the dtype of a value or of its buffer; bools lie in bytes."""
_UNIT = 8
"""Halves of 16 bytes."""
_DEEPEST = 256
"""Elements along the first product, or of a row of the result, that registers hold."""


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


@dataclass(frozen=True)
class WarpStreamMapping:
    """``row_warps`` warps of 16 rows, ``parts`` times, each going through its blocks of ``block``
    columns; of as many blocks ``stages`` are in local memory."""

    row_warps: int
    parts: int
    block: int
    stages: int
    predicted: float = 0.0
    """Seconds, by the model."""

    @property
    def rows(self) -> int:
        return 16 * self.row_warps

    @property
    def threads(self) -> int:
        return 32 * self.row_warps * self.parts

    def local_bytes(self, problem: StreamedProblem) -> int:
        """Bytes that a group has in local memory."""
        deep, wide = (2 * (_up(n, 16) + _UNIT) for n in (problem.depth, problem.width))
        staged = self.stages * self.parts * self.block * (deep + wide)
        joined = (self.parts - 1) * self.row_warps * 32 * 4 * (_up(problem.width, 16) // 2 + 4)
        return max(self.rows * deep + staged, joined)

    def registers(self, problem: StreamedProblem) -> int:
        """32-bit registers of a thread."""
        return (self.block + _up(problem.width, 16) + _up(problem.depth, 16) // 2) // 2 + 64


def mappings(problem: StreamedProblem, limits: DeviceLimits) -> Iterator[WarpStreamMapping]:
    """All mappings that the device allows; none where its units or the dtype are others."""
    if problem.dtype not in HALVES or not limits.has_matrix_units:
        return
    if max(problem.depth, problem.width) > _DEEPEST or problem.batches > limits.grid_size[1]:
        return
    for row_warps, parts, block in itertools.product((1, 2, 4, 8), (1, 2, 4), (32, 64, 128)):
        steps = -(-problem.columns // (parts * block))
        mapping = WarpStreamMapping(row_warps, parts, block, 2 if steps > 1 else 1)
        if (
            mapping.threads <= limits.threads_per_group
            and mapping.local_bytes(problem) <= limits.local_bytes
            and mapping.registers(problem)
            <= min(limits.thread_registers, limits.unit_registers // mapping.threads)
            and (parts - 1) * block < problem.columns
        ):
            yield mapping


class WarpStreamNest(ElementNest):
    """The kernel of one product by one mapping to warps."""

    def __init__(
        self,
        builder: KernelBuilder,
        step: Kernel,
        limits: DeviceLimits,
        streamed: Streamed,
        mapping: WarpStreamMapping,
    ) -> None:
        super().__init__(builder, step, limits)
        self.streamed, self.mapping = streamed, mapping
        self.problem = problem_of(streamed)
        self._score: Any = None
        self.lowering.give(streamed.scores, lambda index: self._score)
        if self.tail.dtype not in _TYPES or not self.lowering.only_floats(self.tail):
            raise Unprintable("results that are no floats of these widths")

    def device_kernel(self, name: str) -> DeviceKernel:
        """The launch.

        :raises Unprintable: a part of what is computed has no form in the template.
        """
        from tvm import tirx

        problem, mapping = self.problem, self.mapping
        self.batch = tirx.Var("batch", "int32")
        self.row, self.column = tirx.Var("row", "int32"), tirx.Var("column", "int32")
        self.names = {each: str(each.name) for each in (self.batch, self.row, self.column)}
        functions = [self._rows(), self._columns(), self._values(), self._scores(), self._store()]
        functions.append(self._unit())
        if any(str(each.dtype) not in _TYPES for each in self.parameters):
            raise Unprintable("operands that are no floats of these widths")
        kinds = [_TYPES[str(each.dtype)] for each in self.parameters]
        declared = [f"const {kind}* in{k}" for k, kind in enumerate(kinds)]
        declared.append(f"{_TYPES[self.tail.dtype]}* {CUDA.restrict}out")
        members = "".join(f"    const {kind}* in{k};\n" for k, kind in enumerate(kinds))
        members += f"    {_TYPES[self.tail.dtype]}* out;\n    int batch;\n"
        given = ", ".join([*(f"in{k}" for k in range(len(kinds))), "out", "(int)blockIdx.y"])
        deep, wide = _up(problem.depth, 16), _up(problem.width, 16)
        constants = {
            "ROW_WARPS": mapping.row_warps,
            "PARTS": mapping.parts,
            "THREADS": mapping.threads,
            "BLOCK": mapping.block,
            "STAGES": mapping.stages,
            "ROWS": problem.rows,
            "COLUMNS": problem.columns,
            "ENDS": problem.width,
            "DEPTH": deep,
            "WIDTH": wide,
            "DEPTH_PITCH": 2 * (deep + _UNIT),
            "WIDTH_PITCH": 2 * (wide + _UNIT),
        }
        source = (
            f"{kernel_head(declared, mapping.threads)}  {AFTER_EARLIER}();\n"
            f"  using namespace glenside;\n  struct Shape {{\n{enumerated(constants)}{members}"
            f"{''.join(functions)}  }};\n  Shape shape{{{given}}};\n"
            f"  GLENSIDE_LOCAL(local);\n  streamed_product(shape, local);\n}}\n"
        )
        text = (files(__package__) / "streamed_product.cuh").read_text(encoding="utf-8")
        target = Argument(self.target.buffer, self.target.base, self.target.extent)
        return DeviceKernel(
            name,
            [*self.arguments, target],
            (-(-problem.rows // mapping.rows), problem.batches, 1),
            (mapping.threads, 1, 1),
            source=source,
            library=(primitives("common"), primitives("warps"), in_namespace(text)),
            local_bytes=mapping.local_bytes(problem),
            writes=self.tail,
            predicted=mapping.predicted or None,
        )

    def _pointer(self, buffer: Any) -> str:
        for number, parameter in enumerate(self.parameters):
            if parameter.same_as(buffer):
                return f"in{number}"
        raise AssertionError(buffer)

    # --- what is brought --------------------------------------------------------------------------

    def _rows(self) -> str:
        own = self.streamed.scores.children[0]
        (a, _), shared = own.children, own["batch"]
        heads = self.problem.batches // self.problem.groups
        place = self.row + self._head(heads) * self.problem.rows if heads > 1 else self.row
        index = [
            *unflatten(self._group(heads), a.outer[:shared]),
            *unflatten(place, a.outer[shared:]),
        ]
        return self._bring(
            "bring_row", "row", self.problem.rows, self.problem.depth, a,
            lambda d: [*index, *unflatten(d, a.item)],
            range(len(a.outer), a.type.rank),
        )  # fmt: skip

    def _columns(self) -> str:
        own = self.streamed.scores.children[0]
        (_, b), shared = own.children, own["batch"]
        group = self._group(self.problem.batches // self.problem.groups)
        index = [*unflatten(group, b.outer[:shared]), *unflatten(self.column, b.outer[shared:])]
        return self._bring(
            "bring_column", "column", self.problem.columns, self.problem.depth, b,
            lambda d: [*index, *unflatten(d, b.item)],
            range(len(b.outer), b.type.rank),
        )  # fmt: skip

    def _values(self) -> str:
        pairs = self.streamed.product.children[0]
        (first, second), shared = pairs.children, pairs["batch"]
        index = unflatten(self.batch, first.outer[:shared])
        return self._bring(
            "bring_value", "column", self.problem.columns, self.problem.width, second,
            lambda e: [*index, *unflatten(e, second.outer[shared:]), self.column],
            range(shared, len(second.outer)),
        )  # fmt: skip

    def _group(self, heads: int) -> Any:
        """Which batch of the first product a batch belongs to."""
        return self.batch // heads if heads > 1 else self.batch

    def _head(self, heads: int) -> Any:
        return self.batch % heads

    def _bring(
        self,
        name: str,
        position: str,
        count: int,
        length: int,
        term: Term,
        index: Any,
        along: Sequence[int],
    ) -> str:
        """A function that brings 16 bytes of an operand's row to local memory, zeros beyond."""
        from tvm import tirx

        access = self.lowering.access(term)
        head = (
            f"__device__ __forceinline__ void {name}(unsigned char* target, int {position}, "
            f"int unit) const {{\n  const bool there = {position} < {count};\n"
        )
        if access.view is not None and _wide(access.view, along, length):
            first = tirx.const(0, "int32")
            place = access.view.address(index(first))
            place = tirx.const(place, "int32") if isinstance(place, int) else place
            at = print_position(place, self.names, self._pointer)
            whole = "there" if length % 16 == 0 else f"there && unit < {length // _UNIT}"
            pointer = self._pointer(access.buffer)
            return indented([
                head,
                f"  const bool inside = {whole};\n"
                f"  copy(target, {pointer} + (inside ? ({at.text}) + unit * {_UNIT} : 0), "
                "inside);\n}\n",
            ])  # fmt: skip
        depth = tirx.Var("depth", "int32")
        value = self.lowering.scoped(lambda: self.lowering.access(term).load(index(depth)))
        made = print_expression(
            scalars.convert(value, term.dtype, "float32"),
            {**self.names, depth: "depth"},
            self._pointer,
        )
        before = "".join(f"      {line}\n" for line in made.before)
        return indented([
            head,
            f"  alignas(16) {_TYPES[self.problem.dtype]} values[{_UNIT}];\n#pragma unroll\n"
            f"  for (int k = 0; k < {_UNIT}; ++k) {{\n"
            f"    const int depth = unit * {_UNIT} + k;\n    float value = 0;\n"
            f"    if (there && depth < {length}) {{\n{before}      value = {made.text};\n    }}\n"
            "    assign(values[k], value);\n  }\n  *(uint4*)target = packed(values);\n}\n",
        ])  # fmt: skip

    # --- what is computed -------------------------------------------------------------------------

    def _scores(self) -> str:
        from tvm import tirx

        (x,) = self.streamed.softmax.children
        scores = self.streamed.scores
        total = tirx.Var("total", "float32")
        self._score = scalars.convert(total, "float32", scores.dtype)
        index = [*unflatten(self.batch * self.problem.rows + self.row, x.outer), self.column]

        def load() -> Any:
            return scalars.convert(self.lowering.access(x).load(index), x.dtype, "float32")

        names = {**self.names, total: "total"}
        made = print_expression(self.lowering.scoped(load), names, self._pointer, rounds=False)
        before = "".join(f"  {line}\n" for line in made.before)
        return indented([
            "__device__ __forceinline__ float score(int row, int column, float total) const {\n"
            f"{before}  return {made.text};\n}}\n"
        ])  # fmt: skip

    def _store(self) -> str:
        from tvm import tirx

        pairs = self.streamed.product.children[0]
        (first, second), shared = pairs.children, pairs["batch"]
        total = tirx.Var("total", "float32")
        self.give(scalars.convert(total, "float32", self.streamed.product.dtype))
        index = [
            *unflatten(self.batch, first.outer[:shared]),
            *unflatten(self.row, first.outer[shared:]),
            *unflatten(self.column, second.outer[shared:]),
        ]
        place = self.tail_index(index)
        view = self.by_space or self.target.view
        address = view.address(index if self.by_space is not None else place)
        address = tirx.const(address, "int32") if isinstance(address, int) else address

        def load() -> Any:
            value = self.lowering.access(self.tail).load(place)
            return scalars.convert(value, self.tail.dtype, "float32")

        names = {**self.names, total: "total"}
        value = print_expression(self.lowering.scoped(load), names, self._pointer)
        at = print_position(address, names, self._pointer)
        before = "".join(f"  {line}\n" for line in value.before)
        return indented([
            "__device__ __forceinline__ void store(int row, int column, float total) const {\n"
            f"{before}  assign(out[{at.text}], {value.text});\n}}\n"
        ])  # fmt: skip

    def _unit(self) -> str:
        dtype = self.problem.dtype
        return indented([
            "static __device__ __forceinline__ void multiply(float (&sums)[4],\n"
            "    const unsigned (&rows)[4], unsigned first, unsigned second) {\n"
            f"  warp_multiply_{KINDS[dtype][0]}(sums, rows, first, second);\n}}\n"
            "static __device__ __forceinline__ unsigned two(float low, float high) {\n"
            f"  return two_{KINDS[dtype][0]}(low, high);\n}}\n"
        ])  # fmt: skip


def _wide(view: View, along: Sequence[int], length: int) -> bool:
    """Whether neighbours along these axes lie side by side, and all runs of them at multiples of
    16 bytes."""
    atoms = [atom for axis in along for atom in view.axes[axis] if atom[0] > 1]
    others = [
        stride
        for axis, of in enumerate(view.axes)
        if axis not in along
        for size, stride in of
        if size > 1
    ]
    return (
        len(atoms) == 1
        and atoms[0] == (length, 1)
        and length % _UNIT == 0
        and not any(view.margins)
        and all(stride % _UNIT == 0 for stride in (*others, view.offset))
    )
