"""VTA: a matrix unit, 16 inputs by 16 outputs a step (Moreau et al., "A Hardware-Software Blueprint
for Flexible Deep Learning Specialization", IEEE Micro 2019)."""

from __future__ import annotations

from glenside.hw_targets.accelerator import Accelerator

DENSE = Accelerator(
    "vta-dense",
    operands={"x": "((M) (K))", "w": "((N) (K))"},
    computes="(compute dot (cart-prod ?x ?w))",
    tile={"K": 16, "N": 16},
    cycles="M * tiles(K, 16) * tiles(N, 16)",
    target="vta",
    summary="matrix unit with 16 x 16 multipliers; products of matrices of any size",
)

BATCH_DENSE = Accelerator(
    "vta-batch-dense",
    operands={"x": "((B M) (K))", "w": "((B N) (K))"},
    computes="(compute dot (cart-prod :batch 1 ?x ?w))",
    tile={"B": 1, "K": 16, "N": 16},
    cycles="B * M * tiles(K, 16) * tiles(N, 16)",
    target="vta",
)
