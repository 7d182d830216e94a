"""CUDA programs on machines without a GPU: compiled, saved, and refused in one line."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import glenside
from glenside.codegen.device import cuda, nvcc, tensors
from glenside.codegen.device.compile import compile_for_device
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.errors import InputError, TargetError
from glenside.language import AccessType
from glenside.language.builders import access, cart_prod, compute, elementwise, tensor
from tests.codegen.codegen_help import convolution, leaves, weights
from tests.models import small_network

# What TVM's fixed preamble declares and a program does not use.
QUIET = ("-diag-suppress", "177,550")
needs_nvcc = pytest.mark.skipif(nvcc.find_nvcc() is None, reason="nvcc is not installed")


def matmul(dtype):
    a, b = (access(tensor(name, (33, 40), dtype), 1) for name in "ab")
    return elementwise("relu", compute("dot", cart_prod(a, b)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@needs_nvcc
def test_programs_become_machine_code(dtype):
    outputs = [matmul(dtype)]
    limits = device_profile("cuda:sm_90")
    program = compile_for_device(outputs, leaves(outputs), {}, limits, "cuda")
    assert "__global__ void" in program.source and ");\nextern" not in program.source
    binary = nvcc.compile_cubin(program.source, "sm_90a", ["-Werror", "all-warnings", *QUIET])
    assert binary[:4] == b"\x7fELF"


@needs_nvcc
def test_kernels_touch_what_others_write_only_after_they_have_waited(tmp_path):
    """In every form: split, fetched in the background, with more operands behind the product."""
    x, w = tensor("x", (1, 64, 14, 14)), tensor("w", (64, 64, 3, 3))
    term = elementwise("add", convolution(x, w, pads=(1, 1, 1, 1)), tensor("y", (1, 64, 14, 14)))

    mapping = ThreadMapping(
        threads=(16, 14, 1, 1, 1, 1),
        registers=(4, 1, 14, 1, 1, 1),
        vector=(4, 1, 14, 1, 1, 1),
        chunk=(1, 1, 1, 8, 3, 3),
        split=(1, 1, 1, 2, 1, 1),
        buffers=2,
    )
    limits = device_profile("cuda:sm_90")
    types = {name: t for name, t in leaves([term]).items() if name != "w"}
    params = {"w": weights(64, 64, 3, 3)}
    choose = lambda space, limits: mapping  # noqa: E731
    program = compile_for_device([term], types, params, limits, "cuda", choose=choose)
    assert len(program.plan.kernels) == 2
    assert all(entry.overlapped for entry in program.plan.kernels.values())
    (tmp_path / "k.cu").write_text(program.source)
    command = [nvcc.find_nvcc(), "-ptx", "-arch=sm_90", "-O3", "-o", tmp_path / "k.ptx"]
    subprocess.run([*command, tmp_path / "k.cu"], check=True, capture_output=True)
    entries = (tmp_path / "k.ptx").read_text().split(".visible .entry ")[1:]
    assert len(entries) == 2
    for entry, copied in zip(entries, ("16", None), strict=True):
        before, after = entry.split("griddepcontrol.wait;")
        # Of the weights the first part is under way already.
        assert not re.search(r"\b(ld|st|atom|red)\.global", before)
        assert re.findall(r"cp\.async\.c.\.shared\.global.*, (\d+), ", before) == (
            [copied] * 6 if copied else []
        )
        assert "st.global" in after
        # What a kernel before may have written is not read as what does not change.
        assert "ld.global.nc" not in after


@needs_nvcc
def test_a_program_is_compiled_here_and_saved_for_there(tmp_path):
    program = glenside.optimize(small_network(), target="cuda:sm_90")
    assert program.report.max_rel_error is None
    program.save(tmp_path / "net")
    (code,) = (tmp_path / "net").glob("code-*")
    assert len(list(code.glob("kernels-*.sm_90.cubin"))) == 1
    (source,) = code.glob("kernels-*.cu")
    assert source.read_text() == program.source
    loaded = glenside.load(tmp_path / "net")
    loaded.save(tmp_path / "copy")
    (copy,) = (tmp_path / "copy").glob("code-*")
    assert copy.name == code.name


def test_the_same_model_gives_the_same_source():
    first, second = (glenside.optimize(small_network(), target="cuda:sm_90") for _ in range(2))
    assert first.source == second.source


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(TargetError, match=r"CUDA needs CuPy .* as cuda:sm_90"):
        glenside.optimize(small_network(), target="cuda")
    program = glenside.optimize(small_network(), target="cuda:sm_90")
    assert "CUDA needs CuPy" in " ".join(str(program.report).split())
    with pytest.raises(TargetError, match="CUDA needs CuPy"):
        program(weights(1, 4, 9, 7))


def test_without_nvcc_the_source_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    with pytest.raises(TargetError, match="nvcc is not on the path"):
        nvcc.compile_cubin("", "sm_90")
    program = glenside.optimize(small_network(), target="cuda:sm_90", check=False)
    program.save(tmp_path / "net")
    assert list((tmp_path / "net").glob("code-*/*.cu"))
    assert not list((tmp_path / "net").glob("code-*/*.cubin"))


@needs_nvcc
def test_what_nvcc_refuses_is_one_line():
    with pytest.raises(TargetError, match=r"nvcc for sm_90: kernels.cu\(1\): error.*undefined"):
        nvcc.compile_cubin("__global__ void k(float* x) { *x = y; }", "sm_90")
    with pytest.raises(TargetError, match="nvcc for sm_1: "):
        nvcc.compile_cubin("", "sm_1")


@pytest.mark.parametrize(
    ("built", "device", "runs"),
    [
        ("sm_90", "sm_90", True),
        ("sm_90a", "sm_90", True),
        ("sm_90", "sm_100", False),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_90a", "sm_100", False),
        ("", "sm_90", False),
    ],
)
def test_where_machine_code_runs(built, device, runs):
    assert cuda._runs_on(built, device) == runs


def test_an_unknown_architecture_lists_the_known_ones():
    with pytest.raises(TargetError, match="cuda:sm_90"):
        glenside.optimize(small_network(), target="cuda:sm_12")


class Tensor:
    """What :mod:`tensors` looks at in another package's tensor."""

    def __init__(self, shape, dtype, place):
        self.shape, self.dtype, self._place = shape, dtype, place

    def __dlpack_device__(self):
        return self._place


def test_tensors_are_told_by_where_they_lie():
    assert tensors.on_cuda(Tensor((2,), "torch.float32", (2, 0)))
    assert not tensors.on_cuda(Tensor((2,), "torch.float32", (1, 0)))
    assert not tensors.on_cuda(np.zeros(2))
    wanted = AccessType((2, 3), (), "float32")
    given = Tensor((2, 3), "torch.float32", (2, 0))
    tensors.check("x", given, wanted)
    with pytest.raises(InputError, match=r"'x' must be float32 of shape \(2, 3\), got float16"):
        tensors.check("x", Tensor((2, 3), "torch.float16", (2, 0)), wanted)


def test_targets_are_listed():
    names = {kind.name: kind.summary for kind in glenside.targets()}
    assert "cuda:sm_90" in names["cuda"] and "opencl:mali-g72" in names["opencl"]
