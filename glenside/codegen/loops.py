"""Pieces of loop nests: statements, loops of every kind, index arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glenside.codegen import scalars

Expr = Any
Stmt = Any
Index = list[Any]
"""Positions along axes: ints where they are known, else TIR expressions."""


@dataclass
class Loop:
    """One loop of a nest: its length and what it adds to logical axes and addresses."""

    size: int
    parts: list[tuple[int, int, int]]
    """(axis of the anchor or operand, size, weight within that axis), row-major."""
    stride: int = 0


def declare(name: str, size: int, dtype: str, local: bool = False, scope: str = "local") -> Any:
    """A buffer. Parameters promise no more than the alignment of an element, since slices of larger
    buffers start anywhere."""
    from tvm import tirx

    dtype = scalars.storage_dtype(dtype)
    alignment = 64 if local else np.dtype(dtype).itemsize
    return tirx.decl_buffer(
        (size,),
        dtype,
        name=name,
        scope=scope if local else "",
        data_alignment=alignment,
        layout=None,
    )


def prim_func(parameters: list[Any], body: Stmt) -> Any:
    """A TIR function whose parameters do not overlap where one of them is written."""
    from tvm import tirx

    function = tirx.PrimFunc(parameters, body)
    return function.with_attr({"tirx.noalias": True})


def allocate(buffer: Any) -> Stmt:
    """Room for a local buffer."""
    from tvm import tirx

    return tirx.AllocBuffer(buffer)


def get(buffer: Any, at: Any) -> Expr:
    """One element of a local buffer."""
    from tvm import tirx

    return tirx.BufferLoad(buffer, [tirx.const(at, "int32") if isinstance(at, int) else at])


def put(buffer: Any, at: Any, value: Expr) -> Stmt:
    """A store to a local buffer."""
    from tvm import tirx

    at = tirx.const(at, "int32") if isinstance(at, int) else at
    return tirx.BufferStore(buffer, value, [at])


def sequence(statements: Sequence[Stmt]) -> Stmt:
    """Statements one after the other."""
    from tvm import tirx

    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def repeat(extent: int, body: Callable[[Any], Stmt], parallel: bool = False) -> Stmt:
    """A serial or parallel loop; none at all for one iteration."""
    from tvm import tirx

    if extent == 1:
        return body(0)
    variable = tirx.Var("i", "int32")
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
    return tirx.For(variable, 0, extent, kind, body(variable))


def unrolled(extent: int, body: Callable[[Any], Stmt]) -> Stmt:
    """A loop that is written out."""
    from tvm import tirx

    if extent == 1:
        return body(0)
    variable = tirx.Var("u", "int32")
    return tirx.For(variable, 0, extent, tirx.ForKind.UNROLLED, body(variable))


@dataclass
class Lanes:
    """The lanes of a vector loop whose body is being made, and the buffers of as many elements that
    the body keeps values in: they are allocated around the loop, where vectors of them are."""

    width: int
    position: Any
    cells: list[Any] = field(default_factory=list)


_LANES: ContextVar[Lanes | None] = ContextVar("lanes", default=None)


def current_lanes() -> Lanes | None:
    """The vector loop whose body is being made, if it is one's."""
    return _LANES.get()


def vectorised(width: int, body: Callable[[Any], Stmt]) -> Stmt:
    """A loop whose iterations are the lanes of a vector."""
    from tvm import tirx

    if width == 1:
        return body(0)
    variable = tirx.Var("l", "int32")
    lanes = Lanes(width, variable)
    outside = _LANES.set(lanes)
    try:
        made = body(variable)
    finally:
        _LANES.reset(outside)
    loop = tirx.For(variable, 0, width, tirx.ForKind.VECTORIZED, made)
    return sequence([*map(allocate, lanes.cells), loop])


def nested(extents: Sequence[int], body: Callable[[Index], Stmt]) -> Stmt:
    """Nested loops."""

    def level(k: int, index: Index) -> Stmt:
        if k == len(extents):
            return body(index)
        return repeat(extents[k], lambda i: level(k + 1, [*index, i]))

    return level(0, [])


def unflatten(flat: Any, shape: Sequence[int]) -> Index:
    """The row-major index of a flat position."""
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


def shifted(index: Index, axis: int, more: Any) -> Index:
    """The index moved along one axis (none for axis -1)."""
    if axis < 0:
        return index
    result = list(index)
    result[axis] = result[axis] + more
    return result


def spread(base: Index, axes: Sequence[int], positions: Sequence[Any]) -> Index:
    """The index with the positions of some axes replaced."""
    result = list(base)
    for axis, position in zip(axes, positions, strict=True):
        result[axis] = position
    return result


def advance(index: Index, loop: Loop, position: Any) -> None:
    """Adds a loop's position to the logical axes it runs over."""
    sizes = [size for _, size, _ in loop.parts]
    for (axis, _, weight), digit in zip(loop.parts, unflatten(position, sizes), strict=True):
        index[axis] = index[axis] + digit * weight


def all_of(tests: Sequence[Expr]) -> Expr | None:
    """Whether all tests hold; None where there are none."""
    from tvm import tirx

    return None if not tests else tests[0] if len(tests) == 1 else tirx.all(*tests)


def loops_of(axis: int, atoms: Sequence[tuple[int, int]], size: int) -> list[Loop]:
    """One loop for each atom of an axis."""
    loops, weight = [], size
    for length, stride in atoms:
        weight //= length
        loops.append(Loop(length, [(axis, length, weight)], stride))
    return loops
