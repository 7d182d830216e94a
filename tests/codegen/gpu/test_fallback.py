"""One thread an element, on an OpenCL device: every function, a dtype of each kind."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.emit import emit
from glenside.codegen.gpu.interface import DeviceKernel, check_dtypes
from glenside.codegen.program.cut import cut_program
from glenside.errors import TargetError
from glenside.language import FUNCTIONS, Term, evaluate
from glenside.language.builders import (
    access,
    cast,
    compute,
    concat,
    elementwise,
    gather,
    pad,
    reshape,
    slice_,
    tensor,
    transpose,
    where,
    windows,
)
from glenside.language.shape import is_float
from tests.codegen.codegen_help import TOLERANCE, compare, leaves
from tests.codegen.gpu.gpu_help import POCL, run_on_opencl
from tests.codegen.programs import renamed, terms_of, values_for

GROUPS = [list(FUNCTIONS)[k::3] for k in range(3)]
DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
"""One of each kind: PoCL takes its time to build a kernel."""


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_functions(names: list[str]) -> None:
    outputs: list[Term] = []
    inputs: dict[str, np.ndarray] = {}
    for name in names:
        for number, dtype in enumerate(FUNCTIONS[name].domain):
            if dtype not in DTYPES:
                continue
            for term in terms_of(name, dtype):
                named = renamed(term, f"{name}-{dtype}")
                outputs.append(named)
                for leaf, t in leaves([named]).items():
                    seed = number + (leaf[0] == "b")
                    inputs.setdefault(leaf, values_for(name, t.dtype, t.shape, seed))
    with np.errstate(all="ignore"):
        expected = evaluate(outputs, inputs)
    for got, wanted, term in zip(run_on_opencl(outputs, inputs), expected, outputs, strict=True):
        source = term.children[0].dtype
        compare(got, wanted, TOLERANCE.get(source) if is_float(wanted.dtype) else None)


def test_what_moves_data() -> None:
    x = tensor("x", (3, 5, 7))
    outputs = [
        pad(pad(x, 1, 1, 0), 2, 0, 3, "lowest"),
        pad(x, 2, 1, 2, "zero", 2),
        reshape(transpose(x, (2, 0, 1)), (5, 21)),
        concat(1, slice_(x, 1, 1, 5, 2), x, elementwise("relu", x)),
        compute("max", windows(access(x, 1), (3, 2), (2, 1))),
        gather(x, tensor("i", (2, 2), "int64"), 1),
        where(tensor("c", (3, 5, 7), "bool"), x, cast(cast(x, "int32"), "float32")),
        compute("softmax", access(x, 2)),
        compute("argmax", access(transpose(x, (0, 2, 1)), 2)),
    ]
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.standard_normal((3, 5, 7)).astype("float32"),
        "i": np.array([[0, -1], [4, 2]]),
        "c": rng.integers(0, 2, (3, 5, 7)).astype(bool),
    }
    for got, wanted in zip(run_on_opencl(outputs, inputs), evaluate(outputs, inputs), strict=True):
        compare(got, wanted)


@pytest.mark.parametrize("size", [1, 31, 128, 757])
def test_sizes_that_fill_no_group(size: int) -> None:
    x = tensor("x", (size,))
    values = np.arange(size, dtype="float32")
    (got,) = run_on_opencl([elementwise("neg", x)], {"x": values})
    np.testing.assert_array_equal(got, -values)


def test_empty_arrays() -> None:
    x = tensor("x", (0, 3))
    (got,) = run_on_opencl([elementwise("relu", x)], {"x": np.zeros((0, 3), "float32")})
    assert got.shape == (0, 3)
    (total,) = run_on_opencl(
        [compute("sum", access(transpose(x, (1, 0)), 1))], {"x": np.zeros((0, 3), "float32")}
    )
    np.testing.assert_array_equal(total, np.zeros(3))


def test_a_dtype_that_the_device_lacks_is_named() -> None:
    x = tensor("x", (4,), "float16")
    cut = cut_program([elementwise("relu", x)], {"x": x.type}, {}, plain=True)
    with pytest.raises(TargetError, match="opencl:cpu has no float16"):
        check_dtypes(cut, POCL)
    check_dtypes(cut, dataclasses.replace(POCL, fp16=True))


def test_a_launch_beyond_the_limits_is_refused_before_it_is_generated() -> None:
    wide = DeviceKernel("wide", [], (1, 1, 1), (1 << 20, 1, 1), source="never read")
    with pytest.raises(TargetError, match="kernel wide: 1048576 threads in a group"):
        emit([wide], "opencl", POCL)
    many = DeviceKernel("many", [], (1, 70000, 1), (1, 1, 1), source="never read")
    with pytest.raises(TargetError, match="70000 groups along y, cuda:sm_90 allows 65535"):
        emit([many], "cuda", device_profile("cuda:sm_90"))
