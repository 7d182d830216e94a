"""Reductions over rows, whose elements several threads share, on an OpenCL device."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.dispatch import row_work
from glenside.codegen.gpu.interface import make_builder
from glenside.codegen.gpu.mapping.kinds import ROWS
from glenside.codegen.gpu.mapping.reading import read_mapping
from glenside.codegen.gpu.rows.mapping import RowMapping
from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.record import Kernel
from glenside.errors import TargetError
from glenside.frontends.lowering.normalization import group_norm, log_softmax, scaled, standardised
from glenside.language import Term, evaluate, topological_order
from glenside.language.builders import (
    access,
    broadcast,
    cast,
    compute,
    constant,
    elementwise,
    pad,
    reshape,
    tensor,
    transpose,
    unsqueeze,
    windows,
)
from tests.codegen.codegen_help import compare
from tests.codegen.gpu.gpu_help import POCL, Device, device_kernels, run_on_opencl

# Such a device as has room for many threads.
WIDE = dataclasses.replace(POCL, compute_units=132, unit_threads=2048)
HOPPER = device_profile("cuda:sm_90")


def values_of(*outputs: Term, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    leaves = [term for term in topological_order(outputs) if term.op == "tensor"]
    return {t["name"]: rng.standard_normal(t.shape).astype(t.dtype) for t in leaves}


def work_of(term: Term, limits=WIDE, dialect="opencl"):
    """What a program of one kernel reduces."""
    leaves = [each for each in topological_order([term]) if each.op == "tensor"]
    cut = cut_program([term], {t["name"]: t.type for t in leaves}, {}, plain=True)
    (step,) = cut.steps
    assert isinstance(step, Kernel)
    return row_work(make_builder(cut), step, 0, limits, dialect)


def best(term: Term, limits=WIDE, dialect="opencl") -> RowMapping:
    work = work_of(term, limits, dialect)
    return ROWS.ranked(work.space, limits).mappings[0]


x, z = tensor("x", (2, 67, 7, 9)), tensor("z", (2, 7, 9, 67))
SINGLE = {
    "of a plane": compute("sum", access(x, 2)),
    "of images whose channels are last": compute("mean", access(transpose(z, (0, 3, 1, 2)), 2)),
    "over the middle": compute("max", access(transpose(x, (0, 3, 1, 2)), 2)),
    "with work behind": elementwise("relu", compute("min", access(x, 1))),
    "all of it": compute("sum", access(elementwise("exp", x), 0)),
    "of padded windows": compute("max", windows(access(pad(x, 2, 1, 0), 2), (8, 9), (1, 1))),
    "softmax": compute("softmax", access(transpose(x, (0, 2, 3, 1)), 3)),
    "products of neighbours": compute("prod", access(x, 2)),
}


def layer_norm(x: Term, axes: list[int], name: str = "") -> Term:
    """With a scale and an offset along the last axis."""
    gamma, beta = (tensor(f"{part}{name}", x.shape[-1:], x.dtype) for part in ("gamma", "beta"))
    return scaled(standardised(x, axes, 1e-5), gamma, beta, x.type.rank - 1, True, True)


def rms_norm(x: Term) -> Term:
    squares = elementwise("mul", x, x)
    mean = unsqueeze(access(compute("mean", access(squares, 1)), 1), 1)
    root = elementwise(
        "recip", elementwise("sqrt", elementwise("add", mean, constant(1e-5, mean.shape)))
    )
    return elementwise("mul", x, broadcast(root, x.shape))


def half(x: Term) -> Term:
    """A norm in half precision whose statistics are float32."""
    return cast(layer_norm(cast(x, "float32"), [x.type.rank - 1]), x.dtype)


def rows(n: int, k: int, dtype: str = "float32") -> Term:
    return tensor("x", (n, k), dtype)


def images(*shape: int) -> Term:
    return tensor("x", shape)


def channels(n: int, name: str) -> Term:
    return tensor(name, (n,))


CHAINS = {
    "layer norm": layer_norm(rows(5, 77), [1]),
    "layer norm of one row": layer_norm(rows(1, 300), [1]),
    "layer norm of short rows": layer_norm(rows(70, 3), [1]),
    "layer norm of single elements": layer_norm(rows(3, 1), [1]),
    "layer norm of long rows": layer_norm(rows(2, 5000), [1]),
    "layer norm of brain floats": half(rows(9, 33, "bfloat16")),
    "layer norm over the channels of images": standardised(images(2, 19, 3, 5), [1], 1e-5),
    "layer norm over two axes": standardised(images(3, 4, 5, 6), [2, 3], 1e-5),
    "after a residual": layer_norm(elementwise("add", rows(6, 40), tensor("y", (6, 40))), [1]),
    "rms norm": rms_norm(rows(4, 129)),
    "group norm": group_norm(
        images(2, 12, 5, 3), channels(12, "g"), channels(12, "b"), 4, 1, [2, 3], 1e-5, True, True
    ),
    "softmax of scores": compute(
        "softmax",
        access(
            elementwise(
                "add",
                elementwise("mul", rows(7, 45), constant(0.3, (7, 45))),
                tensor("mask", (7, 45)),
            ),
            1,
        ),
    ),
    "work behind softmax": elementwise("sqrt", compute("softmax", access(rows(7, 45), 1))),
    "log softmax": log_softmax(rows(8, 50), [1]),
    "the norm of softmax": layer_norm(access(compute("softmax", access(rows(6, 31), 1)), 0), [1]),
    "two norms": layer_norm(layer_norm(rows(6, 31), [1]), [1], "2"),
    "a deviation": elementwise(
        "sqrt",
        compute("mean", access(elementwise("mul", *[standardised(rows(5, 64), [1], 0.1)] * 2), 1)),
    ),
    "in integers": elementwise(
        "sub",
        tensor("x", (6, 40), "int32"),
        broadcast(
            unsqueeze(access(compute("max", access(tensor("x", (6, 40), "int32"), 1)), 1), 1),
            (6, 40),
        ),
    ),
    "through a reshape": reshape(
        standardised(reshape(rows(6, 40), (6, 5, 8)), [1, 2], 1e-5), (240,)
    ),
}


@pytest.mark.parametrize("name", SINGLE)
def test_single_reductions_are_shared(name: str) -> None:
    mapping = best(SINGLE[name])
    assert mapping.team >= 8


def test_values_of_single_reductions() -> None:
    outputs = list(SINGLE.values())
    values = values_of(*outputs)
    values["x"][1, 2, 3, 4] = np.nan
    got = run_on_opencl(outputs, values, limits=WIDE)
    for one, right in zip(got, evaluate(outputs, values), strict=True):
        compare(one, right, 1e-5)


def test_few_terms_are_left_to_one_thread() -> None:
    assert work_of(compute("sum", access(x, 3))) is None


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_one_kernel(name: str) -> None:
    term = CHAINS[name]
    values = values_of(term)
    if term.dtype == "int32":
        values = {n: np.arange(a.size, dtype="int32").reshape(a.shape) for n, a in values.items()}
    _, kernels = device_kernels([term], {n: tensor(n, a.shape, a.dtype.name).type
                                         for n, a in values.items()}, {}, WIDE)  # fmt: skip
    assert len(kernels) == 1
    (got,) = run_on_opencl([term], values, limits=WIDE)
    (right,) = evaluate([term], values)
    compare(got, right, 1e-2 if term.dtype == "bfloat16" else 2e-5)


MAPPINGS = [RowMapping(1, 32), RowMapping(64, 1), RowMapping(16, 2, 1), RowMapping(128, 2, 1)]


@pytest.mark.parametrize(
    "name",
    ["layer norm over the channels of images", "softmax of scores", "the norm of softmax"],
)
def test_every_mapping_gives_the_same(name: str) -> None:
    term = CHAINS[name]
    values = values_of(term)
    (right,) = evaluate([term], values)
    leaves = {n: tensor(n, a.shape).type for n, a in values.items()}
    for mapping in MAPPINGS:
        cut = cut_program([term], leaves, {}, plain=True)
        work = row_work(make_builder(cut), cut.steps[0], 0, WIDE, "opencl")
        if mapping.held and not work.space.held:
            continue
        device = Device(cut, ROWS.kernels(work, mapping), WIDE, checked=True)
        compare(device.run(values)[0], right, 2e-5)
        assert not device.outside


def test_what_others_need_is_stored() -> None:
    x = rows(6, 40)
    mean = compute("mean", access(x, 1))
    outputs = [layer_norm(x, [1]), mean, access(elementwise("relu", x), 1)]
    values = values_of(*outputs)
    for one, right in zip(run_on_opencl(outputs, values), evaluate(outputs, values), strict=True):
        compare(one, right, 2e-5)


def test_empty_rows() -> None:
    for shape in ((0, 5), (3, 0)):
        term = elementwise("neg", compute("softmax", access(tensor("x", shape), 1)))
        (got,) = run_on_opencl([term], values_of(term))
        assert got.shape == shape


def test_rows_that_are_read_again_stay_in_registers() -> None:
    assert work_of(CHAINS["layer norm"]).space.held == ("float32",)
    assert work_of(half(rows(9, 33, "float16"))).space.held == ("float32",)
    assert best(layer_norm(rows(128, 768), [1]), HOPPER, "cuda").held
    assert not best(
        layer_norm(rows(2, 8000), [1]), dataclasses.replace(WIDE, threads_per_group=64)
    ).held


def test_totals_are_handed_on_in_registers_where_the_language_can() -> None:
    norm = layer_norm(rows(128, 768), [1])
    assert best(norm, HOPPER, "cuda").shuffled
    assert not best(norm, HOPPER, "opencl").shuffled


def test_json_and_what_is_refused() -> None:
    mapping = RowMapping(32, 4, 1)
    assert read_mapping(mapping.to_json()) == mapping
    space = work_of(CHAINS["layer norm"]).space
    with pytest.raises(TargetError, match="threads"):
        ROWS.check(space, RowMapping(1024, 8), WIDE)
