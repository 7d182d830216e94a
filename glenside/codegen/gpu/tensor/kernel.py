"""The CUDA text of a product on matrix units: the template, and what it is told of the product."""

from __future__ import annotations

import functools
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence, Set
from importlib.resources import files
from typing import Any

import numpy as np

from glenside.codegen import scalars
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.interface import NAME, DeviceKernel, DeviceLimits
from glenside.codegen.gpu.space import Memory, Operand, ProductSpace
from glenside.codegen.gpu.tensor.geometry import Geometry, geometry_of
from glenside.codegen.gpu.tensor.mapping import UnitMapping
from glenside.codegen.gpu.tensor.printer import (
    Unprintable,
    Value,
    linear,
    print_expression,
    print_position,
)
from glenside.codegen.gpu.tensor.tiling import UnitTiling
from glenside.codegen.kernel.builder import Argument, KernelBuilder
from glenside.codegen.program.record import Kernel
from glenside.codegen.storage import Origin, repeated
from glenside.codegen.text.dialects import AFTER_EARLIER, CUDA

Array = np.ndarray[Any, Any]
_TYPES = {
    "float16": "half",
    "bfloat16": "__nv_bfloat16",
    "uint16": "__nv_bfloat16",
    "float32": "float",
}
"""By the dtype of a value or of its buffer. Of the buffers that the template reads only those of
bfloat16 have 16 bits and no sign: the printer refuses the others."""
KINDS = {"float16": ("half", "f16"), "bfloat16": ("bfloat", "bf16"), "float32": ("tf32", "tf32")}
"""What products of a dtype are called here, and in instructions."""
_UNROLLED = 64
"""Products of one step that are written out, at most."""


def primitives(name: str = "primitives") -> str:
    """The text of what the device does: instructions, and types.

    All others stand on ``common``. What several kernels of a program name is declared once, so each
    piece has to be named by itself.
    """
    return (files(__package__) / f"{name}.cuh").read_text(encoding="utf-8")


def template(name: str = "product") -> str:
    """The text of the product."""
    return in_namespace((files(__package__) / f"{name}.cuh").read_text(encoding="utf-8"))


def multiplication(dtype: str, columns: int) -> str:
    """The text of one product of 64 rows by ``columns``, and 32 bytes of the reduced axis."""
    count = columns // 2
    registers = ", ".join(f"%{k}" for k in range(count))
    shape = f"m64n{columns}k{32 // np.dtype(dtype).itemsize}"
    kinds = f"{KINDS[dtype][1]}.{KINDS[dtype][1]}"
    rest = ", 1, 1" if dtype == "float32" else ", 1, 1, 0, 0"
    outputs = ", ".join(f'"+f"(d[{k}])' for k in range(count))
    return in_namespace(
        f"__device__ __forceinline__ void {multiplication_name(dtype, columns)}("
        f"float (&d)[{count}], unsigned long long a, unsigned long long b, bool add) {{\n"
        f'  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 2}, 0;\\n'
        f"wgmma.mma_async.sync.aligned.{shape}.f32.{kinds} {{{registers}}}, %{count}, "
        f'%{count + 1}, p{rest};\\n}}"\n'
        f'               : {outputs}\n               : "l"(a), "l"(b), "r"((int)add));\n}}\n'
    )


def in_namespace(text: str) -> str:
    """The text among the other functions of ours."""
    return f"namespace glenside {{\n{text.rstrip()}\n}}  // namespace glenside\n"


def multiplication_name(dtype: str, columns: int) -> str:
    """What that function is called."""
    return f"multiply_{KINDS[dtype][0]}_{columns}"


def pack(array: Array, geometry: Geometry, tiling: UnitTiling) -> Array:
    """A constant resident operand as groups read it: by batch, group of rows and step one run, in
    it taps, units of 16 bytes, and rows."""
    space, mapping = geometry.space, tiling.mapping
    sides = [k for k, axis in enumerate(space.axes) if axis.role != "n"]
    whole = array.reshape([space.axes[k].size for k in sides])
    inner = geometry.inner_axes(mapping.gathered)
    outer = [] if mapping.gathered else geometry.outer
    taps = [] if mapping.gathered else geometry.windows
    kept = [*geometry.batch, *geometry.rows.axes, *outer, *taps, *inner]
    order = [sides.index(k) for k in kept]
    order += [k for k in range(len(sides)) if k not in order]  # Of one step.
    rows, unit = geometry.rows.size, geometry.unit
    padded = (tiling.row_groups * mapping.rows - rows, tiling.chunks * mapping.chunk - tiling.inner)
    flat = whole.transpose(order).reshape(
        tiling.batches, rows, geometry.outer_size(mapping.gathered), tiling.taps, tiling.inner
    )
    flat = np.pad(flat, [(0, 0), (0, padded[0]), (0, 0), (0, 0), (0, padded[1])])
    cut = flat.reshape(
        tiling.batches, tiling.row_groups, mapping.rows, -1, tiling.taps, tiling.chunks,
        tiling.units, unit,
    )  # fmt: skip
    packed = np.ascontiguousarray(cut.transpose(0, 1, 3, 5, 4, 6, 2, 7)).reshape(-1)
    return round_to_tf32(packed) if packed.dtype == np.float32 else packed


