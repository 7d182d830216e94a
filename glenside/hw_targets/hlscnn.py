"""HLSCNN: a unit for two-dimensional convolutions (Whatmough et al., "A 16nm 25mm2 SoC with a
54.5x flexibility-efficiency range from dual-core Arm Cortex-A53 to eFPGA and cache-coherent
accelerators", VLSI 2019)."""

from __future__ import annotations

from glenside.errors import ShapeError
from glenside.language import builders
from glenside.language.shape import Shape
from glenside.language.term import Term
from glenside.language.units import Unit, register_unit


def convolution(unit: str, x: Term, w: Term, stride: tuple[int, int]) -> Term:
    """``x`` (N C H W) with ``w`` (O C kh kw), nothing padded: (N O h w), all axes outer."""
    if x.type.rank != 4 or w.type.rank != 4 or x.shape[1] != w.shape[1]:
        raise ShapeError(
            f"{unit} takes data (N C H W) and filters (O C kh kw), got {x.shape} and {w.shape}"
        )
    looks = builders.windows(builders.access(x, 1), w.shape[1:], (1, *stride))
    product = builders.cart_prod(builders.access(w, 1), builders.squeeze(looks, 1))
    return builders.transpose(builders.compute("dot", product), (1, 0, 2, 3))


def _conv2d(parameters: Shape, operands: tuple[Term, ...]) -> Term:
    """``(sh sw top left bottom right)`` of data and filters, groups and dilation 1."""
    if len(parameters) != 6 or len(operands) != 2:
        raise ShapeError(
            "hlscnn-conv2d takes data and filters, and the parameters (sh sw top left bottom right)"
        )
    sh, sw, top, left, bottom, right = parameters
    x, w = operands
    if x.type.rank != 4:
        raise ShapeError(f"hlscnn-conv2d takes data (N C H W), got {x.type}")
    padded = builders.pad(builders.pad(x, 2, top, bottom), 3, left, right)
    return convolution("hlscnn-conv2d", padded, w, (sh, sw))


CONV2D = register_unit(Unit("hlscnn-conv2d", _conv2d))
