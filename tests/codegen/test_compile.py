"""Whole programs on the CPU: fusion, memory, steps in Python, the saved form, random programs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import glenside.hw_targets.systolic_array  # noqa: F401  (registers the unit)
from glenside.codegen.compile import compile_terms
from glenside.codegen.load import load as load_compiled
from glenside.codegen.plan import PARAMETERS
from glenside.errors import InputError
from glenside.language import OPERATORS, evaluate
from glenside.language.builders import (
    access,
    blocked,
    compute,
    concat,
    elementwise,
    outer_only,
    pad,
    reshape,
    tensor,
    transpose,
    windows,
)
from tests.codegen.codegen_help import check, compare, convolution, leaves, poison, run, weights
from tests.codegen.programs import (
    a_call_and_a_host_operator,
    a_value_and_what_is_made_of_it,
    eight_layers,
    max_pool,
    of_any_length,
    over_nothing,
    small_net,
)
from tests.effort import tries
from tests.strategies import environment, terms


@pytest.fixture(scope="module")
def net():
    """The small network, compiled and run: (term, parameters, inputs, result, program)."""
    term, params = small_net()
    (got,), given, program = run(term, params)
    return term, params, given, got, program


def test_a_network(net):
    term, params, given, got, _ = net
    compare(got, evaluate([term], {**given, **params})[0])


def test_parts_of_a_concat_are_written_in_place(net):
    *_, program = net
    # Four products, two pools, softmax; one copy of the part that is also pooled; margins.
    assert len(program.plan.steps) <= 11


@pytest.mark.parametrize("border", [0, 1, 2])
def test_max_pool_of_negative_numbers(border):
    x = tensor("x", (2, 20, 9, 8))
    values = -1 - np.random.default_rng(0).random((2, 20, 9, 8)).astype("float32")
    check(max_pool(x, 3, 2, border), inputs={"x": values})


def test_densely_connected_layers_share_one_buffer():
    y, params = tensor("x", (1, 16, 6, 6)), {}
    for layer in range(4):
        channels = y.shape[1]
        params[f"w{layer}"] = weights(16, channels, 3, 3, seed=layer) / 5
        kernel = tensor(f"w{layer}", (16, channels, 3, 3))
        fresh = convolution(elementwise("relu", y), kernel, pads=(1, 1, 1, 1))
        y = concat(1, y, elementwise("relu", fresh))
    check(y, params, tolerance=1e-3)


def test_both_a_value_and_what_is_made_of_it_are_outputs():
    check(a_value_and_what_is_made_of_it())


def test_results_belong_to_the_caller():
    x = tensor("x", (4,))
    program = compile_terms([x, elementwise("neg", x)], {"x": x.type}, {})
    values = np.arange(4, dtype="float32")
    first = program.run({"x": values})
    program.run({"x": values + 1})
    np.testing.assert_array_equal(first[0], values)
    np.testing.assert_array_equal(first[1], -values)
    first[0][:] = 9
    np.testing.assert_array_equal(values, np.arange(4))


@pytest.mark.parametrize("shape", [(0,), (3, 0, 4), (0, 0)])
def test_empty_arrays(shape):
    check(of_any_length(shape))


def test_what_is_computed_of_nothing():
    expected = over_nothing()
    for term, got in zip(expected, run(list(expected))[0], strict=True):
        compare(got, np.asarray(expected[term], got.dtype))


def test_float16_sums_do_not_lose_small_terms():
    x = tensor("x", (2, 4096), "float16")
    (got,), _, _ = run(compute("sum", access(x, 1)), inputs={"x": np.ones((2, 4096), "float16")})
    np.testing.assert_array_equal(got, [4096, 4096])


def test_interior_padding_and_guards():
    x = tensor("x", (2, 5, 4))
    spread = pad(pad(x, 1, 2, 1, interior=2), 2, 0, 3, -1.0, interior=1)
    seen = windows(access(spread, 1), (3, 2), (2, 1), (1, 2))
    check([outer_only(spread), compute("sum", seen)])


def test_calls_and_host_operators_run_between_kernels():
    term, params = a_call_and_a_host_operator()
    check(term, params, tolerance=1e-3)


def test_trace_gives_values_by_the_callers_terms(net):
    term, params, _, _, program = net
    values = {"x": weights(2, 3, 17, 19, seed=9)}
    traced = program.trace(values)
    expected = evaluate(list(traced), {**values, **params})
    assert term in traced and len(traced) >= 7
    for got, wanted in zip(traced.values(), expected, strict=True):
        compare(got, wanted)


def test_source_and_module(net):
    *_, program = net
    assert "define" in program.source
    assert len(program.module.functions) > 3


def test_memory_is_shared_between_values():
    _, _, program = run(*eight_layers())
    assert program.plan.arena <= 3 * 32 * 40 * 40 * 4


LOADS = """
import sys
import numpy as np
from glenside.codegen.load import load as load_compiled
program = load_compiled(sys.argv[1])
with np.load(sys.argv[2]) as given:
    (result,) = program.run({"x": given["x"]})
    assert np.array_equal(result, given["y"])
