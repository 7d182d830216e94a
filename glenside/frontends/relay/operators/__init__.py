"""All Relay operators: importing the families registers them."""

from glenside.frontends.relay.operators import (
    convolution,
    elementwise,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    reduction,
    resizing,
    shape,
    vision,
)
from glenside.frontends.relay.operators.refused import REFUSED
from glenside.frontends.relay.signature import OPERATORS

__all__ = [
    "OPERATORS",
    "REFUSED",
    "convolution",
    "elementwise",
    "indexing",
    "linear",
    "normalization",
    "pooling",
    "quantization",
    "reduction",
    "resizing",
    "shape",
    "vision",
]
