"""Kernels of products: tiles staged in local memory, sums in registers, mapped by a
:class:`~glenside.hw_targets.codegen.mapping.GpuMapping`.

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
:mod:`~glenside.hw_targets.codegen.gpu.partial` adds them up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.hw_targets.codegen import scalars
from glenside.hw_targets.codegen.gpu import threads
from glenside.hw_targets.codegen.gpu.fallback import ElementNest
from glenside.hw_targets.codegen.gpu.interface import Choose, DeviceKernel, DeviceLimits, Dialect
from glenside.hw_targets.codegen.gpu.matrix_products import MatrixNest
from glenside.hw_targets.codegen.gpu.space import Operand, ProductSpace, Role, product_space
from glenside.hw_targets.codegen.gpu.tensor.kernel import TensorNest
from glenside.hw_targets.codegen.gpu.tensor.printer import Unprintable
from glenside.hw_targets.codegen.gpu.tensor.stream import StreamNest
from glenside.hw_targets.codegen.gpu.tensor.warps import WarpNest
from glenside.hw_targets.codegen.gpu.tiling import Tiling, packing
from glenside.hw_targets.codegen.kernels import Argument, KernelBuilder
from glenside.hw_targets.codegen.loops import (
    Expr,
    Index,
    Stmt,
    allocate,
    declare,
    get,
    prim_func,
    put,
    sequence,
    unflatten,
    vectorised,
)
from glenside.hw_targets.codegen.mapping import (
    GpuMapping,
    InfeasibleMapping,
    best_mapping,
    thread_mappings,
)
from glenside.hw_targets.codegen.matrix_mapping import MatrixMapping
from glenside.hw_targets.codegen.partition import Kernel
from glenside.hw_targets.codegen.small_maps import small_map
from glenside.hw_targets.codegen.storage import Origin, repeated
from glenside.hw_targets.codegen.tensor_mapping import TensorMapping

Array = np.ndarray[Any, Any]
_TOGETHER = 16
"""Results that a thread computes before it stores the first of them."""
_COPIED = (4, 8, 16)
"""Bytes that a thread can have copied to local memory in the background."""


def product_kernels(
    builder: KernelBuilder,
    step: Kernel,
    number: int,
    limits: DeviceLimits,
    dialect: Dialect,
    choose: Choose | None,
) -> list[DeviceKernel] | None:
    """The kernels of a product; None for what is no product, or cannot be mapped."""
    if step.anchor is None:
        return None
    builder.at_step(number)
    space = space_of(builder, step, limits)
    if space is None:
        return None
    mapping = choose(space, limits) if choose is not None else None
    if mapping is None:
        try:
            mapping = best_mapping(space, limits)
        except InfeasibleMapping:
            return None
    if isinstance(mapping, MatrixMapping):
        made = MatrixNest(builder, step, limits, space, mapping, dialect)
        return [made.device_kernel(f"step_{number}")]
    if isinstance(mapping, TensorMapping):
        try:
            kind: type[TensorNest] = TensorNest
            if mapping.boxes:
                kind = StreamNest
            elif mapping.warps:
                kind = WarpNest
            on_units = kind(builder, step, limits, space, mapping)
            return on_units.kernels(f"step_{number}")
        except Unprintable:
            pass
        try:
            (mapping,) = thread_mappings(space, limits, 1)
        except InfeasibleMapping:
            return None
    product = ProductNest(builder, step, limits, space, mapping, dialect)
    return product.kernels(f"step_{number}")


def space_of(builder: KernelBuilder, step: Kernel, limits: DeviceLimits) -> ProductSpace | None:
    """The space of a step of the builder's partition, None where it is no product, or a small map
    that is written out."""
    if step.anchor is None or small_map(step.anchor, builder.partition.weights) is not None:
        return None
    nest = ElementNest(builder, step, limits)
    return product_space(
        step.anchor,
        nest.lowering.access,
        nest.lowering.is_leaf,
        lambda term: term in builder.partition.weights,
        nest.by_space,
        step.tail,
    )


class ProductNest(ElementNest):
    """The kernels of one product by one mapping."""

    def __init__(
        self,
        builder: KernelBuilder,
        step: Kernel,
        limits: DeviceLimits,
        space: ProductSpace,
        mapping: GpuMapping,
        dialect: Dialect = "opencl",
    ) -> None:
        super().__init__(builder, step, limits)
        assert step.anchor is not None
        self.anchor, self.dialect = step.anchor, dialect
        self.product, self.mapping = space, mapping
        self.tiling = Tiling(space, mapping)
        self.inner = scalars.wide(self.anchor.dtype)
        self.m, self.n = space.of("m"), space.of("n")
        self.results = space.of("batch", "m", "n")
        self.reduced = space.of("k")
        self.count = self.tiling.threads
        self.partial_sums = self.tiling.split > 1

    # --- launches -----------------------------------------------------------------------------

    def kernels(self, name: str) -> list[DeviceKernel]:
        """The launches, in order."""
        tiling = self.tiling
        body = threads.launch(tiling.grid, self.count, self._group)
        block = (self.count, 1, 1)
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
                predicted=self.mapping.predicted or None,
            )
        )
        if self.partial_sums:
            from glenside.hw_targets.codegen.gpu.partial import PartialSums

            sums = PartialSums(self.builder, self.kernel, self.limits, tiling, scratch)
            made.append(sums.device_kernel(f"{name}_sum"))
        return made

    def _group(self, group: Sequence[Any], thread: Any) -> Stmt:
        """What one thread of a group does."""
        tiling = self.tiling
        self._place(group, thread)
        self.total = threads.registers("total", tiling.sums, self.inner)
        body = [allocate(self.total)]
        self._allocate_local(body)
        self._source()
        zero = scalars.const(0, self.inner)
        body.append(threads.unrolled(tiling.sums, lambda i: put(self.total, i, zero)))
        body.append(self._stages())
        if tiling.exchanged_elements:
            body += self._exchange()
        elif self.partial_sums:
            body.append(self._store_partial())
        else:
            body.append(self._store_results())
        return sequence(body)

    def _allocate_local(self, body: list[Stmt]) -> None:
        """The parts of local memory: places in one buffer, or a buffer each."""
        tiling = self.tiling
        dynamic = tiling.local_bytes() > self.limits.static_local_bytes
        resident, streamed, sums = tiling.parts
        self.residents = self.streameds = self.exchanged = None
        room = tiling.stage_parts
        if tiling.one_dtype:
            size = max(resident + streamed, sums)
            if not size:
                return
            pool = threads.shared("local", size, scalars.storage_dtype(self.inner), dynamic)
            body.append(allocate(pool))
            if resident:
                self.residents = _Part(pool, streamed, room[0])
            if streamed:
                self.streameds = _Part(pool, 0, room[1])
            self.exchanged = _Part(pool, 0)
            return
        dtypes = (
            self._stored(self.product.resident),
            self._stored(self.product.streamed),
            scalars.storage_dtype(self.inner),
        )
        made = []
        names = ("rows", "box", "sums")
        for name, size, dtype, each in zip(names, tiling.parts, dtypes, [*room, 0], strict=True):
            part = None
            if size:
                buffer = threads.shared(name, size, dtype, dynamic)
                body.append(allocate(buffer))
                part = _Part(buffer, 0, each)
            made.append(part)
        self.residents, self.streameds, self.exchanged = made

    def _stored(self, operand: Operand) -> str:
        return scalars.storage_dtype(operand.dtype)

    def _place(self, group: Sequence[Any], thread: Any) -> None:
        """Where a group and a thread stand along every loop."""
        space, tiling, mapping = self.product, self.tiling, self.mapping
        self.thread = thread
        axes = range(len(space.axes))
        self.group_at: list[Any] = [0] * len(space.axes)
        sides: tuple[tuple[Role, ...], ...] = (("batch", "n"), ("m",))
        for position, roles in zip(group[:2], sides, strict=True):
            own = space.of(*roles)
            for axis, at in zip(
                own, unflatten(position, [tiling.groups[k] for k in own]), strict=True
            ):
                self.group_at[axis] = at
        self.split_at: list[Any] = [0] * len(space.axes)
        for axis, at in zip(
            self.reduced,
            unflatten(group[2], [mapping.split[k] for k in self.reduced]),
            strict=True,
        ):
            self.split_at[axis] = at
        order = [*self.reduced, *space.of("batch")]
        order += [*self.n, *self.m] if mapping.resident_fast else [*self.m, *self.n]
        digits = unflatten(thread, [mapping.threads[k] for k in order])
        self.thread_at: list[Any] = [0] * len(space.axes)
        for axis, at in zip(order, digits, strict=True):
            self.thread_at[axis] = at
        self.tile_at = [self.group_at[k] * tiling.tile[k] for k in axes]

    # --- positions ----------------------------------------------------------------------------

    def _turns(self, axis: int) -> int:
        """How many times the threads of a group take ``vector`` results along a loop."""
        return self.mapping.registers[axis] // self.mapping.vector[axis]

    def _in_tile(self, axis: int, turn: Any, lane: Any) -> Any:
        """A thread's result within the tile of its group."""
        vector = self.mapping.vector[axis]
        return self.thread_at[axis] * vector + turn * (self.mapping.threads[axis] * vector) + lane

    def _exact(self, axis: int) -> bool:
        """Whether every position of the tiles along a loop exists."""
        tiling = self.tiling
        if self.product.axes[axis].role == "k":
            reach = self.mapping.split[axis] * tiling.stages[axis] * tiling.tile[axis]
        else:
            reach = tiling.groups[axis] * tiling.tile[axis]
        return bool(reach == self.product.axes[axis].size)

    def _k_start(self, axis: int, stage: Any) -> Any:
        """The first reduced position of a stage."""
        chunk, stages = self.mapping.chunk[axis], self.tiling.stages[axis]
        return self.split_at[axis] * (stages * chunk) + stage * chunk

    # --- staging ------------------------------------------------------------------------------

    def _source(self) -> None:
        """Finds out how the operands are read; packs a constant resident one."""
        self.packed = None
        if self.product.resident.constant:
            number = self._pack()
            size = self.builder.partition.buffers[number].size
            self.packed = declare(threads.PACKED, size, self.product.resident.dtype)
            self.parameters.append(self.packed)
            self.arguments.append(Argument(number, 0, size))
        if self.partial_sums:
            size = self.tiling.partial_elements
            number = self.builder.scratch(size, self.inner)
            self.partial = declare("partial", size, self.inner)
            self._partial_argument = Argument(number, 0, size)

    def _pack(self) -> int:
        """A buffer with the constant operand in the order in which groups read it."""
        array = self.builder.partition.weights[self.product.resident.base]
        recipe = packing(self.tiling)
        key = (id(array), recipe)
        known = self.builder._packed.get(key)
        if known is None:
            packed = recipe.apply(array)
            origin = Origin(self.product.resident.base, repeated(array), recipe.apply)
            known = self.builder.constant(packed, self.product.resident.dtype, origin)
            self.builder._packed[key] = known
        return known

    def _packed_start(self, stage: Index) -> Any:
        """Where the constant operand's part for a group and a stage begins."""
        space, tiling, mapping = self.product, self.tiling, self.mapping
        flat: Any = 0
        for axis in [*space.of("batch"), *self.m]:
            flat = flat * tiling.groups[axis] + self.group_at[axis]
        for axis in self.reduced:
            flat = flat * mapping.split[axis] + self.split_at[axis]
        for axis, at in zip(self.reduced, stage, strict=True):
            flat = flat * tiling.stages[axis] + at
        return flat * tiling.resident_elements

    def _share(self, total: int, body: Callable[[Any], Stmt]) -> Stmt:
        """``total`` pieces of work shared by the threads of a group."""
        from tvm import tirx

        rounds = -(-total // self.count)

        def one(turn: Any) -> Stmt:
            at = turn * self.count + self.thread
            inside = body(at)
            if total % self.count == 0:
                return inside
            if isinstance(turn, int) and (turn + 1) * self.count <= total:
                return inside
            return threads.guarded(tirx.LT(at, total), inside)

        return threads.unrolled(rounds, one)

    def _stage_resident(self, stage: Index, buffer: _Part) -> Stmt:
        tiling = self.tiling
        total = tiling.resident_elements
        if self.packed is not None:
            start = self._packed_start(stage)
            width = self._load_width(self.product.resident.dtype, total)
            unit = width * np.dtype(self._stored(self.product.resident)).itemsize

            def copy(at: Any) -> Stmt:
                if self._in_background and unit in _COPIED:
                    return threads.call(
                        threads.COPY.format(unit),
                        buffer.address(at * width),
                        threads.address(self.packed, start + at * width),
                        1,
                    )
                return vectorised(
                    width,
                    lambda lane: buffer.put(
                        at * width + lane, get(self.packed, start + at * width + lane)
                    ),
                )

            return self._share(total // width, copy)
        axes = [*self.reduced, *self.product.of("batch"), *self.m]
        sizes = [tiling.tile[k] for k in axes]
        fast = self._memory_order(self.product.resident, axes)

        def load(at: Any) -> Stmt:
            where = dict(zip(fast, unflatten(at, [tiling.tile[k] for k in fast]), strict=True))
            flat: Any = 0
            for axis, size in zip(axes, sizes, strict=True):
                flat = flat * size + where[axis]
            return self.lowering.statement(
                lambda: self._at_positions(self.product.resident, where, stage),
                lambda value: buffer.put(flat, self._raw(value, self.product.resident)),
            )

        return self._share(total, load)

    def _load_width(self, dtype: str, total: int) -> int:
        """Elements of the widest load that divides a run."""
        width = max(1, self.limits.vector_bytes // np.dtype(dtype).itemsize)
        while total % width:
            width //= 2
        return min(width, 4)

    def _memory_order(self, operand: Operand, axes: Sequence[int]) -> list[int]:
        """Loops, the one along which memory is read in order last."""
        strides = operand.strides or tuple(
            math.prod(operand.shape[d + 1 :]) for d in range(len(operand.shape))
        )

        def distance(axis: int) -> int:
            return sum(
                step * stride for step, stride in zip(operand.steps[axis], strides, strict=True)
            )

        return sorted(axes, key=lambda axis: -distance(axis) if distance(axis) else -(1 << 62))

    def _at_positions(self, operand: Operand, where: dict[int, Any], stage: Index) -> Expr:
        """An operand's element by positions within the tile; zero beyond the loops' ends."""
        from tvm import tirx

        index: list[Any] = list(operand.start)
        tests = []
        stages = dict(zip(self.reduced, stage, strict=True))
        for axis, at in where.items():
            start = self._k_start(axis, stages[axis]) if axis in stages else self.tile_at[axis]
            place = start + at
            if not self._exact(axis):
                tests.append(tirx.LT(place, self.product.axes[axis].size))
            for d, step in enumerate(operand.steps[axis]):
                if step:
                    index[d] = index[d] + place * step
        return self._element(operand, index, tests)

    def _element(self, operand: Operand, index: Index, tests: Sequence[Expr]) -> Expr:
        from tvm import tirx

        def load() -> Expr:
            return self.lowering.access(operand.base).load(index)

        if not tests:
            return load()
        condition = tests[0] if len(tests) == 1 else tirx.all(*tests)
        zero = scalars.const(0, operand.dtype)
        return tirx.if_then_else(condition, self.lowering.scoped(load), zero)

    def _raw(self, value: Expr, operand: Operand) -> Expr:
        """A value as local memory holds it."""
        return scalars.stored(value, operand.dtype)

    # --- the streamed operand's box -----------------------------------------------------------

    @functools.cached_property
    def _box_order(self) -> list[int]:
        """Dimensions as the box has them in local memory: reduced ones outermost, the one along
        which threads keep runs innermost."""
        streamed = self.product.streamed
        dimensions = list(range(len(streamed.shape)))
        last = self._run_dimension

        def rank(d: int) -> tuple[bool, bool, int]:
            only_reduced = all(self.product.axes[k].role == "k" for k in streamed.axes_of(d))
            return d == last, not only_reduced, d

        return sorted(dimensions, key=rank)

    @functools.cached_property
    def _pitch(self) -> list[int]:
        """Distances in the box along the base's dimensions."""
        pitch, result = 1, [0] * len(self.product.streamed.shape)
        for d in reversed(self._box_order):
            result[d] = pitch
            pitch *= self.tiling.extents[d]
        return result

    @functools.cached_property
    def _run(self) -> tuple[int | None, int | None]:
        """The loop along which threads keep runs of the box, and the window loop along it."""
        best: tuple[int, int, int] | None = None
        for axis in self.n:
            if self.mapping.vector[axis] == 1:
                continue
            for window in self.product.windows_of(axis):
                if self.mapping.chunk[window] != self.product.axes[window].size:
                    continue
                if self.mapping.threads[window] > 1 or self.product.axes[window].size > 16:
                    continue
                d = self.product.streamed.dimensions_of(axis)[-1]
                if best is None or d > best[2]:
                    best = axis, window, d
        if best is not None:
            return best[0], best[1]
        wide = [axis for axis in self.n if self.mapping.vector[axis] > 1]
        return (wide[-1] if wide else None), None

    @functools.cached_property
    def _run_dimension(self) -> int | None:
        axis = self._run[0]
        if axis is None:
            axis = self.n[-1] if self.n else None
        found = self.product.streamed.dimensions_of(axis) if axis is not None else []
        return found[-1] if found else None

    def _box_start(self, stage: Index) -> list[Any]:
        """The base's position of the box's first element."""
        streamed = self.product.streamed
        start: list[Any] = list(streamed.start)
        places = {axis: self.tile_at[axis] for axis in self.results}
        for axis, at in zip(self.reduced, stage, strict=True):
            places[axis] = self._k_start(axis, at)
        for axis, place in places.items():
            for d, step in enumerate(streamed.steps[axis]):
                if step:
                    start[d] = start[d] + place * step
        return start

    def _reach(self, d: int) -> int:
        """Most positions of the base's dimension that any box asks for."""
        streamed, reach = self.product.streamed, self.product.streamed.start[d]
        for axis in streamed.axes_of(d):
            if self.product.axes[axis].role == "k":
                count = self.mapping.split[axis] * self.tiling.stages[axis]
            else:
                count = self.tiling.groups[axis]
            reach += streamed.steps[axis][d] * (count * self.tiling.tile[axis] - 1)
        return reach + 1

    def _box_tests(self, index: Index, offset: Index, stage: Index) -> list[Expr]:
        """What has to hold for a position of a box to be read."""
        from tvm import tirx

        streamed = self.product.streamed
        tests = []
        for d, place in enumerate(index):
            if self._reach(d) > streamed.shape[d]:
                tests.append(tirx.LT(place, streamed.shape[d]))
        for axis, at in zip(self.reduced, stage, strict=True):
            if self._exact(axis):
                continue
            # The loop alone moves along its dimension, which the mapping's constraints see to.
            (d,) = streamed.dimensions_of(axis)
            within = offset[d] // streamed.steps[axis][d]
            tests.append(tirx.LT(self._k_start(axis, at) + within, self.product.axes[axis].size))
        return tests

    def _stage_streamed(self, stage: Index, buffer: _Part) -> Stmt:
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
                        for n in self.n)
        ]  # fmt: skip
        plane = [d for d in range(len(extents)) if d not in serial]
        plane.sort(key=lambda d: (-(strides[d] or 1 << 62), d))
        width = self._streamed_width
        pieces = [extents[d] // (width if d == plane[-1] else 1) for d in plane]
        # Threads that are left over take their part of the longest of these dimensions.
        longest = max(serial, key=lambda d: extents[d], default=None)
        parts = 1
        if longest is not None:
            most = max(1, self.count // math.prod(pieces))
            parts = max(n for n in range(1, most + 1) if extents[longest] % n == 0)
        start = self._box_start(stage)

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
                    address = address + place * self._pitch[d]
                tests = self._box_tests(index, where, stage)
                if self._copies_streamed or width > 1:
                    return self._copy(streamed, index, tests, buffer, address, width)
                return self.lowering.statement(
                    lambda: self._element(streamed, index, tests),
                    lambda value: buffer.put(address, self._raw(value, streamed)),
                )

            each = [extents[d] // (parts if d == longest else 1) for d in serial]
            return threads.unrolled_nest(each, element)

        return self._share(parts * math.prod(pieces), position)

    @functools.cached_property
    def _streamed_width(self) -> int:
        """Neighbours in memory that a thread brings at a time: as many as surely lie at a multiple
        of that many, in memory and in the box, and are all there or none."""
        streamed, tiling = self.product.streamed, self.tiling
        memory = streamed.memory
        if memory is None or self._stored(streamed) != streamed.dtype:
            return 1
        d = self._box_order[-1]
        whole = memory.before[d] == 0 and memory.size[d] == streamed.shape[d]
        if memory.strides[d] != 1 or not whole:
            return 1
        numbers = [tiling.extents[d], streamed.shape[d], streamed.start[d], memory.offset]
        others = zip(memory.strides, streamed.shape, strict=True)
        numbers += [step for k, (step, size) in enumerate(others) if k != d and size > 1]
        for axis in streamed.axes_of(d):
            several = tiling.groups[axis] * tiling.stages[axis] * self.mapping.split[axis] > 1
            if several:
                numbers.append(streamed.steps[axis][d] * tiling.tile[axis])
        most = self.limits.vector_bytes // np.dtype(streamed.dtype).itemsize
        return next(w for w in (4, 2, 1) if w <= most and all(n % w == 0 for n in numbers))

    # --- multiplying --------------------------------------------------------------------------

    def _stages(self) -> Stmt:
        counts = [self.tiling.stages[k] for k in self.reduced]
        waits = any(self.mapping.staged)
        if waits and self.tiling.buffers > 1:
            return self._buffered_stages(counts)

        def one(stage: Index) -> Stmt:
            body = []
            if waits and math.prod(counts) > 1:
                body.append(threads.barrier())
            bring = self._bring(stage, 0)
            if math.prod(counts) == 1 and self.packed is not None and self.mapping.staged[0]:
                # What is constant need not be waited for.
                bring = [bring[-1], *self._after_earlier(), *bring[:-1]]
            body += bring
            if waits:
                body.append(threads.barrier())
            body.append(self._multiply(stage))
            return sequence(body)

        return threads.serial_nest(counts, one)

    def _bring(self, stage: Index, number: Any) -> list[Stmt]:
        """Brings the operands' parts for a stage to the place of that number."""
        body = []
        if self.streameds is not None:
            body.append(self._stage_streamed(stage, self.streameds.at(number)))
        if self.residents is not None:
            body.append(self._stage_resident(stage, self.residents.at(number)))
        return body

    def _buffered_stages(self, counts: Sequence[int]) -> Stmt:
        """Stages of which the next are brought while one is multiplied."""
        from tvm import tirx

        total, room = math.prod(counts), self.tiling.buffers
        background = self.dialect == "cuda"

        def begun() -> list[Stmt]:
            return [threads.call(threads.COPIES_BEGUN)] if background else []

        first: list[Stmt] = []
        for number in range(room - 1):
            bring = self._bring(unflatten(number, counts), number)
            if not number and self.packed is not None and self.residents is not None:
                bring = [bring[-1], *self._after_earlier(), *bring[:-1]]
            first += [*bring, *begun()]

        def one(at: Any) -> Stmt:
            later = at + (room - 1)
            bring = sequence(self._bring(unflatten(later, counts), later % room))
            body = [threads.call(threads.COPIES_DONE.format(room - 2))] if background else []
            body += [threads.barrier(), threads.guarded(tirx.LT(later, total), bring), *begun()]
            body.append(self._multiply(unflatten(at, counts), at % room))
            return sequence(body)

        return sequence([*first, threads.serial(total, one)])

    def _after_earlier(self) -> list[Stmt]:
        return [threads.call(threads.AFTER_EARLIER)] if self.dialect == "cuda" else []

    @property
    def _in_background(self) -> bool:
        """Whether threads go on while what they fetch is under way."""
        return self.dialect == "cuda" and self.tiling.buffers > 1

    @functools.cached_property
    def _copies_streamed(self) -> bool:
        """Whether the streamed operand's elements are copied as they lie."""
        streamed = self.product.streamed
        width = np.dtype(self._stored(streamed)).itemsize
        return self._in_background and streamed.memory is not None and width in _COPIED

    def _copy(
        self,
        operand: Operand,
        index: Index,
        tests: Sequence[Expr],
        buffer: _Part,
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
        there = None if not found else found[0] if len(found) == 1 else tirx.all(*found)
        source = self.lowering.access(memory.term).buffer
        unit = width * np.dtype(self._stored(operand)).itemsize
        if self._copies_streamed and unit in _COPIED:
            return threads.call(
                threads.COPY.format(unit),
                buffer.address(place),
                threads.address(source, at),
                1 if there is None else there.astype("int32"),
            )
        copy = vectorised(width, lambda lane: buffer.put(place + lane, get(source, at + lane)))
        if there is None:
            return copy
        zero = scalars.const(0, self._stored(operand))
        blank = vectorised(width, lambda lane: buffer.put(place + lane, zero))
        return tirx.IfThenElse(there, copy, blank)

    def _multiply(self, stage: Index, number: Any = 0) -> Stmt:
        """The products of one stage, whose operands are at the place of that number."""
        self._rows = None if self.residents is None else self.residents.at(number)
        self._box = None if self.streameds is None else self.streameds.at(number)
        run_window = self._run[1]
        windows = {w for axis in self.n for w in self.product.windows_of(axis)}
        outer = [k for k in self.reduced if k not in windows]
        inner = [k for k in self.reduced if k in windows and k != run_window]
        steps = {k: self.mapping.chunk[k] // self.mapping.threads[k] for k in self.reduced}
        fragment = self._fragment()
        rows = threads.registers("row", self._resident_sums, self._stored(self.product.resident))

        def at(axis: int, step: Any) -> Any:
            count = self.mapping.threads[axis]
            return step * count + self.thread_at[axis] if count > 1 else step

        def within(places: dict[int, Any]) -> Stmt:
            load = self._load_fragment(fragment, places, stage)

            def innermost(window: Any) -> Stmt:
                here = dict(places)
                if run_window is not None:
                    here[run_window] = window
                return sequence(
                    [
                        self._load_rows(rows, here, stage),
                        self._accumulate(fragment, rows, window),
                    ]
                )

            if run_window is None:
                return sequence([load, innermost(0)])
            return sequence([load, threads.unrolled(steps[run_window], innermost)])

        def windowed(places: dict[int, Any]) -> Stmt:
            return threads.unrolled_nest(
                [steps[k] for k in inner],
                lambda index: within(
                    {**places, **{k: at(k, i) for k, i in zip(inner, index, strict=True)}}
                ),
                most=16,
            )

        nest = threads.serial_nest(
            [steps[k] for k in outer],
            lambda index: windowed({k: at(k, i) for k, i in zip(outer, index, strict=True)}),
        )
        return sequence([allocate(self._fragment_buffer), allocate(rows), nest])

    @property
    def _resident_sums(self) -> int:
        return math.prod(self.mapping.registers[k] for k in [*self.product.of("batch"), *self.m])

    def _fragment(self) -> _Fragment:
        """What of the streamed operand a thread holds at a time."""
        streamed, mapping = self.product.streamed, self.mapping
        window = self._run[1]
        own = [*self.product.of("batch"), *self.n]
        turns = [self._turns(k) for k in own]
        runs, units = [], []
        for d in range(len(streamed.shape)):
            moves = [(streamed.steps[k][d], mapping.vector[k]) for k in own]
            if window is not None:
                moves.append((streamed.steps[window][d], mapping.chunk[window]))
            moves = [(step, count) for step, count in moves if step and count > 1]
            unit = math.gcd(*(step for step, _ in moves)) if moves else 1
            units.append(unit)
            runs.append(1 + sum(step * (count - 1) for step, count in moves) // unit)
        self._fragment_buffer = threads.registers(
            "run", math.prod(turns) * math.prod(runs), self._stored(streamed)
        )
        return _Fragment(own, turns, runs, units)

    def _load_fragment(self, fragment: _Fragment, places: dict[int, Any], stage: Index) -> Stmt:
        streamed = self.product.streamed
        sizes = [*fragment.turns, *fragment.runs]
        window = self._run[1]

        def load(index: Index) -> Stmt:
            turns, runs = index[: len(fragment.axes)], index[len(fragment.axes) :]
            flat: Any = 0
            for size, at in zip(sizes, index, strict=True):
                flat = flat * size + at
            offset: list[Any] = [run * unit for run, unit in zip(runs, fragment.units, strict=True)]
            moving = {k: self._in_tile(k, turn, 0) for k, turn in
                      zip(fragment.axes, turns, strict=True)}  # fmt: skip
            moving |= {k: at for k, at in places.items() if k != window}
            for axis, at in moving.items():
                for d, step in enumerate(streamed.steps[axis]):
                    if step:
                        offset[d] = offset[d] + at * step
            if self._box is not None:
                address: Any = 0
                for d, at in enumerate(offset):
                    if self.tiling.extents[d] > 1:
                        address = address + at * self._pitch[d]
                return put(self._fragment_buffer, flat, self._box.get(address))
            start = self._box_start(stage)
            place = [a + b for a, b in zip(start, offset, strict=True)]
            tests = self._box_tests(place, offset, stage)
            return self.lowering.statement(
                lambda: self._element(streamed, place, tests),
                lambda value: put(self._fragment_buffer, flat, self._raw(value, streamed)),
            )

        return threads.unrolled_nest(sizes, load)

    def _load_rows(self, rows: Any, places: dict[int, Any], stage: Index) -> Stmt:
        """The resident operand's elements for one reduced position."""
        tiling, mapping = self.tiling, self.mapping
        own = [*self.product.of("batch"), *self.m]
        sizes = [n for k in own for n in (self._turns(k), mapping.vector[k])]
        wide = mapping.vector[own[-1]] if own else 1
        flat_k: Any = 0
        for axis in self.reduced:
            flat_k = flat_k * tiling.tile[axis] + places[axis]

        def load(index: Index, lane: Any) -> Stmt:
            full = [*index, lane] if own else []
            at: Any = flat_k
            where = {}
            target: Any = 0
            for number, axis in enumerate(own):
                turn, vector = full[2 * number], full[2 * number + 1]
                where[axis] = self._in_tile(axis, turn, vector)
                at = at * tiling.tile[axis] + where[axis]
                target = target * self._turns(axis) + turn
                target = target * mapping.vector[axis] + vector
            if self._rows is not None:
                return put(rows, target, self._rows.get(at))
            if self.packed is not None:
                return put(rows, target, get(self.packed, self._packed_start(stage) + at))
            where |= places
            return self.lowering.statement(
                lambda: self._at_positions(self.product.resident, where, stage),
                lambda value: put(rows, target, self._raw(value, self.product.resident)),
            )

        if not own:
            return load([], 0)
        if self.residents is None and self.packed is None:
            return threads.unrolled_nest(sizes, lambda index: load(index[:-1], index[-1]))
        return threads.unrolled_nest(
            sizes[:-1], lambda index: vectorised(wide, lambda lane: load(index, lane))
        )

    def _accumulate(self, fragment: _Fragment, rows: Any, window: Any) -> Stmt:
        mapping, streamed = self.mapping, self.product.streamed
        run_window = self._run[1]
        sizes = [n for k in self.results for n in (self._turns(k), mapping.vector[k])]
        resident_own = [*self.product.of("batch"), *self.m]

        def value(buffer: Any, at: Any, operand: Operand) -> Expr:
            held = scalars.loaded(get(buffer, at), operand.dtype)
            result = scalars.convert(held, operand.dtype, self.anchor.dtype)
            return scalars.convert(result, self.anchor.dtype, self.inner)

        def one(index: Index) -> Stmt:
            turn = {k: index[2 * i] for i, k in enumerate(self.results)}
            lane = {k: index[2 * i + 1] for i, k in enumerate(self.results)}
            row: Any = 0
            for axis in resident_own:
                row = (row * self._turns(axis) + turn[axis]) * mapping.vector[axis] + lane[axis]
            at: Any = 0
            for axis, count in zip(fragment.axes, fragment.turns, strict=True):
                at = at * count + turn[axis]
            for d, (run, unit) in enumerate(zip(fragment.runs, fragment.units, strict=True)):
                place: Any = 0
                for axis in fragment.axes:
                    if streamed.steps[axis][d] and mapping.vector[axis] > 1:
                        place = place + lane[axis] * (streamed.steps[axis][d] // unit)
                if run_window is not None and streamed.steps[run_window][d] and run > 1:
                    place = place + window * (streamed.steps[run_window][d] // unit)
                at = at * run + place
            flat = self._sum_at(turn, lane)
            product = value(rows, row, self.product.resident) * value(
                self._fragment_buffer, at, streamed
            )
            return put(self.total, flat, get(self.total, flat) + product)

        return threads.unrolled_nest(sizes, one)

    def _sum_at(self, turn: dict[int, Any], lane: dict[int, Any]) -> Any:
        """The place of a sum among a thread's."""
        flat: Any = 0
        for axis in self.results:
            flat = (flat * self._turns(axis) + turn[axis]) * self.mapping.vector[axis] + lane[axis]
        return flat

    # --- results ------------------------------------------------------------------------------

    def _exchange(self) -> list[Stmt]:
        """Adds up the sums of threads that share results, and stores in the order of memory.

        Every thread leaves its sums in local memory, by the place of their results in the tile.
        """
        from tvm import tirx

        tiling, mapping = self.tiling, self.mapping
        exchanged = self.exchanged
        assert exchanged is not None
        shared = tiling.reduced_in_group
        order = self._result_order()
        sizes = [tiling.tile[k] for k in order]
        whole = math.prod(sizes)
        member: Any = 0
        for axis in self.reduced:
            member = member * mapping.threads[axis] + self.thread_at[axis]

        def keep(turn: dict[int, Any], lane: dict[int, Any]) -> Stmt:
            flat: Any = member
            for axis, size in zip(order, sizes, strict=True):
                flat = flat * size + self._in_tile(axis, turn[axis], lane[axis])
            value = get(self.total, self._sum_at(turn, lane))
            return exchanged.put(_skewed(flat), value)

        def place(turn: Any) -> tuple[Any, dict[int, Any], Expr | None]:
            flat = turn * self.count + self.thread
            inside = dict(zip(order, unflatten(flat, sizes), strict=True))
            places = {axis: self.tile_at[axis] + place for axis, place in inside.items()}
            tests = [tirx.LT(flat, whole)] if whole % self.count else []
            found = self._tests(places, self.m if self.partial_sums else ())
            tests += [found] if found is not None else []
            guard = None if not tests else tests[0] if len(tests) == 1 else tirx.all(*tests)
            return flat, places, guard

        def result(turn: Any, finish: Callable[[dict[int, Any], Expr], Stmt]) -> Stmt:
            flat, places, guard = place(turn)
            # All are fetched before they are added, so that the fetches are under way together.
            terms = threads.registers("terms", shared, self.inner)
            fetch = [put(terms, k, exchanged.get(_skewed(flat + k * whole))) for k in range(shared)]
            total = functools.reduce(
                lambda one, k: one + get(terms, k), range(1, shared), get(terms, 0)
            )
            steps = [allocate(terms), *fetch, put(terms, 0, total)]
            return threads.guarded(guard, sequence([*steps, finish(places, get(terms, 0))]))

        def results(first: Any, count: int) -> Stmt:
            """So many of a thread's results, computed before the first is stored."""
            values = threads.registers("values", count, self.tail.dtype)

            def store(at: Any) -> Stmt:
                _, places, guard = place(first + at)
                index = self._index(places)
                return threads.guarded(guard, self.store(index, get(values, at)))

            def compute(at: Any) -> Stmt:
                return result(
                    first + at,
                    lambda places, value: self._compute_one(
                        places, value, lambda made: put(values, at, made)
                    ),
                )

            steps = [threads.unrolled(count, compute), threads.unrolled(count, store)]
            return sequence([allocate(values), *steps])

        turns = -(-whole // self.count)
        if self.partial_sums or not self.stores_late:
            made = [threads.unrolled(turns, lambda turn: result(turn, self._store_one))]
        else:
            made = []
            full, rest = divmod(turns, _TOGETHER)
            if full:
                made.append(
                    threads.unrolled(full, lambda turn: results(turn * _TOGETHER, _TOGETHER))
                )
            if rest:
                made.append(results(full * _TOGETHER, rest))
        steps = [threads.barrier()] if any(mapping.staged) and tiling.one_dtype else []
        steps += [self._over_sums(None, keep), threads.barrier()]
        return [*steps, *made]

    def _result_order(self) -> list[int]:
        """Loops over results as the results lie, the nearest last."""
        steps = self.product.out_steps
        if self.partial_sums:
            return [*self.product.of("batch"), *self.n, *self.m]
        if steps is None:
            return list(self.results)
        return sorted(self.results, key=lambda k: (-(steps[k] or 1 << 62), k))

    def _store_one(self, places: dict[int, Any], value: Expr) -> Stmt:
        """One result, to where it lies or to scratch memory."""
        if self.partial_sums:
            return put(self.partial, self._partial_at(places), value)
        self.give(scalars.convert(value, self.inner, self.anchor.dtype))
        return self.store(self._index(places))

    def _compute_one(
        self, places: dict[int, Any], value: Expr, finish: Callable[[Expr], Stmt]
    ) -> Stmt:
        """``finish`` with what one result becomes."""
        self.give(scalars.convert(value, self.inner, self.anchor.dtype))
        return self.compute(self._index(places), finish)

    def _index(self, places: dict[int, Any]) -> Index:
        """A loop index by the places along the product's loops."""
        index: Index = [0] * len(self.space)
        for axis, place in places.items():
            each = self.product.axes[axis]
            index[each.axis] = index[each.axis] + place * each.weight
        return index

    def _tests(self, places: dict[int, Any], padded: Sequence[int] = ()) -> Expr | None:
        """Whether a result exists; along ``padded`` loops there is room for all."""
        from tvm import tirx

        tests = [
            tirx.LT(place, self.product.axes[axis].size)
            for axis, place in places.items()
            if axis not in padded and not self._exact(axis)
        ]
        if not tests:
            return None
        return tests[0] if len(tests) == 1 else tirx.all(*tests)

    def _over_sums(
        self,
        wide: int | None,
        body: Callable[[dict[int, Any], dict[int, Any]], Stmt],
        padded: Sequence[int] = (),
    ) -> Stmt:
        """Loops over a thread's sums, the lanes of loop ``wide`` innermost and as a vector."""
        others = [(k, n) for k in self.results for n in (0, 1) if not (k == wide and n)]
        sizes = [self.mapping.vector[k] if n else self._turns(k) for k, n in others]

        def one(index: Index) -> Stmt:
            turn: dict[int, Any] = {}
            lane: dict[int, Any] = {}
            for (axis, lanes), at in zip(others, index[: len(others)], strict=True):
                (lane if lanes else turn)[axis] = at
            if wide is None:
                return body(turn, lane)
            first = {**lane, wide: index[-1] * width}
            guard = {
                axis: self.tile_at[axis] + self._in_tile(axis, turn[axis], first[axis])
                for axis in self.results
            }
            vector = vectorised(
                width,
                lambda at: body(turn, {**lane, wide: index[-1] * width + at}),
            )
            return threads.guarded(self._tests(guard, padded), vector)

        if wide is None:
            return threads.unrolled_nest(sizes, one)
        width = next(w for w in (4, 2, 1) if self.mapping.vector[wide] % w == 0)
        return threads.unrolled_nest([*sizes, self.mapping.vector[wide] // width], one)

    def _store_results(self) -> Stmt:
        wide = self._wide_store()

        def over(body: Callable[[dict[int, Any], Any], Stmt]) -> Stmt:
            def one(turn: dict[int, Any], lane: dict[int, Any]) -> Stmt:
                places = {
                    axis: self.tile_at[axis] + self._in_tile(axis, turn[axis], lane[axis])
                    for axis in self.results
                }
                made = body(places, self._sum_at(turn, lane))
                return made if wide is not None else threads.guarded(self._tests(places), made)

            return self._over_sums(wide, one)

        def compute(places: dict[int, Any], at: Any) -> Stmt:
            value = get(self.total, at)
            return self._compute_one(places, value, lambda made: put(self.total, at, made))

        def store(places: dict[int, Any], at: Any) -> Stmt:
            return self.store(self._index(places), get(self.total, at))

        self.lowering.vectorised = wide is not None
        if self.stores_late and self.tail.dtype == self.inner:
            made = sequence([over(compute), over(store)])
        else:
            made = over(lambda places, at: self._store_one(places, get(self.total, at)))
        self.lowering.vectorised = False
        return made

    def _wide_store(self) -> int | None:
        """The loop along which results are stored as vectors, if memory allows it."""
        steps = self.product.out_steps
        if steps is None or self.by_space is None:
            return None
        if not self.lowering.vectorisable(self.tail) or self.tail.dtype != "float32":
            return None
        for axis in self.results:
            vector = self.mapping.vector[axis]
            if steps[axis] != 1 or vector % 2:
                continue
            vector = 4 if vector % 4 == 0 else 2
            others = [
                step
                for other, step in enumerate(steps)
                if other != axis and self.product.axes[other].role != "k"
                and self.product.axes[other].size > 1
            ]  # fmt: skip
            aligned = all(step % vector == 0 for step in others)
            aligned = aligned and self.by_space.offset % vector == 0
            if aligned and self.product.axes[axis].size % vector == 0:
                return axis
        return None

    def _partial_at(self, places: dict[int, Any]) -> Any:
        """Partial sums lie by split, batch and streamed rows; resident rows, padded to whole tiles,
        are innermost."""
        flat: Any = 0
        for axis in self.reduced:
            flat = flat * self.mapping.split[axis] + self.split_at[axis]
        for axis in [*self.product.of("batch"), *self.n]:
            flat = flat * self.product.axes[axis].size + places[axis]
        for axis in self.m:
            flat = flat * (self.tiling.groups[axis] * self.tiling.tile[axis]) + places[axis]
        return flat

    def _store_partial(self) -> Stmt:
        """A thread's sums, to scratch memory."""
        wide = self.m[-1] if self.m and self.mapping.vector[self.m[-1]] > 1 else None

        def one(turn: dict[int, Any], lane: dict[int, Any]) -> Stmt:
            places = {
                axis: self.tile_at[axis] + self._in_tile(axis, turn[axis], lane[axis])
                for axis in self.results
            }
            store = self._store_one(places, get(self.total, self._sum_at(turn, lane)))
            if wide is not None:
                return store
            return threads.guarded(self._tests(places, self.m), store)

        return self._over_sums(wide, one, self.m)


def _skewed(place: Any) -> Any:
    """A place in local memory with a gap after every 32, so that strides of powers of two do not
    all fall into the same bank."""
    return place + place // 32


@dataclass(frozen=True)
class _Part:
    """A place within a buffer in local memory; one of several of ``size`` elements each, one after
    the other, where several stages have room."""

    buffer: Any
    base: Any
    size: int = 0

    def at(self, number: Any) -> _Part:
        """The place of that number."""
        return _Part(self.buffer, self.base + number * self.size)

    def address(self, at: Any) -> Expr:
        """Where an element is."""
        return threads.address(self.buffer, self._place(at))

    def get(self, at: Any) -> Expr:
        return get(self.buffer, self._place(at))

    def put(self, at: Any, value: Expr) -> Stmt:
        return put(self.buffer, self._place(at), value)

    def _place(self, at: Any) -> Any:
        return at if isinstance(self.base, int) and not self.base else at + self.base


@dataclass(frozen=True)
class _Fragment:
    """Runs of the streamed operand in a thread's registers: by the turns of its loops, then by the
    base's dimensions, in units of the steps that occur."""

    axes: list[int]
    turns: list[int]
    runs: list[int]
    units: list[int]
