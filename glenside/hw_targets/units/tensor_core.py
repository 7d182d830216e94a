"""The matrix unit of a GPU: D = A B + C on 16 x 16 x 16 elements (NVIDIA, "Tesla V100 GPU
architecture", 2017; the shape is that of the warp-level matrix instructions ``wmma.m16n16k16``).

``tensor-core`` computes in the model's dtype. ``tensor-core:fp16`` takes half-precision operands
and adds in single precision, as the hardware does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.hw_targets.accelerator import Accelerator, Sizes

Array = np.ndarray[Any, Any]

MULTIPLIERS = 64
"""Of one core, 4 x 4 x 4: a product of 16 x 16 x 16 takes 64 cycles."""


def multiply_add(sizes: Sizes, a: Array, b: Array, c: Array) -> Array:
    """Products of halves are exact in single precision; sums are rounded to it."""
    return a.astype("float32") @ b.astype("float32").T + c


def _core(
    name: str, target: str, dot: str = "", halves: str = "", sums: str = "", **others: Any
) -> Accelerator:
    return Accelerator(
        name,
        operands={
            "a": f"((M) (K)) {halves}",
            "b": f"((N) (K)) {halves}",
            "c": f"((M N) ()) {sums}",
        },
        computes=f"""
            (access 2 (compute add (pair
                (access 0 (compute dot {dot} (cart-prod ?a ?b)))
                (access 0 ?c))))""",
        defaults={"c": 0},
        tile={"M": 16, "N": 16, "K": 16},
        cycles=f"{16**3 // MULTIPLIERS} * tiles(M, 16) * tiles(N, 16) * tiles(K, 16)",
        area=MULTIPLIERS,
        target=target,
        known=False,
        **others,
    )


MULTIPLY_ADD = _core(
    "tensor-core", "tensor-core", summary="16 x 16 x 16 matrix unit; :fp16 for half precision"
)
HALF = _core(
    "tensor-core-fp16",
    "tensor-core:fp16",
    ":accumulate float32",
    "float16",
    "float32",
    simulate=multiply_add,
)

DECLARED = (MULTIPLY_ADD, HALF)
