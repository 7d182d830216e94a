"""Phrases that several operator families share. All take and give terms with every axis outer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from glenside.errors import ShapeError
from glenside.language import Term, builders
from glenside.language.builders import access, compute, outer_only, pair
from glenside.language.shape import FLOATS


def spread(x: Term, shape: Sequence[int]) -> Term:
    """``x`` broadcast to ``shape`` as NumPy does."""
    if x.op == "constant":
        return builders.constant(x["value"], shape, x.dtype)
    return builders.broadcast_to(x, shape)


def elementwise(function: str, *operands: Term) -> Term:
    """A map of one operand or a fold of several, with NumPy broadcasting."""
    if len(operands) == 1:
        return outer_only(compute(function, access(operands[0], 0)))
    shape = builders.broadcast_shapes(*(x.shape for x in operands))
    result = access(spread(operands[0], shape), 0)
    for other in operands[1:]:
        result = compute(function, pair(result, access(spread(other, shape), 0)))
    return outer_only(result)


def like(x: Term, value: float) -> Term:
    """One number in the dtype of ``x``, to be combined with it."""
    if x.dtype not in FLOATS:
        value = bool(value) if x.dtype == "bool" else int(value)
    return builders.constant(value, (), x.dtype)


def as_term(x: Term | float, like: Term) -> Term:
    """An operand that may be a number, in the dtype of the other."""
    return x if isinstance(x, Term) else builders.constant(x, (), like.dtype)


def add(a: Term, b: Term | float) -> Term:
    """``add`` with a term or a number, broadcast as NumPy does."""
    return elementwise("add", a, b if isinstance(b, Term) else like(a, b))


def sub(a: Term, b: Term | float) -> Term:
    """``sub`` with a term or a number, broadcast as NumPy does."""
    return elementwise("sub", a, b if isinstance(b, Term) else like(a, b))


def mul(a: Term, b: Term | float) -> Term:
    """``mul`` with a term or a number, broadcast as NumPy does."""
    return elementwise("mul", a, b if isinstance(b, Term) else like(a, b))


def div(a: Term, b: Term | float) -> Term:
    """``div`` with a term or a number, broadcast as NumPy does."""
    return elementwise("div", a, b if isinstance(b, Term) else like(a, b))


def power(a: Term, b: Term | float) -> Term:
    """``power`` with a term or a number, broadcast as NumPy does."""
    return elementwise("pow", a, b if isinstance(b, Term) else like(a, b))


def maximum(a: Term, b: Term | float) -> Term:
    """``maximum`` with a term or a number, broadcast as NumPy does."""
    return elementwise("maximum", a, b if isinstance(b, Term) else like(a, b))


def minimum(a: Term, b: Term | float) -> Term:
    """``minimum`` with a term or a number, broadcast as NumPy does."""
    return elementwise("minimum", a, b if isinstance(b, Term) else like(a, b))


def select(condition: Term, a: Term | float, b: Term | float) -> Term:
    """``a`` where ``condition`` holds, else ``b``, with NumPy broadcasting; one is a term."""
    if not isinstance(a, Term):
        assert isinstance(b, Term)
        a = like(b, a)
    if not isinstance(b, Term):
        b = like(a, b)
    shape = builders.broadcast_shapes(condition.shape, a.shape, b.shape)
    return builders.where(spread(condition, shape), spread(a, shape), spread(b, shape))


def reshape(x: Term, shape: Sequence[int]) -> Term:
    """Row-major reshape to ``shape``."""
    return builders.reshape(outer_only(x), shape)


def transpose(x: Term, permutation: Sequence[int]) -> Term:
    """``numpy.transpose``; the identity gives ``x``."""
    if list(permutation) == list(range(x.type.rank)):
        return x
    return builders.transpose(x, permutation)


def to_end(x: Term, axes: Sequence[int]) -> tuple[Term, list[int]]:
    """``x`` with ``axes`` moved behind the others, and the permutation that undoes it."""
    order = [axis for axis in range(x.type.rank) if axis not in axes] + list(axes)
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return transpose(x, order), inverse


def reduce(
    function: str, x: Term, axes: Sequence[int], keepdims: bool, accumulate: str | None = None
) -> Term:
    """A reduction over ``axes``."""
    moved, _ = to_end(x, sorted(axes))
    result = compute(function, access(moved, x.type.rank - len(axes)), accumulate)
    if keepdims:
        for axis in sorted(axes):
            result = builders.unsqueeze(result, axis)
    return result


def along(function: str, x: Term, axis: int) -> Term:
    """A function of rank-1 items, such as softmax, along one axis."""
    moved, inverse = to_end(x, [axis])
    result = outer_only(compute(function, access(moved, x.type.rank - 1)))
    return transpose(result, inverse)


def unsqueeze_to(x: Term, axis: int, rank: int) -> Term:
    """A vector as a tensor of ``rank`` axes whose axis ``axis`` it is: (C) to (C, 1, 1)."""
    for _ in range(rank - axis - 1):
        x = builders.unsqueeze(x, x.type.rank)
    return x


def square(x: Term) -> Term:
    """Every element times itself."""
    return elementwise("mul", x, x)


def matmul(a: Term, b: Term, accumulate: str | None = None) -> Term:
    """``numpy.matmul``: one ``dot`` of a ``cart_prod``, batch axes shared."""
    if a.type.rank == 1:
        product = matmul(builders.unsqueeze(a, 0), b, accumulate)
        return builders.squeeze(product, product.type.rank - 2 + (b.type.rank == 1))
    if b.type.rank == 1:
        product = matmul(a, builders.unsqueeze(b, 1), accumulate)
        return builders.squeeze(product, product.type.rank - 1)
    columns = swap_last(b)
    batches = builders.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if math.prod(b.shape[:-2]) == 1 and b.type.rank <= a.type.rank:
        # One right-hand side for all: every row of every batch meets it.
        columns = reshape(columns, columns.shape[-2:])
        return dot(access(a, a.type.rank - 1), access(columns, 1), 0, accumulate)
    if math.prod(a.shape[:-2]) == 1 and a.type.rank <= b.type.rank:
        rows = reshape(a, a.shape[-2:])
        product = dot(access(rows, 1), access(columns, columns.type.rank - 1), 0, accumulate)
        return transpose(product, [*range(1, len(batches) + 1), 0, len(batches) + 1])
    a = spread(a, batches + a.shape[-2:])
    columns = spread(columns, batches + columns.shape[-2:])
    shared = len(batches)
    return dot(access(a, shared + 1), access(columns, shared + 1), shared, accumulate)


def swap_last(x: Term) -> Term:
    """The last two axes exchanged."""
    rank = x.type.rank
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def dot(a: Term, b: Term, batch: int = 0, accumulate: str | None = None) -> Term:
    """Inner products of the items of ``a`` and ``b``: ((g, p), i), ((g, q), i) to (g, p, q)."""
    return compute("dot", builders.cart_prod(a, b, batch), accumulate)


def position(function: str, x: Term, axes: Sequence[int], keepdims: bool) -> Term:
    """``argmax`` or ``argmin``; over several ascending ``axes`` positions count row-major."""
    moved, _ = to_end(x, axes)
    items = access(moved, x.type.rank - len(axes))
    items = builders.reshape(items, items.outer, (math.prod(items.item),))
    result = compute(function, items)
    for axis in axes if keepdims else ():
        result = builders.unsqueeze(result, axis)
    return result


def repeat(x: Term, repeats: int, axis: int | None) -> Term:
    """``numpy.repeat``: every position of an axis several times, or the flattened elements."""
    if repeats < 0:
        raise ShapeError(f"repeats {repeats} must not be negative")
    if axis is None:
        x, axis = reshape(x, (x.type.size,)), 0
    if not -x.type.rank <= axis < x.type.rank:
        raise ShapeError(f"axis {axis} does not exist in shape {x.shape}")
    axis %= x.type.rank
    before, behind = x.shape[: axis + 1], x.shape[axis + 1 :]
    whole = builders.broadcast(builders.unsqueeze(x, axis + 1), (*before, repeats, *behind))
    return reshape(whole, (*before[:-1], before[-1] * repeats, *behind))


def tile(x: Term, repeats: Sequence[int]) -> Term:
    """``numpy.tile``: whole copies along every axis."""
    rank = max(len(repeats), x.type.rank)
    shape = (1,) * (rank - x.type.rank) + x.shape
    counts = (1,) * (rank - len(repeats)) + tuple(repeats)
    if min(counts, default=0) < 0:
        raise ShapeError(f"repeats {list(repeats)} must not be negative")
    # Each axis gets one of length 1 in front, which is repeated.
    apart = [n for length in shape for n in (1, length)]
    repeated = [n for length, count in zip(shape, counts, strict=True) for n in (count, length)]
    whole = builders.broadcast(reshape(x, apart), repeated)
    return reshape(whole, [n * m for n, m in zip(shape, counts, strict=True)])


def collapse_sum(x: Term, shape: Sequence[int]) -> Term:
    """The opposite of broadcasting: what would be repeated is summed."""
    if builders.broadcast_shapes(x.shape, tuple(shape)) != x.shape:
        raise ShapeError(f"shape {list(shape)} does not broadcast to {x.shape}")
    extra = x.type.rank - len(shape)
    axes = [k for k, n in enumerate(x.shape) if k < extra or (n != 1 and shape[k - extra] == 1)]
    return reshape(reduce("sum", x, axes, True) if axes else x, shape)
