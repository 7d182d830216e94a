"""All Relax operators: importing the families registers them."""

from glenside.frontends.relax.operators import (
    attention,
    convolution,
    creation,
    elementwise,
    indexing,
    linear,
    normalization,
    ordering,
    pooling,
    quantization,
    reduction,
    resizing,
    shape,
)
from glenside.frontends.relax.operators.refused import REFUSED
from glenside.frontends.relax.signature import OPERATORS

__all__ = [
    "OPERATORS",
    "REFUSED",
    "attention",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "linear",
    "normalization",
    "ordering",
    "pooling",
    "quantization",
    "reduction",
    "resizing",
    "shape",
]
