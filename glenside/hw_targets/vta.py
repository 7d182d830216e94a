"""VTA: a matrix unit (Moreau et al., "A Hardware-Software Blueprint for Flexible Deep Learning
Specialization", IEEE Micro 2019), as products of matrices of any size."""

from __future__ import annotations

from glenside.errors import ShapeError
from glenside.language import builders
from glenside.language.shape import Shape
from glenside.language.term import Term
from glenside.language.units import Unit, register_unit


def _dense(parameters: Shape, operands: tuple[Term, ...]) -> Term:
    """``x: ((M), (K))``, ``w: ((N), (K))``: ``x wᵀ``, ((M N), ())."""
    if parameters or len(operands) != 2:
        raise ShapeError("vta-dense takes data and weights, and no parameters")
    x, w = operands
    if [(len(each.outer), len(each.item)) for each in operands] != [(1, 1), (1, 1)]:
        raise ShapeError(f"vta-dense takes ((M) (K)) and ((N) (K)), got {x.type} and {w.type}")
    return builders.compute("dot", builders.cart_prod(x, w))


DENSE = register_unit(Unit("vta-dense", _dense))
