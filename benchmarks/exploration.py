"""What recording an exploration costs: growing with a record against growing without.

Both apply the same rules in the same order to the same program. Runs alternate; the ratio is the
median of those of neighbours, so that a busy machine slows both down, and times are the fastest.
Histories (who brought what, best costs) are not recorded but grown again, outside this
figure; the last columns say what that takes, reading the e-graph once included.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import onnx
from _table import arguments, show

import glenside
from glenside.frontends import load_model
from glenside.hw_targets.registry import find_target
from glenside.rewrites.engine.egraph import EGraph
from glenside.rewrites.engine.saturation import Stepper

MODELS = ("squeezenet", "resnet50", "densenet121", "inception_v2")
TARGET = "systolic-array:16x16"
LIMIT = 1.10
"""A record may take a tenth of the time to grow."""


def measure(name: str, runs: int) -> dict[str, Any]:
    """One network."""
    path = f"{onnx.__path__[0]}/backend/test/data/light/light_{name}.onnx"
    model, rules = load_model(path), find_target(TARGET).rules()
    plain, recorded = [], []
    for _ in range(runs):
        egraph = EGraph([rule for each in rules for rule in each])
        egraph.load(model.roots)
        stepper = Stepper(rules, node_limit=200_000, iter_limit=50, time_limit=None)
        start = time.perf_counter()
        for _ in stepper.passes(egraph):
            pass
        plain.append(time.perf_counter() - start)
        egraph.close()
        exploration = glenside.explore(model, TARGET)
        start = time.perf_counter()
        exploration.run()
        recorded.append(time.perf_counter() - start)
        exploration.close()
    exploration = glenside.explore(model, TARGET).run()
    start = time.perf_counter()
    assert exploration.history.nodes_by_rule
    history = time.perf_counter() - start
    assert exploration.costs
    costs = time.perf_counter() - start - history
    return {
        "model": name,
        "nodes": exploration.snapshots[-1].nodes,
        "passes": exploration.snapshots[-1].iteration,
        "plain ms": min(plain) * 1e3,
        "recorded ms": min(recorded) * 1e3,
        "ratio": statistics.median(r / p for r, p in zip(recorded, plain, strict=True)),
        "history ms": history * 1e3,
        "costs ms": costs * 1e3,
    }


def main() -> int:
    """Prints the table; 1 where a record costs more than it may."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=31)
    options = parser.parse_args()
    rows = [measure(name, options.runs) for name in MODELS]
    show("recording an exploration", rows, options.json)
    return int(any(row["ratio"] > LIMIT for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
