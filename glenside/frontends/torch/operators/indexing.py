"""Operators that pick or replace elements by position."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from glenside.frontends.lowering import phrases, places
from glenside.frontends.lowering.known import pick
from glenside.frontends.lowering.phrases import elementwise, reshape, spread, transpose
from glenside.frontends.lowering.running import running
from glenside.frontends.lowering.sampling import grid_taps, look_up
from glenside.frontends.refusal import Refused
from glenside.frontends.torch.promotion import as_tensor
from glenside.frontends.torch.signature import Node, operator
from glenside.language import Term, builders

Indices = tuple[Term | None, ...]


@operator("embedding")
def embedding(node: Node, weight: Term, indices: Term, padding_idx: int = -1) -> Term:
    """Rows of a table."""
    del padding_idx  # Training leaves that row as it is.
    node.require(indices, 0, weight.shape[0], f"takes indices from 0 to {weight.shape[0] - 1}")
    return builders.gather(weight, indices, 0)


@operator("index_select")
def index_select(node: Node, x: Term, dim: int, index: Term) -> Term:
    """Positions of one axis."""
    if not x.type.rank:
        return x
    return _taken(node, x, index, dim % x.type.rank)


def _taken(node: Node, x: Term, index: Term, axis: int) -> Term:
    """Positions of an axis, negative ones counted from the end; a slice where that does."""
    places.check_range(node, index, x.shape[axis], axis)
    known = node.known(index)
    if known is not None and known.ndim == 1:
        spots = [int(each) % x.shape[axis] for each in known] if x.shape[axis] else []
        return pick(node.constants, x, spots, axis)
    return builders.gather(x, places.from_front(index, x.shape[axis]), axis)


def _front(x: Term, indices: Indices) -> tuple[list[int], list[int], list[Term]]:
    """The axes that are indexed, all others, and the indices, broadcast together."""
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    rest = [axis for axis in range(x.type.rank) if axis not in axes]
    given = [each for each in indices if each is not None]
    if any(each.dtype in ("bool", "uint8") for each in given):
        raise Refused(
            "how many elements a mask picks depends on the data; shapes are fixed here: use where"
        )
    shape = builders.broadcast_shapes(*(each.shape for each in given))
    return axes, rest, [spread(builders.cast(each, "int64"), shape) for each in given]


def _flat(node: Node, x: Term, axes: Sequence[int], indices: Sequence[Term]) -> Term:
    """Row-major places of the indices among the axes."""
    lengths = [x.shape[axis] for axis in axes]
    total: Term | None = None
    for axis, index, length, step in zip(
        axes, indices, lengths, places.steps(lengths), strict=True
    ):
        places.check_range(node, index, length, axis)
        part = phrases.mul(places.from_front(index, length), step)
        total = part if total is None else phrases.add(total, part)
    assert total is not None
    return total


@operator("index", "_unsafe_index")
def index(node: Node, x: Term, indices: Indices) -> Term:
    """``x[i, :, j, ...]`` with index tensors that are broadcast together, as NumPy has it."""
    axes, rest, given = _front(x, indices)
    if len(axes) == 1:
        return _taken(node, x, given[0], axes[0])
    shape = given[0].shape
    moved = transpose(x, [*axes, *rest])
    rows = reshape(moved, (math.prod(x.shape[axis] for axis in axes), *(x.shape[a] for a in rest)))
    found = builders.gather(rows, _flat(node, x, axes, given), 0)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if not together or not axes[0]:
        return found
    # The axes of the indices go where the indexed axes were.
    count = len(shape)
    before = list(range(count, count + axes[0]))
    after = list(range(count + axes[0], found.type.rank))
    return transpose(found, [*before, *range(count), *after])


@operator("index_put", "_unsafe_index_put")
def index_put(
    node: Node, x: Term, indices: Indices, values: Term, accumulate: bool = False
) -> Term:
    """``x`` with ``x[i, :, j, ...]`` replaced by values, or with these added."""
    values = as_tensor(values, x.dtype)
    given_masks = [each for each in indices if each is not None]
    if len(given_masks) == 1 and given_masks[0].dtype == "bool" and values.type.size == 1:
        return _masked(x, indices, reshape(values, ()), accumulate)
    axes, rest, given = _front(x, indices)
    shape = given[0].shape
    others = [x.shape[axis] for axis in rest]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    at = axes[0] if together else 0
    # Values are laid out as reading them would give: bring the axes of the indices in front.
    whole = spread(values, [*others[:at], *shape, *others[at:]])
    count = len(shape)
    order = [*range(at, at + count), *range(at), *range(at + count, whole.type.rank)]
    updates = reshape(transpose(whole, order), (math.prod(shape), *others))
    moved = transpose(x, [*axes, *rest])
    rows = reshape(moved, (math.prod(x.shape[axis] for axis in axes), *others))
    flat = reshape(_flat(node, x, axes, given), (math.prod(shape),))
    result = places.scatter(node, rows, flat, updates, "add" if accumulate else "none")
    back = reshape(result, [x.shape[axis] for axis in [*axes, *rest]])
    return transpose(back, sorted(range(x.type.rank), key=[*axes, *rest].__getitem__))


def _masked(x: Term, indices: Indices, value: Term, accumulate: bool) -> Term:
    """One number put where a mask of some axes holds."""
    (mask,) = (each for each in indices if each is not None)
    first = next(axis for axis, each in enumerate(indices) if each is not None)
    for _ in range(x.type.rank - first - mask.type.rank):
        mask = builders.unsqueeze(mask, mask.type.rank)
    fresh = phrases.add(x, value) if accumulate else value
    return phrases.select(mask, fresh, x)


@operator("gather")
def gather(node: Node, x: Term, dim: int, index: Term) -> Term:
    """Along one axis every element picks its own position."""
    if not x.type.rank:
        return x
    return places.gather_elements(node, x, index, dim % x.type.rank)


_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max",
               "amin": "min"}  # fmt: skip


def _scatter(fixed: str | None) -> Callable[..., Term]:
    def apply(
        node: Node,
        x: Term,
        dim: int,
        index: Term,
        src: Term | None = None,
        value: float | None = None,
        reduce: str | None = None,
        include_self: bool = True,
    ) -> Term:
        """Elements at positions along one axis replaced by, or combined with, others."""
        how = fixed or reduce
        if how is not None and how not in _REDUCTIONS:
            known = ", ".join(dict.fromkeys(_REDUCTIONS))
            raise Refused(f"argument reduce = {how} is not supported; {known} are")
        if not include_self:
            raise Refused("argument include_self = False is not supported; True is")
        if not index.type.size:
            return x
        scalar = not x.type.rank
        if scalar:
            x, index = reshape(x, (1,)), reshape(index, (index.type.size,))
        if src is None:
            assert value is not None
            updates = spread(as_tensor(value, x.dtype), index.shape)
        else:
            updates = reshape(src, (src.type.size,)) if scalar else src
            for axis, length in enumerate(index.shape):
                updates = builders.slice_(updates, axis, 0, length)
        combine = "none" if how is None else _REDUCTIONS[how]
        axis = dim % x.type.rank
        result = places.scatter_elements(node, x, index, updates, axis, combine)
        return reshape(result, ()) if scalar else result

    return apply


for _name, _fixed in (("scatter", None), ("scatter_add", "add"), ("scatter_reduce", None)):
    operator(_name)(_scatter(_fixed))


@operator("index_add")
def index_add(node: Node, x: Term, dim: int, index: Term, source: Term, alpha: float = 1) -> Term:
    """``x`` with rows added at positions of one axis."""
    moved, inverse = transpose(x, _first(x, dim)), _back(x, dim)
    rows = transpose(source, _first(source, dim))
    rows = rows if alpha == 1 else phrases.mul(rows, alpha)
    return transpose(places.scatter(node, moved, index, rows, "add"), inverse)


def _first(x: Term, dim: int) -> list[int]:
    axis = dim % x.type.rank
    return [axis, *(each for each in range(x.type.rank) if each != axis)]


def _back(x: Term, dim: int) -> list[int]:
    return sorted(range(x.type.rank), key=_first(x, dim).__getitem__)


@operator("masked_scatter")
def masked_scatter(node: Node, x: Term, mask: Term, source: Term) -> Term:
    """Where a mask holds, the elements of ``source`` one after the other."""
    held = spread(mask, x.shape)
    flat = builders.cast(reshape(held, (x.type.size,)), "int64")
    nth = phrases.maximum(phrases.sub(running(flat, 0, False, False, False), 1), 0)
    nth = phrases.minimum(nth, max(source.type.size - 1, 0))
    if not source.type.size:
        return x
    taken = builders.gather(reshape(source, (source.type.size,)), nth, 0)
    return phrases.select(held, reshape(taken, x.shape), x)


_MODES, _PADDINGS = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")


@operator("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    node: Node,
    input: Term,
    grid: Term,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Term:
    """The image seen at places between -1 and 1, the last coordinate along the first axis."""
    n, channels, *size = input.shape
    mode, padding = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    if mode == "cubic":
        raise Refused("argument interpolation_mode bicubic is not supported; 0 and 1 are")
    last = grid.type.rank - 1
    taps = [
        grid_taps(
            builders.squeeze(builders.slice_(grid, last, at, at + 1), last),
            length, mode, padding, align_corners,
        )
        for at, length in zip(reversed(range(len(size))), size, strict=True)
    ]  # fmt: skip
    starts = np.arange(n * channels).reshape(n, channels, *[1] * len(size)) * math.prod(size)
    return look_up(input, node.parameter(starts, "planes"), taps, 1)


@operator("bucketize")
def bucketize(
    x: Term | float,
    boundaries: Term,
    out_int32: bool = False,
    right: bool = False,
) -> Term:
    """How many of the sorted boundaries are less than each element, or as well equal to it."""
    if not isinstance(x, Term):
        raise Refused("a number is not supported; a tensor is")
    mine = builders.unsqueeze(x, x.type.rank)
    before = elementwise("less_equal" if right else "less", boundaries, mine)
    counted = builders.cast(before, "int32" if out_int32 else "int64")
    return phrases.reduce("sum", counted, [x.type.rank], False)
