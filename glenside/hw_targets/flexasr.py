"""FlexASR: a unit for speech networks; 16 lanes of features.

Source: Tambe et al., "A 25 mm2 SoC for IoT devices with 18 ms noise-robust speech-to-text latency"
(ISSCC 2021); the operators as 3LA maps them (Huang et al., arXiv 2203.00218).
"""

from __future__ import annotations

from glenside.hw_targets.accelerator import Accelerator

LINEAR = Accelerator(
    "flex-linear",
    operands={"x": "((M) (K))", "w": "((N) (K))", "b": "((N) ())"},
    computes="""
        (access 2 (compute add (pair
            (access 0 (compute dot (cart-prod ?x ?w)))
            (access 0 (broadcast (M N) (unsqueeze 0 ?b))))))""",
    defaults={"b": 0},
    lanes={"K": 16, "N": 16},
    cycles="M * tiles(K, 16) * tiles(N, 16)",
    target="flexasr",
    summary="linear layers and pools over pairs of time steps, 16 lanes",
)


def _pool(name: str, function: str) -> Accelerator:
    """``(() (T H)) -> (() (T//2 H))``: of rows 2j and 2j + 1."""
    return Accelerator(
        name,
        operands={"x": "(() (T H))"},
        computes=f"""
            (transpose (1 0) (access 0 (compute {function}
                (windows (2) (2) (transpose (1 0) (access 1 ?x))))))""",
        constraints=["T % 2 == 0", "T >= 2"],
        lanes={"H": 16},
        cycles="T // 2 * tiles(H, 16)",
        target="flexasr",
    )


MAXPOOL = _pool("flex-maxpool", "max")
MEANPOOL = _pool("flex-meanpool", "mean")
