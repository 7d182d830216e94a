"""Operators that move, repeat or cut data, and compute nothing."""

from __future__ import annotations

import itertools
import math

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints, Terms
from glenside.frontends.lowering import phrases
from glenside.frontends.lowering.axes import axes_of, axis_of
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.known import padded_places, pick
from glenside.frontends.lowering.phrases import reshape as reshape_to
from glenside.frontends.lowering.phrases import spread
from glenside.frontends.lowering.phrases import transpose as permute
from glenside.frontends.refusal import Refused
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders
from glenside.language.shape import FLOATS


@operator("reshape")
def reshape(x: Term, shape: Ints) -> Term:
    """The same elements in row-major order; one length may be -1, what is left over."""
    wanted = list(shape)
    if wanted.count(-1) == 1:
        rest = math.prod(n for n in wanted if n != -1)
        wanted[wanted.index(-1)] = x.type.size // rest if rest else 0
    return reshape_to(x, wanted)


@operator("flatten")
def flatten(x: Term) -> Term:
    """All axes made one."""
    return reshape_to(x, (x.type.size,))


@operator("nn.batch_flatten")
def batch_flatten(x: Term) -> Term:
    """All axes but the first made one."""
    if x.type.rank < 1:
        raise ShapeError("a scalar has no batch axis")
    return reshape_to(x, (x.shape[0], math.prod(x.shape[1:])))


@operator("permute_dims")
def permute_dims(x: Term, *, axes: Ints | None) -> Term:
    """Axes permuted; reversed if no order is given."""
    rank = x.type.rank
    return permute(x, range(rank)[::-1] if axes is None else axes_of(axes, rank))


@operator("squeeze")
def squeeze(x: Term, *, axis: Ints | None) -> Term:
    """Axes of length 1 removed: those named, or all."""
    ones = [i for i, length in enumerate(x.shape) if length == 1]
    for each in sorted(ones if axis is None else axes_of(axis, x.type.rank), reverse=True):
        x = builders.squeeze(x, each)
    return x


@operator("expand_dims")
def expand_dims(x: Term, *, axis: Ints) -> Term:
    """Axes of length 1 inserted, counted in the result."""
    for each in sorted(axes_of(axis, x.type.rank + len(axis))):
        x = builders.unsqueeze(x, each)
    return x


@operator("broadcast_to")
def broadcast_to(x: Term, shape: Ints) -> Term:
    """Repeated to a shape, as NumPy broadcasts."""
    if builders.broadcast_shapes(x.shape, shape) != shape:
        raise ShapeError(f"shape {x.shape} does not broadcast to {list(shape)}")
    return spread(x, shape)


@operator("collapse_sum_to")
def collapse_sum_to(x: Term, shape: Ints) -> Term:
    """The opposite of broadcasting: what would be repeated is summed."""
    return phrases.collapse_sum(x, shape)


@operator("collapse_sum_like")
def collapse_sum_like(x: Term, like: Term) -> Term:
    """The opposite of broadcasting, to the shape of another tensor."""
    return collapse_sum_to(x, like.shape)


@operator("concat")
def concat(parts: Terms, *, axis: int | None) -> Term:
    """Tensors joined along an axis; without one all are flattened first."""
    if not parts:
        raise ShapeError("there is nothing to join")
    if axis is None:
        return builders.concat(0, *(reshape_to(part, (part.type.size,)) for part in parts))
    return builders.concat(axis_of(axis, parts[0].type.rank), *parts)


@operator("stack")
def stack(parts: Terms, *, axis: int | None) -> Term:
    """Tensors of one shape joined along a new axis."""
    if not parts:
        raise ShapeError("there is nothing to join")
    at = axis_of(axis or 0, parts[0].type.rank + 1)
    return builders.concat(at, *(builders.unsqueeze(part, at) for part in parts))


@operator("split")
def split(x: Term, *, indices_or_sections: Ints | int, axis: int) -> Terms:
    """Parts along an axis: so many of one length (the last may be shorter), or cut as listed."""
    axis = axis_of(axis, x.type.rank)
    length = x.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1:
            raise ShapeError(f"cannot be split into {indices_or_sections} parts")
        each = -(-length // indices_or_sections)
        cuts = [min(each * i, length) for i in range(1, indices_or_sections)]
    else:
        cuts = [min(cut + length if cut < 0 else cut, length) for cut in indices_or_sections]
    edges = [0, *cuts, length]
    return tuple(
        builders.slice_(x, axis, low, max(low, high)) for low, high in itertools.pairwise(edges)
    )


@operator("repeat")
def repeat(x: Term, *, repeats: int, axis: int | None) -> Term:
    """Every position of an axis several times; without one the flattened elements."""
    return phrases.repeat(x, repeats, axis)


@operator("tile")
def tile(x: Term, *, repeats: Ints) -> Term:
    """Whole copies along every axis; the shorter of shape and counts is filled up in front."""
    return phrases.tile(x, repeats)


@operator("flip")
def flip(constants: Constants, x: Term, *, axis: int) -> Term:
    """One axis backwards."""
    axis = axis_of(axis, x.type.rank)
    return pick(constants, x, range(x.shape[axis])[::-1], axis)


@operator("meshgrid")
def meshgrid(parts: Terms, *, indexing: str | None) -> Terms:
    """Every vector repeated along the axes of the others."""
    if indexing not in ("ij", None):
        raise Refused(f"attribute indexing {indexing} is not supported; ij is")
    if any(part.type.rank != 1 for part in parts):
        raise ShapeError("takes vectors")
    shape = tuple(part.type.size for part in parts)
    return tuple(
        spread(reshape_to(part, (part.type.size,) + (1,) * (len(parts) - 1 - k)), shape)
        for k, part in enumerate(parts)
    )


@operator("nn.pad")
def pad(constants: Constants, x: Term, *, pad_width: Ints, pad_value: float, pad_mode: str) -> Term:
    """Every axis padded, with one number or with the data itself."""
    modes = {"constant": "", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if pad_mode not in modes:
        raise Refused(f"attribute pad_mode {pad_mode} is not supported; {', '.join(modes)} are")
    if len(pad_width) != 2 * x.type.rank:
        raise ShapeError(f"pad_width {list(pad_width)} needs a pair for each axis of {x.shape}")
    number = pad_value if x.dtype in FLOATS else int(pad_value)
    for axis, widths in enumerate(zip(pad_width[::2], pad_width[1::2], strict=True)):
        if pad_mode == "constant":
            x = builders.pad(x, axis, *widths, "zero" if number == 0 else number)
        elif any(widths):
            places = padded_places(x.shape[axis], *widths, modes[pad_mode])
            x = pick(constants, x, places, axis)
    return x


@operator("nn.pixel_shuffle")
def pixel_shuffle(x: Term, *, upscale_factor: int) -> Term:
    """Blocks of channels become blocks of pixels."""
    block = upscale_factor
    if x.type.rank < 3 or block < 1 or x.shape[-3] % block**2:
        raise ShapeError(f"upscale_factor {block} does not fit shape {x.shape}")
    *batch, channels, height, width = x.shape
    depth, rank = channels // block**2, len(batch)
    blocks = reshape_to(x, (*batch, depth, block, block, height, width))
    order = (*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2)
    return reshape_to(permute(blocks, order), (*batch, depth, height * block, width * block))
