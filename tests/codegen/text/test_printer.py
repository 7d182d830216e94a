"""What the printer makes of lowered TIR: the text itself, not what a device computes with it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tvm import tirx

from glenside.codegen.device import nvcc
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.emit import emit
from glenside.codegen.gpu.launching import launch, registers
from glenside.codegen.loops import allocate, declare, get, prim_func, put, sequence, vectorised
from glenside.codegen.text.dialects import CUDA, DIALECTS, OPENCL, C
from glenside.codegen.text.expressions import Expressions
from glenside.codegen.text.kernels import preamble, print_kernel
from glenside.codegen.text.lowering import lowered
from glenside.errors import TargetError
from glenside.language import FUNCTIONS
from glenside.language.builders import access, compute, elementwise, tensor
from tests.codegen.codegen_help import convolution, leaves, weights
from tests.codegen.gpu.gpu_help import device_kernels


def said(expression, dialect=C, **names):
    """The text of an expression over variables, and what stands before it."""
    printer = Expressions(dialect)
    for name, variable in names.items():
        printer.names[hash(variable)] = name
    text = printer.text(expression)
    return "\n".join([*printer.lines, text])


def variable(name, dtype="int32"):
    return tirx.Var(name, dtype)


A, B, D = (variable(name) for name in "abd")
X, Y = variable("x", "float32"), variable("y", "float32")
NAMES = {"a": A, "b": B, "d": D, "x": X, "y": Y}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (tirx.Add(tirx.Mul(A, B), D), "a * b + d"),
        (tirx.Mul(tirx.Add(A, B), D), "(a + b) * d"),
        (tirx.Add(X, tirx.Add(Y, X)), "x + (y + x)"),  # Sums of floats keep their order.
        (tirx.Sub(A, tirx.Sub(B, D)), "a - (b - d)"),
        (tirx.Mod(tirx.Mul(A, B), D), "a * b % d"),
        (tirx.Mul(A, tirx.Mod(B, D)), "a * (b % d)"),
        (tirx.LT(tirx.Add(A, B), D), "a + b < d"),
        (tirx.Or(tirx.And(tirx.LT(A, B), tirx.LT(B, D)), tirx.LT(D, A)),
         "(a < b && b < d) || d < a"),
        (tirx.Not(tirx.LT(A, B)), "!(a < b)"),
        (tirx.bitwise_and(tirx.shift_right(A, B), D), "(a >> b) & d"),
        (tirx.Add(tirx.shift_right(A, tirx.const(2, "int32")), B), "(a >> 2) + b"),
        (tirx.Select(tirx.LT(A, B), tirx.Add(A, B), D), "a < b ? a + b : d"),
        (tirx.Mul(tirx.Select(tirx.LT(A, B), A, B), D), "(a < b ? a : b) * d"),
        (tirx.Cast("float32", tirx.Add(A, B)), "(float)(a + b)"),
        (tirx.Min(A, B), "a < b ? a : b"),
        # C computes in int: what narrow numbers come to is brought back.
        (tirx.Div(tirx.Add(variable("p", "int8"), variable("q", "int8")), tirx.const(2, "int8")),
         None),
    ],
)  # fmt: skip
def test_operands_stand_in_parentheses_where_they_have_to(expression, text):
    if text is None:
        names = {"p": expression.a.a, "q": expression.a.b}
        assert said(expression, **names) == "(int8_t)(p + q) / (int8_t)2"
    else:
        assert said(expression, **NAMES) == text


@pytest.mark.parametrize(
    ("value", "dtype", "texts"),
    [
        (1 / 3, "float32", ("0.33333334f", "0.33333334f", "0.33333334f")),
        (1 / 3, "float64", ("0.3333333333333333",) * 3),
        (16777217.0, "float64", ("16777217.0",) * 3),
        (1e-45, "float32", ("1e-45f",) * 3),
        (math.inf, "float32", ("INFINITY", "INFINITY", "__int_as_float(0x7f800000)")),
        (-math.inf, "float64",
         ("-(double)INFINITY", "-(double)INFINITY", "-(double)__int_as_float(0x7f800000)")),
        (math.nan, "float32", ("NAN", "NAN", "__int_as_float(0x7fffffff)")),
        (-(2**31), "int32", ("-2147483647 - 1",) * 3),
        (-(2**63), "int64", ("-9223372036854775807LL - 1LL", "-9223372036854775807L - 1L",
                             "-9223372036854775807LL - 1LL")),
        (7, "uint8", ("(uint8_t)7", "(uchar)7", "(unsigned char)7")),
        (3, "uint32", ("3u",) * 3),
    ],
)  # fmt: skip
def test_numbers_read_back(value, dtype, texts):
    number = tirx.FloatImm(dtype, value) if dtype[0] == "f" else tirx.const(value, dtype)
    assert tuple(said(number, dialect) for dialect in (C, OPENCL, CUDA)) == texts
    if math.isfinite(value) and dtype == "float32":
        assert np.float32(texts[0].rstrip("f")) == np.float32(value)


def kernel(body, parameters, dialect, name="k"):
    function = lowered({name: prim_func(parameters, body)}, dialect, {})[name]
    return print_kernel(name, function, dialect)


def test_what_is_bound_under_a_condition_is_computed_under_it():
    x, y = declare("x", 8, "float32"), declare("y", 4, "float32")

    def body(groups, thread):
        t = variable("t", "float32")
        twice = tirx.Let(t, get(x, thread + 4), t * t)
        zero = tirx.const(0, "float32")
        return put(y, thread, tirx.if_then_else(thread < tirx.const(3, "int32"), twice, zero))

    text = kernel(launch([1], 4, body), [x, y], OPENCL).text
    condition, bound = text.index("if (local_x < 3) {"), text.index("= x[local_x + 4];")
    assert condition < bound < text.index("} else {")


@pytest.mark.parametrize("dialect", [OPENCL, CUDA], ids=lambda each: each.name)
def test_neighbours_are_loaded_and_stored_at_once(dialect):
    x, y = declare("x", 32, "float32"), declare("y", 32, "float32")

    def body(groups, thread):
        held = registers("held", 4, "float32")
        one = tirx.const(1, "float32")
        return sequence([
            allocate(held),
            vectorised(4, lambda lane: put(held, lane, get(x, thread * 4 + lane))),
            vectorised(4, lambda lane: put(y, thread * 4 + lane, get(held, lane) + one)),
        ])  # fmt: skip

    text = kernel(launch([1], 8, body), [x, y], dialect).text
    vector, space, lane = {
        "opencl": ("float4", "__global ", "s"),
        "cuda": ("lanes<float, 4>", "", "at["),
    }[dialect.name]
    assert f"*({vector}*)held = *({space}{vector}*)(x + local_x * 4);" in text
    assert f"*({space}{vector}*)(y + local_x * 4) =" in text and text.count(f".{lane}") == 4
    # The array is aligned as its vectors are.
    assert "aligned(16)" in text or "alignas(16) float held[4]" in text


def test_c_has_loops_in_place_of_vectors_and_is_given_large_arrays():
    x, y = declare("x", 4096, "float32"), declare("y", 4096, "float32")
    small = declare("small", 4, "float32", local=True)
    large = declare("large", 4096, "float32", local=True)
    body = sequence([
        allocate(small),
        allocate(large),
        vectorised(4, lambda lane: put(small, lane, get(x, lane))),
        vectorised(4096, lambda lane: put(large, lane, get(x, lane) * get(small, lane % 4))),
        vectorised(4096, lambda lane: put(y, lane, get(large, 4095 - lane))),
    ])  # fmt: skip
    made = kernel(body, [x, y], C)
    assert "float small[4];" in made.text and "float *restrict large)" in made.text
    assert [(each.dtype, each.size) for each in made.given] == [("float32", 4096)]
    assert "for (int32_t" in made.text


def test_what_a_language_has_for_a_name_is_not_used_for_another():
    local, half = declare("local", 4, "float32"), declare("half", 4, "float32")
    body = launch([1], 4, lambda groups, thread: put(half, thread, get(local, thread)))
    assert "half_[local_x] = local_[local_x];" in kernel(body, [local, half], OPENCL).text


def test_only_what_is_read_may_change_in_cuda():
    """A kernel is launched before the one before it has ended."""
    x, y, packed = (declare(name, 4, "float32") for name in ("x", "y", "packed"))
    body = launch(
        [1], 4, lambda groups, thread: put(y, thread, get(x, thread) * get(packed, thread))
    )
    function = lowered({"k": prim_func([x, y, packed], body)}, CUDA, {})["k"]
    text = print_kernel("k", function, CUDA, (4, 1, 1), lambda name: name == "packed").text
    head, first = text.splitlines()[:2]
    assert head == (
        'extern "C" __global__ void __launch_bounds__(4) k(const float* x, '
        "float* __restrict__ y, const float* __restrict__ packed) {"
    )
    assert first == "  after_earlier_kernels();"


def test_a_dtype_without_a_type_is_named():
    x = declare("x", 4, "float16")
    with pytest.raises(TargetError, match="C source has no type for float16: it has bool, float32"):
        kernel(put(x, 0, tirx.const(0, "float16")), [x], C)


def test_a_text_has_the_definitions_it_needs_and_no_others():
    x, y = declare("x", 4, "float16"), declare("y", 4, "float16")
    body = launch([1], 4, lambda groups, thread: put(y, thread, get(x, thread)))
    made = kernel(body, [x, y], OPENCL)
    assert preamble(made.needs, OPENCL) == "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
    assert "#include <cuda_fp16.h>" in preamble(kernel(body, [x, y], CUDA).needs, CUDA)
    assert "lanes" not in preamble(kernel(body, [x, y], CUDA).needs, CUDA)


def test_a_function_is_called_as_it_is_declared(monkeypatch):
    exp = FUNCTIONS["exp"]
    monkeypatch.setitem(FUNCTIONS, "exp", replace(exp, spelled={"opencl": "native_exp"}))
    term = elementwise("exp", tensor("x", (8,)))
    texts = {}
    for name, device in (("opencl", "opencl:cpu"), ("cuda", "cuda:sm_90")):
        limits = device_profile(device)
        texts[name] = emit(device_kernels([term], leaves([term]), {}, limits)[1], name, limits).text
    assert "native_exp(" in texts["opencl"] and "expf(" in texts["cuda"]


# --- a language more -----------------------------------------------------------------------------

HIP = replace(
    CUDA,
    name="hip",
    title="HIP C++",
    # Kernels of a stream follow each other: none is launched early, nothing is copied behind.
    reads_once=True,
    begins="",
    helpers={
        "half": "#include <hip/hip_fp16.h>\n",
        "lanes": CUDA.helpers["lanes"],
    },
)
"""HIP as a table: what it takes to print kernels in one language more."""


def hip(outputs, params):
    types = {name: t for name, t in leaves(outputs).items() if name not in params}
    limits = replace(device_profile("cuda:sm_80"), architecture="")
    kernels = device_kernels(outputs, types, params, limits)[1]
    return emit(kernels, "hip", limits).text


def test_a_language_more_is_a_table(monkeypatch):
    monkeypatch.setitem(DIALECTS, "hip", HIP)
    layer = convolution(tensor("x", (1, 8, 14, 14)), tensor("w", (16, 8, 3, 3)), pads=(1, 1, 1, 1))
    rows = compute("softmax", access(tensor("r", (6, 200)), 1))
    text = hip([layer, elementwise("tanh", rows)], {"w": weights(16, 8, 3, 3)})
    assert 'extern "C" __global__ void' in text and "__shared__" in text and "tanhf(" in text
    assert "const float* __restrict__ in" in text
    assert "asm" not in text and "after_earlier" not in text
    if nvcc.find_nvcc() is not None:  # Without halves it is what CUDA understands, too.
        assert nvcc.compile_cubin(text, "sm_80", ["-Werror", "all-warnings"])
