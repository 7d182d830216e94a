"""Loop nests: one TIR function for every kernel of a partition.

The nests are written out directly, tile by tile: full tiles and edge tiles are separate bodies, so
no inner loop tests a bound, and accumulators are local arrays that LLVM keeps in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glenside.hw_targets.codegen import scalars, schedule
from glenside.hw_targets.codegen.layout import (
    View,
    axis_size,
    compose_inverse,
    row_major,
    single_stride,
    split_atoms,
)
from glenside.hw_targets.codegen.lower import Lowering, read, write
from glenside.hw_targets.codegen.partition import (
    Buffer,
    Fill,
    Kernel,
    Partition,
    Product,
    Stored,
    compact,
)
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import FLOATS
from glenside.language.term import Term

Array = np.ndarray[Any, Any]
Expr = Any
Stmt = Any
Index = list[Any]


@dataclass(frozen=True)
class Argument:
    """What a kernel is launched with: ``extent`` elements of a buffer from ``base`` on."""

    buffer: int
    base: int
    extent: int


@dataclass
class Launch:
    """A TIR function and its arguments."""

    function: Any
    arguments: list[Argument]
    writes: Term | None = None


@dataclass
class _Loop:
    """One loop of a nest: its length and what it adds to logical axes and addresses."""

    size: int
    parts: list[tuple[int, int, int]]
    """(axis of the anchor or operand, size, weight within that axis), row-major."""
    stride: int = 0
    rank: tuple[int, ...] = field(default_factory=tuple)


class KernelBuilder:
    """Builds the functions of one partition; packed weights are added to its buffers."""

    def __init__(self, partition: Partition, machine: schedule.Machine) -> None:
        self.partition, self.machine = partition, machine
        self._packed: dict[tuple[Any, ...], int] = {}

    def build(self, kernel: Kernel) -> list[Launch]:
        """The launches that compute a kernel, in order."""
        if kernel.anchor is not None and kernel.product is not None:
            return _ProductNest(self, kernel, kernel.anchor, kernel.product).launches()
        nest = _Nest(self, kernel)
        if kernel.anchor is None:
            body = nest.elementwise()
        else:
            function = kernel.anchor["function"]
            if function == "softmax":
                body = nest.softmax(kernel.anchor)
            elif function in ("argmax", "argmin"):
                body = nest.arg_extreme(kernel.anchor)
            else:
                body = nest.reduction(kernel.anchor)
        return [nest.finish(body)]

    def fill(self, fill: Fill) -> Launch:
        """Writes the margins of a buffer."""
        buffer = self.partition.buffers[fill.buffer]
        target = _buffer("out", buffer.size, buffer.dtype)
        view = fill.view
        loops = [
            (axis_size(axis), axis[-1][1] if axis else 0, margin)
            for axis, margin in zip(view.axes, view.margins, strict=True)
        ]
        loops.sort(key=lambda each: -each[1])
        start = view.offset - sum(m.before * stride for _, stride, m in loops if m)
        value = scalars.const(view.fill, buffer.dtype)
        slabs = []
        for k, (size, stride, margin) in enumerate(loops):
            if margin is None:
                continue
            for low, count in ((0, margin.before), (margin.before + size, margin.after)):
                if not count:
                    continue
                extents = [
                    count if j == k else n + (m.before + m.after if m else 0)
                    for j, (n, _, m) in enumerate(loops)
                ]
                strides = [s for _, s, _ in loops]
                slabs.append(
                    _nest(
                        extents,
                        lambda index, strides=strides, at=start + low * stride: write(
                            target,
                            sum((i * s for i, s in zip(index, strides, strict=True) if s), at),
                            value,
                            buffer.dtype,
                        ),
                    )
                )
        return Launch(_function([target], _seq(slabs)), [Argument(fill.buffer, 0, buffer.size)])

    def view(self, term: Term) -> View | None:
        """The view of a term that lies in memory; folded constants are put there on demand."""
        partition = self.partition
        if term not in partition.stored and term in partition.weights:
            array, view = compact(partition.weights[term])
            number = self.constant(array.reshape(-1), term.dtype)
            partition.stored[term] = Stored(number, 0, view)
        stored = partition.stored.get(term)
        return None if stored is None else stored.view

    def constant(self, array: Array, dtype: str) -> int:
        """A new buffer that holds ``array``."""
        self.partition.buffers.append(Buffer(max(array.size, 1), dtype))
        number = len(self.partition.buffers) - 1
        self.partition.arrays[number] = array
        return number

    def scratch(self, size: int, dtype: str) -> int:
        """A new buffer that lives only around the kernels that use it."""
        self.partition.buffers.append(Buffer(max(size, 1), dtype))
        return len(self.partition.buffers) - 1


class _Nest:
    """The parameters and the body of one function."""

    def __init__(self, builder: KernelBuilder, kernel: Kernel) -> None:
        self.builder, self.kernel = builder, kernel
        self.machine = builder.machine
        partition = builder.partition
        self.tail = kernel.tail
        self.target: Stored = kernel.into or partition.stored[kernel.tail]
        self._buffers: dict[Term, Any] = {}
        self.parameters: list[Any] = []
        self.arguments: list[Argument] = []
        computed = {kernel.anchor} if kernel.into else {kernel.anchor, kernel.tail}
        self.lowering = Lowering(
            lambda term: None if term in computed else builder.view(term),
            partition.constants,
            self._read_buffer,
        )
        self._given: Expr = None
        if kernel.anchor is not None:
            self.lowering.give(kernel.anchor, lambda index: self._given)
        self.lowering.vectorised = self.lowering.only_floats(kernel.tail)
        if kernel.anchor is not None:
            self.lowering.vectorised &= all(
                self.lowering.only_floats(each) for each in kernel.anchor.children
            )
        space = kernel.anchor.shape if kernel.anchor is not None else kernel.tail.shape
        self.space = space
        # Where the result lies, by the index of the anchor.
        self.by_space = compose_inverse(kernel.over, space, self.target.view)
        self.out = _buffer("out", self.target.extent, self.tail.dtype)

    def _read_buffer(self, term: Term) -> Any:
        if term not in self._buffers:
            stored = self.builder.partition.stored[term]
            buffer = _buffer(f"in{len(self.parameters)}", stored.extent, term.dtype)
            self._buffers[term] = buffer
            self.parameters.append(buffer)
            self.arguments.append(Argument(stored.buffer, stored.base, stored.extent))
        return self._buffers[term]

    def finish(self, body: Stmt) -> Launch:
        """The function with this body; the result is its last parameter."""
        arguments = [
            *self.arguments,
            Argument(self.target.buffer, self.target.base, self.target.extent),
        ]
        function = _function([*self.parameters, self.out], body)
        return Launch(function, arguments, self.tail)

    def vector(self, width: int, body: Callable[[Any], Stmt]) -> Stmt:
        """A loop over lanes."""
        if self.lowering.vectorised:
            return _vector(width, body)
        return _for(width, body)

    def lanes(self, dtype: str) -> int:
        """Lanes of a vector loop; scalar loops are long, for LLVM to vectorise."""
        return self.machine.lanes(dtype) if self.lowering.vectorised else 64

    def run(self, length: int, dtype: str, body: Callable[[Any], Stmt]) -> Stmt:
        """A loop of any length, vectorised."""
        lanes = self.lanes(dtype)
        full, rest = divmod(length, lanes)
        parts = []
        if full:
            parts.append(_for(full, lambda t: self.vector(lanes, lambda l: body(t * lanes + l))))
        for at, width in schedule.pieces(rest, lanes):
            parts.append(self.vector(width, lambda l, at=at: body(full * lanes + at + l)))
        return _seq(parts)

    # --- results ------------------------------------------------------------------------------

    def tail_index(self, index: Sequence[Any]) -> Index:
        """The index of the tail at a loop index."""
        result: Index = []
        bounds = _bounds(self.space)
        for axis in self.kernel.over.axes:
            atoms = split_atoms(axis, bounds)
            total: Any = 0
            weight = axis_size(axis)
            for size, stride in atoms if atoms is not None else axis:
                weight //= size
                digit = self._digit(index, bounds, size, stride, exact=atoms is not None)
                total = total + (digit * weight if weight > 1 else digit)
            result.append(total)
        return result

    def _digit(
        self, index: Sequence[Any], bounds: Sequence[int], size: int, stride: int, exact: bool
    ) -> Any:
        if not exact:
            flat: Any = 0
            for position, low in zip(index, bounds, strict=True):
                flat = flat + position * low
            return (flat // stride) % size
        owner = next(
            k for k, low in enumerate(bounds) if low <= stride < low * max(self.space[k], 1)
        )
        inner = stride // bounds[owner]
        position = index[owner]
        if inner > 1:
            position = position // inner
        return position % size if inner * size < self.space[owner] else position

    def store(self, index: Sequence[Any], value: Expr | None = None) -> Stmt:
        """Stores the tail's element at a loop index."""
        place = self.tail_index(index)
        if self.by_space is not None:
            address = self.by_space.address(index)
        else:
            address = self.target.view.address(place)

        def compute() -> Expr:
            return self.lowering.access(self.tail).load(place) if value is None else value

        return self.lowering.statement(
            compute, lambda result: write(self.out, address, result, self.tail.dtype)
        )

    def give(self, value: Expr) -> None:
        """The anchor's element is ``value`` from now on."""
        self._given = value

    # --- plain loops --------------------------------------------------------------------------

    def _axes(self) -> tuple[list[int], int | None]:
        """The space's axes of length above 1, outermost first, and the one vectors run along."""
        view = self.by_space or row_major(self.space)
        inner = [axis[-1][1] if axis else 0 for axis in view.axes]
        axes = [k for k, n in enumerate(self.space) if n > 1]
        axes.sort(key=lambda k: -inner[k])
        return (axes[:-1], axes[-1]) if axes else ([], None)

    def _over_space(
        self, work: int, tile: int, body: Callable[[Index, int, list[tuple[int, int]]], Stmt]
    ) -> Stmt:
        """Loops over the space. ``body(index, axis, pieces)`` treats a run along the last axis."""
        outer, inner = self._axes()
        lanes = self.lanes(self.tail.dtype)
        base: Index = [0] * len(self.space)
        if inner is None:
            return body(base, -1, [(0, 1)])
        length = self.space[inner]
        full, rest = length // tile, length % tile

        def runs(index: Index) -> list[Stmt]:
            parts = []
            if full:
                whole = schedule.pieces(tile, lanes)
                if full == 1:
                    parts.append(body(index, inner, whole))
                else:
                    parts.append(
                        _for(full, lambda t: body(_at(index, inner, t * tile), inner, whole))
                    )
            if rest:
                edge = schedule.pieces(rest, lanes)
                parts.append(body(_at(index, inner, full * tile), inner, edge))
            return parts

        extents = [self.space[k] for k in outer]
        parallel = schedule.is_parallel(work)
        if parallel and math.prod(extents) < 4 and full >= 4:
            # One long axis: its tiles are shared among the threads.
            def along(index: Index) -> Stmt:
                whole = schedule.pieces(tile, lanes)
                main = _for(
                    full,
                    lambda t: body(_at(index, inner, t * tile), inner, whole),
                    parallel=True,
                )
                if not rest:
                    return main
                edge = schedule.pieces(rest, lanes)
                return _seq([main, body(_at(index, inner, full * tile), inner, edge)])

            return _nest(extents, lambda i: along(_spread(base, outer, i)))
        return _nest(
            extents, lambda i: _seq(runs(_spread(base, outer, i))), parallel=parallel
        )

    def elementwise(self) -> Stmt:
        """A kernel without a reduction."""
        lanes = self.lanes(self.tail.dtype)

        def body(index: Index, axis: int, widths: list[tuple[int, int]]) -> Stmt:
            return _seq(
                [self.vector(w, lambda l, at=at: self.store(_at(index, axis, at + l)))
                 for at, w in widths]
            )  # fmt: skip

        return self._over_space(self.tail.type.size, 4 * lanes, body)

    def reduction(self, anchor: Term) -> Stmt:
        """A reduction by plain loops, vectorised along the innermost axis of the result."""
        (child,) = anchor.children
        name = anchor["function"]
        dtype, inner = self._accumulator(anchor)
        step = {"dot": "sum", "mean": "sum"}.get(name, name)
        tuple_axis = child.item[0] if name == "dot" else 0
        extents = child.item[1:] if name == "dot" else child.item
        count = math.prod(extents)
        order = self._reduce_order(child, len(extents))
        lanes = self.lanes(inner)
        work = anchor.type.size * max(count, 1) // 4
        identity = scalars.identity(step, inner)

        def element(index: Index, item: Index) -> Expr:
            def value(position: Index) -> Expr:
                loaded = self.lowering.value(child, position)
                return scalars.convert(scalars.convert(loaded, child.dtype, dtype), dtype, inner)

            if name != "dot":
                return value([*index, *item])
            result = value([*index, 0, *item])
            for k in range(1, tuple_axis):
                result = result * value([*index, k, *item])
            return result

        def body(index: Index, axis: int, widths: list[tuple[int, int]]) -> Stmt:
            size = sum(width for _, width in widths)
            total = _buffer("total", size, inner, local=True)
            start = [self.vector(w, lambda l, at=at: _put(total, at + l, identity)) for at, w in widths]

            def add(item: Index) -> Stmt:
                placed: Index = [None] * len(extents)
                for k, position in zip(order, item, strict=True):
                    placed[k] = position

                def one(at: int, lane: Any) -> Stmt:
                    where = _at(index, axis, at + lane)

                    def value() -> Expr:
                        new = self.lowering.name(element(where, placed), inner)
                        return scalars.accumulate(step, _get(total, at + lane), new, inner)

                    return self.lowering.statement(
                        value, lambda result: _put(total, at + lane, result)
                    )

                return _seq([self.vector(w, lambda l, at=at: one(at, l)) for at, w in widths])

            def done(at: int, lane: Any) -> Stmt:
                value = _get(total, at + lane)
                if name == "mean":
                    value = value / scalars.const(count, inner)
                if anchor.dtype == "bool":
                    value = scalars.convert(value, inner, "bool")
                else:
                    value = scalars.convert(value, inner, anchor.dtype)
                self.give(value)
                return self.store(_at(index, axis, at + lane))

            loops = _nest([extents[k] for k in order], add) if count else None
            ends = [self.vector(w, lambda l, at=at: done(at, l)) for at, w in widths]
            return _seq([_allocate(total), *start, *([loops] if count else []), *ends])

        return self._over_space(work, 4 * lanes, body)

    def _accumulator(self, anchor: Term) -> tuple[str, str]:
        """The dtype of a reduction's terms, and the one its total is kept in."""
        if anchor.dtype == "bool":
            return "uint8", "uint8"
        return anchor.dtype, scalars.wide(anchor.dtype)

    def _reduce_order(self, child: Term, count: int) -> list[int]:
        """Item axes with the largest stride outermost, where the operand is a view."""
        view = self.lowering.access(child).view
        axes = list(range(count))
        if view is not None:
            item = view.axes[-count:] if count else ()
            inner = [axis[-1][1] if axis else 0 for axis in item]
            axes.sort(key=lambda k: -inner[k])
        return axes

    def softmax(self, anchor: Term) -> Stmt:
        """Softmax of the items, each shifted by its maximum."""
        (child,) = anchor.children
        length = child.item[0]
        dtype = scalars.wide(anchor.dtype)
        outer = [k for k in range(len(self.space) - 1)]
        extents = [self.space[k] for k in outer]

        def load(index: Index, k: Any) -> Expr:
            return scalars.convert(
                self.lowering.access(child).load([*index, k]), child.dtype, dtype
            )

        def row(index: Index) -> Stmt:
            scalar = _buffer("state", 2, dtype, local=True)
            powers = _buffer("powers", length, dtype, local=True, scope="global")
            lowest = scalars.const(-math.inf, dtype)
            find = _for(
                length,
                lambda k: self.lowering.statement(
                    lambda: scalars.maximum(
                        _get(scalar, 0), self.lowering.name(load(index, k), dtype), dtype
                    ),
                    lambda value: _put(scalar, 0, value),
                ),
            )
            raise_ = self.run(
                length,
                dtype,
                lambda k: self.lowering.statement(
                    lambda: scalars.apply("exp", load(index, k) - _get(scalar, 0), dtype),
                    lambda value: _put(powers, k, value),
                ),
            )
            total = _for(length, lambda k: _put(scalar, 1, _get(scalar, 1) + _get(powers, k)))
            write_ = self.run(
                length,
                dtype,
                lambda k: self.store(
                    [*index, k],
                    scalars.convert(_get(powers, k) / _get(scalar, 1), dtype, anchor.dtype),
                ),
            )
            return _seq(
                [
                    _allocate(scalar),
                    _allocate(powers),
                    _put(scalar, 0, lowest),
                    _put(scalar, 1, scalars.const(0, dtype)),
                    find,
                    raise_,
                    total,
                    write_,
                ]
            )

        return _nest(extents, row, parallel=schedule.is_parallel(8 * anchor.type.size))

    def arg_extreme(self, anchor: Term) -> Stmt:
        """Position of the first extreme element; a NaN counts as extreme."""
        from tvm import tirx

        (child,) = anchor.children
        greater = anchor["function"] == "argmax"
        length = child.item[0]
        dtype = "uint8" if child.dtype == "bool" else child.dtype

        def load(index: Index, k: Any) -> Expr:
            value = self.lowering.scoped(lambda: self.lowering.access(child).load([*index, k]))
            return scalars.convert(value, child.dtype, dtype)

        def one(index: Index) -> Stmt:
            best = _buffer("best", 1, dtype, local=True)
            place = _buffer("place", 1, "int32", local=True)
            here = tirx.Var("here", dtype)

            def test(k: Any) -> Stmt:
                known = _get(best, 0)
                better = tirx.GT(here, known) if greater else tirx.LT(here, known)
                if dtype in FLOATS:
                    fresh = tirx.And(
                        scalars.is_nan(here, dtype), tirx.Not(scalars.is_nan(known, dtype))
                    )
                    better = tirx.Or(fresh, tirx.And(better, tirx.Not(scalars.is_nan(known, dtype))))
                k = tirx.const(k, "int32") if isinstance(k, int) else k
                update = tirx.IfThenElse(better, _seq([_put(best, 0, here), _put(place, 0, k)]), None)
                return _seq([tirx.Bind(here, load(index, k)), update])

            search = _for(length, test)
            end = self.store(index, _get(place, 0).astype("int64"))
            return _seq(
                [
                    _allocate(best),
                    _allocate(place),
                    _put(best, 0, load(index, 0)),
                    _put(place, 0, tirx.const(0, "int32")),
                    search,
                    end,
                ]
            )

        def finished(index: Index) -> Stmt:
            return one(index)

        return _nest(
            list(self.space), finished, parallel=schedule.is_parallel(anchor.type.size * length)
        )


