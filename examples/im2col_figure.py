"""A figure of the paper, remade: im2col is found by three small rules, none of which knows of it.

Smith et al., Pure Tensor Program Rewriting via Access Patterns, section 5.1. Writes im2col.svg.
"""

import glenside
from glenside.explore import draw_programs
from glenside.language import builders as b
from glenside.rewrites.ruleset import rule_named

RULES = ("flatten-unflatten", "reshape-out-of-cart-prod", "reshape-out-of-dot")
MATRICES = "(compute dot (cart-prod (flatten ?x) (flatten ?y)))"


def convolution():
    """Four filters of 3 x 3 over three channels of 8 x 8."""
    x, w = b.tensor("x", (1, 3, 8, 8)), b.tensor("w", (4, 3, 3, 3))
    looks = b.squeeze(b.windows(b.access(x, 1), (3, 3, 3), (1, 1, 1)), 1)
    return b.compute("dot", b.cart_prod(b.access(w, 1), looks))


def main() -> None:
    """With all three rules the product of matrices is found, without any one it is not."""
    rules = [rule_named(name) for name in RULES]
    found = glenside.explore(convolution(), "systolic-array:8x8", rules=rules).run()
    print(f"{found.stop_reason}: {found.contains(MATRICES)}")
    for left_out in rules:
        fewer = [each for each in rules if each is not left_out]
        without = glenside.explore(convolution(), "systolic-array:8x8", rules=fewer).run()
        print(f"without {left_out.name}: {without.contains(MATRICES)}")
    program = glenside.optimize(convolution(), "systolic-array:8x8", check=False)
    drawn = draw_programs({"as it came": convolution(), "with im2col": program.terms})
    print(drawn.save("im2col.svg"))


if __name__ == "__main__":
    main()
