"""The CUDA text of a product whose operands are brought by warps of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glenside.codegen.gpu.interface import DeviceKernel
from glenside.codegen.gpu.streams.mapping import StreamMapping
from glenside.codegen.gpu.streams.tiling import FEWER, StreamTiling
from glenside.codegen.gpu.tensor.kernel import (
    UnitNest,
    digits,
    enumerated,
    indented,
    kernel_head,
    multiplication,
    primitives,
    round_to_tf32,
    template,
    times,
)
from glenside.codegen.kernel.builder import Argument
from glenside.codegen.plan import TensorMap

Array = np.ndarray[Any, Any]


def pack_lines(array: Array, tiling: StreamTiling) -> Array:
    """A constant resident operand as warpgroups are given it: by batch, warpgroup's rows, step and
    tap one portion, in it lines of rows, whose units of 16 bytes are swapped by their address."""
    geometry, space = tiling.geometry, tiling.geometry.space
    sides = [k for k, axis in enumerate(space.axes) if axis.role != "n"]
    whole = array.reshape([space.axes[k].size for k in sides])
    inner = geometry.inner_axes(False)
    kept = [*geometry.batch, *geometry.rows.axes, *geometry.outer, *geometry.windows, *inner]
    order = [sides.index(k) for k in kept]
    order += [k for k in range(len(sides)) if k not in order]  # Of one step.
    rows, chunk, unit = tiling.rows_each, tiling.mapping.chunk, geometry.unit
    groups = tiling.row_groups * tiling.mapping.groups[0]
    flat = whole.transpose(order).reshape(
        tiling.batches, geometry.rows.size, geometry.outer_size(False), tiling.all_taps,
        tiling.inner,
    )  # fmt: skip
    padded = (groups * rows - geometry.rows.size, tiling.chunks * chunk - tiling.inner)
    flat = np.pad(flat, [(0, 0), (0, padded[0]), (0, 0), (0, 0), (0, padded[1])])
    cut = flat.reshape(
        tiling.batches, groups, rows, -1, tiling.all_taps, tiling.chunks, chunk // unit, unit
    ).transpose(0, 1, 3, 5, 4, 2, 6, 7)
    units = chunk // unit
    places = np.arange(units) ^ (np.arange(rows)[:, None] * tiling.line // 128 % units)
    packed = np.take_along_axis(cut, places.reshape(1, 1, 1, 1, 1, rows, units, 1), axis=6)
    result = np.ascontiguousarray(packed).reshape(-1)
    return round_to_tf32(result) if result.dtype == np.float32 else result


class StreamNest(UnitNest[StreamTiling]):
    """The kernel of one product by one mapping of that kind."""

    def _tiling(self) -> StreamTiling:
        assert isinstance(self.mapping, StreamMapping)
        return StreamTiling(self.geometry, self.mapping, self.limits)

    def device_kernel(self, name: str) -> DeviceKernel:
        """The launch.

        :raises Unprintable: a part of what is computed has no form in the template.
        """
        tiling = self.tiling
        declared, body, arguments = self._entry()
        declared.append("const __grid_constant__ glenside::TensorMap map")
        source = (
            f"{kernel_head(declared, f'{tiling.threads}, {tiling.residents}')}{body}"
            f"  GLENSIDE_LINES(lines_of_all);\n"
            f"  streamed_product(shape, map, lines_of_all);\n}}\n"
        )
        library = (
            primitives("common"),
            primitives(),
            primitives("pipeline"),
            multiplication(self.dtype, tiling.columns_each),
            template("stream"),
        )
        return self._launched(
            name,
            source,
            arguments,
            library,
            maps=(self._map(),),
            local_bytes=tiling.local_bytes(True),
        )

    def _map(self) -> TensorMap:
        tiling, boxes = self.tiling, self.tiling.boxes
        memory = self.geometry.memory
        assert memory is not None
        size = self.geometry.bytes
        return TensorMap(
            argument=self._stored(memory),
            offset=boxes.offset * size,
            dtype=self.dtype,
            sizes=tuple(each.size for each in boxes.dimensions),
            strides=tuple(each.stride * size for each in boxes.dimensions[1:]),
            box=tuple(tiling.extents),
            steps=tuple(each.step for each in boxes.dimensions),
            line=tiling.line,
        )

    def _shape(self) -> tuple[str, str]:
        tiling, mapping = self.tiling, self.tiling.mapping
        constants = {
            "GROUPS": tiling.consumers,
            "ROW_GROUPS": mapping.groups[0],
            "FRAGMENTS": tiling.fragments,
            "COLUMNS_EACH": tiling.columns_each,
            "PLACES": math.prod(mapping.tile),
            "SECOND": tiling.second,
            "TILES": tiling.tiles,
            "GRID": tiling.grid[0],
            "STEPS": tiling.box_steps,
            "TAPS": tiling.taps,
            "UNROLLED": max(1, min(tiling.taps, 64 * 32 // tiling.line // tiling.fragments)),
            "RANK": len(tiling.boxes.dimensions),
            "LINE": tiling.line,
            "BOXES": mapping.boxes,
            "BOX_LINES": tiling.lines,
            "BOX_BYTES": tiling.box_bytes,
            "STAGES": mapping.stages,
            "ROWS_AT": tiling.rows_at,
            "ROWS_BYTES": tiling.rows_bytes,
            "STAGED_AT": tiling.staged_at,
            "STAGED_BYTES": tiling.staged_bytes,
            "GATES": tiling.gates_at,
            "HALVES": int(tiling.halves),
            "PITCH": tiling.line_of_sums,
            "WIDTH": self.width,
            "LAG": tiling.lag,
            "MORE": tiling.registers,
            "FEWER": FEWER,
        }
        self._index_names()
        memory = self.geometry.memory
        assert memory is not None
        self._stored(memory)
        parts = [self._start(), self._corner(), self._multiply(), self._tap(), self._column()]
        parts += [self._present(), self._store()]
        parts.append(self._part())  # Last, so that nothing is packed in vain.
        return enumerated(constants), "".join(parts)

    def _start(self) -> str:
        tiling, geometry = self.tiling, self.geometry
        members = [*self.starts, "row_start", *self.batch_names.values(), "row_group"]
        sizes = [*(geometry.size(k) for k in geometry.batch), *tiling.loop_groups,
                 tiling.row_groups]  # fmt: skip
        found = digits("tile", sizes)
        batches = len(geometry.batch)
        lines = [f"int {', '.join(members)};\n"]
        lines.append("__device__ __forceinline__ void start(int tile) {\n")
        for name, digit in zip(self.batch_names.values(), found[:batches], strict=True):
            lines.append(f"  {name} = {digit};\n")
        for n, digit in enumerate(found[batches:-1]):
            lines.append(f"  start{n} = {times(digit, self.mapping.tile[n])};\n")
        lines.append(f"  row_group = {found[-1]};\n")
        lines.append(f"  row_start = {times('row_group', self.mapping.rows)};\n}}\n")
        return indented(lines)

    def _corner(self) -> str:
        """Where a step's box starts."""
        tiling, geometry = self.tiling, self.geometry
        windows = geometry.windows if self.tiling.mapping.apart else []
        outer = geometry.outer
        sizes = [*(geometry.size(k) for k in outer), tiling.chunks]
        sizes += [geometry.size(w) for w in windows]
        found = digits("step", sizes)
        assert geometry.inner is not None
        names = {geometry.inner: times(found[len(outer)], self.mapping.chunk), **self.batch_names}
        names.update(zip(outer, found, strict=False))
        names.update(zip(windows, found[len(outer) + 1 :], strict=True))
        lines = ["__device__ __forceinline__ void corner(int step, int (&at)[RANK]) const {\n"]
        for k, each in enumerate(tiling.boxes.dimensions):
            terms = [str(each.corner)] if each.corner else []
            if each.loop is not None:
                terms.append(times(f"start{each.loop}", each.step))
            terms += [times(names[axis], step) for axis, step in each.terms if axis in names]
            text = " + ".join(t for t in terms if t != "0") or "0"
            lines.append(f"  at[{k}] = {text};\n")
        lines.append("}\n")
        return indented(lines)

    def _part(self) -> str:
        size = self.builder.memory.buffers[self._pack()].size
        number = self._parameter(Argument(self._pack(), 0, size), size, self.dtype)
        geometry, tiling = self.geometry, self.tiling
        batch = "0"
        for k, name in self.batch_names.items():
            batch = name if batch == "0" else f"({batch} * {geometry.size(k)} + {name})"
        whole = times(batch, tiling.row_groups)
        group = f"({whole} + row_group) * {self.mapping.groups[0]} + own"
        if whole == "0":
            group = f"row_group * {self.mapping.groups[0]} + own"
        portions = tiling.steps * tiling.all_taps
        return indented([
            "__device__ __forceinline__ const unsigned char* part(int own) const {\n"
            f"  return (const unsigned char*)in{number} + "
            f"(long long)({group}) * {portions * tiling.rows_bytes};\n}}\n"
        ])  # fmt: skip

    def _pack(self) -> int:
        array = self.builder.cut.weights[self.product.resident.base]
        mapping = self.mapping
        key = (id(array), "lines", mapping.rows, mapping.groups[0], mapping.chunk,
               self.product.key())  # fmt: skip
        return self.builder.packed(key, self.dtype, lambda: (pack_lines(array, self.tiling), None))
