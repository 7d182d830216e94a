"""Products with a small constant matrix of few different numbers, and how to compute them.

Where the matrix is the Kronecker product of smaller ones, each acts along an axis of its own, one
after the other, which takes far fewer operations: 6 x 6 along either axis of a 6 x 6 item is 12
products of 6 x 6 with a vector instead of one of 36 x 36. Zeros cost nothing. Transforms of minimal
filtering are such maps, as are sums and differences of neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.language.shape import FLOATS
from glenside.language.term import Term

Array = np.ndarray[Any, Any]

_LONGEST = 64
"""Most rows, and most taps: they are registers of one thread."""
_GAIN = 1.5
"""How many times fewer operations than the whole matrix has entries make a map worth writing out;
other small products are tiled like large ones."""


@dataclass(frozen=True)
class SmallMap:
    """``result[rows, free] = sum over taps of matrix[rows, taps] * operand[free, taps]``, each of
    several axes.

    ``factors`` are matrices (rows, taps) that act along one axis each, the matrix being their
    Kronecker product. ``first`` says that the result has the rows' axes before the free ones.
    """

    operand: Term
    rows: tuple[int, ...]
    taps: tuple[int, ...]
    factors: tuple[Array, ...]
    first: bool

    @property
    def operations(self) -> int:
        """Multiply-adds of one item."""
        total, shape = 0, [factor.shape[1] for factor in self.factors]
        for axis, factor in enumerate(self.factors):
            shape[axis] = 1
            total += math.prod(shape) * np.count_nonzero(factor)
            shape[axis] = factor.shape[0]
        return int(total)


def small_map(anchor: Term | None, weights: Mapping[Term, Array]) -> SmallMap | None:
    """The map that a reduction is; None for others, and where tiles in local memory do better.

    :param weights: what is known when the program is compiled.
    """
    if anchor is None or anchor.op != "compute" or anchor["function"] != "dot":
        return None
    (pairs,) = anchor.children
    if pairs.op != "cart_prod" or pairs["batch"] or anchor.dtype not in FLOATS:
        return None
    a, b = pairs.children
    if (a in weights) == (b in weights):
        return None
    known, operand = (a, b) if a in weights else (b, a)
    matrix = weights[known]
    entries = math.prod(known.outer), math.prod(known.item)
    if not anchor.type.size or min(entries) < 2 or max(entries) > _LONGEST:
        return None
    factors = _factors(matrix, len(known.outer), len(known.item))
    made = SmallMap(operand, known.outer, known.item, factors, known is a)
    return made if made.operations * _GAIN <= matrix.size else None


def _factors(matrix: Array, rows: int, taps: int) -> tuple[Array, ...]:
    """Matrices whose Kronecker product this is to the bit, one an axis; else the whole."""
    whole = matrix.reshape(math.prod(matrix.shape[:rows]), math.prod(matrix.shape[rows:]))
    if rows != taps or rows < 2 or not np.any(matrix):
        return (whole,)
    units = np.argwhere(np.abs(matrix) == 1)
    place = units[0] if len(units) else np.unravel_index(np.argmax(np.abs(matrix)), matrix.shape)
    factors = []
    for axis in range(rows):
        cut = tuple(slice(None) if at % rows == axis else int(place[at]) for at in range(2 * rows))
        factors.append(matrix[cut])
    pivot = matrix[tuple(int(at) for at in place)]
    factors = [factors[0], *(factor / pivot for factor in factors[1:])]
    product = factors[0]
    for factor in factors[1:]:
        product = np.multiply.outer(product, factor)
    # (row, tap) of each axis in turn to all rows, then all taps.
    order = [*range(0, 2 * rows, 2), *range(1, 2 * rows, 2)]
    if not np.array_equal(product.transpose(order).astype(matrix.dtype), matrix):
        return (whole,)
    return tuple(factors)
