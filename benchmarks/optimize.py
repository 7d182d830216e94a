"""Seconds of every stage, e-nodes and peak memory of ``glenside.optimize`` on the light models.

Each model runs in a process of its own, so that peak memory is its own and nothing is warm:
``python benchmarks/optimize.py [MODEL ...] --target systolic-array:16x16``.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from _table import arguments, show


def light_models() -> list[Path]:
    """The networks that the installed onnx package ships."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return sorted(folder.glob("light_*.onnx"))


def measure(model: str, target: str) -> dict[str, Any]:
    """One model, in this process."""
    import glenside

    report = glenside.optimize(model, target, check=False).report
    s = report.seconds
    return {
        "model": Path(model).stem,
        "operators": report.operators,
        "offloads": sum(report.offloads.values()),
        "stop": report.stop_reason,
        "e-nodes": report.nodes,
        "import s": s.imported,
        "saturate s": s.saturate,
        "extract s": s.extract,
        "compile s": s.compile,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("models", nargs="*", help="model files (default: the light models)")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--one", action="store_true", help="measure in this process, print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.models[0], options.target)))
        return
    rows = []
    for model in options.models or light_models():
        command = [sys.executable, __file__, "--one", "--target", options.target, str(model)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{model}: {done.stderr.strip().splitlines()[-1]}")
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    show(f"optimize for {options.target}", rows, options.json)


if __name__ == "__main__":
    main()
