"""All Relax operators: importing the families registers them."""

from glenside.frontends.relax.operators import (
    attention,
    convolution,
    creation,
    elementwise,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    reduction,
    resizing,
    shape,
)
from glenside.frontends.relax.signature import OPERATORS

__all__ = [
    "OPERATORS",
    "attention",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "linear",
    "normalization",
    "pooling",
    "quantization",
    "reduction",
    "resizing",
    "shape",
]
