"""A weight-stationary systolic array of R rows and C columns.

One pass holds an R x C tile of weights and streams rows of length R through it; each row comes out
as its C products with the columns (Glenside, section 4). ``(call systolic-array (R C) X W)`` takes
``X: ((M), (R))`` or ``(() (R))`` and ``W: (() (R C))`` and gives ``((M C) ())``. Products of other
sizes are ``blocked``: see :func:`glenside.language.units.run_blocked`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.errors import ShapeError
from glenside.language import builders
from glenside.language.interpreter import matrix_product
from glenside.language.shape import Shape
from glenside.language.term import Term
from glenside.language.units import Unit, register_unit

Array = np.ndarray[Any, Any]

NAME = "systolic-array"


def _meaning(parameters: Shape, operands: tuple[Term, ...]) -> Term:
    if len(parameters) != 2 or min(parameters, default=0) < 1 or len(operands) != 2:
        raise ShapeError(
            f"{NAME} takes two positive parameters, rows and columns, and two operands; "
            f"got {parameters} and {len(operands)} operands"
        )
    rows, columns = parameters
    stream, weights = operands
    if stream.item != (rows,) or len(stream.outer) > 1:
        raise ShapeError(
            f"{NAME} {rows}x{columns}: the stream must be ((M) ({rows})) or (() ({rows})), "
            f"got {stream.type}"
        )
    if weights.outer or weights.item != (rows, columns):
        raise ShapeError(
            f"{NAME} {rows}x{columns}: the weights must be (() ({rows} {columns})), "
            f"got {weights.type}"
        )
    by_column = builders.access(builders.transpose(weights, (1, 0)), 1)
    return builders.compute("dot", builders.cart_prod(stream, by_column))


def _simulate(parameters: Shape, arrays: list[Array]) -> Array:
    """One pass; the operands must be of the array's own size, whoever asks."""
    rows, columns = parameters
    stream, weights = arrays
    if stream.shape[-1] != rows or weights.shape != (rows, columns):
        raise ShapeError(
            f"{NAME} {rows}x{columns}: a pass takes rows of {rows} and a {rows}x{columns} tile, "
            f"got {stream.shape} and {weights.shape}"
        )
    return matrix_product(stream, weights, stream.dtype.name)


UNIT = register_unit(
    Unit(NAME, _meaning, _simulate, array=lambda parameters: (parameters[0], parameters[1]))
)
