"""VTA: a matrix unit, 16 inputs by 16 outputs a step (Moreau et al., "A Hardware-Software Blueprint
for Flexible Deep Learning Specialization", IEEE Micro 2019).

``vta`` computes in the model's dtype. ``vta:int8`` takes only what the hardware does: products of
int8 that are added up in int32, to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.hw_targets.accelerator import Accelerator, Sizes

Array = np.ndarray[Any, Any]


MULTIPLIERS = 16 * 16
"""A row of 16 inputs meets a tile of 16 x 16 weights in one cycle."""


def gemm(sizes: Sizes, x: Array, w: Array) -> Array:
    """One tile of weights, a row of x a step; int32 registers wrap around."""
    return np.matmul(x.astype(np.int32), np.swapaxes(w.astype(np.int32), -1, -2))


def _dense(name: str, batch: bool = False, int8: bool = False, **others: Any) -> Accelerator:
    b, dtype = ("B " if batch else ""), (" int8" if int8 else "")
    product = f"(cart-prod {':batch 1' if batch else ''} ?x ?w)"
    wide = ":accumulate int32" if int8 else ""
    numerics: dict[str, Any] = {"target": "vta:int8", "simulate": gemm} if int8 else {}
    return Accelerator(
        name,
        operands={"x": f"(({b}M) (K)){dtype}", "w": f"(({b}N) (K)){dtype}"},
        computes=f"(compute dot {wide} {product})",
        tile={**({"B": 1} if batch else {}), "K": 16, "N": 16},
        cycles=f"{'B * ' if batch else ''}M * tiles(K, 16) * tiles(N, 16)",
        area=MULTIPLIERS,
        loops=False,
        known=False,
        **{"target": "vta", **numerics, **others},
    )


DENSE = _dense("vta-dense", summary="products of matrices, 16 x 16 multipliers; :int8 to the bit")
BATCH_DENSE = _dense("vta-batch-dense", batch=True)
DECLARED = (
    DENSE,
    BATCH_DENSE,
    _dense("vta-dense-int8", int8=True),
    _dense("vta-batch-dense-int8", batch=True, int8=True),
)
