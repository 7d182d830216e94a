"""Imports every operator family, so that its lowerings are registered."""

from glenside.frontends.onnx import (
    activations,
    constants,
    convolution,
    einsum,
    elementwise,
    indexing,
    linear,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    scans,
    shape_ops,
)

__all__ = [
    "activations",
    "constants",
    "convolution",
    "einsum",
    "elementwise",
    "indexing",
    "linear",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "scans",
    "shape_ops",
]
