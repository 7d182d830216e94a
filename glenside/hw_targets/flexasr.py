"""FlexASR: a unit for speech networks; 16 lanes of features.

``flexasr`` computes in the model's dtype, ``flexasr:adaptivfloat`` in the unit's own numbers,
AdaptivFloat<8,3>: operands and results are rounded to it, sums are formed in full.

Source: Tambe et al., "A 25 mm2 SoC for IoT devices with 18 ms noise-robust speech-to-text latency"
(ISSCC 2021); the operators as 3LA maps them (Huang et al., arXiv 2203.00218).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glenside.hw_targets.accelerator import Accelerator, Sizes
from glenside.hw_targets.numerics import adaptivfloat

Array = np.ndarray[Any, Any]

LANES = 16


def in_adaptivfloat(compute: Callable[..., Array]) -> dict[str, Any]:
    """What a declaration says of a unit that computes ``compute(*arrays)`` in AdaptivFloat."""

    def simulate(sizes: Sizes, *arrays: Array) -> Array:
        return adaptivfloat(compute(*map(adaptivfloat, arrays)))

    return {"target": "flexasr:adaptivfloat", "simulate": simulate, "numerics": "AdaptivFloat<8,3>"}


def _linear(name: str, **others: Any) -> Accelerator:
    return Accelerator(
        name,
        operands={"x": "((M) (K))", "w": "((N) (K))", "b": "((N) ())"},
        computes="""
            (access 2 (compute add (pair
                (access 0 (compute dot (cart-prod ?x ?w)))
                (access 0 (broadcast (M N) (unsqueeze 0 ?b))))))""",
        defaults={"b": 0},
        lanes={"K": LANES, "N": LANES},
        cycles="M * tiles(K, 16) * tiles(N, 16)",
        **{"target": "flexasr", **others},
    )


def _pool(name: str, function: str, **others: Any) -> Accelerator:
    """``(() (T H)) -> (() (T//2 H))``: of rows 2j and 2j + 1."""
    return Accelerator(
        name,
        operands={"x": "(() (T H))"},
        computes=f"""
            (transpose (1 0) (access 0 (compute {function}
                (windows (2) (2) (transpose (1 0) (access 1 ?x))))))""",
        constraints=["T % 2 == 0", "T >= 2"],
        lanes={"H": LANES},
        cycles="T // 2 * tiles(H, 16)",
        **{"target": "flexasr", **others},
    )


LINEAR = _linear(
    "flex-linear", summary="linear layers, pools over pairs of steps; :adaptivfloat for its numbers"
)
MAXPOOL = _pool("flex-maxpool", "max")
MEANPOOL = _pool("flex-meanpool", "mean")

_linear("flex-linear-af", **in_adaptivfloat(lambda x, w, b: x @ w.T + b))
_pool("flex-maxpool-af", "max", **in_adaptivfloat(lambda x: np.maximum(x[::2], x[1::2])))
_pool("flex-meanpool-af", "mean", **in_adaptivfloat(lambda x: (x[::2] + x[1::2]) / 2))
