"""All ATen operators that have a meaning here: importing the families registers them."""

from glenside.frontends.torch.operators import (
    convolution,
    creation,
    elementwise,
    indexing,
    linear,
    normalization,
    pooling,
    recurrent,
    reduction,
    resizing,
    shape,
)
from glenside.frontends.torch.operators.refused import REFUSED
from glenside.frontends.torch.signature import OPERATORS

__all__ = [
    "OPERATORS",
    "REFUSED",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "linear",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "resizing",
    "shape",
]
