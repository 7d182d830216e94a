"""An accelerator of one's own, from outside the package: declare it, offload SqueezeNet to it.

The unit multiplies matrices, 8 inputs by 32 outputs a step. Everything else (the rewrite that finds
it in convolutions, the shape rule, the passes a large product takes) follows from the declaration.
"""

import numpy as np

import glenside
from glenside.samples import sample_model

glenside.Accelerator(
    "my-unit",
    operands={"x": "((M) (K))", "w": "((N) (K))"},
    computes="(compute dot (cart-prod ?x ?w))",
    dtypes=["float32"],
    constraints=["K <= 8192"],
    tile={"K": 8, "N": 32},
    cycles="8 + M * tiles(K, 8) * tiles(N, 32)",
    simulate=lambda sizes, x, w: np.einsum("mk,nk->mn", x, w),
)


def main() -> None:
    """Optimises, checks against NumPy and prints the report."""
    program = glenside.optimize(sample_model("squeezenet"), "my-unit")
    print(program.report)
    assert program.report.offloads == {"my-unit": 26}, "all convolutions"


if __name__ == "__main__":
    main()