def round_to_tf32(array: Array) -> Array:
    """The nearest numbers of 10 bits of mantissa, which the matrix units would otherwise cut to."""
    bits = array.view(np.uint32)
    finite = (bits & 0x7F800000) != 0x7F800000
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(finite, rounded, bits).astype(np.uint32).view(np.float32)


class UnitNest[T: UnitTiling](ElementNest):
    """The kernels of one product by one mapping to matrix units."""

    tiling: T

    def __init__(
        self,
        builder: KernelBuilder,
        step: Kernel,
        limits: DeviceLimits,
        space: ProductSpace,
        mapping: UnitMapping,
    ) -> None:
        super().__init__(builder, step, limits)
        assert step.anchor is not None
        self.anchor = step.anchor
        self.product = space
        geometry = geometry_of(space, limits)
        if geometry is None:
            raise Unprintable("not a product for matrix units")
        if self.tail.dtype not in _TYPES or not self.lowering.only_floats(self.tail):
            raise Unprintable("results that are no floats of these widths")
        self.geometry, self.mapping = geometry, mapping
        self.predicted = mapping.predicted or None
        self.dtype = space.streamed.dtype
        self.tiling = self._tiling()
        self.tiling.check()

    def _tiling(self) -> T:
        raise NotImplementedError

    @property
    def rows_fast(self) -> bool:
        """Whether what is stored lies with rows innermost."""
        return self.geometry.rows_fast

    # --- the launch -------------------------------------------------------------------------------

    def device_kernel(self, name: str) -> DeviceKernel:
        """The launch of the product itself.

        :raises Unprintable: a part of what is computed has no form in the template.
        """
        raise NotImplementedError

    def _launched(
        self,
        name: str,
        source: str,
        arguments: list[Argument],
        library: tuple[str, ...],
        **more: Any,
    ) -> DeviceKernel:
        """The launch of a text that builds upon these; ``more`` as :class:`DeviceKernel` has it."""
        tiling = self.tiling
        more.setdefault("local_bytes", tiling.local_bytes(self.rows_fast))
        more.setdefault("writes", self.tail)
        return DeviceKernel(
            name,
            arguments,
            tiling.grid,
            (tiling.threads, 1, 1),
            source=source,
            library=library,
            predicted=self.predicted,
            **more,
        )

    def kernels(self, name: str) -> list[DeviceKernel]:
        """The launches, in order; raises as :meth:`device_kernel`."""
        return [self.device_kernel(name)]

    def _entry(self) -> tuple[list[str], str, list[Argument]]:
        """An entry point's parameters, the text that makes the description, its arguments.

        :raises Unprintable: a part of what is computed has no form in the template.
        """
        head, functions = self._shape()
        if any(str(each.dtype) not in _TYPES for each in self.parameters):
            raise Unprintable("operands that are no floats of these widths")
        kinds = [_TYPES[str(each.dtype)] for each in self.parameters]
        declared = [f"const {kind}* in{k}" for k, kind in enumerate(kinds)]
        dtype, target = self._target()
        declared.append(f"{_TYPES[dtype]}* {CUDA.restrict}out")
        members = "".join(f"    const {kind}* in{k};\n" for k, kind in enumerate(kinds))
        members += f"    {_TYPES[dtype]}* out;\n"
        names = [*(f"in{k}" for k in range(len(kinds))), "out"]
        body = (
            f"  {AFTER_EARLIER}();\n"
            f"  using namespace glenside;\n"
            f"  struct Shape {{\n{head}{members}{functions}  }};\n"
            f"  Shape shape{{{', '.join(names)}}};\n"
        )
        return declared, body, [*self.arguments, target]

    def _target(self) -> tuple[str, Argument]:
        """The dtype of what is stored, and where."""
        return self.tail.dtype, Argument(self.target.buffer, self.target.base, self.target.extent)

    @property
    def width(self) -> int:
        """Results that are stored together."""
        return 16 // np.dtype(self.tail.dtype).itemsize if self.rows_fast else 1

    @functools.cached_property
    def wide(self) -> bool:
        """Whether they are neighbours at a multiple of 16 bytes, and all there or none."""
        steps, rows = self.product.out_steps, self.geometry.rows.axes
        if not self.rows_fast or steps is None or self.by_space is None or not rows:
            return False
        expected = 1
        for k in reversed(rows):
            if steps[k] != expected:
                return False
            expected *= self.geometry.size(k)
        others = [
            steps[k]
            for k, axis in enumerate(self.product.axes)
            if axis.role in ("batch", "n") and axis.size > 1
        ]
        whole = [self.geometry.rows.size, self.by_space.offset, *others]
        return all(each % self.width == 0 for each in whole)

    # --- the description --------------------------------------------------------------------------

    def _shape(self) -> tuple[str, str]:
        """The constants and the members of the description."""
        packed, gathered = self.product.resident.constant, self.mapping.gathered
        direct = self.geometry.direct(gathered)
        rows_direct = not packed and self.geometry.direct(gathered, resident=True)
        head = enumerated(self._constants())
        self._index_names()
        parts = [self._start(), self._multiply(), self._tap(), self._column(), self._present()]
        parts.append(self._reduces())
        if direct:
            parts += [self._offset(), self._walk()]
        else:
            parts += [self._element(self.product.streamed, "element"), self._unit()]
        if not packed and rows_direct:
            parts += [self._row_offset(), self._row_walk()]
        elif not packed:
            parts += [self._element(self.product.resident, "row_element"), self._row_unit()]
        parts.append(self._store())
        if packed:  # Last, so that nothing is packed in vain.
            parts.append(self._part())
        return head, "".join(parts)

    def _constants(self) -> dict[str, int]:
        """The numbers that the template asks for."""
        tiling, mapping, geometry = self.tiling, self.mapping, self.geometry
        packed = self.product.resident.constant
        gathered = mapping.gathered
        direct = geometry.direct(gathered)
        rows_direct = not packed and geometry.direct(gathered, resident=True)
        per_tap = tiling.units // 2 * tiling.fragments
        return {
            "THREADS": tiling.threads,
            "ROW_GROUPS": mapping.groups[0],
            "FRAGMENTS": tiling.fragments,
            "ROWS": mapping.rows,
            "COLUMNS_EACH": tiling.columns_each,
            "PLACES": math.prod(mapping.tile),
            "STEPS": tiling.steps,
            "SHARE": tiling.share,
            "SPLIT": mapping.split,
            "STAGES": mapping.stages,
            "AHEAD": tiling.ahead,
            "KEPT": mapping.kept,
            "TAPS": tiling.taps,
            "UNROLLED": max(1, min(tiling.taps, _UNROLLED // per_tap)),
            "UNIT": geometry.unit,
            "UNITS": tiling.units,
            "POSITIONS": tiling.box.positions,
            "PLANE": tiling.plane,
            "LEAD": tiling.lead,
            "BOX_BYTES": tiling.box_bytes,
            "ROWS_BYTES": tiling.rows_bytes,
            "STAGE_BYTES": tiling.stage_bytes,
            "ARRIVALS": tiling.arrivals(self.rows_fast),
            "DIRECT": int(direct),
            "PACKED": int(packed),
            "ROWS_DIRECT": int(rows_direct),
            "TURNS": tiling.turns,
            "ROW_TURNS": tiling.row_turns,
            "ROWS_FAST": int(self.rows_fast),
            "WIDTH": self.width,
            "PITCH": tiling.pitch(self.rows_fast),
            "ITEMS": math.prod(mapping.tile) * mapping.rows // self.width,
        }

    def _index_names(self) -> None:
        """What the loops' positions are called."""
        geometry = self.geometry
        self.starts = [f"start{n}" for n in range(len(geometry.loops))]
        self.batch_names = {k: f"batch{k}" for k in geometry.batch}

    def _start(self) -> str:
        tiling, geometry = self.tiling, self.geometry
        members = [*self.starts, "row_start", *self.batch_names.values()]
        lines = [f"int {', '.join(members)};\n"]
        if self.product.resident.constant:
            lines.append("long long group;\n")
        lines.append("__device__ __forceinline__ void start() {\n")
        groups = tiling.loop_groups
        for n, digit in enumerate(digits("(int)blockIdx.x", groups)):
            lines.append(f"  start{n} = {times(digit, self.mapping.tile[n])};\n")
        sizes = [*(geometry.size(k) for k in geometry.batch), tiling.row_groups]
        found = digits("(int)blockIdx.y", sizes)
        for name, digit in zip(self.batch_names.values(), found, strict=False):
            lines.append(f"  {name} = {digit};\n")
        lines.append(f"  row_start = {times(found[-1], self.mapping.rows)};\n")
        if self.product.resident.constant:
            lines.append("  group = blockIdx.y;\n")
        lines.append("}\n")
        return indented(lines)

    def _multiply(self) -> str:
        count = self.tiling.columns_each // 2
        name = multiplication_name(self.dtype, self.tiling.columns_each)
        return indented([
            "static __device__ __forceinline__ void multiply(\n"
            f"    float (&sums)[{count}], unsigned long long rows, unsigned long long columns,\n"
            f"    bool add) {{\n  {name}(sums, rows, columns, add);\n}}\n"
        ])  # fmt: skip

    def _tap(self) -> str:
        """A tap's place: a sum over its digits, since places along sides are independent."""
        tiling, geometry = self.tiling, self.geometry
        if tiling.taps == 1:
            body = "0"
        else:
            sizes = [geometry.size(w) for w in geometry.windows]
            terms = []
            for k, digit in enumerate(digits("tap", sizes)):
                if sizes[k] == 1:
                    continue
                values = []
                for i in range(sizes[k]):
                    index = [0] * len(sizes)
                    index[k] = i
                    values.append(geometry.tap_place(tiling.box, index))
                terms.append(_chosen(digit, values))
            body = " + ".join(terms)
            if not _independent(tiling, sizes):
                body = _chosen("tap", tiling.tap_places)
        return indented([
            f"static __device__ __forceinline__ constexpr int tap(int tap) {{ return {body}; }}\n"
        ])  # fmt: skip

    def _column(self) -> str:
        box = self.tiling.box
        found = digits("place", self.mapping.tile)
        terms = [
            times(digit, box.step(n)) for n, digit in enumerate(found) if self.mapping.tile[n] > 1
        ]
        return indented([
            "static __device__ __forceinline__ int column(int place) "
            f"{{ return {' + '.join(terms) or '0'}; }}\n"
        ])  # fmt: skip

    def _present(self) -> str:
        tiling, geometry = self.tiling, self.geometry
        tests = []
        if tiling.row_groups * self.mapping.rows != geometry.rows.size:
            tests.append(f"row_start + row < {geometry.rows.size}")
        for n, digit in enumerate(digits("place", self.mapping.tile)):
            if tiling.loop_groups[n] * self.mapping.tile[n] != geometry.loops[n].size:
                tests.append(f"start{n} + {digit} < {geometry.loops[n].size}")
        return indented([
            "__device__ __forceinline__ bool present(int row, int place) const "
            f"{{ return {' && '.join(tests) or 'true'}; }}\n"
        ])  # fmt: skip

    def _part(self) -> str:
        size = self.builder.memory.buffers[self._pack()].size
        number = self._parameter(Argument(self._pack(), 0, size), size, self.dtype)
        return indented([
            "__device__ __forceinline__ const unsigned char* part(int step) const {\n"
            f"  return (const unsigned char*)in{number} + "
            f"(group * {self.tiling.steps} + step) * {self.tiling.rows_bytes};\n}}\n"
        ])  # fmt: skip

    def _parameter(self, argument: Argument, size: int, dtype: str) -> int:
        from glenside.codegen.loops import declare

        self.parameters.append(declare(f"in{len(self.parameters)}", size, dtype))
        self.arguments.append(argument)
        return len(self.parameters) - 1

    def _pack(self) -> int:
        """The buffer with the packed constant operand."""
        array = self.builder.cut.weights[self.product.resident.base]
        mapping = self.mapping
        key = (id(array), "tensor", mapping.rows, mapping.chunk, mapping.gathered,
               self.product.key())  # fmt: skip
        way = functools.partial(pack, geometry=self.geometry, tiling=self.tiling)
        rounded = self.dtype == "float32"
        origin = Origin(self.product.resident.base, repeated(array), way, rounded)
        return self.builder.packed(key, self.dtype, lambda: (way(array), origin))

    def _reduces(self) -> str:
        """Whether a unit of a step is not beyond the inner loop's end."""
        tiling = self.tiling
        test = "true"
        if tiling.chunks * self.mapping.chunk != tiling.inner:
            first = times(digits("step", [tiling.steps // tiling.chunks, tiling.chunks])[1],
                           self.mapping.chunk)  # fmt: skip
            test = f"{first} + unit * {self.geometry.unit} < {tiling.inner}"
        return indented([
            "static __device__ __forceinline__ bool reduces(int step, int unit) "
            f"{{ return {test}; }}\n"
        ])  # fmt: skip

    # --- the streamed operand ---------------------------------------------------------------------

    def _decoded(self) -> list[str]:
        """Statements that find the place of a position along each side."""
        box = self.tiling.box
        extents = [side.pitch for side in box.sides]
        phases = box.phases
        many = math.prod(phases) > 1
        lines = []
        rest = f"position % {box.phase}" if many else "position"
        for k, digit in enumerate(digits(f"({rest})" if many else rest, extents)):
            lines.append(f"const int e{k} = {digit};")
        if many:
            for k, digit in enumerate(digits(f"(position / {box.phase})", phases)):
                if phases[k] > 1:
                    lines.append(f"const int r{k} = {_chosen(digit, box.sides[k].residues)};")
        return lines

    def _coordinates(self) -> tuple[dict[int, str], dict[int, tuple[int, int]], list[str], str]:
        """Of a position, without the reduced loops: coordinates along the streamed operand's
        dimensions, their bounds, tests that the loops' ends ask for, and the element's place."""
        geometry, tiling = self.geometry, self.tiling
        streamed, box = self.product.streamed, tiling.box
        texts: dict[int, list[str]] = {d: [] for d in range(len(streamed.shape))}
        high = {d: streamed.start[d] for d in texts}
        place: list[str] = []
        tests: list[str] = []
        for k, name in self.batch_names.items():
            for d, step in enumerate(streamed.steps[k]):
                if step:
                    texts[d].append(times(name, step))
                    high[d] += step * (geometry.size(k) - 1)
            place.append(times(name, geometry.distance(k) or 0))
        for number, side in enumerate(box.sides):
            if side.dimension is None:
                ((n, _),) = side.members
                loop = geometry.loops[n]
                if not loop.axes:
                    continue
                at = f"(start{n} + e{number})"
                if tiling.loop_groups[n] * self.mapping.tile[n] != loop.size:
                    tests.append(f"{at} < {loop.size}")
                for axis, digit in zip(loop.axes, digits(at, loop.sizes), strict=True):
                    for d, step in enumerate(streamed.steps[axis]):
                        if step:
                            texts[d].append(times(digit, step))
                            high[d] += step * (geometry.size(axis) - 1)
                place.append(times(at, geometry.distance(loop.axes[-1]) or 0))
                continue
            d = side.dimension
            terms = [times(f"e{number}", side.unit)]
            if len(side.residues) > 1:
                terms.append(f"r{number}")
            elif side.residues[0]:
                terms.append(str(side.residues[0]))
            high[d] += side.unit * (side.extent - 1) + max(side.residues)
            for n, _ in side.members:
                step = streamed.steps[geometry.loops[n].axes[0]][d]
                terms.append(times(f"start{n}", step))
                high[d] += step * (tiling.loop_groups[n] - 1) * self.mapping.tile[n]
            texts[d] += terms
            if geometry.memory is not None:
                stride = geometry.memory.strides[d]
                place.append(times(f"({' + '.join(terms)})", stride))
        bounds = {d: (streamed.start[d], high[d]) for d in texts}
        whole = {
            d: " + ".join([*found, *([str(streamed.start[d])] if streamed.start[d] else [])]) or "0"
            for d, found in texts.items()
        }
        if geometry.memory is not None:
            memory = geometry.memory
            fixed = memory.offset + sum(
                stride * (start - before)
                for stride, start, before in zip(
                    memory.strides, streamed.start, memory.before, strict=True
                )
            )
            place.append(str(fixed))
        return whole, bounds, tests, " + ".join(p for p in place if p != "0") or "0"

    def _offset(self) -> str:
        memory = self.geometry.memory
        assert memory is not None
        whole, bounds, tests, place = self._coordinates()
        for d, text in whole.items():
            low, high = bounds[d]
            before, size = memory.before[d], memory.size[d]
            if low < before:
                tests.append(f"{text} >= {before}")
            if high >= before + size:
                tests.append(f"{text} < {before + size}")
        lines = ["__device__ __forceinline__ int offset(int position) const {\n"]
        lines += [f"  {line}\n" for line in self._decoded()]
        lines.append(f"  return {' && '.join(tests) or 'true'} ? {place} : -1;\n}}\n")
        number = self._stored(memory)
        lines.append(
            f"__device__ __forceinline__ const {_TYPES[self.dtype]}* streamed_base() const "
            f"{{ return in{number}; }}\n"
        )
        return indented(lines)

    def _stored(self, memory: Memory) -> int:
        """The number of the parameter that holds a memory."""
        buffer = self.lowering.access(memory.term).buffer
        return self._known(buffer)

    def _known(self, buffer: Any) -> int:
        for number, parameter in enumerate(self.parameters):
            if parameter.same_as(buffer):
                return number
        raise AssertionError(buffer)

    def _walk(self) -> str:
        return self._walked("walk", self.product.streamed)

    def _walked(self, name: str, operand: Operand) -> str:
        geometry, tiling = self.geometry, self.tiling
        gathered = self.mapping.gathered
        outer, chunk = digits("step", [tiling.steps // tiling.chunks, tiling.chunks])
        distance = geometry.distance(geometry.inner_axes(gathered)[-1], operand)
        terms = [times(chunk, self.mapping.chunk * (distance or 0))]
        if not gathered and geometry.outer:
            sizes = [geometry.size(k) for k in geometry.outer]
            for k, digit in zip(geometry.outer, digits(f"({outer})", sizes), strict=True):
                terms.append(times(digit, geometry.distance(k, operand) or 0))
        text = " + ".join(t for t in terms if t != "0") or "0"
        return indented([
            f"static __device__ __forceinline__ int {name}(int step) {{ return {text}; }}\n"
        ])  # fmt: skip

    def _element(self, operand: Operand, name: str) -> str:
        """A function of the coordinates along the base's dimensions."""
        from tvm import tirx

        variables = [tirx.Var(f"c{d}", "int32") for d in range(len(operand.shape))]
        index = [v if n > 1 else 0 for v, n in zip(variables, operand.shape, strict=True)]
        value = self.lowering.scoped(lambda: self.lowering.value(operand.base, index))
        names = {v: f"c{d}" for d, v in enumerate(variables)}
        made = print_expression(value, names, self._pointer)
        before = "".join(f"  {line}\n" for line in made.before)
        parameters = ", ".join(f"int c{d}" for d in range(len(operand.shape)))
        return indented([
            f"__device__ __forceinline__ float {name}({parameters}) const {{\n"
            f"{before}  return {made.text};\n}}\n"
        ])  # fmt: skip

    def _pointer(self, buffer: Any) -> str:
        return f"in{self._known(buffer)}"

    def _reduced_coordinates(self, operand: Operand) -> tuple[list[str], dict[int, str]]:
        """Statements that find the reduced loops' positions, and what they add to coordinates."""
        geometry, tiling, gathered = self.geometry, self.tiling, self.mapping.gathered
        outer, chunk = digits("step", [tiling.steps // tiling.chunks, tiling.chunks])
        first = times(chunk, self.mapping.chunk)
        lines = [f"const int inner = {first} + unit * {geometry.unit} + k;"]
        axes = geometry.inner_axes(gathered)
        names: dict[int, str] = {}
        for axis, digit in zip(axes, digits("inner", [geometry.size(k) for k in axes]),
                               strict=True):  # fmt: skip
            names[axis] = digit
        if not gathered:
            sizes = [geometry.size(k) for k in geometry.outer]
            for axis, digit in zip(geometry.outer, digits(f"({outer})", sizes), strict=True):
                names[axis] = digit
        added: dict[int, list[str]] = {}
        for axis, text in names.items():
            for d, step in enumerate(operand.steps[axis]):
                if step:
                    added.setdefault(d, []).append(times(text, step))
        return lines, {d: " + ".join(terms) for d, terms in added.items()}

    def _unit(self) -> str:
        whole, bounds, tests, _ = self._coordinates()
        streamed = self.product.streamed
        for d, text in whole.items():
            if bounds[d][1] >= streamed.shape[d]:
                tests.append(f"{text} < {streamed.shape[d]}")
        return self._units("unit", streamed, "element", self._decoded(), whole, tests)

    def _units(
        self,
        name: str,
        operand: Operand,
        element: str,
        decoded: Sequence[str],
        whole: dict[int, str],
        tests: Sequence[str],
    ) -> str:
        tiling = self.tiling
        found, added = self._reduced_coordinates(operand)
        lines = [f"__device__ __forceinline__ uint4 {name}(int step, int position, int unit) "
                 "const {\n"]  # fmt: skip
        lines += [f"  {line}\n" for line in decoded]
        lines += [f"  const int x{d} = {text};\n" for d, text in whole.items()]
        lines.append(f"  const bool there = {' && '.join(tests) or 'true'};\n")
        lines.append(f"  alignas(16) {_TYPES[self.dtype]} values[{self.geometry.unit}];\n")
        lines.append("#pragma unroll\n")
        lines.append(f"  for (int k = 0; k < {self.geometry.unit}; ++k) {{\n")
        lines += [f"    {line}\n" for line in found]
        arguments = [f"x{d} + {added[d]}" if d in added else f"x{d}" for d in whole]
        inside = "there"
        if tiling.chunks * self.mapping.chunk != tiling.inner:
            inside += f" && inner < {tiling.inner}"
        lines.append(
            f"    assign(values[k], {inside} ? {element}({', '.join(arguments)}) : 0.0f);\n"
        )
        lines.append("  }\n  return packed(values);\n}\n")
        return indented(lines)

    # --- a resident operand that is no constant ---------------------------------------------------

    def _row_coordinates(self) -> tuple[dict[int, str], list[str], str]:
        geometry, resident = self.geometry, self.product.resident
        rows, at = geometry.rows, "(row_start + position)"
        texts: dict[int, list[str]] = {d: [] for d in range(len(resident.shape))}
        place = []
        for k, name in [
            *self.batch_names.items(),
            *zip(rows.axes, digits(at, rows.sizes), strict=True),
        ]:
            for d, step in enumerate(resident.steps[k]):
                if step:
                    texts[d].append(times(name, step))
            place.append(times(name, geometry.distance(k, resident) or 0))
        whole = {
            d: " + ".join([*found, *([str(resident.start[d])] if resident.start[d] else [])]) or "0"
            for d, found in texts.items()
        }
        memory = geometry.rows_memory
        if memory is not None:
            fixed = memory.offset + sum(
                stride * (start - before)
                for stride, start, before in zip(
                    memory.strides, resident.start, memory.before, strict=True
                )
            )
            place.append(str(fixed))
        tests = []
        if self.tiling.row_groups * self.mapping.rows != rows.size:
            tests.append(f"{at} < {rows.size}")
        return whole, tests, " + ".join(p for p in place if p != "0") or "0"

    def _row_offset(self) -> str:
        memory = self.geometry.rows_memory
        assert memory is not None
        whole, tests, place = self._row_coordinates()
        resident = self.product.resident
        for d, text in whole.items():
            before, size = memory.before[d], memory.size[d]
            if before or size < resident.shape[d]:
                tests += [f"{text} >= {before}", f"{text} < {before + size}"]
        number = self._stored(memory)
        return indented([
            "__device__ __forceinline__ int row_offset(int position) const {\n"
            f"  return {' && '.join(tests) or 'true'} ? {place} : -1;\n}}\n"
            f"__device__ __forceinline__ const {_TYPES[self.dtype]}* rows_base() const "
            f"{{ return in{number}; }}\n"
        ])  # fmt: skip

    def _row_walk(self) -> str:
        return self._walked("row_walk", self.product.resident)

    def _row_unit(self) -> str:
        whole, tests, _ = self._row_coordinates()
        return self._units("row_unit", self.product.resident, "row_element", [], whole, tests)

    def _neighbours(self, address: Any) -> bool:
        """Whether an address moves with the row by one, and else by whole vectors."""
        rows = self.geometry.rows.axes
        found = linear(address)
        if len(rows) != 1 or found is None:
            return False
        steps = {text: step for text, step in found.items() if text != f"i{rows[0]}"}
        return found.get(f"i{rows[0]}") == 1 and all(n % self.width == 0 for n in steps.values())

    # --- results ----------------------------------------------------------------------------------

    def _store(self) -> str:
        """What follows the product, and how its results are stored."""
        from tvm import tirx

        geometry = self.geometry
        names: dict[int, Any] = {}
        texts: dict[Any, str] = {}
        for k, axis in enumerate(self.product.axes):
            if axis.role != "k" and axis.size > 1:
                names[k] = tirx.Var(f"i{k}", "int32")
                texts[names[k]] = f"i{k}"
        index: list[Any] = [0] * len(self.space)
        for k, variable in names.items():
            axis = self.product.axes[k]
            index[axis.axis] = index[axis.axis] + variable * axis.weight
        total = tirx.Var("total", "float32")
        texts[total] = "total"
        self.give(scalars.convert(total, "float32", self.anchor.dtype))
        place = self.tail_index(index)
        view = self.by_space or self.target.view
        address = view.address(index if self.by_space is not None else place)
        address = tirx.const(address, "int32") if isinstance(address, int) else address
        value = self.lowering.scoped(lambda: self.lowering.access(self.tail).load(place))
        if type(value).__name__ == "Cast" and str(value.ty) == "float16":
            value = value.value  # Storing rounds.
        exact = scalars.unrounded(value)
        value = value if exact is None else exact
        vectors: list[tuple[str, str, str, Value]] = []
        mentioned: set[str] = set()

        def fetched(load: Any) -> str | None:
            """The lane of a vector, for what neighbouring rows have at neighbouring places."""
            kind = _TYPES.get(str(load.ty))
            if not self.wide or kind is None or not self._neighbours(load.indices[0]):
                return None
            at = print_position(load.indices[0], texts, self._pointer)
            mentioned.update(at.mentions)
            vector = (f"f{len(vectors)}", kind, self._pointer(load.source), at)
            same = [each[0] for each in vectors if each[1:] == vector[1:]]
            if not same:
                vectors.append(vector)
            return f"{same[0] if same else vector[0]}[k]"

        computed = print_expression(value, texts, self._pointer, fetched)
        stored_at = print_position(address, texts, self._pointer)
        lines: list[str] = []

        def declare(names: Iterable[tuple[int, str]], used: Set[str], indent: str) -> None:
            for k, name in names:
                if f"i{k}" in used:
                    lines.append(f"{indent}const int i{k} = {name};\n")

        def begin(name: str, kind: str, used: Set[str]) -> None:
            lines.append(
                f"__device__ __forceinline__ void {name}(int row, int place, {kind} "
                f"(&values)[{self.width}]) const {{\n"
            )
            declare(self.batch_names.items(), used, "  ")
            for n, digit in enumerate(digits("place", self.mapping.tile)):
                loop = geometry.loops[n]
                at = f"(start{n} + {digit})"
                declare(zip(loop.axes, digits(at, loop.sizes), strict=True), used, "  ")

        rows = geometry.rows
        at, first = "(row_start + row + k)", "(row_start + row)"

        def each(used: Set[str]) -> None:
            lines.append("#pragma unroll\n")
            lines.append(f"  for (int k = 0; k < {self.width}; ++k) {{\n")
            if not self.wide and self.width > 1:
                lines.append(f"    if (row_start + row + k >= {rows.size}) break;\n")
            declare(zip(rows.axes, digits(at, rows.sizes), strict=True), used, "    ")

        begin("compute", "float", computed.mentions | mentioned)
        for name, stored, pointer, start in vectors:
            lines.append(f"  alignas(16) {stored} {name}[{self.width}];\n  {{\n")
            declare(zip(rows.axes, digits(first, rows.sizes), strict=True), start.mentions, "    ")
            count = self.width * (4 if stored == "float" else 2) // 16
            for part in range(count):
                step = part * self.width // count
                lines.append(
                    f"    *(uint4*)({name} + {step}) = "
                    f"packed({pointer} + ({start.text}) + {step});\n"
                )
            lines.append("  }\n")
        each(computed.mentions)
        lines.append("    const float total = values[k];\n")
        lines += [f"    {line}\n" for line in computed.before]
        lines.append(f"    values[k] = {computed.text};\n  }}\n}}\n")
        begin("store", "const float", stored_at.mentions)
        if self.wide:
            declare(
                zip(rows.axes, digits(first, rows.sizes), strict=True), stored_at.mentions, "  "
            )
            stored = "stored_bfloat" if self.tail.dtype == "bfloat16" else "stored"
            lines.append(f"  *(uint4*)(out + ({stored_at.text})) = {stored}(values);\n}}\n")
        else:
            each(stored_at.mentions)
            lines.append(f"    assign(out[{stored_at.text}], values[k]);\n  }}\n}}\n")
        return indented(lines)


def kernel_head(declared: Sequence[str], threads: object, more: str = "") -> str:
    """How a kernel begins; ``threads`` are a group's, or what else a launch's bounds are."""
    parameters = f"\n    {', '.join(declared)}"
    head = CUDA.head.format(name=f"{more}{NAME}", parameters=parameters, threads=threads)
    return f"{head} {{\n"


def digits(flat: str, sizes: Sequence[int]) -> list[str]:
    """The digits of a flat position, outermost first, as C++."""
    result = []
    rest = math.prod(sizes)
    for k, size in enumerate(sizes):
        rest //= max(size, 1)
        if size == 1:
            result.append("0")
            continue
        text = f"{flat} / {rest}" if rest > 1 else flat
        if not all(n == 1 for n in sizes[:k]):
            text = f"{text} % {size}"
        result.append(f"({text})" if text != flat else text)
    return result


def times(text: str, factor: int) -> str:
    """The text of a product with a number."""
    if factor == 0 or text == "0":
        return "0"
    return text if factor == 1 else f"{text} * {factor}"


def _chosen(digit: str, values: Sequence[int]) -> str:
    """The value at a digit; a multiple of the digit where they are one."""
    step = values[1] - values[0] if len(values) > 1 else 0
    if all(v == values[0] + step * k for k, v in enumerate(values)):
        moved = times(digit, step)
        return f"({moved} + {values[0]})" if values[0] else f"({moved})"
    text = str(values[-1])
    for k in range(len(values) - 2, -1, -1):
        text = f"{digit} == {k} ? {values[k]} : {text}"
    return f"({text})"


def _independent(tiling: UnitTiling, sizes: Sequence[int]) -> bool:
    """Whether a tap's place is the sum over its digits of what each adds alone."""
    geometry, box = tiling.geometry, tiling.box
    for flat, place in enumerate(tiling.tap_places):
        index, rest = [], flat
        for size in reversed(sizes):
            index.append(rest % size)
            rest //= size
        index = index[::-1]
        alone = 0
        for k, i in enumerate(index):
            one = [0] * len(sizes)
            one[k] = i
            alone += geometry.tap_place(box, one)
        if alone != place:
            return False
    return True


def enumerated(constants: Mapping[str, int]) -> str:
    """The constants of a description."""
    lines = [f"{key} = {value}," for key, value in constants.items()]
    return "    enum {\n" + _wrapped(lines, 6) + "    };\n"


def indented(lines: Iterable[str]) -> str:
    """Members of the description, indented."""
    text = "".join(lines)
    return textwrap.indent(text, "    ", lambda line: line.strip() != "" and line[0] != "#")


def _wrapped(words: Sequence[str], indent: int) -> str:
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) + indent + 1 > 96:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "".join(f"{' ' * indent}{each}\n" for each in [*lines, line])
