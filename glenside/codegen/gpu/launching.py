"""Thread-bound pieces of loop nests: grids, groups, barriers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen.loops import Expr, Index, Stmt

UNROLL = "un"
"""Prefix of the variables of loops that the device's compiler is to write out."""

PACKED = "packed"
"""The parameter with a constant operand, in the order in which it is read."""

SHUFFLE = "__shfl_xor_sync"
"""What CUDA calls a thread's value of the thread whose number in the warp differs in some bits."""

_AXES = "xyz"


def bound(tag: str, extent: int, body: Callable[[Any], Stmt]) -> Stmt:
    """``body`` for every position along a dimension of the grid or of a group."""
    from tvm import tirx

    variable = tirx.Var(tag, "int32")
    thread = tirx.IterVar(None, variable, tirx.IterVar.ThreadIndex, tag)
    return tirx.AttrStmt(thread, "thread_extent", tirx.const(extent, "int32"), body(variable))


def launch(grid: Sequence[int], threads: int, body: Callable[[Sequence[Any], Any], Stmt]) -> Stmt:
    """A grid of groups of ``threads`` threads: ``body(group along x, y, z, thread)``."""
    positions: list[Any] = []

    def level(axis: int) -> Stmt:
        if axis == len(grid):
            return bound("threadIdx.x", threads, lambda thread: body(positions, thread))

        def inside(position: Any) -> Stmt:
            positions.append(position if grid[axis] > 1 else 0)
            return level(axis + 1)

        return bound(f"blockIdx.{_AXES[axis]}", grid[axis], inside)

    return level(0)


def barrier() -> Stmt:
    """All threads of a group wait here; what they wrote to local memory is seen by all."""
    from tvm import tirx

    return tirx.Evaluate(tirx.call_intrin("", "tirx.tvm_storage_sync", "shared"))


def call(name: str, *arguments: Any) -> Stmt:
    """A call of a function of the text."""
    from tvm import tirx

    return tirx.Evaluate(tirx.call_extern("int32", name, *arguments))


def address(buffer: Any, at: Any) -> Expr:
    """Where an element of a buffer is."""
    from tvm import tirx

    at = tirx.const(at, "int32") if isinstance(at, int) else at
    return tirx.address_of(tirx.BufferLoad(buffer, [at]))


def guarded(condition: Expr | None, body: Stmt) -> Stmt:
    """``body`` where the condition holds."""
    from tvm import tirx

    return body if condition is None else tirx.IfThenElse(condition, body, None)


def shared(name: str, size: int, dtype: str, dynamic: bool = False) -> Any:
    """A buffer in local memory, aligned for the widest loads."""
    from tvm import tirx

    scope = "shared.dyn" if dynamic else "shared"
    return tirx.decl_buffer((size,), dtype, name=name, scope=scope, data_alignment=16, layout=None)


def registers(name: str, size: int, dtype: str) -> Any:
    """A buffer of one thread; indexed by constants only, it lies in registers."""
    from tvm import tirx

    return tirx.decl_buffer(
        (size,), dtype, name=name, scope="local", data_alignment=16, layout=None
    )


def serial(extent: int, body: Callable[[Any], Stmt]) -> Stmt:
    """A loop; none at all for one iteration."""
    from tvm import tirx

    if extent == 1:
        return body(0)
    variable = tirx.Var("i", "int32")
    return tirx.For(variable, 0, extent, tirx.ForKind.SERIAL, body(variable))


def unrolled(extent: int, body: Callable[[Any], Stmt]) -> Stmt:
    """A loop that the device's compiler is to write out."""
    from tvm import tirx

    if extent == 1:
        return body(0)
    variable = tirx.Var(UNROLL, "int32")
    return tirx.For(variable, 0, extent, tirx.ForKind.UNROLLED, body(variable))


def serial_nest(extents: Sequence[int], body: Callable[[Index], Stmt]) -> Stmt:
    """Nested loops."""
    return _nest(extents, body, lambda extent: serial)


def unrolled_nest(
    extents: Sequence[int], body: Callable[[Index], Stmt], most: int = 1 << 30
) -> Stmt:
    """Nested loops to be written out; those of more than ``most`` steps stay loops."""
    return _nest(extents, body, lambda extent: unrolled if extent <= most else serial)


def _nest(
    extents: Sequence[int], body: Callable[[Index], Stmt], kind: Callable[[int], Any]
) -> Stmt:
    def level(number: int, index: Index) -> Stmt:
        if number == len(extents):
            return body(index)
        loop = kind(extents[number])
        made: Stmt = loop(extents[number], lambda at: level(number + 1, [*index, at]))
        return made

    return level(0, [])
