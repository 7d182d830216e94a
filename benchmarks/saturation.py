"""Equality saturation of many distinct convolutions in one e-graph.

Each must come out as a product of matrices on the array, and the whole must reach a fixed point;
nodes must grow linearly. Declaring is done once for each process and combination of rules, loading
and saturating for each program.

The layers are those of ResNet-50, repeated with other numbers of filters. The Rust original finds
its forms for 200 layers in 50 ms, without ever reaching a fixed point.
"""

from __future__ import annotations

import time
from typing import Any

from _table import arguments, show

from glenside.language import Term, builders
from glenside.rewrites.engine.egraph import EGraph
from glenside.rewrites.engine.saturation import StopReason, saturate
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic_rules

RULES = [IM2COL, LAYOUT, systolic_rules(16, 16)]
ORIGINAL_MS_PER_LAYER = 50 / 200

# Filters, channels, kernel, image, stride.
LAYERS = [
    (64, 3, 7, 224, 2),
    (64, 64, 1, 56, 1),
    (64, 64, 3, 56, 1),
    (256, 64, 1, 56, 1),
    (128, 256, 1, 56, 2),
    (128, 128, 3, 28, 1),
    (512, 128, 1, 28, 1),
    (256, 256, 3, 14, 1),
    (1024, 256, 1, 14, 1),
    (512, 512, 3, 7, 1),
]


def convolution(number: int) -> Term:
    """A convolution like no other, as the ONNX front end writes it."""
    filters, channels, kernel, image, stride = LAYERS[number % len(LAYERS)]
    filters += number // len(LAYERS)
    weights = builders.tensor(f"w{number}", (filters, channels, kernel, kernel))
    x = builders.tensor(f"x{number}", (1, channels, image, image))
    margin = kernel // 2
    x = builders.pad(builders.pad(x, 2, margin, margin), 3, margin, margin)
    x = builders.windows(builders.access(x, 1), (channels, kernel, kernel), (1, stride, stride))
    product = builders.cart_prod(builders.access(weights, 1), builders.squeeze(x, 1))
    return builders.transpose(builders.compute("dot", product), (1, 0, 2, 3))


def measure(layers: int, runs: int) -> dict[str, Any]:
    """The fastest of some runs."""
    roots = [convolution(number) for number in range(layers)]
    results = [saturate(roots, RULES) for _ in range(runs)]
    result = min(results, key=lambda result: result.seconds.load + result.seconds.grow)
    found = sum(any(node.op == "blocked" for node in nodes) for nodes in result.egraph.classes)
    if found != layers or result.stop_reason is not StopReason.SATURATED:
        raise SystemExit(f"{layers} layers: {found} on the array, {result.stop_reason}")
    seconds = result.seconds
    per_layer = 1e3 * (seconds.load + seconds.grow) / layers
    return {
        "layers": layers,
        "e-nodes": result.nodes,
        "classes": result.classes,
        "passes": len(result.iterations),
        "load ms": 1e3 * seconds.load,
        "saturate ms": 1e3 * seconds.grow,
        "freeze ms": 1e3 * seconds.freeze,
        "ms per layer": per_layer,
        "x original": per_layer / ORIGINAL_MS_PER_LAYER,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--layers", type=int, nargs="*", default=[1, 10, 50, 200])
    parser.add_argument("--runs", type=int, default=3, help="the fastest of so many counts")
    options = parser.parse_args()
    start = time.perf_counter()
    EGraph([rule for rules in RULES for rule in rules]).close()
    print(f"declaring the rules, once for each process: {time.perf_counter() - start:.3f} s")
    rows = [measure(layers, options.runs) for layers in options.layers]
    show("Saturation of distinct convolutions", rows, options.json)
    per_layer = {row["e-nodes"] / row["layers"] for row in rows}
    print("e-nodes per layer:", ", ".join(f"{each:g}" for each in sorted(per_layer)))


if __name__ == "__main__":
    main()
