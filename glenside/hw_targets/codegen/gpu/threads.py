"""Thread-bound pieces of loop nests: grids, groups, barriers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glenside.hw_targets.codegen.loops import Expr, Stmt

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
