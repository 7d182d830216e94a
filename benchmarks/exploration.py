"""What recording an exploration costs: growing with a record against growing without.

Both apply the same rules in the same order to the same program; runs alternate and the fastest of
each counts. Histories (who brought what, best costs) are not recorded but grown again, outside this
figure; the last columns say what that takes.
"""

from __future__ import annotations

import time
from typing import Any

import onnx
from _table import arguments, show

import glenside
from glenside.frontends import load_model
from glenside.hw_targets.target import find_target
from glenside.rewrites.egraph import EGraph
from glenside.rewrites.saturation import Stepper

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
    assert exploration.history.costs
    replay = time.perf_counter() - start
    return {
        "model": name,
        "nodes": exploration.snapshots[-1].nodes,
        "passes": exploration.snapshots[-1].iteration,
        "plain ms": min(plain) * 1e3,
        "recorded ms": min(recorded) * 1e3,
        "ratio": min(recorded) / min(plain),
        "history ms": replay * 1e3,
    }


def main() -> int:
    """Prints the table; 1 where a record costs more than it may."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    rows = [measure(name, options.runs) for name in MODELS]
    show("recording an exploration", rows, options.json)
    return int(any(row["ratio"] > LIMIT for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
