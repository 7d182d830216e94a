"""A cost model from measurements: what was timed is looked up, the rest is estimated.

Here the interpreter is what is measured; for hardware of your own put its times in the table.
"""

import time

import numpy as np

import glenside
from glenside.hw_targets.registry import find_target
from glenside.language import builders as b
from glenside.language.operators import OPERATORS


class Measured:
    """Seconds of each operator on operands of each type, measured once; views are free."""

    name = "measured"
    parts = ("seconds", "nodes")

    def __init__(self):
        self.times = {}

    def node_cost(self, op, attributes, result, operands):
        """Price of one node without its operands."""
        if op in ("tensor", "constant") or OPERATORS[op].moves is not None:
            return (0.0, 1.0)
        if op == "call":
            return (1e-6, 1.0)  # What the unit's data sheet says.
        key = (op, tuple(attributes.items()), tuple(operands))
        if key not in self.times:
            arrays = [np.ones(each.shape, each.dtype) for each in operands]
            started = time.perf_counter()
            OPERATORS[op].evaluate(arrays, tuple(operands), attributes)
            self.times[key] = time.perf_counter() - started
        return (self.times[key], 1.0)


def main() -> None:
    """The product goes to the unit, since the table says that it is faster there."""
    x, w = b.access(b.tensor("x", (64, 96)), 1), b.access(b.tensor("w", (32, 96)), 1)
    product = b.compute("dot", b.cart_prod(x, w))
    costs = Measured()
    program = glenside.optimize(product, find_target("systolic-array:16x16"), cost_model=costs)
    print(program.report.offloads, f"{len(costs.times)} kinds of operators were measured")
    assert program.report.cost_after < program.report.cost_before


if __name__ == "__main__":
    main()
