"""Programs on OpenCL: fusion, memory, host operators, the saved form, random programs, networks."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings

import glenside
from glenside.check import relative_error
from glenside.codegen.device import opencl
from glenside.codegen.device.device import Launch, Refused
from glenside.codegen.device.limits import opencl_limits
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.plan import Entry, KernelCall
from glenside.errors import InputError, TargetError
from glenside.frontends import load_model
from glenside.language import OPERATORS, evaluate
from glenside.language.builders import (
    access,
    cart_prod,
    compute,
    elementwise,
    tensor,
)
from glenside.samples import with_drawn_weights
from tests.codegen.codegen_help import convolution, leaves, weights
from tests.codegen.gpu.device_help import check, compare, compiled, run
from tests.codegen.programs import (
    a_call_and_a_host_operator,
    a_value_and_what_is_made_of_it,
    eight_layers,
    of_any_length,
    over_nothing,
    small_net,
)
from tests.effort import tries
from tests.models import LIGHT, onnxruntime_answers, small_network, two_outputs
from tests.strategies import environment, terms


@pytest.fixture(scope="module")
def net():
    """The small network, not staged: (term, parameters, program)."""
    term, params = small_net()
    return term, params, check(term, params)


def test_a_network(net):
    term, params, plain = net
    for program in (plain, check(term, params, staged=True)):
        assert ("__local" in program.source) == (program is not plain)
        assert program.source.count("__kernel ") == len(program.plan.kernels) > 5


def test_both_a_value_and_what_is_made_of_it_are_outputs():
    check(a_value_and_what_is_made_of_it())


@pytest.mark.parametrize("shape", [(0,), (3, 0, 4), (757,)])
def test_empty_arrays_and_odd_lengths(shape):
    check(of_any_length(shape))


def test_what_is_computed_of_nothing():
    expected = over_nothing()
    for term, got in zip(expected, run(list(expected))[0], strict=True):
        compare(got, np.asarray(expected[term], got.dtype))


def test_host_operators_split_the_program():
    term, params = a_call_and_a_host_operator()
    program = check(term, params, tolerance=1e-3)
    kinds = [not isinstance(step, KernelCall) for step in program.plan.steps]
    assert sum(kinds) == 2 and not kinds[0] and not kinds[-1]


def test_equal_kernels_stand_in_the_source_once():
    y = tensor("x", (1, 8, 5, 5))
    for layer in range(3):
        kernel = tensor(f"w{layer}", (8, 8, 3, 3))
        y = elementwise("relu", convolution(y, kernel, pads=(1, 1, 1, 1)))
    params = {f"w{layer}": weights(8, 8, 3, 3, seed=layer) / 8 for layer in range(3)}
    program = check(y, params)
    calls = [step for step in program.plan.steps if isinstance(step, KernelCall)]
    assert len(calls) == 3 * len(program.plan.kernels)


def test_memory_is_shared_between_values():
    y, params = eight_layers()
    program = compiled([y], params, guarded=False)
    assert program.plan.arena <= 3 * 32 * 40 * 40 * 4
    given = {"x": weights(1, 32, 40, 40, seed=9)}
    for _ in range(2):
        compare(program.run(given)[0], evaluate([y], {**given, **params})[0], 1e-2)


def test_results_belong_to_the_caller():
    x = tensor("x", (4,))
    program = compiled([x, elementwise("neg", x)])
    values = np.arange(4, dtype="float32")
    first = program.run({"x": values})
    program.run({"x": values + 1})
    np.testing.assert_array_equal(first[0], values)
    np.testing.assert_array_equal(first[1], -values)


def test_trace_gives_values_by_the_callers_terms(net):
    term, params, program = net
    values = {"x": weights(2, 3, 17, 19, seed=9)}
    traced = program.trace(values)
    expected = evaluate(list(traced), {**values, **params})
    assert term in traced and len(traced) >= 7
    for got, wanted in zip(traced.values(), expected, strict=True):
        compare(got, wanted)


@settings(max_examples=tries(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(terms(operators=[name for name in OPERATORS if name != "host_op"], most=7))
def test_random_programs(term):
    values = environment([term])
    types = leaves([term])
    try:
        with np.errstate(all="ignore"):
            (wanted,) = evaluate([term], values)
    except IndexError:
        return  # A gather position outside.
    params = {name: values[name] for name in sorted(types)[1::2]}
    inputs = {name: values[name] for name in types if name not in params}
    try:
        (got,), _, _ = run([term], params, inputs)
    except TargetError as problem:
        assert "has no float16" in str(problem)
        return
    compare(got, wanted, 1e-3)


# --- through the public API -----------------------------------------------------------------------


def test_optimize_checks_on_the_device():
    program = glenside.optimize(small_network(), target="opencl")
    assert program.report.target == "opencl" and program.report.max_rel_error < 1e-4
    both = glenside.optimize(two_outputs(), target="opencl")
    a, b = weights(2, 3), weights(3)
    np.testing.assert_array_equal(both(a, b)[1], a * b)


def test_the_same_model_gives_the_same_source():
    first, second = (glenside.optimize(small_network(), target="opencl") for _ in range(2))
    assert first.source == second.source


def test_squeezenet():
    model = with_drawn_weights(onnx.load(LIGHT / "light_squeezenet.onnx"))
    imported = load_model(model)
    program = compiled(imported.roots, imported.params, guarded=False)
    rng = np.random.default_rng(5)
    inputs = {n: rng.standard_normal(t.shape, "float32") for n, t in imported.inputs.items()}
    (got,) = program.run(inputs)
    assert relative_error(got, onnxruntime_answers(model, **inputs)[0]) < 1e-5


LOADS = """
import sys
import numpy as np
import glenside
program = glenside.load(sys.argv[1])
with np.load(sys.argv[2]) as given:
    result = program(given["x"])
    assert np.array_equal(result, given["y"])
