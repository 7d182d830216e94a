"""Attention and its like as one kernel that stores no scores, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.dispatch import make_kernels
from glenside.codegen.gpu.interface import make_builder
from glenside.codegen.gpu.streamed.kernel import StreamedNest
from glenside.codegen.gpu.streamed.mapping import StreamedMapping, mappings
from glenside.codegen.gpu.streamed.problem import StreamedProblem
from glenside.codegen.gpu.streamed.time import best, best_on_units, pays
from glenside.codegen.gpu.streamed.warps import WarpStreamMapping, WarpStreamNest
from glenside.codegen.program.cut import cut_program
from glenside.frontends.lowering.phrases import add, along, elementwise, matmul, mul, swap_last
from glenside.language import Term, topological_order
from glenside.language import builders as b
from tests.codegen.gpu.gpu_help import POCL, Device, run_on_opencl
from tests.codegen.gpu.tensor_help import Case, emulate

HOPPER = device_profile("cuda:sm_90")
AMPERE = device_profile("cuda:sm_80")


@dataclass(frozen=True)
class Sizes:
    heads: tuple[int, ...] = (2,)
    rows: int = 5
    columns: int = 7
    depth: int = 4
    width: int = 3
    kind: str = "plain"
    dtype: str = "float32"

    def term(self) -> Term:
        """As front ends lower it."""
        grouped = self.kind == "grouped"
        q = b.tensor("q", (*self.heads, self.rows, self.depth), self.dtype)
        shared = self.heads[:-1] if grouped else self.heads
        k = b.tensor("k", (*shared, self.columns, self.depth), self.dtype)
        v = b.tensor("v", (*shared, self.columns, self.width), self.dtype)
        if grouped:
            k, v = (
                b.broadcast(b.unsqueeze(each, len(shared)), (*self.heads, *each.shape[-2:]))
                for each in (k, v)
            )
        x = matmul(q, swap_last(k))
        if self.kind != "plain":
            x = mul(x, 0.5)
        if self.kind == "masked":
            x = add(x, b.tensor("mask", (self.rows, self.columns), self.dtype))
        if self.kind == "hidden":
            shown = b.broadcast_to(b.tensor("shown", (self.rows, self.columns), "bool"), x.shape)
            x = b.where(shown, x, b.constant(-1e4, x.shape, self.dtype))
        if self.kind == "softcap":
            x = mul(elementwise("tanh", mul(x, 0.5)), 2.0)
        result = matmul(along("softmax", x, x.type.rank - 1), v)
        return add(result, q) if self.kind == "residual" else result

    def arrays(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        leaves = [t for t in topological_order([self.term()]) if t.op == "tensor"]
        made = {t["name"]: rng.standard_normal(t.shape).astype(t.dtype) for t in leaves}
        if "shown" in made:
            made["shown"] = rng.random((self.rows, self.columns)) < 0.5
        if "mask" in made:
            hidden = np.arange(self.columns)[None] > np.arange(self.rows)[:, None]
            made["mask"][hidden] = -np.inf
            made["mask"][-1] = -np.inf  # A row of nothing.
            made["mask"][-2, : self.columns // 2] = -np.inf  # And one whose first blocks are.
            made["mask"][-2, self.columns // 2 :] = 0
        return made

    def right(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        wide = {name: array.astype(np.float64) for name, array in arrays.items()}
        q, k, v = (wide[name] for name in "qkv")
        if self.kind == "grouped":
            k, v = k[:, None], v[:, None]
        x = q @ k.swapaxes(-1, -2) * (1 if self.kind == "plain" else 0.5) + wide.get("mask", 0)
        if self.kind == "hidden":
            x = np.where(arrays["shown"], x, -1e4)
        if self.kind == "softcap":
            x = 2 * np.tanh(0.5 * x)
        with np.errstate(invalid="ignore"):
            powers = np.exp(x - x.max(axis=-1, keepdims=True))
        result = powers / powers.sum(axis=-1, keepdims=True) @ v
        return result + q if self.kind == "residual" else result


def compare(got: np.ndarray, right: np.ndarray, tolerance: float) -> None:
    assert (np.isnan(got) == np.isnan(right)).all()
    there = ~np.isnan(right)
    error = np.linalg.norm(got[there] - right[there]) / np.linalg.norm(right[there])
    assert error < tolerance


CASES = {
    "one token": Sizes((3,), 1, 40, 8, 8),
    "one token and one key": Sizes((), 1, 1, 2, 2),
    "odd": Sizes((2,), 33, 197, 20, 18),
    "masked": Sizes((2,), 50, 77, 8, 9, "masked"),
    "hidden": Sizes((2,), 18, 33, 8, 8, "hidden"),
    "softcap": Sizes((2, 2), 6, 21, 8, 16, "softcap"),
    "grouped": Sizes((2, 3), 5, 37, 8, 8, "grouped"),
    "what follows": Sizes((2,), 18, 33, 8, 8, "residual"),
}


@pytest.mark.parametrize("name", CASES)
def test_values_on_opencl(name: str) -> None:
    sizes = CASES[name]
    arrays = sizes.arrays()
    (got,) = run_on_opencl([sizes.term()], arrays, streams=lambda product: True)
    compare(got, sizes.right(arrays), 1e-6)


def test_every_mapping_gives_the_same() -> None:
    """Whatever its tiles; those that the device is told to prefer are among them."""
    sizes = Sizes((2,), 19, 41, 6, 20, "masked")
    arrays, term = sizes.arrays(), sizes.term()
    types = {t["name"]: t.type for t in topological_order([term]) if t.op == "tensor"}
    cut = cut_program([term], types, {}, plain=True, streams=lambda product: True)
    problem = StreamedProblem(2, 19, 41, 6, 20, 2, "float32")
    (step,) = cut.steps
    assert best(problem, POCL) is not None
    found = list(mappings(problem, POCL))
    assert len(found) > 10
    for mapping in (StreamedMapping(4, 16, 1, 1), StreamedMapping(16, 16, 4, 2), found[-1]):
        builder = make_builder(cut)
        builder.at_step(0)
        nest = StreamedNest(builder, step, POCL, cut.streamed[step.anchor], mapping)
        kernel = nest.device_kernel("step_0")
        (got,) = Device(replace(cut, memory=builder.memory), [kernel], POCL).run(arrays)
        compare(got, sizes.right(arrays), 1e-6)


HALVES = {
    "whole": (Sizes((2,), 32, 64, 16, 16), WarpStreamMapping(2, 1, 32, 2)),
    "in_parts": (Sizes((1,), 16, 128, 16, 32), WarpStreamMapping(1, 4, 32, 1)),
    "odd": (Sizes((2,), 21, 77, 20, 12), WarpStreamMapping(1, 2, 32, 2)),
    "masked": (Sizes((1,), 40, 70, 16, 24, "masked"), WarpStreamMapping(2, 2, 32, 2)),
    "hidden": (Sizes((2,), 18, 40, 16, 16, "hidden"), WarpStreamMapping(1, 1, 64, 1)),
    "grouped": (Sizes((2, 2), 5, 37, 16, 8, "grouped"), WarpStreamMapping(1, 1, 64, 1)),
    "residual": (Sizes((1,), 18, 33, 16, 16, "residual"), WarpStreamMapping(2, 1, 64, 1)),
}


def test_values_on_matrix_units(tmp_path: Path) -> None:
    """The text of the kernels, run on the processor."""
    cases, rights = [], []
    for name, (plain, mapping) in HALVES.items():
        for dtype in ("float16", "bfloat16") if name == "odd" else ("float16",):
            sizes = replace(plain, dtype=dtype)
            arrays, term = sizes.arrays(), sizes.term()
            types = {t["name"]: t.type for t in topological_order([term]) if t.op == "tensor"}
            cut = cut_program(
                [term], types, {}, plain=True, rows_last=True, streams=lambda product: True
            )
            (step,) = cut.steps
            builder = make_builder(cut)
            builder.at_step(0)
            nest = WarpStreamNest(builder, step, AMPERE, cut.streamed[step.anchor], mapping)
            kernel = nest.device_kernel(f"{name}_{dtype}")
            cases.append(
                Case(kernel.name, replace(cut, memory=builder.memory), kernel, arrays, None)
            )
            rights.append(sizes.right(arrays))
    for case, got, right in zip(cases, emulate(cases, tmp_path), rights, strict=True):
        compare(got.astype(np.float64), right, 1e-2 if "bfloat" in case.name else 2e-3)


@pytest.mark.parametrize(("dtype", "kernel"), [("float16", "mma"), ("float32", "")])
def test_which_kernel_a_program_gets(dtype: str, kernel: str) -> None:
    sizes = Sizes((12,), 128, 128, 64, 64, dtype=dtype)
    term = sizes.term()
    types = {t["name"]: t.type for t in topological_order([term]) if t.op == "tensor"}
    cut = cut_program([term], types, {}, plain=True, streams=lambda product: True)
    (step,) = cut.steps
    (made,) = make_kernels(make_builder(cut), step, 0, HOPPER, "cuda")
    assert ("warp_multiply_half" in made.text) == (kernel == "mma")
    assert (made.function is None) == (kernel == "mma")


def test_it_is_chosen_where_it_is_predicted_to_pay() -> None:
    """On the device whose times these were measured on: 4 us for 11, 10 for 32, 90 for 457."""
    for heads, tokens in ((12, 128), (12, 197), (12, 512), (16, 2048)):
        assert pays(StreamedProblem(heads, tokens, tokens, 64, 64, heads, "float16"), HOPPER)
    # Of single numbers a row there is nothing to be saved that arithmetic would not cost.
    assert not pays(StreamedProblem(1, 8192, 8192, 512, 512, 1, "float16"), HOPPER)


def test_few_rows_are_shared_by_warps() -> None:
    """So that there are groups for the whole device, as measured to be fastest."""
    few = best_on_units(StreamedProblem(12, 128, 128, 64, 64, 12, "float16"), HOPPER)
    many = best_on_units(StreamedProblem(96, 512, 512, 64, 64, 96, "float16"), HOPPER)
    assert few is not None and many is not None
    assert few.parts > 1 and few.rows < many.rows and many.parts == 1


def test_what_does_not_fit_is_left_to_kernels_of_its_own() -> None:
    wide = StreamedProblem(1, 64, 64, 4096, 4096, 1, "float16")
    assert best(wide, POCL) is None and best_on_units(wide, HOPPER) is None
    assert not pays(wide, HOPPER)