assert not {"tvm", "egglog", "onnx", "onnxruntime"} & sys.modules.keys()
assert "libtvm_compiler" not in open("/proc/self/maps").read()
"""


def test_a_saved_program_runs_without_the_compiler(tmp_path):
    term, params = small_net()
    params["w2"] = np.broadcast_to(np.float32(0.01), (40, 32, 3, 3))
    (got,), given, program = run(term, params)
    program.save(tmp_path / "net")
    np.savez(tmp_path / "values.npz", x=given["x"], y=got)
    subprocess.run(
        [sys.executable, "-c", LOADS, str(tmp_path / "net"), str(tmp_path / "values.npz")],
        check=True,
    )
    sizes = {file.name: file.stat().st_size for file in (tmp_path / "net").iterdir()}
    # The weights that are one number are not written out.
    assert sizes[PARAMETERS] < sum(params[w].size for w in ("w0", "w1", "w3")) * 4 + 4096


def test_a_saved_program_with_calls(tmp_path):
    a = tensor("a", (7, 5))
    product = blocked("systolic-array", (4, 4), access(a, 1), access(tensor("b", (6, 5)), 1))
    (got,), given, program = run(elementwise("neg", product), {"b": weights(6, 5)})
    program.save(tmp_path)
    np.testing.assert_array_equal(load_compiled(tmp_path).run(given)[0], got)


def test_loading_what_is_no_program(tmp_path):
    with pytest.raises(InputError, match="holds no saved program"):
        load_compiled(tmp_path)


def test_wrong_inputs_are_named():
    x = tensor("x", (3,))
    program = compile_terms([elementwise("neg", x)], {"x": x.type}, {})
    with pytest.raises(InputError, match="'x'"):
        program.run({})
    with pytest.raises(InputError, match=r"\(4,\)"):
        program.run({"x": np.zeros(4, "float32")})
    with pytest.raises(InputError, match="neither an input nor a parameter"):
        compile_terms([tensor("y", (2,))], {}, {})


def test_a_long_chain_is_no_recursion():
    y = tensor("x", (3, 4))
    for _ in range(2000):
        y = transpose(elementwise("neg", y), (1, 0))
    check(y)


def test_a_long_chain_of_reshapes():
    y = tensor("x", (6, 4))
    for _ in range(500):
        y = transpose(reshape(y, y.shape[::-1]), (1, 0))
        y = reshape(y, (8, 3) if y.shape == (6, 4) else (6, 4))
    check(y)


@settings(max_examples=tries(40), suppress_health_check=list(HealthCheck))
@given(terms(operators=[name for name in OPERATORS if name != "host_op"], most=7))
def test_random_programs(term):
    values = environment([term])
    try:
        with np.errstate(all="ignore"):
            (wanted,) = evaluate([term], values)
    except IndexError:
        return  # A gather position outside.
    types = leaves([term])
    params = {name: values[name] for name in sorted(types)[1::2]}
    inputs = {name: t for name, t in types.items() if name not in params}
    program = compile_terms([term], inputs, params, threads=2)
    poison(program)
    (got,) = program.run({name: values[name] for name in inputs})
    compare(got, wanted, 3e-2 if wanted.dtype == np.float16 else 1e-3)
