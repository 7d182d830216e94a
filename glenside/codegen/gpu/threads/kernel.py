"""Kernels of products: tiles staged in local memory, sums in registers, mapped by a
:class:`~glenside.codegen.gpu.threads.mapping.ThreadMapping`.

A group computes a tile of results. It walks along the reduced loops in stages: all its threads
bring the part of both operands that a stage needs into local memory, wait, and multiply. A constant
resident operand lies packed in the order in which groups read it, so that its part is one run. The
streamed operand's part is a box of its base: what windows share is brought once, and a border is
tested once a position rather than at every multiplication. Threads keep a block of sums and, along
one loop, the run of elements that neighbouring windows share in registers.

With room for several stages in local memory, the next ones are brought while one is multiplied: in
CUDA by copies in the background, of which those of constants begin before the kernel has waited for
the kernels before it.

Where loops do not divide, groups at the edge compute on zeros and their stores are masked. Where a
reduction is split over groups, each writes its sums to scratch memory and
:mod:`~glenside.codegen.gpu.partial` adds them up.

The parts of such a kernel are in :mod:`~glenside.codegen.gpu.threads.parts`, a module each;
here they are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu import launching
from glenside.codegen.gpu.fallback import ElementNest
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.gpu.threads.parts.boxes import Box
from glenside.codegen.gpu.threads.parts.exchanging import Exchange
from glenside.codegen.gpu.threads.parts.local_memory import LocalMemory
from glenside.codegen.gpu.threads.parts.multiplying import Multiplication
from glenside.codegen.gpu.threads.parts.operands import Operands, pack
from glenside.codegen.gpu.threads.parts.pipelining import Pipeline
from glenside.codegen.gpu.threads.parts.placing import Placement
from glenside.codegen.gpu.threads.parts.staging import Staging
from glenside.codegen.gpu.threads.parts.storing import Store
from glenside.codegen.gpu.threads.tiling import Tiling
from glenside.codegen.kernel.builder import Argument, KernelBuilder
from glenside.codegen.loops import (
    Stmt,
    allocate,
    declare,
    prim_func,
    put,
    sequence,
)
from glenside.codegen.program.record import Kernel


class ThreadNest(ElementNest):
    """The kernels of one product by one mapping."""

    def __init__(
        self,
        builder: KernelBuilder,
        step: Kernel,
        limits: DeviceLimits,
        space: ProductSpace,
        mapping: ThreadMapping,
        dialect: Dialect = "opencl",
    ) -> None:
        super().__init__(builder, step, limits)
        self.dialect = dialect
        self.tiling = Tiling(space, mapping)
        self.partial_sums = self.tiling.split > 1

    def kernels(self, name: str) -> list[DeviceKernel]:
        """The launches, in order."""
        tiling = self.tiling
        body = launching.launch(tiling.grid, tiling.threads, self._group)
        block = (tiling.threads, 1, 1)
        made: list[DeviceKernel] = []
        if not self.partial_sums:
            launch = self.finish(body)
            function, arguments, writes = launch.function, launch.arguments, launch.writes
        else:
            scratch = self._partial_argument
            function = prim_func([*self.parameters, self.partial], body)
            arguments, writes = [*self.arguments, scratch], None
        made.append(
            DeviceKernel(
                name,
                arguments,
                tiling.grid,
                block,
                function.with_attr("global_symbol", name),
                local_bytes=tiling.local_bytes(),
                writes=writes,
                predicted=tiling.mapping.predicted or None,
            )
        )
        if self.partial_sums:
            from glenside.codegen.gpu.partial import PartialSums

            sums = PartialSums(self.builder, self.kernel, self.limits, tiling, scratch)
            # Its time is in the product's.
            made.append(replace(sums.device_kernel(f"{name}_sum"), predicted=0.0))
        return made

    def _group(self, group: Sequence[Any], thread: Any) -> Stmt:
        """What one thread of a group does."""
        tiling = self.tiling
        placement = Placement(tiling, group, thread)
        total = launching.registers("total", tiling.sums, tiling.space.accumulate)
        memory, box = LocalMemory(tiling, self.limits), Box(tiling)
        operands = Operands(self.lowering, placement, self._packed())
        staging = Staging(operands, box, self.limits, self.dialect)
        multiplication = Multiplication(operands, box, memory, total)
        store = Store(self, placement, total, self._scratch())
        zero = scalars.const(0, tiling.space.accumulate)
        body = [
            allocate(total),
            *memory.allocations,
            launching.unrolled(tiling.sums, lambda i: put(total, i, zero)),
            Pipeline(staging, memory, multiplication.stage).stages(),
        ]
        if memory.exchanged is not None:
            body += Exchange(store, memory.exchanged).statements()
        else:
            body.append(store.sums())
        return sequence(body)

    def _packed(self) -> Any:
        """The parameter with a constant resident operand as groups read it."""
        resident = self.tiling.space.resident
        if not resident.constant:
            return None
        number = pack(self.builder, self.tiling)
        size = self.builder.memory.buffers[number].size
        packed = declare(launching.PACKED, size, resident.dtype)
        self.parameters.append(packed)
        self.arguments.append(Argument(number, 0, size))
        return packed

    def _scratch(self) -> Any:
        """The parameter for partial sums, where groups share a reduction."""
        if not self.partial_sums:
            return None
        size, dtype = self.tiling.partial_elements, self.tiling.space.accumulate
        number = self.builder.memory.add(size, dtype)
        self.partial = declare("partial", size, dtype)
        self._partial_argument = Argument(number, 0, size)
        return self.partial
