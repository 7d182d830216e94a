"""Units that compute more than a product: fused with an activation, depthwise int8, softmax."""

import glenside
from glenside.language import builders as b

glenside.Accelerator(  # A layer: product, bias that may be left out, ReLU.
    "layer-unit",
    operands={"x": "((M) (K))", "w": "((N) (K))", "bias": "((N) ())"},
    computes="""
      (compute relu (compute add (pair
        (access 0 (compute dot (cart-prod ?x ?w)))
        (access 0 (broadcast (M N) (unsqueeze 0 ?bias))))))""",
    defaults={"bias": 0},
    target="my-chip",
)
glenside.Accelerator(  # A filter for each channel, int8 with sums in int32.
    "depthwise-unit",
    operands={"x": "((C H W) ()) int8", "w": "((C) (KH KW)) int8"},
    computes="""
      (compute dot :accumulate int32 (cart-prod :batch 1
        ?w
        (windows (KH KW) (SH SW) (access 1 ?x))))""",
    target="my-chip",
)
glenside.Accelerator(  # A row at a time.
    "softmax-unit",
    operands={"x": "((M) (N))"},
    computes="(compute softmax ?x)",
    constraints=["N <= 1024"],
    target="my-chip",
)


def layer():
    """``relu(x @ w.T)``, without a bias."""
    x, w = b.access(b.tensor("x", (6, 8)), 1), b.access(b.tensor("w", (5, 8)), 1)
    return b.elementwise("relu", b.compute("dot", b.cart_prod(x, w)))


def depthwise():
    """Four channels of 9 x 9, each with its own filter of 3 x 3, every second position."""
    x, w = b.tensor("x", (4, 9, 9), "int8"), b.access(b.tensor("w", (4, 3, 3), "int8"), 1)
    looks = b.windows(b.access(x, 1), (3, 3), (2, 2))
    return b.compute("dot", b.cart_prod(w, looks, 1), "int32")


def attention_weights():
    """A softmax over the last of three axes."""
    return b.compute("softmax", b.access(b.tensor("scores", (2, 4, 16)), 2))


def main() -> None:
    """Each program is one call of its unit."""
    for program in (layer(), depthwise(), attention_weights()):
        print([(u.unit, u.calls) for u in glenside.optimize(program, "my-chip").report.units])


if __name__ == "__main__":
    main()
