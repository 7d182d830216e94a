"""Operands: reading their elements by positions along the product's loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.gpu.space import Operand
from glenside.codegen.gpu.threads.parts.placing import Placement
from glenside.codegen.gpu.threads.tiling import Tiling, packing
from glenside.codegen.kernel.builder import KernelBuilder
from glenside.codegen.loops import Expr, Index, all_of
from glenside.codegen.lower import Lowering
from glenside.codegen.storage import Origin, repeated


class Operands:
    """Reads operands where they lie, or computes their elements."""

    def __init__(self, lowering: Lowering, placement: Placement, packed: Any) -> None:
        """``packed``: the buffer of a constant resident operand, None for another."""
        self.lowering, self.placement = lowering, placement
        self.product = placement.product
        self.packed = None if packed is None else Packed(packed, placement)

    def at_positions(self, operand: Operand, where: dict[int, Any], stage: Index) -> Expr:
        """An operand's element by positions within the tile; zero beyond the loops' ends."""
        from tvm import tirx

        index: list[Any] = list(operand.start)
        tests = []
        stages = dict(zip(self.placement.reduced, stage, strict=True))
        for axis, at in where.items():
            start = (
                self.placement.k_start(axis, stages[axis])
                if axis in stages
                else self.placement.tile_at[axis]
            )
            place = start + at
            if not self.placement.exact(axis):
                tests.append(tirx.LT(place, self.product.axes[axis].size))
            for d, step in enumerate(operand.steps[axis]):
                if step:
                    index[d] = index[d] + place * step
        return self.element(operand, index, tests)

    def element(self, operand: Operand, index: Index, tests: Sequence[Expr]) -> Expr:
        """An operand's element by the index of its base; zero where a test fails."""
        from tvm import tirx

        def load() -> Expr:
            return self.lowering.access(operand.base).load(index)

        condition = all_of(tests)
        if condition is None:
            return load()
        zero = scalars.const(0, operand.dtype)
        return tirx.if_then_else(condition, self.lowering.scoped(load), zero)


class Packed:
    """A constant resident operand in the order in which groups read it."""

    def __init__(self, buffer: Any, placement: Placement) -> None:
        self.buffer, self.placement = buffer, placement

    def start(self, stage: Index) -> Any:
        """Where the constant operand's part for a group and a stage begins."""
        placement = self.placement
        space, tiling, mapping = placement.product, placement.tiling, placement.mapping
        flat: Any = 0
        for axis in [*space.of("batch"), *placement.m]:
            flat = flat * tiling.groups[axis] + placement.group_at[axis]
        for axis in placement.reduced:
            flat = flat * mapping.split[axis] + placement.split_at[axis]
        for axis, at in zip(placement.reduced, stage, strict=True):
            flat = flat * tiling.stages[axis] + at
        return flat * tiling.resident_elements


def pack(builder: KernelBuilder, tiling: Tiling) -> int:
    """A buffer with the constant operand in the order in which groups read it."""
    resident = tiling.space.resident
    array = builder.cut.weights[resident.base]
    recipe = packing(tiling)
    origin = Origin(resident.base, repeated(array), recipe.apply)
    key = (id(array), recipe)
    return builder.packed(key, resident.dtype, lambda: (recipe.apply(array), origin))


def memory_order(operand: Operand, axes: Sequence[int]) -> list[int]:
    """Loops, the one along which memory is read in order last."""
    strides = operand.strides or tuple(
        math.prod(operand.shape[d + 1 :]) for d in range(len(operand.shape))
    )

    def distance(axis: int) -> int:
        return sum(step * stride for step, stride in zip(operand.steps[axis], strides, strict=True))

    return sorted(axes, key=lambda axis: -distance(axis) if distance(axis) else -(1 << 62))


def stored_dtype(operand: Operand) -> str:
    """How memory holds an operand's elements."""
    return scalars.storage_dtype(operand.dtype)


def stored_value(value: Expr, operand: Operand) -> Expr:
    """An operand's element as memory holds it."""
    return scalars.stored(value, operand.dtype)
