"""Products of matrices and attention on a GPU beside cuBLAS and PyTorch's best attention.

In halves, since compiling needs TVM and measuring needs the GPU::

    python benchmarks/gpu_products.py build DIR --dtypes float16 float32
    python benchmarks/gpu_products.py measure DIR --json FILE      (CuPy and PyTorch, no TVM)

All operands are given at run time. Ours are programs by prediction alone, held against float64.
CUDA graphs over several inputs at addresses of their own, a median.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from _notes import Notes
from _table import show
from _torch import exact, graph_microseconds

SEEDS = (11, 12, 13)
INSIDE = 21
"""Runs in one graph, a multiple of the input sets."""


@dataclass(frozen=True)
class Product:
    """``x @ w.T`` of ``m`` by ``k`` and ``n`` by ``k``."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        return f"product_{self.m}_{self.n}_{self.k}"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"x": (self.m, self.k), "w": (self.n, self.k)}

    def term(self, dtype: str) -> Any:
        from glenside.frontends.lowering.phrases import matmul, swap_last
        from glenside.language import builders

        x, w = (builders.tensor(name, shape, dtype) for name, shape in self.shapes().items())
        return matmul(x, swap_last(w))

    def right(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        return arrays["x"].astype(np.float64) @ arrays["w"].astype(np.float64).T

    def peer(self, x: Any, w: Any) -> Any:
        return x @ w.T


@dataclass(frozen=True)
class Attention:
    """``softmax(q k^T / sqrt(width)) v`` of ``batch`` times ``heads``."""

    batch: int
    heads: int
    tokens: int
    width: int

    @property
    def name(self) -> str:
        return f"attention_{self.batch}x{self.heads}_{self.tokens}_{self.width}"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys("qkv", (self.batch, self.heads, self.tokens, self.width))

    def term(self, dtype: str) -> Any:
        from glenside.frontends.lowering.phrases import along, matmul, mul, swap_last
        from glenside.language import builders

        q, k, v = (builders.tensor(name, shape, dtype) for name, shape in self.shapes().items())
        return matmul(along("softmax", mul(matmul(q, swap_last(k)), self.width**-0.5), 3), v)

    def right(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        q, k, v = (arrays[name].astype(np.float64) for name in "qkv")
        powers = np.exp(q @ k.swapaxes(-1, -2) * self.width**-0.5)
        return powers / powers.sum(axis=-1, keepdims=True) @ v

    def peer(self, q: Any, k: Any, v: Any) -> Any:
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


PRODUCTS = [
    Product(*each)
    for each in (
        (128, 768, 768), (128, 2304, 768), (128, 3072, 768), (128, 768, 3072), (197, 3072, 768),
        (512, 3072, 768), (256, 5632, 2048), (1, 4096, 4096), (8, 11008, 4096),
        (4096, 4096, 4096), (130, 770, 514),
    )
]  # fmt: skip
ATTENTION = [
    Attention(*each)
    for each in (
        (1, 12, 128, 64), (1, 12, 197, 64), (1, 12, 512, 64), (1, 16, 2048, 64),
        (8, 12, 512, 64), (1, 32, 4096, 128),
    )
]  # fmt: skip
CASES = {case.name: case for case in (*PRODUCTS, *ATTENTION)}


def build(options: Any) -> None:
    """Compiles what is named, or all."""
    from glenside.codegen.device.compile import compile_for_device
    from glenside.hw_targets import find_target
    from glenside.language import topological_order

    target: Any = find_target(options.target)
    notes = Notes()
    for case in CASES.values():
        if options.cases and not any(part in case.name for part in options.cases):
            continue
        for dtype in options.dtypes:
            with notes.of(f"{case.name}-{dtype}"):
                term = case.term(dtype)
                types = {t["name"]: t.type for t in topological_order([term]) if t.op == "tensor"}
                made = compile_for_device(
                    [term], types, {}, target.limits, target.dialect, build=target.builder()
                )
                made.save(options.folder / f"{case.name}-{dtype}")
                print(f"{case.name}-{dtype}", flush=True)
    notes.end()


def measure(options: Any) -> None:
    """Runs what was built."""
    exact()
    rows: list[dict[str, Any]] = []
    notes = Notes()
    for path in sorted(options.folder.glob("*-float*")):
        with notes.of(path.name):
            rows.append(_row(path, options.repeat))
            print(json.dumps(rows[-1]), flush=True)
    show("GPU products", rows, options.json)
    for kind in ("product", "attention"):
        for dtype in ("float16", "float32"):
            ratios = [
                row["peer us"] / row["ours us"]
                for row in rows
                if row["case"].startswith(kind) and row["dtype"] == dtype
            ]
            if ratios:
                mean, least = geometric_mean(ratios), min(ratios)
                print(f"{kind}, {dtype}: peer / ours {mean:.2f}, least {least:.2f}")
    notes.end()


def _row(path: Path, repeat: int) -> dict[str, Any]:
    import torch

    from glenside.codegen.load import load

    name, dtype = path.name.split("-")[:2]
    case = CASES[name]
    program = load(path)

    def arrays(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {n: rng.standard_normal(s).astype(dtype) for n, s in case.shapes().items()}

    sets = [arrays(seed) for seed in SEEDS]
    (got,) = program.run(sets[0])
    right = case.right(sets[0])
    error = np.linalg.norm((got - right).ravel()) / np.linalg.norm(right.ravel())
    ours = median(program.run_seconds(sets, repeat, INSIDE)) * 1e6
    tensors = [[torch.from_numpy(a).cuda() for a in each.values()] for each in sets]
    peer = graph_microseconds(case.peer, tensors, INSIDE, repeat)
    kernels = len(program.plan.kernels)
    return {
        "case": path.name.replace(f"-{dtype}", ""),
        "dtype": dtype,
        "ours us": ours,
        "peer us": peer,
        "peer / ours": peer / ours,
        "error": float(error),
        "kernels": kernels,
    }


def main() -> None:
    """Either half."""
    parser = argparse.ArgumentParser(description=__doc__)
    halves = parser.add_subparsers(required=True)
    first = halves.add_parser("build")
    first.add_argument("folder", type=Path)
    first.add_argument("--cases", nargs="*", help="parts of names; all by default")
    first.add_argument("--dtypes", nargs="*", default=["float16", "float32"])
    first.add_argument("--target", default="cuda:sm_90")
    first.set_defaults(run=build)
    second = halves.add_parser("measure")
    second.add_argument("folder", type=Path)
    second.add_argument("--repeat", type=int, default=20)
    second.add_argument("--json", type=Path)
    second.set_defaults(run=measure)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
