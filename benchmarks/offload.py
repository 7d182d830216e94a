"""Whole networks on accelerators: calls by exact and by flexible matching, beside published ones.

One row for each network and target, each in a process of its own so that peak memory is its own and
nothing is warm. Exact matching has the units' own rules alone, flexible matching all of them. The
offloaded program is compiled, run through the units' simulators on random inputs, and held against
the NumPy interpreter on the network as imported.

``host`` counts what the offloaded program still computes on the host, activations included, and
``left`` the layers among it that a unit of the target might have taken; ``ops`` are the operators
of the network, or where its front end does not count them what the imported program computes.

The exit code is 1 when a row has fewer calls than the published flexible matching, takes more than
15 s or 2 GB to optimise, stops at a limit, or differs by more than 1e-4 from the interpreter
(relative to the largest magnitude of each output).

The Relay networks are looked for in the folder that ``GLENSIDE_RELAY_DATA`` or ``--relay`` names;
the ONNX ones are those that the onnx package ships, for which nothing is published.

Published: Huang et al., "Application-level validation of accelerator designs using a formal
software/hardware interface", TODAES 2024 (arXiv 2203.00218), exact and flexible matching. Their 24
calls of VTA on ResNet-50 are as printed; their one LSTM call stands for 566 operators.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _table import arguments, show

TARGETS = ("flexasr", "hlscnn", "vta")

PUBLISHED: dict[str, tuple[tuple[int, int], ...]] = {
    "efficientnet": ((0, 35), (35, 35), (0, 35)),
    "lstm_wlm": ((1, 1), (0, 0), (36, 36)),
    "mobilenet_v2": ((0, 41), (40, 40), (1, 41)),
    "resmlp": ((0, 38), (0, 0), (38, 38)),
    "resnet20": ((2, 22), (21, 21), (0, 22)),
    "resnet50_from_onnx": ((0, 54), (53, 53), (0, 24)),
    "resnet50_from_pytorch": ((0, 54), (53, 53), (0, 24)),
    "transformer": ((0, 66), (0, 0), (66, 66)),
}
"""By file, in the order of TARGETS: calls found by exact and by flexible matching."""

SECONDS, MEGABYTES, ERROR = 15.0, 2048.0, 1e-4
"""What a row may take, and how far the results may differ."""

ON_HOST = frozenset({"compute", "cast", "where", "host_op"})
"""Operators of the language that compute on the host."""


def networks(relay: Path | None) -> Iterator[Path]:
    """Relay files, then the networks that the installed onnx package ships."""
    import onnx

    if relay is not None:
        yield from sorted(relay.glob("*.relay"))
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    yield from sorted(folder.glob("light_*.onnx"))


def measure(file: str, target: str, check: bool) -> dict[str, Any]:
    """One network for one target, in this process."""
    import glenside
    from glenside.check import check as compare
    from glenside.errors import CheckFailed
    from glenside.frontends import load_model
    from glenside.language import topological_order

    start, start_cpu = time.perf_counter(), time.process_time()
    program = glenside.optimize(file, target, check=False)
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    error: float | None = None
    if check:
        try:
            error = compare(program, load_model(file)).error
        except CheckFailed as problem:
            print(problem, file=sys.stderr)
            error = float("inf")
    report = program.report
    published = dict(zip(TARGETS, PUBLISHED.get(Path(file).stem, ()), strict=False)).get(target)
    return {
        "model": Path(file).stem,
        "target": target,
        "ops": report.operators,
        "exact": sum((report.exact or {}).values()),
        "flexible": sum(report.offloads.values()),
        "published": "-" if published is None else f"{published[0]}/{published[1]}",
        "host": sum(term.op in ON_HOST for term in topological_order(program.terms)),
        "left": len(report.left),
        "e-nodes": report.nodes,
        "passes": report.iterations,
        "stop": report.stop_reason,
        "s": round(seconds, 1),
        "cpu s": round(cpu, 1),
        "peak MB": round(peak),
        "error": "-" if error is None else float(f"{error:.1e}"),
    }


def faults(row: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a row."""
    if row["published"] != "-" and row["flexible"] < int(row["published"].partition("/")[2]):
        yield f"{row['flexible']} calls, {row['published']} are published"
    # Waiting while others have the processor does not count, nor do several threads at once.
    if min(row["s"], row["cpu s"]) > SECONDS:
        yield f"{row['s']:.1f} s, {row['cpu s']:.1f} s of the processor: more than {SECONDS:.0f}"
    if row["peak MB"] > MEGABYTES:
        yield f"{row['peak MB']:.0f} MB: more than {MEGABYTES:.0f}"
    if row["stop"] != "saturated":
        yield f"stopped by {row['stop']}"
    if row["error"] != "-" and not row["error"] <= ERROR:
        yield f"differs from NumPy by {row['error']:.1e}"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("models", nargs="*", help="model files (default: all networks)")
    parser.add_argument("--target", action="append", help=f"default: {', '.join(TARGETS)}")
    parser.add_argument("--relay", type=Path, default=os.environ.get("GLENSIDE_RELAY_DATA"))
    parser.add_argument("--check", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--one", action="store_true", help="measure in this process, print JSON")
    options = parser.parse_args()
    targets = options.target or TARGETS
    if options.one:
        print(json.dumps(measure(options.models[0], targets[0], options.check)))
        return
    rows, wrong = [], []
    for model in options.models or networks(options.relay):
        for target in targets:
            checking = "--check" if options.check else "--no-check"
            command = [sys.executable, __file__, str(model), "--one", "--target", target, checking]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
                wrong.append(f"{model} on {target}: {last}")
                continue
            sys.stderr.write(done.stderr)
            row = json.loads(done.stdout.splitlines()[-1])
            rows.append(row)
            wrong += [f"{row['model']} on {target}: {each}" for each in faults(row)]
            print(*row.values(), file=sys.stderr, flush=True)
    if rows:
        title = "Offloads: exact, flexible and published (exact/flexible) matching"
        show(title, rows, options.json)
    if options.relay is None and not options.models:
        print("no Relay networks: GLENSIDE_RELAY_DATA and --relay name no folder")
    for each in wrong:
        print("wrong:", each)
    if wrong or not rows:
        sys.exit(1)


if __name__ == "__main__":
    main()