assert not {"tvm", "tvm_ffi", "egglog", "onnx", "onnxruntime", "ortools"} & sys.modules.keys()
"""


def test_a_saved_program_runs_without_the_compiler(tmp_path):
    program = glenside.optimize(small_network(), target="opencl")
    x = weights(1, 4, 9, 7)
    program.save(tmp_path / "net")
    np.savez(tmp_path / "values.npz", x=x, y=program(x))
    subprocess.run(
        [sys.executable, "-c", LOADS, str(tmp_path / "net"), str(tmp_path / "values.npz")],
        check=True,
    )
    (code,) = (tmp_path / "net").glob("code-*")
    (source,) = code.glob("kernels-*.cl")
    assert source.read_text() == program.source
    loaded = glenside.load(tmp_path / "net")
    assert loaded.source == program.source
    loaded.save(tmp_path / "copy")
    np.testing.assert_array_equal(glenside.load(tmp_path / "copy")(x), program(x))
    source.write_text(program.source + "//")
    with pytest.raises(glenside.GlensideError, match="damaged"):
        glenside.load(tmp_path / "net")


# --- what is refused ------------------------------------------------------------------------------


def test_wrong_inputs_are_named():
    program = compiled([elementwise("neg", tensor("x", (3,)))])
    with pytest.raises(InputError, match="'x'"):
        program.run({})
    with pytest.raises(InputError, match=r"\(4,\)"):
        program.run({"x": np.zeros(4, "float32")})


def test_without_pyopencl(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(TargetError, match=r"pip install 'glenside\[opencl\]'"):
        glenside.optimize(small_network(), target="opencl")
    # What was compiled for a named device is saved and run elsewhere.
    program = glenside.optimize(small_network(), target="opencl:mali-g72")
    assert "pyopencl" in str(program.report)
    with pytest.raises(TargetError, match="pyopencl"):
        program(weights(1, 4, 9, 7))


def test_without_a_device(monkeypatch):
    cl = opencl.pyopencl()

    def none():
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", none)
    with pytest.raises(TargetError, match=r"no OpenCL device was found .*PLATFORM_NOT_FOUND_KHR"):
        glenside.optimize(small_network(), target="opencl")


def test_an_unknown_profile_lists_the_known_ones():
    with pytest.raises(TargetError, match="opencl:mali-g72"):
        glenside.optimize(small_network(), target="opencl:mali")


def test_a_source_that_the_device_refuses_is_one_line():
    device = opencl.OpenCLDevice()
    code = launch_code("__kernel void k(__global float *x) { x[0] = y; }")
    with pytest.raises(TargetError, match=r"cannot build the source: .*error") as caught:
        device.build(code, {"k": Entry([1, 1, 1], [1, 1, 1])})
    assert "\n" not in str(caught.value)


def test_kernels_that_do_not_build_together_are_built_apart(monkeypatch):
    texts = [f"__kernel void k{n}(__global int* x) {{ x[0] = {n}; }}\n" for n in (1, 2)]
    device, entry = opencl.OpenCLDevice(), Entry([1, 1, 1], [1, 1, 1])
    make = device._built

    def alone(source):
        if all(text in source for text in texts):
            raise TargetError("too large")
        return make(source)

    monkeypatch.setattr(device, "_built", alone)
    device.build(launch_code("".join(texts)), {"k1": entry, "k2": entry})
    memory, got = device.allocate(4), np.empty(1, "int32")
    for number in (1, 2):
        device.prepare([Launch(f"k{number}", entry, [memory])])()
        device.read(memory, 0, got)
        assert got == [number]
    broken = "".join(texts) + "__kernel void k3(__global int* x) { x[0] = y; }"
    with pytest.raises(Refused, match=r"^kernel k3: .*error") as caught:
        device.build(launch_code(broken), {"k1": entry, "k2": entry, "k3": entry})
    assert caught.value.kernels == ("k3",)


@pytest.mark.parametrize("native", [True, False])
def test_launches_with_and_without_events(native, monkeypatch):
    device = opencl.OpenCLDevice()
    assert device._enqueue is not None  # Found from pyopencl's own library.
    if not native:
        monkeypatch.setattr(device, "_enqueue", None)
    text = "__kernel void k(__global int* x) { x[get_global_id(0)] += get_group_id(0); }"
    entry = Entry([3, 1, 1], [2, 1, 1])
    device.build(launch_code(text), {"k": entry})
    memory = device.allocate(24)
    device.write(memory, 0, np.zeros(6, "int32"))
    run = device.prepare([Launch("k", entry, [memory])])
    run()
    got = np.empty(6, "int32")
    device.read(memory, 0, got)
    np.testing.assert_array_equal(got, [0, 0, 1, 1, 2, 2])
    for host in (False, True):
        times = device.time(run, 2, host)
        assert len(times) == 2 and min(times) > 0
    too_many = Launch("k", Entry([1, 1, 1], [1 << 20, 1, 1]), [memory])
    with pytest.raises(Refused, match=r"kernel k: .* does not run it: .*INVALID_WORK"):
        device.prepare([too_many])()


def test_a_device_is_called_as_its_profile():
    cl = opencl.pyopencl()
    profile = device_profile("opencl:nvidia-h200")
    found = SimpleNamespace(
        name="NVIDIA H200 ",
        vendor="NVIDIA Corporation",
        type=cl.device_type.GPU,
        extensions="cl_khr_fp64",
        max_compute_units=132,
        max_clock_frequency=1980,
        max_work_item_sizes=[1024, 1024, 64],
        max_work_group_size=1024,
        local_mem_size=49152,
        global_mem_cache_size=4325376,
    )
    # As this driver says; what programs are compiled for is the same by either way.
    assert opencl_limits(found) == profile
    found.name = "NVIDIA H201"
    other = opencl_limits(found)
    assert other.name == "opencl:nvidia-h201" and other.peak["float32"] > profile.peak["float32"]


def launch_code(text):
    from glenside.codegen.device.device import Code

    return Code(text)


# --- defects other generators had -----------------------------------------------------------------


def matmul(dtype: str):
    a, b = (access(tensor(name, (8, 8), dtype), 1) for name in "ab")
    return compute("dot", cart_prod(a, b))


def cross_compiled(outputs, limits):
    from glenside.codegen.device.compile import compile_for_device

    return compile_for_device(outputs, leaves(outputs), {}, limits, "opencl")


def test_gen_fp16_pragma():
    program = cross_compiled([matmul("float16")], device_profile("opencl:mali-g72"))
    assert program.source.startswith("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n")
    single = cross_compiled([matmul("float32")], device_profile("opencl:cpu"))
    assert "EXTENSION" not in single.source
    if "cl_khr_fp16" in str(opencl.find_device().extensions).split():
        check(matmul("float16"))
        return
    assert "has no cl_khr_fp16" in (program.unavailable() or "")
    with pytest.raises(TargetError, match="has no cl_khr_fp16"):
        program.run({name: weights(8, 8, dtype="float16") for name in "ab"})
    with pytest.raises(TargetError, match="no float16, which the program uses"):
        compiled([matmul("float16")])


def test_gen_ambiguous_minmax():
    outputs = []
    for dtype in ("int8", "uint8", "int16", "int64", "uint64", "float32"):
        a, b = tensor(f"a {dtype}", (16,), dtype), tensor(f"b {dtype}", (16,), dtype)
        outputs += [elementwise("maximum", a, b), elementwise("minimum", a, b)]
        outputs.append(compute("max", access(a, 0)))
    check(outputs)


def test_gen_float_index():
    x, w = tensor("x", (1, 256, 4, 3)), tensor("w", (512, 256, 1, 1))
    filters = {"w": weights(512, 256, 1, 1) / 16}
    program = check(convolution(x, w), filters, tolerance=1e-3, staged=True)
    assert "__local" in program.source
    subscripts = [inner for line in program.source.splitlines() for inner in _subscripts(line)]
    assert len(subscripts) > 3
    assert not [each for each in subscripts if "." in each or "float" in each]


def _subscripts(line):
    found, depth, start = [], 0, 0
    for place, letter in enumerate(line):
        if letter == "[":
            if depth == 0:
                start = place + 1
            depth += 1
        elif letter == "]":
            depth -= 1
            if depth == 0:
                found.append(line[start:place])
    return found


@pytest.mark.parametrize("most", [256, 64, 1])
def test_gen_workgroup_size(most):
    limits = dataclasses.replace(
        device_profile("opencl:cpu"), threads_per_group=most, group_size=(most, most, 1)
    )
    x, w = tensor("x", (1, 8, 9, 9)), tensor("w", (16, 8, 3, 3))
    term, params = convolution(x, w, pads=(1, 1, 1, 1)), {"w": weights(16, 8, 3, 3)}
    program = compiled([term], params, limits, staged=True)
    assert max(np.prod(entry.block) for entry in program.plan.kernels.values()) <= most
    values = {"x": weights(1, 8, 9, 9, seed=3)}
    compare(program.run(values)[0], evaluate([term], {**values, **params})[0], 1e-3)


def test_gen_workgroup_size_of_a_kernel_by_hand():
    entry = Entry([1, 1, 1], [5000, 1, 1])
    with pytest.raises(TargetError, match="5000 threads in a group"):
        opencl.OpenCLDevice().build(
            launch_code("__kernel void k(__global float* x) { x[0] = 1; }"), {"k": entry}
        )


def test_what_else_the_machine_does_makes_no_kernel_look_faster(monkeypatch):
    """A disturbance while the device is only kept busy is not subtracted from the kernel's time."""
    device = opencl.OpenCLDevice()
    taken = iter([0.010, 0.012, 0.050, 0.012, 0.010, 0.013])
    monkeypatch.setattr(device, "_hold", lambda seconds: lambda: None)
    monkeypatch.setattr(device, "_elapsed", lambda *parts: next(taken))
    np.testing.assert_allclose(device.time(lambda: None, 3), [0.002, 0.002, 0.003])
