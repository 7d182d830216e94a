"""Parameters told rather than stored: from which elements of which values a program's are made.

What is packed for a kernel is a rearrangement of a value that depends on the model's parameters
alone. A machine that has the model's parameters, or makes them anew from a seed, needs no more than
that rearrangement: a few kilobytes where the elements are hundreds of megabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.language.shape import Shape

if TYPE_CHECKING:
    from glenside.codegen.storage import Origin

Array = np.ndarray[Any, Any]
_PIECE = 1 << 22


@dataclass(frozen=True)
class Recipe:
    """How a parameter's array is made of a value.

    Along the axes ``repeated`` the value is the same throughout, so only its first element counts.
    ``order`` is compressed (:func:`encoded`): for each element the number of the value's element,
    from 1 on, and 0 for a zero; empty for all in order. ``rounded``: to tf32.
    """

    repeated: tuple[int, ...]
    order: bytes = b""
    rounded: bool = False

    def apply(self, value: Array) -> Array:
        """The parameter's elements."""
        taken = value[tuple(_first(k, self.repeated) for k in range(value.ndim))].reshape(-1)
        if not self.order:
            return np.ascontiguousarray(taken)
        made = np.concatenate([np.zeros(1, taken.dtype), taken]).take(decoded(self.order))
        if self.rounded:
            from glenside.codegen.gpu.tensor.kernel import round_to_tf32

            made = round_to_tf32(made)
        return made


def recipe_of(origin: Origin) -> Recipe:
    """The recipe of a parameter."""
    if origin.pack is None:
        return Recipe(origin.repeated)
    numbers = numbered(origin.term.shape, origin.repeated)
    order = encoded(origin.pack(numbers).reshape(-1))
    return Recipe(origin.repeated, order, origin.rounded)


def numbered(shape: Shape, repeated: Sequence[int]) -> Array:
    """The elements of a value in order, from 1 on, the same along ``repeated`` axes."""
    small = [1 if k in repeated else size for k, size in enumerate(shape)]
    count = int(np.prod(small, dtype=np.int64))
    return np.broadcast_to(np.arange(1, count + 1, dtype=np.int32).reshape(small), shape)


def encoded(order: Array) -> bytes:
    """An order of elements, compressed: loops make steps of few sizes."""
    packer = zlib.compressobj(1)
    pieces = []
    last = np.zeros(1, np.int32)
    for at in range(0, order.size, _PIECE):
        piece = np.ascontiguousarray(order[at : at + _PIECE], np.int32)
        pieces.append(packer.compress(np.diff(piece, prepend=last).tobytes()))
        last = piece[-1:]
    return b"".join([*pieces, packer.flush()])


def decoded(data: bytes) -> Array:
    """What :func:`encoded` was given."""
    steps = np.frombuffer(zlib.decompress(data), np.int32)
    return np.cumsum(steps, dtype=np.int32)


def _first(axis: int, repeated: Sequence[int]) -> slice:
    return slice(0, 1) if axis in repeated else slice(None)
