"""FlexASR: a unit for speech networks; 16 lanes of features.

Source: Tambe et al., "A 25 mm2 SoC for IoT devices with 18 ms noise-robust speech-to-text latency"
(ISSCC 2021); the operators as 3LA maps them (Huang et al., arXiv 2203.00218).
"""

from __future__ import annotations

from glenside.errors import ShapeError
from glenside.language import builders
from glenside.language.shape import Shape
from glenside.language.term import Term
from glenside.language.units import Unit, register_unit

LANES = 16


def _maxpool(parameters: Shape, operands: tuple[Term, ...]) -> Term:
    """``(() (T H)) -> (() (T/2 H))``: the greater of rows 2j and 2j + 1."""
    if parameters or len(operands) != 1:
        raise ShapeError("flex-maxpool takes one operand and no parameters")
    (x,) = operands
    if x.outer or len(x.item) != 2 or x.item[0] % 2 or x.item[1] % LANES:
        raise ShapeError(
            f"flex-maxpool takes (() (T H)) with an even T and H a multiple of {LANES}, "
            f"got {x.type}"
        )
    rows, features = x.item
    pairs = builders.reshape(x, (), (rows // 2, 2, features))
    last = builders.transpose(pairs, (0, 2, 1))
    return builders.access(builders.compute("max", builders.access(last, 2)), 0)


def _linear(parameters: Shape, operands: tuple[Term, ...]) -> Term:
    """``x: ((M), (K))``, ``w: ((N), (K))``, ``b: ((N), ())``: ``x wᵀ + b``, ((M N), ())."""
    if parameters or len(operands) != 3:
        raise ShapeError("flex-linear takes data, weights and a bias, and no parameters")
    x, w, b = operands
    shapes = [(len(each.outer), len(each.item)) for each in operands]
    if shapes != [(1, 1), (1, 1), (1, 0)] or b.outer != w.outer:
        raise ShapeError(
            "flex-linear takes ((M) (K)), ((N) (K)) and ((N) ()), "
            f"got {', '.join(str(each.type) for each in operands)}"
        )
    product = builders.compute("dot", builders.cart_prod(x, w))
    return builders.elementwise("add", product, b)


MAXPOOL = register_unit(Unit("flex-maxpool", _maxpool))
LINEAR = register_unit(Unit("flex-linear", _linear))
