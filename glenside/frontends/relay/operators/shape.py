"""Operators that move elements or fill shapes, and compute nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints, Rows, Terms
from glenside.frontends.lowering.axes import axes_of, axis_of
from glenside.frontends.lowering.phrases import reshape as reshape_to
from glenside.frontends.lowering.phrases import spread
from glenside.frontends.lowering.phrases import transpose as permute
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import DTYPES, Term, builders
from glenside.language.shape import FLOATS

MOST_AXES = 64
"""NumPy has no arrays of more axes."""


@operator("reshape")
def reshape(x: Term, *, newshape: Ints | int, allowzero: bool = False) -> Term:
    """The same elements in row-major order under another shape.

    0 keeps a length, -1 stands for what is left over, -2 keeps all remaining axes, -3 merges two
    axes, -4 splits one into the two lengths that follow.
    """
    wanted = (newshape,) if isinstance(newshape, int) else newshape
    return reshape_to(x, _new_shape(x.shape, wanted, allowzero))


def _new_shape(old: Sequence[int], wanted: Sequence[int], allowzero: bool) -> list[int]:
    what = f"shape {tuple(old)} reshaped to {list(wanted)}"
    result: list[int] = []
    taken = 0  # axes of the old shape that are dealt with
    unknown: int | None = None
    entries = iter(wanted)

    def take(count: int) -> Sequence[int]:
        nonlocal taken
        if taken + count > len(old):
            raise ShapeError(f"{what}: too few axes")
        taken += count
        return old[taken - count : taken]

    for entry in entries:
        if entry > 0 or (entry == 0 and allowzero):
            result.append(entry)
            taken += 1
        elif entry == 0:
            result += take(1)
        elif entry == -1:
            if unknown is not None:
                raise ShapeError(f"{what}: -1 stands twice")
            unknown = len(result)
            result.append(1)
            taken += 1
        elif entry == -2:
            result += take(max(len(old) - taken, 0))
        elif entry == -3:
            result.append(math.prod(take(2)))
        elif entry == -4:
            (length,) = take(1)
            parts = [next(entries, 0), next(entries, 0)]
            if -1 in parts and parts != [-1, -1]:
                known = max(parts)
                parts[parts.index(-1)] = length // known if known > 0 else 0
            if min(parts) < 1 or math.prod(parts) != length:
                raise ShapeError(f"{what}: {length} is not split so")
            result += parts
        else:
            raise ShapeError(f"{what}: {entry} has no meaning")
    if unknown is not None:
        rest = math.prod(result)
        if rest == 0 or math.prod(old) % rest:
            raise ShapeError(f"{what}: the elements do not divide evenly")
        result[unknown] = math.prod(old) // rest
    return result


@operator("nn.batch_flatten")
def batch_flatten(x: Term) -> Term:
    """All axes but the first made one."""
    if x.type.rank < 1:
        raise ShapeError("a scalar has no batch axis")
    return reshape_to(x, (x.shape[0], math.prod(x.shape[1:])))


@operator("transpose")
def transpose(x: Term, *, axes: Ints | None = None) -> Term:
    """Axes permuted; reversed if no order is given."""
    rank = x.type.rank
    order = axes_of(axes, rank) if axes else list(reversed(range(rank)))
    if len(order) != rank:
        raise ShapeError(f"axes {list(axes or ())} do not permute {rank} axes")
    return permute(x, order)


@operator("squeeze")
def squeeze(x: Term, *, axis: Ints | int | None = None) -> Term:
    """Axes of length 1 removed: those named, or all."""
    if axis is None:
        axes = [i for i, length in enumerate(x.shape) if length == 1]
    else:
        axes = axes_of((axis,) if isinstance(axis, int) else axis, x.type.rank)
    for each in sorted(axes, reverse=True):
        x = builders.squeeze(x, each)
    return x


@operator("expand_dims")
def expand_dims(x: Term, *, axis: int, num_newaxis: int = 1) -> Term:
    """Axes of length 1 inserted before ``axis``; -1 puts them last."""
    if not 0 <= num_newaxis <= MOST_AXES:
        raise ShapeError(f"num_newaxis must be 0 to {MOST_AXES}, got {num_newaxis}")
    at = axis_of(axis, x.type.rank + 1)
    for _ in range(num_newaxis):
        x = builders.unsqueeze(x, at)
    return x


@operator("concatenate")
def concatenate(parts: Terms, *, axis: int = 0) -> Term:
    """Tensors joined along an axis."""
    if not parts:
        raise ShapeError("there is nothing to join")
    return builders.concat(axis_of(axis, parts[0].type.rank), *parts)


@operator("stack")
def stack(parts: Terms, *, axis: int = 0) -> Term:
    """Tensors of one shape joined along a new axis."""
    if not parts:
        raise ShapeError("there is nothing to join")
    at = axis_of(axis, parts[0].type.rank + 1)
    return builders.concat(at, *(builders.unsqueeze(part, at) for part in parts))


@operator("split")
def split(x: Term, *, indices_or_sections: Ints | int, axis: int = 0) -> Value:
    """A tuple of parts along an axis: so many equal ones, or cut at the positions listed."""
    axis = axis_of(axis, x.type.rank)
    length = x.shape[axis]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1 or length % count:
            raise ShapeError(f"length {length} does not divide into {count} equal parts")
        cuts = [length // count * i for i in range(1, count)]
    else:
        cuts = list(indices_or_sections)
    edges = [0, *cuts, length]
    if edges != sorted(edges):
        raise ShapeError(f"cuts {cuts} of length {length} must rise")
    if len(edges) == 2:
        return (x,)
    return tuple(builders.slice_(x, axis, low, high) for low, high in itertools.pairwise(edges))


@operator("nn.pad")
def pad(
    x: Term,
    value: Term | None = None,
    *,
    pad_width: Rows,
    pad_mode: str = "constant",
    pad_value: float | None = None,
) -> Term:
    """Every axis padded with one number: the second operand or, in older text, an attribute."""
    if pad_mode != "constant":
        raise Refused(f"attribute pad_mode {pad_mode} is not supported; constant is")
    if len(pad_width) != x.type.rank or any(len(row) != 2 for row in pad_width):
        raise ShapeError(f"pad_width needs a pair for each axis of {x.shape}, got {pad_width}")
    number: float = pad_value or 0.0
    if value is not None:
        if value.op != "constant" or value.type.size != 1:
            raise Refused("a padding value that is not a literal is not supported")
        number = value["value"]
    if x.dtype not in FLOATS:
        if number != number // 1:
            raise ShapeError(f"padding value {number} is not a value of {x.dtype}")
        number = int(number)
    for axis, (before, after) in enumerate(pad_width):
        x = builders.pad(x, axis, before, after, "zero" if number == 0 else number)
    return x


@operator("broadcast_to")
def broadcast_to(x: Term, *, shape: Ints) -> Term:
    """Repeated to a shape, as NumPy broadcasts."""
    if builders.broadcast_shapes(x.shape, shape) != shape:
        raise ShapeError(f"shape {x.shape} does not broadcast to {list(shape)}")
    return spread(x, shape)


def _filled(value: int, shape: Sequence[int], dtype: str) -> Term:
    if dtype not in DTYPES:
        raise Refused(f"attribute dtype {dtype} is not one of {', '.join(DTYPES)}")
    return builders.constant(value, shape, dtype)


@operator("zeros")
def zeros(*, shape: Ints, dtype: str) -> Term:
    """A tensor of zeros."""
    return _filled(0, shape, dtype)


@operator("ones")
def ones(*, shape: Ints, dtype: str) -> Term:
    """A tensor of ones."""
    return _filled(1, shape, dtype)


@operator("zeros_like")
def zeros_like(x: Term) -> Term:
    """Zeros in the shape and dtype of another tensor."""
    return _filled(0, x.shape, x.dtype)


@operator("ones_like")
def ones_like(x: Term) -> Term:
    """Ones in the shape and dtype of another tensor."""
    return _filled(1, x.shape, x.dtype)
