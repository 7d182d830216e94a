"""The loop nest of a product: register tiles, cache blocks, packed weights."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glenside.codegen import scalars
from glenside.codegen.cpu import schedule
from glenside.codegen.cpu.nest import LoopBuilder, LoopNest, fused, shared
from glenside.codegen.kernel.builder import Argument, Launch
from glenside.codegen.loops import (
    Expr,
    Index,
    Loop,
    Stmt,
    advance,
    allocate,
    declare,
    get,
    loops_of,
    nested,
    prim_func,
    put,
    repeat,
    sequence,
    unflatten,
    unrolled,
    vectorised,
)
from glenside.codegen.lower import read, write
from glenside.codegen.program.record import Kernel, Product
from glenside.codegen.views import single_stride
from glenside.language.term import Term

Array = np.ndarray[Any, Any]


class ProductNest(LoopNest):
    """A ``dot`` of a ``cart_prod`` as a blocked matrix product.

    The vector operand is packed into tiles ``[batch][tile][depth][width]``; the other one is read
    in place, element by element, through its view (for a convolution: the windows themselves).
    """

    def __init__(
        self, builder: LoopBuilder, kernel: Kernel, anchor: Term, product: Product
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
            loop
            for k in range(self.batch)
            for loop in loops_of(k, self.view.axes[k], anchor.shape[k])
        ]
        pixel_loops = [
            loop
            for k in range(self.batch, split)
            for loop in loops_of(
                n_start + k - self.batch, self.view.axes[k], product.pixels.shape[k]
            )
        ]
        self.depth_loops = [
            loop
            for k in range(split, len(self.view.axes))
            for loop in loops_of(k - split, self.view.axes[k], product.pixels.shape[k])
        ]
        self.depth = math.prod(product.pixels.item)
        self.pixel_loops = self._arrange(pixel_loops)
        tile_loop = self.pixel_loops[-1]
        self.operand_dtype = product.pixels.dtype
        self.result_dtype = anchor.dtype
        self.dtype = scalars.wide(anchor.dtype)
        self.tile = schedule.product_tile(
            self.machine,
            self.dtype,
            self.m,
            tile_loop.size,
            self.depth,
            self.view.span[1] - self.view.span[0],
        )
        self.depth_loops.sort(key=lambda loop: (not self._overlaps(loop), -loop.stride))

    def _overlaps(self, loop: Loop) -> bool:
        """Whether a depth loop meets elements that other rows of the register tile read.

        Such a loop must not be innermost: LLVM unrolls it and keeps what was read for the next
        rows, for which there are no registers.
        """
        along = self.pixel_loops[-1].stride
        return any(
            along == 0 or (d * loop.stride % along == 0 and d * loop.stride // along < 16)
            for d in range(1, min(loop.size, 16))
        )

    def _arrange(self, loops: list[Loop]) -> list[Loop]:
        """Streamed loops, outermost first; short ones are merged where the strides allow it."""
        out = self.by_space

        def distance(loop: Loop) -> int:
            axis, _, weight = loop.parts[-1]
            stride = single_stride(out.axes[axis]) if out is not None else None
            return weight * stride if stride is not None else -loop.stride

        loops = sorted(loops, key=lambda loop: -distance(loop))
        if not loops:
            return [Loop(1, [])]
        while len(loops) > 1 and loops[-1].size < 12:
            outer, inner = loops[-2], loops[-1]
            if outer.stride != inner.size * inner.stride:
                break
            if distance(outer) != inner.size * distance(inner):
                break
            merged = Loop(outer.size * inner.size, [*outer.parts, *inner.parts], inner.stride)
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
        return self.builder.packed(key, self.operand_dtype, lambda: (self._packed(weights), None))

    def _packed(self, weights: Array) -> Array:
        groups = math.prod(weights.shape[: self.batch])
        size = groups * self._padded * self.depth
        if weights.size and all(
            s == 0 or n == 1 for s, n in zip(weights.strides, weights.shape, strict=True)
        ):
            # One number throughout: stored as such, expanded when the program is loaded.
            value = weights[(0,) * weights.ndim]
            return np.broadcast_to(np.asarray(value, weights.dtype), (size,))
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
        return packed

    def _pack_at_run_time(self) -> tuple[int, Launch]:
        """A kernel that packs an operand computed at run time, and the buffer it fills."""
        product = self.product
        groups = math.prod(product.vector.shape[: self.batch])
        size = groups * self._padded * self.depth
        number = self.builder.memory.add(size, self.operand_dtype)
        nest = LoopNest(self.builder, self.kernel)
        out = declare("out", size, self.operand_dtype)
        access = nest.lowering.access(product.vector)
        shape = product.vector.shape
        batch_extents = list(shape[: self.batch])
        zero = scalars.const(0, self.operand_dtype)
        tiles = self._tiles
        full = [t for t in tiles if t[1] == self.tile.width]
        edge = tiles[len(full) :]
        depths = [loop.size for loop in self.depth_loops]

        def element(group: Index, item: Index, m: Any) -> Expr:
            where: Index = [*group, *unflatten(m, self.m_shape)]
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
                    nest.vectors(
                        schedule.pieces(count, self.tile.lanes),
                        lambda at, lane: write(
                            out,
                            address + at + lane,
                            element(group, item, low + at + lane),
                            self.operand_dtype,
                        ),
                    )
                ]
                if count < width:
                    parts.append(
                        repeat(
                            width - count,
                            lambda lane: write(
                                out, address + count + lane, zero, self.operand_dtype
                            ),
                        )
                    )
                return sequence(parts)

            return nested(depths, inner)

        def group_body(group: Index) -> list[Stmt]:
            flat: Any = 0
            for position, extent in zip(group, batch_extents, strict=True):
                flat = flat * extent + position
            base = flat * (self._padded * self.depth)
            step = self.tile.width
            parts = []
            if full:
                parts.append(
                    repeat(len(full), lambda t: tile(
                        group, t * step, base + t * (step * self.depth), step, step),
                        parallel=not batch_extents and schedule.is_parallel(size))
                )  # fmt: skip
            for low, count, width in edge:
                parts.append(tile(group, low, base + low * self.depth, count, width))
            return parts

        loops = shared if schedule.is_parallel(size) else nested
        body = loops(batch_extents, lambda group: sequence(group_body(group)))
        launch = Launch(
            prim_func([*nest.parameters, out], body),
            [*nest.arguments, Argument(number, 0, size)],
        )
        return number, launch

    # --- the nest -----------------------------------------------------------------------------

    def launches(self) -> list[Launch]:
        before: list[Launch] = []
        weights = self.builder.cut.weights.get(self.product.vector)
        if weights is not None:
            packed = self._pack_constant(weights)
        else:
            packed, launch = self._pack_at_run_time()
            before.append(launch)
        size = self.builder.memory.buffers[packed].size
        self.packed = declare("packed", size, self.operand_dtype)
        self._packed_size = size
        self._steps = -(-self.pixel_loops[-1].size // self.tile.pixels)
        outer = [loop.size for loop in self.pixel_loops[:-1]]
        self.block, self._inside = 1, 0
        if self.tile.order == "blocked":
            rows = outer[-1] if outer else 1
            span = self.view.span[1] - self.view.span[0]
            row = span * np.dtype(self.dtype).itemsize // rows
            self.block = schedule.block_rows(self.machine, rows, row)
            self._inside = 2 if self.block > 1 else 1
        self._shares = self._steps * (
            self.block if self.tile.order == "blocked" else math.prod(outer)
        )
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
        # The loop over resident tiles stands before the last ``kept`` streamed loops, so that every
        # resident tile read serves all that these run over.
        streamed = [*outer, steps]
        if self.block > 1:
            streamed = [*outer[:-1], outer[-1] // self.block, self.block, steps]
        kept = len(streamed) if self.tile.order == "resident" else self._inside
        cut = len(streamed) - kept
        extents = [*streamed[:cut], *groups, len(tiles), *streamed[cut:]]

        def tile(index: Index) -> Stmt:
            position = [*index[:cut], *index[cut + len(groups) + 1 :]]
            group, t = index[cut : cut + len(groups)], index[cut + len(groups)]
            pixel, step = position[:-1], position[-1]
            if self.block > 1:
                pixel = [*pixel[:-2], pixel[-2] * self.block + pixel[-1]]

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
        loops = fused if schedule.is_parallel(work // 16) else nested
        return loops(extents, tile)

    def _depth_nest(self, inner: Callable[[Index], Stmt], weights: Any, share: Any) -> Stmt:
        """The depth loops; where weights exceed the cache, fetches of the next tile among them.

        The fetches stand outside of the innermost loop: inside they would keep LLVM from holding
        the accumulators in registers.
        """
        extents = [loop.size for loop in self.depth_loops]
        if self.tile.order == "streamed" or self._shares < 2 or not extents:
            return nested(extents, inner)
        last = extents[-1]
        chunk = next((n for n in range(min(last, 64), 15, -1) if last % n == 0), last)

        def outer(item: Index) -> Stmt:
            flat: Any = 0
            for position, extent in zip(item, [*extents[:-1], last // chunk], strict=True):
                flat = flat * extent + position
            fetch = self._fetch_next(weights, flat * chunk, chunk, share)
            steps = repeat(chunk, lambda k: inner([*item[:-1], item[-1] * chunk + k]))
            return sequence([*fetch, steps])

        return nested([*extents[:-1], last // chunk], outer)

    def _fetch_next(self, weights: Any, depth: Any, count: int, share: Any) -> list[Stmt]:
        """Fetches what ``count`` depth steps from ``depth`` on are to fetch of the next tile.

        Weights come from memory once a run. Every register tile fetches its share of the next
        tile's, spread over its own depth, so that memory and arithmetic are busy together.
        """
        from tvm import tirx

        if not self.machine.prefetch:
            return []
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
        total = declare("total", rows * width, self.dtype, local=True)
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
                return put(total, at, get(total, at) + convert(left) * convert(right))

            return unrolled(
                rows, lambda p: unrolled(
                    vectors, lambda v: vectorised(lanes, lambda lane: multiply(p, v, lane)))
            )  # fmt: skip

        def done(p: Any, at: int, lane: Any) -> Stmt:
            value = get(total, p * width + at + lane)
            self.give(scalars.convert(value, self.dtype, self.result_dtype))
            index: Index = [0] * len(self.anchor.shape)
            for loop, position in zip(self.batch_loops, group, strict=True):
                advance(index, loop, position)
            for loop, position in zip(self.pixel_loops[:-1], pixel, strict=True):
                advance(index, loop, position)
            advance(index, along, first + p)
            m = t * self.tile.width + at + lane
            for axis, position in zip(self.m_axes, unflatten(m, self.m_shape), strict=True):
                index[axis] = position
            return self.store(index)

        clear = unrolled(
            rows * vectors,
            lambda i: vectorised(lanes, lambda lane: put(total, i * lanes + lane, zero)),
        )
        share: Any = 0
        if self.tile.order == "resident":
            for loop, position in zip(self.pixel_loops[:-1], pixel, strict=True):
                share = share * loop.size + position
        elif self.block > 1:
            share = pixel[-1] % self.block
        depth = self._depth_nest(inner, weights, share * self._steps + step)
        widths = schedule.pieces(count, lanes)
        end = repeat(
            rows,
            lambda p: self.vectors(widths, functools.partial(done, p)),
        )
        return sequence([allocate(total), clear, depth, end])
