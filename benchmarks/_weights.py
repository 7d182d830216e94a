"""Weights of the GPU benchmarks' networks, drawn from a seed: they need not travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

LEVELS = 8
"""Values that a random weight can have."""
Types = Mapping[str, tuple[Sequence[int], str]]
"""Shape and dtype by name."""


def is_drawn(shape: Sequence[int], dtype: str) -> bool:
    """Whether a parameter is a weight; others (shapes, bounds) are what they are."""
    return dtype == "float32" and int(np.prod(shape)) > 1


def draw(types: Types, kept: Mapping[str, np.ndarray], seed: int = 3) -> dict[str, np.ndarray]:
    """Weights of a few values each, scaled by their fan-in so that activations keep their size.

    Vectors (biases, batch normalisation) are positive, as variances have to be. ``kept`` holds the
    parameters that are no weights.
    """
    rng = np.random.default_rng(seed)
    steps = np.linspace(-1.5, 1.5, LEVELS, dtype=np.float32)
    params = {}
    for name, (shape, dtype) in types.items():
        if not is_drawn(shape, dtype):
            params[name] = kept[name]
        elif len(shape) > 1:
            scale = np.float32(np.sqrt(1 / np.prod(shape[1:])))
            params[name] = (steps * scale)[rng.integers(0, LEVELS, shape, np.uint8)]
        else:
            params[name] = (1 + steps / 4)[rng.integers(0, LEVELS, shape, np.uint8)]
    return params
