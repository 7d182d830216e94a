"""HLSCNN: a unit for two-dimensional convolutions (Whatmough et al., "A 16nm 25mm2 SoC with a
54.5x flexibility-efficiency range from dual-core Arm Cortex-A53 to eFPGA and cache-coherent
accelerators", VLSI 2019)."""

from __future__ import annotations

from glenside.hw_targets.accelerator import Accelerator

CONV2D = Accelerator(
    "hlscnn-conv2d",
    operands={"x": "((B C H W) ())", "w": "((O C kh kw) ())"},
    parameters=("sh", "sw", "top", "left", "bottom", "right"),
    computes="""
        (transpose (1 0 2 3) (compute dot (cart-prod
            (access 1 ?w)
            (squeeze 1 (windows (C kh kw) (1 sh sw)
                (access 1 (pad zero 3 left right (pad zero 2 top bottom ?x))))))))""",
    target="hlscnn",
    summary="convolutions in two dimensions, neither grouped nor dilated",
)
