"""Checked text tells of every access that is out of its buffer's bounds, reads too."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from glenside.codegen.compile import lower_terms
from glenside.codegen.cpu.schedule import PORTABLE
from glenside.codegen.device import nvcc
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.emit import emit
from glenside.codegen.gpu.interface import DeviceKernel
from glenside.codegen.gpu.launching import launch
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.gpu.threads.parts.boxes import Box
from glenside.codegen.kernel.builder import Argument
from glenside.codegen.loops import declare, get, prim_func, put, repeat
from glenside.codegen.program.cut import cut_program
from glenside.codegen.text.dialects import C, checked
from glenside.exporters.c.functions import PREAMBLE
from glenside.exporters.c.kernels import c_kernels
from glenside.language import evaluate
from glenside.language.builders import access, compute, elementwise, pad, tensor
from tests.codegen.codegen_help import convolution, weights
from tests.codegen.gpu.gpu_help import POCL, Device, device_kernels

RIGHT = {
    "convolution": elementwise(
        "relu",
        convolution(tensor("x", (1, 4, 9, 11)), tensor("w", (8, 4, 3, 3)), pads=(1, 1, 1, 1)),
    ),
    "depthwise": convolution(tensor("x", (1, 4, 9, 9)), tensor("w", (4, 1, 3, 3)), groups=4),
    "softmax": compute("softmax", access(tensor("x", (5, 70)), 1)),
    "padded": pad(pad(tensor("x", (5, 7)), 0, 1, 2, 3.0), 1, 2, 1, -1.0),
}


def _given(term):
    arrays = {"x": weights(*_leaf(term, "x").shape, seed=1)}
    shape = _leaf(term, "w")
    return arrays, {"w": weights(*shape.shape, seed=2)} if shape is not None else {}


def _leaf(term, name):
    from glenside.language import topological_order

    found = [t for t in topological_order([term]) if t.op == "tensor" and t["name"] == name]
    return found[0] if found else None


def _device(term, params, choose=None):
    types = {"x": _leaf(term, "x").type}
    cut, kernels = device_kernels([term], types, params, choose=choose)
    return Device(cut, kernels, POCL, checked=True)


@pytest.mark.parametrize("name", RIGHT)
def test_kernels_stay_inside_on_opencl(name):
    term = RIGHT[name]
    arrays, params = _given(term)
    device = _device(term, params)
    (got,) = device.run(arrays)
    (right,) = evaluate([term], {**arrays, **params})
    np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)
    assert device.outside == {}
    assert all("inside(" in device.program.text and found for found in device.program.accesses)


def test_a_read_past_an_operand_s_end_is_found_on_opencl(monkeypatch):
    """Staged boxes reach beyond the operand; what is not inside must not be read. No guard zone
    and no result shows that it was."""
    term = convolution(tensor("x", (1, 4, 9, 9)), tensor("w", (8, 4, 3, 3)))
    arrays, params = _given(term)
    right = _device(term, params, _of_few_columns)
    right.run(arrays)
    assert right.outside == {}
    monkeypatch.setattr(Box, "tests", lambda self, *given: [])
    wrong = _device(term, params, _of_few_columns)
    wrong.run(arrays)
    (told,) = wrong.outside.values()
    assert told.startswith("in")


def _of_few_columns(space, limits):
    """Groups of 2 rows by 8 columns, of which the last ones are not there."""
    rows, columns = space.of("n")[-2:]
    lists = {name: [1] * len(space.axes) for name in ("threads", "registers", "vector", "split")}
    lists["threads"][columns], lists["threads"][rows] = 4, 2
    lists["registers"][columns] = 2
    chunk = [axis.size if axis.role == "k" else 1 for axis in space.axes]
    return ThreadMapping(**{k: tuple(v) for k, v in lists.items()}, chunk=tuple(chunk),
                      staged=(False, True))  # fmt: skip


def _shift(count):
    """``y[i] = x[i + 1]``, which reads one element too many."""
    x, y = declare("x", count, "float32"), declare("y", count, "float32")
    return x, y


def test_the_last_read_of_a_loop_is_found_on_opencl():
    x, y = _shift(6)
    body = launch([1], 6, lambda groups, thread: put(y, thread, get(x, thread + 1)))
    cut = cut_program([elementwise("neg", tensor("x", (6,)))], {"x": tensor("x", (6,)).type}, {},
                    plain=True)  # fmt: skip
    (out,) = cut.outputs
    arguments = [Argument(cut.stored[term].buffer, 0, 6) for term in (cut.inputs["x"], out)]
    kernel = DeviceKernel("shift", arguments, (1, 1, 1), (6, 1, 1), prim_func([x, y], body))
    device = Device(cut, [kernel], POCL, checked=True)
    (got,) = device.run({"x": np.arange(6, dtype="float32")})
    assert device.outside == {"shift": "x[local_x + 1]"}
    # The access was made at the beginning instead.
    np.testing.assert_array_equal(got, [1, 2, 3, 4, 5, 0])


def _compiled(source, folder):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    file, library = folder / "k.c", folder / "k.so"
    file.write_text(PREAMBLE + source.replace("static void kernel", "void kernel"))
    subprocess.run([compiler, "-std=c11", "-O1", "-fPIC", "-shared", "-o", library, file, "-lm"],
                   check=True)  # fmt: skip
    return ctypes.CDLL(str(library))


def _run(function, arrays):
    told = np.zeros(1, "int32")
    function(*(each.ctypes.data_as(ctypes.c_void_p) for each in [*arrays, told]))
    return int(told[0])


@pytest.mark.parametrize("name", RIGHT)
def test_kernels_stay_inside_in_c(name, tmp_path):
    term = RIGHT[name]
    _, params = _given(term)
    lowered = lower_terms([term], {"x": _leaf(term, "x").type}, params, PORTABLE)
    source, kernels = c_kernels(lowered.functions, dialect=checked(C))
    assert "inside(" in source
    library = _compiled(source, tmp_path)
    rng = np.random.default_rng(3)
    for kernel, function in zip(kernels, lowered.functions, strict=True):
        memory = [
            rng.standard_normal(max(size, 1)).astype(dtype)
            for size, dtype in (
                (each.size, each.dtype) if not isinstance(each, int)
                else (int(function.params[each].shape[0]), str(function.params[each].dtype))
                for each in kernel.arguments
            )
        ]  # fmt: skip
        assert _run(getattr(library, kernel.name), memory) == 0


def test_the_last_read_of_a_loop_is_found_in_c(tmp_path):
    x, y = _shift(6)
    function = prim_func([x, y], repeat(6, lambda i: put(y, i, get(x, i + 1))))
    source, _ = c_kernels([function], dialect=checked(C))
    library = _compiled(source, tmp_path)
    arrays = [np.arange(6, dtype="float32"), np.zeros(6, "float32")]
    # Accesses are numbered as they stand in the text.
    assert f"inside(i + 1, 6, outside, {_run(library.kernel_0, arrays)})" in source
    np.testing.assert_array_equal(arrays[1], [1, 2, 3, 4, 5, 0])


def test_checked_cuda_is_cuda():
    if nvcc.find_nvcc() is None:
        pytest.skip("there is no nvcc")
    term = RIGHT["convolution"]
    _, params = _given(term)
    kernels = device_kernels([term], {"x": _leaf(term, "x").type}, params)[1]
    text = emit(kernels, "cuda", device_profile("cuda:sm_90"), checked=True).text
    assert "int* outside)" in text and "inside(" in text
    assert nvcc.compile_cubin(text, "sm_90", ["-Werror", "all-warnings"])
