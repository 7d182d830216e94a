"""Staging: the threads of a group bring a stage's operands into local memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.interface import DeviceLimits, Dialect
from glenside.codegen.gpu.space import Operand
from glenside.codegen.gpu.threads.parts.boxes import Box
from glenside.codegen.gpu.threads.parts.local_memory import Part
from glenside.codegen.gpu.threads.parts.operands import (
    Operands,
    memory_order,
    stored_dtype,
    stored_value,
)
from glenside.codegen.loops import Expr, Index, Stmt, all_of, get, unflatten, vectorised
from glenside.codegen.text import dialects

_COPIED = (4, 8, 16)
"""Bytes that a thread can have copied to local memory in the background."""


class Staging:
    """Brings operands' tiles to parts of local memory, in CUDA in the background where stages are
    pipelined."""

    def __init__(
        self, operands: Operands, box: Box, limits: DeviceLimits, dialect: Dialect
    ) -> None:
        self.operands, self.box, self.limits, self.dialect = operands, box, limits, dialect
        self.placement, self.lowering = operands.placement, operands.lowering
        self.product, self.tiling = self.placement.product, self.placement.tiling

    def resident(self, stage: Index, buffer: Part) -> Stmt:
        """Brings what a stage needs of the resident operand."""
        tiling, packed = self.tiling, self.operands.packed
        total = tiling.resident_elements
        if packed is not None:
            start = packed.start(stage)
            width = self._load_width(self.product.resident.dtype, total)
            unit = width * np.dtype(stored_dtype(self.product.resident)).itemsize

            def copy(at: Any) -> Stmt:
                if self._in_background and unit in _COPIED:
                    return launching.call(
                        dialects.COPY.format(unit),
                        buffer.address(at * width),
                        launching.address(packed.buffer, start + at * width),
                        1,
                    )
                return vectorised(
                    width,
                    lambda lane: buffer.put(
                        at * width + lane, get(packed.buffer, start + at * width + lane)
                    ),
                )

            return self.placement.share(total // width, copy)
        axes = [*self.placement.reduced, *self.product.of("batch"), *self.placement.m]
        sizes = [tiling.tile[k] for k in axes]
        fast = memory_order(self.product.resident, axes)

        def load(at: Any) -> Stmt:
            where = dict(zip(fast, unflatten(at, [tiling.tile[k] for k in fast]), strict=True))
            flat: Any = 0
            for axis, size in zip(axes, sizes, strict=True):
                flat = flat * size + where[axis]
            return self.lowering.statement(
                lambda: self.operands.at_positions(self.product.resident, where, stage),
                lambda value: buffer.put(flat, stored_value(value, self.product.resident)),
            )

        return self.placement.share(total, load)

    def _load_width(self, dtype: str, total: int) -> int:
        """Elements of the widest load that divides a run."""
        width = max(1, self.limits.vector_bytes // np.dtype(dtype).itemsize)
        while total % width:
            width //= 2
        return min(width, 4)

    def streamed(self, stage: Index, buffer: Part) -> Stmt:
        """Brings the box of the streamed operand that a stage reads."""
        streamed, extents = self.product.streamed, self.tiling.extents
        strides = streamed.strides or tuple(range(len(extents), 0, -1))
        nearest = min(
            (d for d in range(len(extents)) if extents[d] > 1),
            key=lambda d: (strides[d] or 1 << 62, -d),
            default=None,
        )
        # Dimensions that only reduced loops move along are taken one after the other by the same
        # thread: the border is tested once for all of them.
        serial = [
            d
            for d in range(len(extents))
            if d != nearest
            and extents[d] > 1
            and all(self.product.axes[k].role == "k" for k in streamed.axes_of(d))
            and not any(self.product.windows_of(n) and d in streamed.dimensions_of(n)
                        for n in self.placement.n)
        ]  # fmt: skip
        plane = [d for d in range(len(extents)) if d not in serial]
        plane.sort(key=lambda d: (-(strides[d] or 1 << 62), d))
        width = self.box.width(self.limits)
        pieces = [extents[d] // (width if d == plane[-1] else 1) for d in plane]
        # Threads that are left over take their part of the longest of these dimensions.
        longest = max(serial, key=lambda d: extents[d], default=None)
        parts = 1
        if longest is not None:
            most = max(1, self.placement.count // math.prod(pieces))
            parts = max(n for n in range(1, most + 1) if extents[longest] % n == 0)
        start = self.box.start(self.placement, stage)

        def position(at: Any) -> Stmt:
            offset: list[Any] = [0] * len(extents)
            part, *places = unflatten(at, [parts, *pieces])
            for d, place in zip(plane, places, strict=True):
                offset[d] = place * width if d == plane[-1] else place

            def element(inside: Index) -> Stmt:
                where = list(offset)
                for d, place in zip(serial, inside, strict=True):
                    where[d] = place * parts + part if d == longest else place
                index = [a + b for a, b in zip(start, where, strict=True)]
                address: Any = 0
                for d, place in enumerate(where):
                    address = address + place * self.box.pitch[d]
                tests = self.box.tests(self.placement, index, where, stage)
                if self._copies_streamed or width > 1:
                    return self._copy(streamed, index, tests, buffer, address, width)
                return self.lowering.statement(
                    lambda: self.operands.element(streamed, index, tests),
                    lambda value: buffer.put(address, stored_value(value, streamed)),
                )

            each = [extents[d] // (parts if d == longest else 1) for d in serial]
            return launching.unrolled_nest(each, element)

        return self.placement.share(parts * math.prod(pieces), position)

    @property
    def _in_background(self) -> bool:
        """Whether threads go on while what they fetch is under way."""
        return self.dialect == "cuda" and self.tiling.buffers > 1

    @functools.cached_property
    def _copies_streamed(self) -> bool:
        """Whether the streamed operand's elements are copied as they lie."""
        streamed = self.product.streamed
        width = np.dtype(stored_dtype(streamed)).itemsize
        return self._in_background and streamed.memory is not None and width in _COPIED

    def _copy(
        self,
        operand: Operand,
        index: Index,
        tests: Sequence[Expr],
        buffer: Part,
        place: Any,
        width: int,
    ) -> Stmt:
        """Copies neighbouring elements, or begins to; what does not exist is zero."""
        from tvm import tirx

        memory = operand.memory
        assert memory is not None
        found = list(tests)
        at: Any = memory.offset
        sizes = zip(index, memory.before, memory.size, memory.strides, operand.shape, strict=True)
        for position, before, size, stride, whole in sizes:
            if before and not isinstance(position, int):
                found.append(tirx.GE(position, before))
            if before + size < whole and not isinstance(position, int):
                found.append(tirx.LT(position, before + size))
            at = at + (position - before) * stride
        there = all_of(found)
        source = self.lowering.access(memory.term).buffer
        unit = width * np.dtype(stored_dtype(operand)).itemsize
        if self._copies_streamed and unit in _COPIED:
            return launching.call(
                dialects.COPY.format(unit),
                buffer.address(place),
                launching.address(source, at),
                1 if there is None else there.astype("int32"),
            )
        copy = vectorised(width, lambda lane: buffer.put(place + lane, get(source, at + lane)))
        if there is None:
            return copy
        zero = scalars.const(0, stored_dtype(operand))
        blank = vectorised(width, lambda lane: buffer.put(place + lane, zero))
        return tirx.IfThenElse(there, copy, blank)
