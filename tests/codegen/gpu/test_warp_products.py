"""Products by warps: the kernels' text, run on the processor, against NumPy in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glenside.codegen.device.nvcc import compile_cubin, find_nvcc
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.emit import emit
from glenside.codegen.gpu.mapping.choose import best_mappings
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.gpu.warps.kind import Warps
from glenside.codegen.gpu.warps.mapping import WarpMapping
from glenside.codegen.gpu.warps.tiling import WarpTiling
from glenside.hw_targets import find_target
from glenside.language import builders as b
from glenside.language import evaluate
from tests.codegen.gpu.gpu_help import POCL, Device
from tests.codegen.gpu.tensor_help import emulate, make_case
from tests.codegen.gpu.test_tensor_products import (
    ERRORS,
    WORST,
    Given,
    arrays_of,
    dense,
    finished,
    images,
)

AMPERE = replace(device_profile("cuda:sm_80"), tf32=True)


def by_warps(tile, rows=16, groups=(1, 2), chunk=16, stages=2, **others):
    return WarpMapping(tile, rows, groups, chunk, stages, **others)


CASES = {
    "odd size": Given(
        images((1, 13, 13, 24), (48, 3, 3, 24), last=True),
        by_warps((5, 13), rows=32, groups=(2, 2), stages=3),
    ),
    "odd cells": Given(
        images((1, 9, 8, 48), (40, 3, 3, 48), last=True),
        by_warps((3, 8), rows=16, groups=(1, 1), chunk=48, stages=1),
    ),
    "stride": Given(
        images((2, 13, 11, 40), (72, 3, 3, 40), stride=(2, 2), last=True),
        by_warps((1, 4, 6), rows=64, groups=(4, 1), chunk=32),
    ),
    "four stages": Given(
        images((1, 7, 7, 96), (24, 3, 3, 96), last=True),
        by_warps((7, 7), rows=32, groups=(1, 2), stages=4),
    ),
    "gathered": Given(
        images((1, 17, 15, 3), (64, 7, 7, 3), (2, 2), (3, 3), (3, 3), last=True),
        by_warps((4, 8), rows=64, groups=(2, 2), chunk=160, stages=1, gathered=True),
    ),
    "channels first": Given(images((2, 20, 7, 10), (24, 20, 3, 3))),
    "groups": Given(images((2, 32, 8, 8), (64, 16, 3, 3), groups=2)),
    "finished": Given(finished((2, 8, 6, 32), (24, 3, 3, 32), last=True)),
    "matrix": Given(dense(757, 72, 33), by_warps((64,), rows=128, groups=(2, 2), stages=3)),
    "odd matrices at run time": Given(dense(19, 27, 21, batch=2)),
    "bfloat16": Given(
        images((1, 13, 11, 48), (96, 3, 3, 48), last=True),
        by_warps((6, 11), rows=64, groups=(2, 2), stages=3),
        "bfloat16",
    ),
    "tf32": Given(
        images((1, 14, 10, 20), (64, 3, 3, 20), last=True),
        by_warps((7, 10), rows=32, groups=(2, 1), chunk=8),
        "float32",
    ),
    "in parts": Given(
        finished((1, 7, 7, 96), (24, 3, 3, 96), last=True),
        by_warps((4, 7), rows=32, groups=(2, 1), split=3),
        "float32",
    ),
    "in parts, odd rows": Given(
        images((2, 64, 5, 6), (19, 64, 3, 3)),
        by_warps((2, 3, 6), rows=32, groups=(1, 2), split=4, gathered=True),
    ),
}


@pytest.fixture(scope="module")
def cases():
    made = {}
    for number, (name, given) in enumerate(CASES.items()):
        arrays = arrays_of(given.term(given.dtype), given.dtype)
        params = {k: a for k, a in arrays.items() if k in ("w", "bias")}
        inputs = {k: a for k, a in arrays.items() if k not in params}

        def choose(geometry, given=given):
            if given.mapping is not None:
                return given.mapping
            ranked = Warps().ranked(geometry.space, AMPERE).mappings
            return next(each for each in ranked if each.split == 1)

        term = given.term(given.dtype)
        made[name] = make_case(f"case_{number}", term, inputs, params, choose, AMPERE), arrays
    return made


@pytest.fixture(scope="module")
def results(cases, tmp_path_factory):
    outputs = emulate([case for case, _ in cases.values()], tmp_path_factory.mktemp("warps"))
    return dict(zip(cases, outputs, strict=True))


def _finish(case, parts):
    """What the kernels behind a product in parts make of them, on an OpenCL device."""
    number = case.kernel.arguments[-1].buffer
    memory = replace(case.cut.memory, arrays={**case.cut.memory.arrays, number: parts})
    (got,) = Device(replace(case.cut, memory=memory), list(case.rest), POCL).run(case.inputs)
    return got


@pytest.mark.parametrize("name", CASES)
def test_every_element_is_right(name, cases, results):
    case, arrays = cases[name]
    dtype = CASES[name].dtype
    wide = {key: array.astype(np.float64) for key, array in arrays.items()}
    (right,) = evaluate([CASES[name].term("float64")], wide)
    got = results[name]
    if case.rest and dtype == "float32":
        got = _finish(case, got)
    elif case.rest:  # PoCL has no half floats: the parts are added up here.
        assert right.ndim == 4
        shape = (case.tiling.mapping.split, right.shape[0], *right.shape[2:], right.shape[1])
        got = got.reshape(shape).astype(np.float64).sum(0).transpose(0, 3, 1, 2)
    got = got.astype(np.float64)
    assert got.shape == right.shape
    assert np.linalg.norm(got - right) < ERRORS[dtype] * np.linalg.norm(right)
    assert np.abs(got - right).max() < WORST[dtype] * np.abs(right).max()


def test_compiles_for_ampere(cases):
    if find_nvcc() is None:
        pytest.skip("there is no nvcc")
    kernels = [case.kernel for name, (case, _) in cases.items() if name not in ("groups", "stride")]
    text = emit(kernels, "cuda", AMPERE).text
    assert compile_cubin(text, "sm_80", ("-Werror=all-warnings",))


def test_a_copy_that_a_kernel_forgets_to_wait_for_is_found(cases, tmp_path):
    case, _ = cases["odd size"]
    library = [part.replace("copies_wait<P::AHEAD - 1>();", "") for part in case.kernel.library]
    broken = replace(case, kernel=replace(case.kernel, library=tuple(library)))
    (got,) = emulate([broken], tmp_path)
    assert not np.isfinite(got.astype(np.float64)).all()


@pytest.mark.parametrize("name", ["cuda:sm_80", "cuda:sm_86", "cuda:sm_89"])
def test_mappings_obey_the_device(name):
    limits = device_profile(name)
    assert limits.has_matrix_units and not limits.warpgroups
    term = images((1, 14, 14, 64), (96, 3, 3, 64), last=True)("float16")
    arrays = arrays_of(term, "float16")
    held = []

    def choose(geometry):
        held.append(geometry)
        return best_mappings(geometry.space, limits, 1)[0]

    case = make_case("held", term, {"x": arrays["x"]}, {"w": arrays["w"]}, choose, limits)
    assert case.tiling.mapping.kind == "warps"
    found = Warps().ranked(held[0].space, limits).mappings
    assert len(found) > 100 and len({each.split for each in found}) > 2
    for mapping in found:
        tiling = WarpTiling(held[0], mapping)
        tiling.check()
        assert tiling.local_bytes(True) <= limits.local_bytes
        assert tiling.threads <= 1024 and tiling.sums <= 128
        assert tiling.threads * (tiling.sums + 24) <= limits.unit_registers
        assert (mapping.split - 1) * tiling.share < tiling.steps
        assert tiling.columns >= tiling.box.span


def test_only_devices_that_have_the_instructions_get_them():
    turing = replace(AMPERE, name="turing", architecture="sm_75")
    assert not turing.has_matrix_units
    blackwell = replace(AMPERE, name="blackwell", architecture="sm_100")
    assert blackwell.has_matrix_units and not blackwell.warpgroups
    term = images((1, 14, 10, 24), (64, 3, 3, 24), last=True)("float16")
    arrays = arrays_of(term, "float16")
    found = []

    def choose(geometry):
        found.append(geometry.space)
        return best_mappings(geometry.space, AMPERE, 1)[0]

    make_case("asked", term, {"x": arrays["x"]}, {"w": arrays["w"]}, choose, AMPERE)
    assert isinstance(best_mappings(found[0], turing, 1)[0], ThreadMapping)


def test_a_program_is_compiled_for_another_gpu():
    if find_nvcc() is None:
        pytest.skip("there is no nvcc")
    target = find_target("cuda:sm_86")
    x, w = b.tensor("x", (1, 9, 9, 32), "bfloat16"), b.tensor("w", (48, 3, 3, 32), "bfloat16")
    from tests.codegen.gpu.test_tensor_products import convolution

    weights = np.ones(w.shape, "bfloat16")
    program = target.compile([convolution(x, w, last=True)], {"x": x.type}, {"w": weights})
    assert (
        "warp_product" in program.source and "wgmma" not in program.source.split("warp_product")[-1]
    )
