"""Reductions whose terms several threads share, on an OpenCL device."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glenside.codegen.gpu.fallback import element_kernel
from glenside.codegen.gpu.interface import make_builder
from glenside.codegen.gpu.rows import shared_kernel
from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.record import Kernel
from glenside.language import Term, evaluate
from glenside.language.builders import access, compute, elementwise, pad, tensor, transpose, windows
from tests.codegen.codegen_help import compare
from tests.codegen.gpu.gpu_help import POCL, run_on_opencl

# Such a device as has room for many threads.
WIDE = dataclasses.replace(POCL, compute_units=132, unit_threads=2048)


def kernel_of(term: Term):
    cut = cut_program([term], {"x": x.type, "z": z.type}, {}, plain=True)
    (step,) = cut.steps
    assert isinstance(step, Kernel)
    builder = make_builder(cut)
    return shared_kernel(builder, step, 0, WIDE), element_kernel(builder, step, 0, WIDE)


x, z = tensor("x", (2, 67, 7, 9)), tensor("z", (2, 7, 9, 67))
CASES = {
    "of a plane": compute("sum", access(x, 2)),
    "of images whose channels are last": compute("mean", access(transpose(z, (0, 3, 1, 2)), 2)),
    "over the middle": compute("max", access(transpose(x, (0, 3, 1, 2)), 2)),
    "with work behind": elementwise("relu", compute("min", access(x, 1))),
    "all of it": compute("sum", access(elementwise("exp", x), 0)),
    "of padded windows": compute("max", windows(access(pad(x, 2, 1, 0), 2), (8, 9), (1, 1))),
    "softmax": compute("softmax", access(transpose(x, (0, 2, 3, 1)), 3)),
    "products of neighbours": compute("prod", access(x, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_shared(name: str) -> None:
    term = CASES[name]
    shared, alone = kernel_of(term)
    assert shared is not None and shared.threads * shared.grid[0] >= 8 * np.prod(term.outer)
    assert shared.arguments == alone.arguments


def test_values() -> None:
    rng = np.random.default_rng(0)
    values = {t["name"]: rng.standard_normal(t.shape).astype("float32") for t in (x, z)}
    values["x"][1, 2, 3, 4] = np.nan
    outputs = list(CASES.values())
    got = run_on_opencl(outputs, values, limits=WIDE)
    for one, right in zip(got, evaluate(outputs, values), strict=True):
        compare(one, right, 1e-5)


def test_few_terms_and_many_results_are_left_alone() -> None:
    assert kernel_of(compute("sum", access(x, 3)))[0] is None
    big = tensor("x", (4096, 1024, 64))
    cut = cut_program([compute("sum", access(big, 2))], {"x": big.type}, {}, plain=True)
    (step,) = cut.steps
    assert isinstance(step, Kernel)
    assert shared_kernel(make_builder(cut), step, 0, WIDE) is None
