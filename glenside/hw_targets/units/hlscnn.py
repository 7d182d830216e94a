"""HLSCNN: a unit for two-dimensional convolutions (Whatmough et al., "A 16nm 25mm2 SoC with a
54.5x flexibility-efficiency range from dual-core Arm Cortex-A53 to eFPGA and cache-coherent
accelerators", VLSI 2019).

``hlscnn`` computes in the model's dtype, ``hlscnn:fixed`` in fixed point with 8-bit weights and
16-bit data, ``hlscnn:fixed16`` with 16-bit weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.hw_targets.accelerator import Accelerator, Sizes
from glenside.hw_targets.numerics import fixed_point

Array = np.ndarray[Any, Any]

SIDE = 8
"""Channels by filters that are multiplied in one cycle, for one pixel of a window. A nominal
figure: the publication gives none."""


def _conv2d(name: str, **others: Any) -> Accelerator:
    return Accelerator(
        name,
        operands={"x": "((B C H W) ())", "w": "((O C kh kw) ())"},
        parameters=("sh", "sw", "top", "left", "bottom", "right"),
        computes="""
            (transpose (1 0 2 3) (compute dot (cart-prod
                (access 1 ?w)
                (squeeze 1 (windows (C kh kw) (1 sh sw)
                    (access 1 (pad zero 3 left right (pad zero 2 top bottom ?x))))))))""",
        cycles=f"B * tiles(O, {SIDE}) * tiles(C, {SIDE}) * kh * kw"
        " * tiles(H + top + bottom - kh + 1, sh) * tiles(W + left + right - kw + 1, sw)",
        area=SIDE * SIDE,
        known=False,
        **{"target": "hlscnn", **others},
    )


def _in_fixed_point(weights: int) -> dict[str, Any]:
    def simulate(sizes: Sizes, x: Array, w: Array) -> Array:
        sides = ((0, 0), (0, 0), (sizes["top"], sizes["bottom"]), (sizes["left"], sizes["right"]))
        padded = np.pad(fixed_point(x, 16), sides)
        looks = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
        looks = looks[:, :, :: sizes["sh"], :: sizes["sw"]]
        sums = np.einsum("bchwij,ocij->bohw", looks, fixed_point(w, weights), optimize=True)
        return fixed_point(sums, 16)

    return {"simulate": simulate, "numerics": f"fixed point, {weights}-bit weights"}


CONV2D = _conv2d(
    "hlscnn-conv2d",
    summary="convolutions, neither grouped nor dilated; :fixed, :fixed16 for its numbers",
)
DECLARED = (
    CONV2D,
    _conv2d("hlscnn-conv2d-fixed", target="hlscnn:fixed", **_in_fixed_point(8)),
    _conv2d("hlscnn-conv2d-fixed16", target="hlscnn:fixed16", **_in_fixed_point(16)),
)
