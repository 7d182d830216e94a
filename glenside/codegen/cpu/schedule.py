"""How loops are cut for a CPU: register tiles, cache blocks, threads.

The product kernel keeps ``pixels x vectors`` accumulators in registers and streams one packed
weight vector and one broadcast element an instruction. Measured on AVX-512: 14 x 2 of 32 registers
runs at the peak rate of the fused multiply-add units, 7 x 4 spills and loses a third.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glenside.codegen import scalars


@dataclass(frozen=True)
class Machine:
    """What schedules depend on. ``vector_bytes`` and ``registers`` of the vector unit."""

    cpu: str
    vector_bytes: int
    registers: int
    l2_bytes: int = 1 << 20
    prefetch: bool = True
    """Whether kernels may ask for cache lines ahead of their use, which only LLVM can say."""

    def lanes(self, dtype: str) -> int:
        """Elements of a vector; narrow integers use at most 16, as their sums are formed wider."""
        size = np.dtype(scalars.value_dtype(dtype)).itemsize
        return min(16, max(1, self.vector_bytes // size))


PORTABLE = Machine("generic", vector_bytes=4, registers=16, prefetch=False)
"""Any processor: no vectors, nothing beyond what C can say."""


@functools.cache
def host() -> Machine:
    """The machine this process runs on, as LLVM sees it."""
    from tvm.target import Target, codegen

    cpu = str(codegen.llvm_get_system_cpu())
    features = set(map(str, codegen.llvm_get_cpu_features(Target({"kind": "llvm", "mcpu": cpu}))))
    if "avx512f" in features:
        return Machine(cpu, 64, 32)
    if "avx2" in features or "avx" in features:
        return Machine(cpu, 32, 16)
    return Machine(cpu, 16, 32 if "neon" in features else 16)


@dataclass(frozen=True)
class ProductTile:
    """Register tile of a product: ``pixels`` rows of ``vectors`` vectors of ``lanes`` elements."""

    pixels: int
    vectors: int
    lanes: int
    order: str
    """Which operand's tiles are the outer loop: ``resident``: those of the packed operand, each of
    which is then used on all of the other before the next is read; ``streamed``: the other way
    round; ``blocked``: resident tiles within blocks of streamed ones, where neither operand fits
    into the cache."""

    @property
    def width(self) -> int:
        return self.vectors * self.lanes


def product_tile(
    machine: Machine, dtype: str, m: int, n: int, k: int, streamed: int
) -> ProductTile:
    """The tile for ``m`` results along vectors, ``n`` along the streamed axis, depth ``k``.

    ``streamed`` is the number of elements that the streamed operand lies in.
    """
    lanes = machine.lanes(dtype)
    most = 14 if machine.registers >= 32 else 6
    rows = -(-n // max(-(-n // most), 1))  # Rows are spread evenly over the fewest tiles.
    room = machine.registers - 4
    vectors = 2
    if rows == 1:
        vectors = 8 if machine.registers >= 32 else 4
    elif rows * 4 <= room // 2:
        vectors = 4
    vectors = max(1, min(vectors, -(-m // lanes)))
    size = np.dtype(dtype).itemsize
    if m * k * size <= machine.l2_bytes // 4:
        order = "streamed"
    elif streamed * size <= machine.l2_bytes // 2 or n < 4:
        order = "resident"
    else:
        order = "blocked"
    return ProductTile(rows, vectors, lanes, order)


def block_rows(machine: Machine, rows: int, row_bytes: int) -> int:
    """How many rows of register tiles make a block: as many as half the cache holds."""
    most = max(machine.l2_bytes // 2 // max(row_bytes, 1) - 2, 1)
    return max(n for n in range(1, min(rows, most) + 1) if rows % n == 0)


def pieces(length: int, lanes: int) -> list[tuple[int, int]]:
    """``(start, width)`` of vectors that cover a length: full ones, then powers of two."""
    result, at = [], 0
    while at < length:
        width = lanes
        while width > length - at:
            width //= 2
        result.append((at, width))
        at += width
    return result


def parallel_prefix(extents: Sequence[int], enough: int = 16) -> int:
    """How many outer loops to fuse so that there are at least ``enough`` iterations to share."""
    total = 1
    for count, extent in enumerate(extents):
        if total >= enough:
            return count
        total *= extent
    return len(extents)


PARALLEL_WORK = 1 << 16
"""Kernels that store less than this many elements, or do as much work, run on one thread: about
10 microseconds, several times what it takes to wake a worker."""


def is_parallel(work: int) -> bool:
    """Whether a kernel of so much work is shared among threads."""
    return work >= PARALLEL_WORK
