"""Seconds of the whole command ``glenside optimize MODEL -o DIR``, cold and warm, stage by stage.

Cold, nothing is on disk but the model; then kernels are there; warm, the program is. Each run is a
process of its own: ``python benchmarks/compile_time.py [MODEL ...] --target cuda:sm_90``. CPU
seconds are of the process and those that it starts, and say more than the clock's on a busy
machine. What the report does not time is the rest: Python, imports and making rules.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _bert import bert_base
from _table import arguments, show
from optimize import light_models

STAGES = ("import", "saturate", "extract", "compile", "check")
NETWORKS = ("squeezenet", "resnet50")


def command(model: Path, target: str, output: Path, cache: Path) -> dict[str, Any]:
    """One run of the command."""
    words = [sys.executable, "-m", "glenside", "optimize", str(model), "-t", target, "--json"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*words, "-o", str(output)],
        capture_output=True, text=True, check=False,
        env={**os.environ, "GLENSIDE_CACHE": str(cache)},
    )  # fmt: skip
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{model}: {done.stderr.strip().splitlines()[-1]}")
    report = json.loads(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = dict.fromkeys(STAGES, 0.0) if report["from_cache"] else report["seconds"]
    return {
        "from cache": report["from_cache"],
        "seconds": seconds,
        "CPU s": cpu,
        **{f"{stage} s": said[stage] for stage in STAGES},
        "rest s": seconds - sum(said[stage] for stage in STAGES),
        "peak MB": after.ru_maxrss / 1024,
    }


def rows(model: Path, target: str) -> list[dict[str, Any]]:
    """Cold, with kernels on disk, and warm."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for what in ("cold", "kernels", "warm"):
            if what == "kernels":
                for each in (work / "cache" / "reports").glob("*"):
                    each.unlink()
            run = command(model, target, work / "program", work / "cache")
            found.append({"model": model.stem, "run": what, **run})
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("models", nargs="*", type=Path, help="default: two networks and BERT-base")
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = options.models
        if not models:
            wanted = {f"light_{name}" for name in NETWORKS}
            models = [path for path in light_models() if path.stem in wanted]
            models.append(bert_base(Path(folder) / "bert_base.onnx"))
        # Peak memory is that of the largest child so far, so the small ones come first.
        found = [row for model in models for row in rows(model, options.target)]
    show(f"the command for {options.target}", found, options.json)


if __name__ == "__main__":
    main()
