"""How far greedy extraction is from the optimum, and what proving that takes.

``python benchmarks/extraction.py [MODEL ...] --target vta --cost-model cycles``. The gap is between
the first parts of the costs in which the greedy answer and the proved one differ.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from _table import arguments, show


def light_models() -> list[Path]:
    """Networks that the installed onnx package ships."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return [folder / f"light_{name}.onnx" for name in ("squeezenet", "resnet50", "inception_v1")]


def measure(model: str, target: str, cost_model: str | None) -> dict[str, Any]:
    from glenside.extraction import extract, find_cost_model
    from glenside.extraction.presolve import reduce
    from glenside.extraction.problem import pose
    from glenside.frontends import load_model
    from glenside.hw_targets.registry import find_target
    from glenside.rewrites import saturate

    chosen = find_target(target)
    costs = find_cost_model(cost_model) if cost_model else chosen.cost_model()
    imported = load_model(model, shapes=None, params=None)
    egraph = saturate(imported.roots, chosen.rules(), node_limit=200_000, iter_limit=50).egraph
    reduced = reduce(pose(egraph, costs))
    start = time.perf_counter()
    extract(egraph, costs, extractor="greedy-dag")
    greedy_done = time.perf_counter()
    found = extract(egraph, costs, extractor="ilp")
    done = time.perf_counter()
    pairs = zip(found.tried["greedy-dag"], found.cost, strict=True)
    gap = next((100 * (g - best) / g for g, best in pairs if g != best), 0.0)
    return {
        "model": Path(model).stem,
        "target": target,
        "cost": costs.name,
        "e-nodes": egraph.node_count,
        "to choose from": sum(len(each) for part in reduced.parts for each in part.members),
        "parts": len(reduced.parts),
        "shapes": len({part.shape for part in reduced.parts}),
        "greedy s": greedy_done - start,
        "all and ilp s": done - greedy_done,
        "gap %": gap,
        "proved": found.optimal,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("models", nargs="*", help="model files (default: three light models)")
    parser.add_argument("--target", default="systolic-array:16x16")
    parser.add_argument("--cost-model")
    options = parser.parse_args()
    models = options.models or light_models()
    rows = [measure(str(model), options.target, options.cost_model) for model in models]
    show("extraction", rows, options.json)


if __name__ == "__main__":
    main()
