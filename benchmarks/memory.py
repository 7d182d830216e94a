"""Memory of convolutions on a small GPU: what programs hold beside operands and results.

For each layer that is dense and not 1x1: the program as the target chooses it, the layer as it is
said (``rules=[]``), and im2col with a GEMM, the way of most libraries: one program makes the matrix
of windows, another multiplies it. Bytes are counted from the plans: of intermediate values, scratch
memory of split reductions, and what parameters take beyond the model's own. Times are predicted:
those of products by the mapping solver's model, of all else by the bytes moved. No device is asked
for and no code made, so the figures are the same everywhere::

    python benchmarks/memory.py --target opencl:mali-g72 --json FILE
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from _conv_layers import LAYERS, Layer, direct, im2col
from _table import arguments, show

DENSE = tuple(layer for layer in LAYERS if layer.groups == 1 and layer.r > 1)
"""Convolutions that are neither grouped nor products of matrices already."""
WAYS = ("ours", "as said", "im2col")


def measure(layer: Layer, target: Any, dtype: str = "float32") -> dict[str, Any]:
    """Bytes held and predicted seconds of each way, and the mapping of ours' products."""
    from glenside.extraction import extract
    from glenside.rewrites import saturate

    _, weights = layer.arrays(1, 0, dtype)
    term = direct(layer, 1, dtype)
    explored = saturate([term], target.rules())
    found = extract(explored.egraph, target.cost_model(), original=[term], constants={"w"})
    ours = plan(target, found.terms, {"w": weights})
    kept = found.terms[0] is term
    said = ours if kept else plan(target, [term], {"w": weights})
    # A library's matrix product has no use for the weight: it is as fast as it can be.
    fastest = replace(target.limits, byte_seconds=0.0)
    matrix, product = im2col(layer, 1, dtype)
    first = plan(target, [matrix], {}, fastest)
    second = plan(target, [product], {"w": weights.reshape(layer.k, -1)}, fastest)
    held = first.footprint.held + matrix.type.nbytes + second.footprint.held
    return {
        "layer": layer.name,
        "form": "as said" if kept else "rewritten",
        "mappings": ours.mappings,
        "ours bytes": ours.footprint.held,
        "ours seconds": total(ours.seconds.values()),
        "as said bytes": said.footprint.held,
        "as said seconds": total(said.seconds.values()),
        "im2col bytes": held,
        "im2col seconds": total([*first.seconds.values(), *second.seconds.values()]),
    }


def plan(target: Any, outputs: Any, params: Any, limits: Any = None) -> Any:
    """The program without code, with the mappings that are predicted to be best."""
    from glenside.codegen.device.compile import plan_for_device
    from glenside.language import topological_order

    types = {
        t["name"]: t.type
        for t in topological_order(outputs)
        if t.op == "tensor" and t["name"] not in params
    }
    return plan_for_device(outputs, types, params, limits or target.limits, target.dialect)


def total(numbers: Iterable[float]) -> float:
    return float(sum(numbers))


def main() -> None:
    parser = arguments(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--target", default="opencl:mali-g72")
    parser.add_argument("--layers", nargs="*", help="names (default: all)")
    options = parser.parse_args()
    from glenside.hw_targets import find_target

    target = find_target(options.target)
    rows = []
    for layer in DENSE:
        if not options.layers or layer.name in options.layers:
            rows.append(measure(layer, target))
            print(json.dumps(rows[-1]), flush=True)
    sums = {
        f"{way} {unit}": total(row[f"{way} {unit}"] for row in rows)
        for way in WAYS
        for unit in ("bytes", "seconds")
    }
    table = []
    for row in [*rows, {"layer": "all", **sums}]:
        shown = {"layer": row["layer"]}
        for way in WAYS:
            shown[f"{way} MB"] = row[f"{way} bytes"] / 1e6
            shown[f"{way} ms"] = row[f"{way} seconds"] * 1e3
        table.append(shown)
    show(f"convolutions on {target.name}", table)
    for way in WAYS[:2]:
        held, time = (sums[f"{way} {unit}"] for unit in ("bytes", "seconds"))
        memory = f"1/{sums['im2col bytes'] / held:.1f} of the" if held else "no"
        print(f"{way}: {memory} memory and {time / sums['im2col seconds']:.2f} of im2col's time")
    if options.json:
        record = {"target": target.name, "rows": rows, "sums": sums}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