class _ProductNest(_Nest):
    """A ``dot`` of a ``cart_prod`` as a blocked matrix product.

    The vector operand is packed into tiles ``[batch][tile][depth][width]``; the other one is read
    in place, element by element, through its view (for a convolution: the windows themselves).
    """

    def __init__(
        self, builder: KernelBuilder, kernel: Kernel, anchor: Term, product: Product
    ) -> None:
        super().__init__(builder, kernel)
        self.anchor, self.product = anchor, product
        self.batch = product.batch
        access = self.lowering.access(product.pixels)
        assert access.view is not None
        self.streamed, self.view = access.buffer, access.view
        split = product.pixels.type.split
        resident = product.vector.outer[self.batch :]
        first = self.batch
        if product.vector_first:
            self.m_axes = list(range(first, first + len(resident)))
            n_start = first + len(resident)
        else:
            n_start = first
            self.m_axes = list(range(n_start + split - self.batch, len(anchor.shape)))
        self.m_shape = resident
        self.m = math.prod(resident)
        self.batch_loops = [
            loop for k in range(self.batch) for loop in _loops(k, self.view.axes[k], anchor.shape[k])
        ]
        pixel_loops = [
            loop
            for k in range(self.batch, split)
            for loop in _loops(n_start + k - self.batch, self.view.axes[k], product.pixels.shape[k])
        ]
        self.depth_loops = [
            loop
            for k in range(split, len(self.view.axes))
            for loop in _loops(k - split, self.view.axes[k], product.pixels.shape[k])
        ]
        self.depth = math.prod(product.pixels.item)
        self.pixel_loops = self._arrange(pixel_loops)
        tile_loop = self.pixel_loops[-1]
        self.operand_dtype = product.pixels.dtype
        self.result_dtype = anchor.dtype
        self.dtype = scalars.wide(anchor.dtype)
        self.tile = schedule.product_tile(
            self.machine, self.dtype, self.m, tile_loop.size, self.depth
        )
        self.depth_loops.sort(key=lambda loop: (not self._overlaps(loop), -loop.stride))

    def _overlaps(self, loop: _Loop) -> bool:
        """Whether a depth loop meets elements that other rows of the register tile read.

        Such a loop must not be innermost: LLVM unrolls it and keeps what was read for the next
        rows, for which there are no registers.
        """
        along = self.pixel_loops[-1].stride
        return any(
            along == 0 or (d * loop.stride % along == 0 and d * loop.stride // along < 16)
            for d in range(1, min(loop.size, 16))
        )

    def _arrange(self, loops: list[_Loop]) -> list[_Loop]:
        """Streamed loops, outermost first; short ones are merged where the strides allow it."""
        out = self.by_space

        def distance(loop: _Loop) -> int:
            axis, _, weight = loop.parts[-1]
            stride = single_stride(out.axes[axis]) if out is not None else None
            return weight * stride if stride is not None else -loop.stride

        loops = sorted(loops, key=lambda loop: -distance(loop))
        if not loops:
            return [_Loop(1, [])]
        while len(loops) > 1 and loops[-1].size < 12:
            outer, inner = loops[-2], loops[-1]
            if outer.stride != inner.size * inner.stride:
                break
            if distance(outer) != inner.size * distance(inner):
                break
            merged = _Loop(
                outer.size * inner.size, [*outer.parts, *inner.parts], inner.stride
            )
            loops[-2:] = [merged]
        if loops[-1].size < 6:
            # The tile runs along the longest loop instead.
            longest = max(range(len(loops)), key=lambda k: loops[k].size)
            loops.append(loops.pop(longest))
        return loops

    # --- the packed operand -------------------------------------------------------------------

    @property
    def _tiles(self) -> list[tuple[int, int, int]]:
        """(first result, results, padded width) of every tile along the vector side."""
        width, lanes = self.tile.width, self.tile.lanes
        tiles = []
        for low in range(0, self.m, width):
            count = min(width, self.m - low)
            tiles.append((low, count, -(-count // lanes) * lanes))
        return tiles

    @property
    def _padded(self) -> int:
        return sum(width for _, _, width in self._tiles)

    def _depth_atoms(self) -> tuple[list[int], list[int]]:
        """Sizes of the depth loops in row-major order, and the loop order as a permutation."""
        row = sorted(self.depth_loops, key=lambda loop: (loop.parts[0][0], -loop.parts[0][2]))
        order = [next(k for k, each in enumerate(row) if each is loop) for loop in self.depth_loops]
        return [loop.size for loop in row], order

    def _pack_constant(self, weights: Array) -> int:
        """A buffer with the packed weights; equal packings of one array are shared."""
        key = (
            id(weights),
            self.tile.width,
            self.tile.lanes,
            tuple(self._depth_atoms()[0]),
            tuple(self._depth_atoms()[1]),
            self.batch,
        )
        known = self.builder._packed.get(key)
        if known is not None:
            return known
        groups = math.prod(weights.shape[: self.batch])
        size = groups * self._padded * self.depth
        if weights.size and all(
            s == 0 or n == 1 for s, n in zip(weights.strides, weights.shape, strict=True)
        ):
            # One number throughout: stored as such, expanded when the program is loaded.
            value = weights[(0,) * weights.ndim]
            packed = np.broadcast_to(np.asarray(value, weights.dtype), (size,))
            number = self.builder.constant(packed, self.operand_dtype)
            self.builder._packed[key] = number
            return number
        atoms, order = self._depth_atoms()
        matrix = weights.reshape(groups, self.m, *atoms)
        packed = np.zeros(size, weights.dtype)
        at = 0
        for group in range(groups):
            for low, count, width in self._tiles:
                rows = matrix[group, low : low + count]
                rows = rows.transpose(0, *(k + 1 for k in order)).reshape(count, self.depth)
                part = packed[at : at + self.depth * width].reshape(self.depth, width)
                part[:, :count] = rows.T
                at += self.depth * width
        number = self.builder.constant(packed, self.operand_dtype)
        self.builder._packed[key] = number
        return number

    def _pack_at_run_time(self) -> tuple[int, Launch]:
        """A kernel that packs an operand computed at run time, and the buffer it fills."""
        product = self.product
        groups = math.prod(product.vector.shape[: self.batch])
        size = groups * self._padded * self.depth
        number = self.builder.scratch(size, self.operand_dtype)
        nest = _Reader(self.builder, self.kernel)
        out = _buffer("out", size, self.operand_dtype)
        access = nest.lowering.access(product.vector)
        shape = product.vector.shape
        batch_extents = list(shape[: self.batch])
        row_atoms, order = self._depth_atoms()
        zero = scalars.const(0, self.operand_dtype)
        tiles = self._tiles
        full = [t for t in tiles if t[1] == self.tile.width]
        edge = tiles[len(full) :]
        depths = [loop.size for loop in self.depth_loops]

        def element(group: Index, item: Index, m: Any) -> Expr:
            where: Index = [*group, *_unflatten(m, self.m_shape)]
            axes: Index = [0] * len(product.vector.item)
            for loop, position in zip(self.depth_loops, item, strict=True):
                axis, _, weight = loop.parts[0]
                axes[axis] = axes[axis] + position * weight
            return nest.lowering.scoped(lambda: access.load([*where, *axes]))

        def tile(group: Index, low: Any, start: Any, count: int, width: int) -> Stmt:
            def inner(item: Index) -> Stmt:
                flat: Any = 0
                for position, extent in zip(item, depths, strict=True):
                    flat = flat * extent + position
                address = start + flat * width
                parts = [
                    nest.vector(w, lambda l, at=at: write(
                        out, address + at + l, element(group, item, low + at + l),
                        self.operand_dtype))
                    for at, w in schedule.pieces(count, self.tile.lanes)
                ]  # fmt: skip
                if count < width:
                    parts.append(
                        _for(width - count, lambda l: write(
                            out, address + count + l, zero, self.operand_dtype))
                    )  # fmt: skip
                return _seq(parts)

            return _nest(depths, inner)

        def group_body(group: Index) -> list[Stmt]:
            flat: Any = 0
            for position, extent in zip(group, batch_extents, strict=True):
                flat = flat * extent + position
            base = flat * (self._padded * self.depth)
            step = self.tile.width
            parts = []
            if full:
                parts.append(
                    _for(len(full), lambda t: tile(
                        group, t * step, base + t * (step * self.depth), step, step),
                        parallel=not batch_extents and schedule.is_parallel(size))
                )  # fmt: skip
            for low, count, width in edge:
                parts.append(tile(group, low, base + low * self.depth, count, width))
            return parts

        body = _nest(
            batch_extents,
            lambda group: _seq(group_body(group)),
            parallel=bool(batch_extents) and schedule.is_parallel(size),
        )
        launch = Launch(
            _function([*nest.parameters, out], body),
            [*nest.arguments, Argument(number, 0, size)],
        )
        return number, launch

    # --- the nest -----------------------------------------------------------------------------

    def launches(self) -> list[Launch]:
        before: list[Launch] = []
        weights = self.builder.partition.weights.get(self.product.vector)
        if weights is not None:
            packed = self._pack_constant(weights)
        else:
            packed, launch = self._pack_at_run_time()
            before.append(launch)
        size = self.builder.partition.buffers[packed].size
        self.packed = _buffer("packed", size, self.operand_dtype)
        self._packed_size = size
        self._steps = -(-self.pixel_loops[-1].size // self.tile.pixels)
        self._shares = self._steps * math.prod(loop.size for loop in self.pixel_loops[:-1])
        self.parameters.append(self.packed)
        self.arguments.append(Argument(packed, 0, size))
        return [*before, self.finish(self._body())]

    def _body(self) -> Stmt:
        from tvm import tirx

        tiles = self._tiles
        full = sum(1 for t in tiles if t[1] == self.tile.width)
        rows = self.tile.pixels
        along = self.pixel_loops[-1]
        steps = -(-along.size // rows)
        last_rows = along.size - (steps - 1) * rows
        outer = [loop.size for loop in self.pixel_loops[:-1]]
        groups = [loop.size for loop in self.batch_loops]
        resident = [*groups, len(tiles)]
        streamed = [*outer, steps]
        extents = [*resident, *streamed] if self.tile.resident_outer else [*streamed, *resident]

        def tile(index: Index) -> Stmt:
            if self.tile.resident_outer:
                group, t = index[: len(groups)], index[len(groups)]
                pixel, step = index[len(resident) : -1], index[-1]
            else:
                pixel, step = index[: len(outer)], index[len(outer)]
                group, t = index[len(streamed) : -1], index[-1]

            def columns(count: int) -> Stmt:
                m_tile = tiles[t] if isinstance(t, int) else None

                def vectors(kind: tuple[int, int]) -> Stmt:
                    return self._micro(group, t, kind, pixel, step, count)

                if full == len(tiles):
                    return vectors((self.tile.width, self.tile.width))
                edge = tiles[-1][1:]
                if full == 0 or (m_tile and m_tile[1] != self.tile.width):
                    return vectors(edge)
                return tirx.IfThenElse(
                    tirx.LT(t, full), vectors((self.tile.width, self.tile.width)), vectors(edge)
                )

            if last_rows == rows or isinstance(step, int):
                return columns(last_rows if steps == 1 else rows)
            return tirx.IfThenElse(tirx.LT(step, steps - 1), columns(rows), columns(last_rows))

        work = self.anchor.type.size * self.depth
        return _fused(extents, tile, parallel=schedule.is_parallel(work // 16))

    def _depth_nest(self, inner: Callable[[Index], Stmt], weights: Any, share: Any) -> Stmt:
        """The depth loops; where weights exceed the cache, fetches of the next tile among them.

        The fetches stand outside of the innermost loop: inside they would keep LLVM from holding
        the accumulators in registers.
        """
        extents = [loop.size for loop in self.depth_loops]
        if not self.tile.resident_outer or self._shares < 2 or not extents:
            return _nest(extents, inner)
        last = extents[-1]
        chunk = next((n for n in range(min(last, 64), 15, -1) if last % n == 0), last)

        def outer(item: Index) -> Stmt:
            flat: Any = 0
            for position, extent in zip(item, [*extents[:-1], last // chunk], strict=True):
                flat = flat * extent + position
            fetch = self._fetch_next(weights, flat * chunk, chunk, share)
            loop = _for(chunk, lambda k: inner([*item[:-1], item[-1] * chunk + k]))
            return _seq([*fetch, loop])

        return _nest([*extents[:-1], last // chunk], outer)

    def _fetch_next(self, weights: Any, depth: Any, count: int, share: Any) -> list[Stmt]:
        """Fetches what ``count`` depth steps from ``depth`` on are to fetch of the next weight tile.

        Weights come from memory once a run. Every register tile fetches its share of the next
        tile's, spread over its own depth, so that memory and arithmetic are busy together.
        """
        from tvm import tirx

        size = self.tile.width * self.depth
        line = max(1, 64 // np.dtype(self.operand_dtype).itemsize)
        lines = -(-count * self.tile.width // (line * self._shares))
        first = weights + size + share * (size // self._shares)
        first = first + depth * self.tile.width // self._shares
        fetches = []
        for k in range(lines):
            at = tirx.min(first + k * line, self._packed_size - 1)
            address = tirx.address_of(tirx.BufferLoad(self.packed, [at]))
            # Read, into the second-level cache, data.
            hints = [tirx.const(hint, "int32") for hint in (0, 2, 1)]
            call = tirx.call_llvm_intrin("void", "llvm.prefetch", address, *hints)
            fetches.append(tirx.Evaluate(call))
        return fetches

    def _micro(
        self, group: Index, t: Any, kind: tuple[int, int], pixel: Index, step: Any, rows: int
    ) -> Stmt:
        """One register tile: ``rows`` streamed positions by ``kind = (results, padded width)``."""
        count, width = kind
        lanes = self.tile.lanes
        vectors = width // lanes
        along = self.pixel_loops[-1]
        total = _buffer("total", rows * width, self.dtype, local=True)
        zero = scalars.const(0, self.dtype)

        start: Any = self.view.offset
        flat_group: Any = 0
        for loop, position in zip(self.batch_loops, group, strict=True):
            start = start + position * loop.stride
        for loop, position in zip(self.pixel_loops[:-1], pixel, strict=True):
            start = start + position * loop.stride
        first = step * self.tile.pixels
        start = start + first * along.stride
        for loop, position in zip(self.batch_loops, group, strict=True):
            flat_group = flat_group * loop.size + position
        weights = flat_group * (self._padded * self.depth) + t * (self.tile.width * self.depth)

        def convert(value: Expr) -> Expr:
            value = scalars.convert(value, self.operand_dtype, self.result_dtype)
            return scalars.convert(value, self.result_dtype, self.dtype)

        def inner(item: Index) -> Stmt:
            address = start
            flat: Any = 0
            for loop, position in zip(self.depth_loops, item, strict=True):
                address = address + position * loop.stride
                flat = flat * loop.size + position
            row = weights + flat * width

            def multiply(p: Any, v: Any, lane: Any) -> Stmt:
                at = p * width + v * lanes + lane
                left = read(self.streamed, address + p * along.stride, self.operand_dtype)
                right = read(self.packed, row + v * lanes + lane, self.operand_dtype)
                return _put(total, at, _get(total, at) + convert(left) * convert(right))

            return _unrolled(
                rows, lambda p: _unrolled(
                    vectors, lambda v: _vector(lanes, lambda l: multiply(p, v, l)))
            )  # fmt: skip

        def done(p: int, at: int, lane: Any) -> Stmt:
            value = _get(total, p * width + at + lane)
            self.give(scalars.convert(value, self.dtype, self.result_dtype))
            index: Index = [0] * len(self.anchor.shape)
            for loop, position in zip(self.batch_loops, group, strict=True):
                _advance(index, loop, position)
            for loop, position in zip(self.pixel_loops[:-1], pixel, strict=True):
                _advance(index, loop, position)
            _advance(index, along, first + p)
            m = t * self.tile.width + at + lane
            for axis, position in zip(self.m_axes, _unflatten(m, self.m_shape), strict=True):
                index[axis] = position
            return self.store(index)

        clear = _unrolled(
            rows * vectors, lambda i: _vector(lanes, lambda l: _put(total, i * lanes + l, zero))
        )
        share: Any = 0
        for loop, position in zip(self.pixel_loops[:-1], pixel, strict=True):
            share = share * loop.size + position
        depth = self._depth_nest(inner, weights, share * self._steps + step)
        ends = [
            self.vector(w, lambda l, p=p, at=at: done(p, at, l))
            for p in range(rows)
            for at, w in schedule.pieces(count, lanes)
        ]
        return _seq([_allocate(total), clear, depth, *ends])


class _Reader(_Nest):
    """The read side of a kernel, for auxiliary functions."""


# --- statements ---------------------------------------------------------------------------------


def _buffer(name: str, size: int, dtype: str, local: bool = False, scope: str = "local") -> Any:
    from tvm import tirx

    dtype = scalars.storage_dtype(dtype)
    # Slices of larger buffers start anywhere, so parameters promise no more than their elements.
    alignment = 64 if local else np.dtype(dtype).itemsize
    return tirx.decl_buffer(
        (size,),
        dtype,
        name=name,
        scope=scope if local else "",
        data_alignment=alignment,
        layout=None,
    )


def _function(parameters: list[Any], body: Stmt) -> Any:
    from tvm import tirx

    function = tirx.PrimFunc(parameters, body)
    return function.with_attr({"tirx.noalias": True})


def _allocate(buffer: Any) -> Stmt:
    from tvm import tirx

    return tirx.AllocBuffer(buffer)


def _get(buffer: Any, at: Any) -> Expr:
    from tvm import tirx

    return tirx.BufferLoad(buffer, [tirx.const(at, "int32") if isinstance(at, int) else at])


def _put(buffer: Any, at: Any, value: Expr) -> Stmt:
    from tvm import tirx

    at = tirx.const(at, "int32") if isinstance(at, int) else at
    return tirx.BufferStore(buffer, value, [at])


def _seq(statements: Sequence[Stmt]) -> Stmt:
    from tvm import tirx

    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def _for(extent: int, body: Callable[[Any], Stmt], parallel: bool = False) -> Stmt:
    from tvm import tirx

    if extent == 1:
        return body(0)
    variable = tirx.Var("i", "int32")
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
    return tirx.For(variable, 0, extent, kind, body(variable))


def _unrolled(extent: int, body: Callable[[Any], Stmt]) -> Stmt:
    from tvm import tirx

    if extent == 1:
        return body(0)
    variable = tirx.Var("u", "int32")
    return tirx.For(variable, 0, extent, tirx.ForKind.UNROLLED, body(variable))


def _vector(width: int, body: Callable[[Any], Stmt]) -> Stmt:
    from tvm import tirx

    if width == 1:
        return body(0)
    variable = tirx.Var("l", "int32")
    return tirx.For(variable, 0, width, tirx.ForKind.VECTORIZED, body(variable))


def _nest(
    extents: Sequence[int], body: Callable[[Index], Stmt], parallel: bool = False
) -> Stmt:
    """Nested loops; with ``parallel`` the outer ones are fused until they suffice for all threads."""
    extents = list(extents)
    if parallel and extents:
        fused = schedule.parallel_prefix(extents)
        return _fused(
            extents[:fused],
            lambda first: _nest(extents[fused:], lambda rest: body([*first, *rest])),
            parallel=True,
        )

    def level(k: int, index: Index) -> Stmt:
        if k == len(extents):
            return body(index)
        return _for(extents[k], lambda i: level(k + 1, [*index, i]))

    return level(0, [])


def _fused(extents: Sequence[int], body: Callable[[Index], Stmt], parallel: bool) -> Stmt:
    """Loops over a fused index, split up inside; threads get equal runs of it."""
    from tvm import tirx

    total = math.prod(extents)
    if total == 1:
        return body([0] * len(extents))
    if not parallel:
        return _nest(extents, body)
    variable = tirx.Var("f", "int32")
    return tirx.For(
        variable, 0, total, tirx.ForKind.PARALLEL, body(_unflatten(variable, extents))
    )


def _unflatten(flat: Any, shape: Sequence[int]) -> Index:
    result: Index = []
    rest = math.prod(shape)
    for k, size in enumerate(shape):
        rest //= max(size, 1)
        if size == 1:
            result.append(0)
            continue
        position = flat // rest if rest > 1 else flat
        outermost = all(n == 1 for n in shape[:k])
        result.append(position if outermost else position % size)
    return result


def _at(index: Index, axis: int, more: Any) -> Index:
    if axis < 0:
        return index
    result = list(index)
    result[axis] = result[axis] + more
    return result


def _spread(base: Index, axes: Sequence[int], positions: Sequence[Any]) -> Index:
    result = list(base)
    for axis, position in zip(axes, positions, strict=True):
        result[axis] = position
    return result


def _advance(index: Index, loop: _Loop, position: Any) -> None:
    """Adds a loop's position to the logical axes it runs over."""
    sizes = [size for _, size, _ in loop.parts]
    for (axis, _, weight), digit in zip(loop.parts, _unflatten(position, sizes), strict=True):
        index[axis] = index[axis] + digit * weight


def _bounds(shape: Sequence[int]) -> list[int]:
    result, step = [], 1
    for size in reversed(shape):
        result.append(step)
        step *= max(size, 1)
    return result[::-1]


def _loops(axis: int, atoms: Sequence[tuple[int, int]], size: int) -> list[_Loop]:
    """One loop for each atom of an axis."""
    loops, weight = [], size
    for length, stride in atoms:
        weight //= length
        loops.append(_Loop(length, [(axis, length, weight)], stride))
    return loops


__all__ = ["Argument", "KernelBuilder", "Launch", "View", "FUNCTIONS"]
