"""What calls are given: the caller's arrays for results, buffers that stay, by several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import glenside
from glenside.calling import Caller
from glenside.errors import InputError
from glenside.language import AccessType
from glenside.language.builders import constant, elementwise, tensor
from glenside.language.model import Model
from tests.models import small_network

SHAPE = (3, 4)
TARGETS = ["cpu", "opencl"]


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(2)]


def right(x, y):
    return np.maximum(x - y, 0), x + y


def model(first="x", names=("r", "s")):
    x, y = tensor(first, SHAPE), tensor("y", SHAPE)
    r, s = elementwise("relu", elementwise("sub", x, y)), elementwise("add", x, y)
    return Model("two", {first: x.type, "y": y.type}, {}, dict(zip(names, (r, s), strict=True)))


@pytest.fixture(scope="module", params=TARGETS)
def program(request):
    if request.param == "opencl":
        pytest.importorskip("pyopencl")
    return glenside.optimize(model(), request.param, check=False, rules=())


@pytest.fixture(scope="module")
def single():
    x, y = tensor("x", SHAPE), tensor("y", SHAPE)
    term = elementwise("sub", x, y)
    return glenside.optimize(term, "cpu", check=False, rules=())


def test_results_are_written_to_arrays_of_the_callers(program):
    x, y = arrays()
    wanted = right(x, y)
    r, s = (np.full(SHAPE, np.nan, np.float32) for _ in range(2))
    got = program(x, y, out=(r, s))
    assert got[0] is r and got[1] is s
    np.testing.assert_array_equal(r, wanted[0])
    np.testing.assert_array_equal(s, wanted[1])
    r[:] = np.nan
    results = program.run({"x": y, "y": x}, out={"r": r})
    assert results[0] is r and results[1] is not s
    np.testing.assert_array_equal(r, right(y, x)[0])
    np.testing.assert_array_equal(results[1], wanted[1])
    spread = np.zeros((4, 6), np.float32).T[::2]  # Of any strides.
    assert program(x, y, out=[spread, None])[0] is spread
    np.testing.assert_array_equal(spread, wanted[0])


def test_what_results_cannot_be_written_to_is_refused(program):
    x, y = arrays()
    r, s = (np.empty(SHAPE, np.float32) for _ in range(2))
    fixed = r.copy()
    fixed.flags.writeable = False
    larger = np.empty((2, *SHAPE), np.float32)
    refused = [
        ((x, s), "output 'r': out= shares memory with input 'x'"),
        ((r, y[:]), "output 's': out= shares memory with input 'y'"),
        ((r, r), "outputs 'r' and 's': out= is the same memory"),
        ((r, r[::-1]), "outputs 'r' and 's': out= is the same memory"),
        ((fixed, s), "output 'r': out= is read-only"),
        ((r.T, s), r"'r' is float32 of shape \(3, 4\), but out= is float32 of shape \(4, 3\)"),
        ((r, s.astype(np.float64)), "but out= is float64"),
        ((r, s.astype(">f4")), "but out= is float32"),
        (([[0.0] * 4] * 3, s), "output 'r': out= takes arrays, which are written to, got list"),
        ((r,), "out= takes 2 arrays, of r, s, got 1"),
        (r, "out= takes 2 arrays, of r, s, got ndarray"),
        ({"t": r}, "out= names 't'; the outputs are r, s"),
    ]
    for out, message in refused:
        with pytest.raises(InputError, match=message):
            program(x, y, out=out)
    # Halves of one array share nothing, nor do every second element and those between.
    program(x, y, out=(larger[0], larger[1]))
    np.testing.assert_array_equal(larger, right(x, y))
    between = np.empty((3, 8), np.float32)
    program(x, y, out=(between[:, ::2], between[:, 1::2]))
    np.testing.assert_array_equal(between[:, 1::2], right(x, y)[1])


def test_an_input_may_be_called_out():
    program = glenside.optimize(model("out"), "cpu", check=False, rules=())
    x, y = arrays()
    np.testing.assert_array_equal(program(out=x, y=y), right(x, y))
    r = np.empty(SHAPE, np.float32)
    got = program({"out": x, "y": y}, out={"r": r})
    assert got[0] is r
    np.testing.assert_array_equal(r, right(x, y)[0])


def test_bound_buffers_are_read_and_written_by_every_call(program):
    x, y = arrays()
    r = np.empty(SHAPE, np.float32)
    bound = program.bind(x, y=y, out={"r": r})
    assert bound.inputs["x"] is x and bound.outputs["r"] is r
    first = bound()
    assert first[0] is r
    x *= -2
    second = bound()
    assert second[0] is r and second[1] is first[1] is bound.outputs["s"]
    np.testing.assert_array_equal(r, right(x, y)[0])
    np.testing.assert_array_equal(second[1], right(x, y)[1])
    # Others' calls leave its results alone.
    program(y, y)
    np.testing.assert_array_equal(r, right(x, y)[0])


def test_what_cannot_stay_is_not_bound(program):
    x, y = arrays()
    for given, message in [
        (([[1.0] * 4] * 3, y), "input 'x': bind keeps arrays and tensors.*got list"),
        ((x.astype(np.float64), y), "input 'x' must be float32"),
        ((x,), "'y' is missing"),
    ]:
        with pytest.raises(InputError, match=message):
            program.bind(*given)
    with pytest.raises(InputError, match="shares memory with input 'x'"):
        program.bind(x, y, out={"r": x})


def test_one_result_is_no_tuple(single):
    x, y = arrays()
    out = np.empty(SHAPE, np.float32)
    for got in (single(x, y, out=out), single.bind(x, y, out=out)()):
        assert got is out
    np.testing.assert_array_equal(out, x - y)


def test_indices_are_looked_at_in_every_call_of_a_bound_program():
    from onnx import TensorProto, helper

    node = helper.make_node("Gather", ["x", "at"], ["y"])
    infos = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 3)),
        helper.make_tensor_value_info("at", TensorProto.INT64, (2,)),
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))
    proto = helper.make_model(helper.make_graph([node], "g", infos, [result]))
    program = glenside.optimize(proto, "cpu", check=False)
    x, at = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([1, 3])
    bound = program.bind(x, at)
    at[:] = 2, -1
    np.testing.assert_array_equal(bound(), x[at])
    at[0] = 4
    with pytest.raises(InputError, match=r"input 'at': .*, got 4$"):
        bound()


def test_arrays_of_the_other_byte_order_and_other_packages_forms(program):
    x, y = arrays()
    np.testing.assert_array_equal(program(x.astype(">f4"), y), right(x, y))
    with pytest.raises(InputError, match=r"'x' must be float32 .*, got float64"):
        program(x.tolist(), y)
    with pytest.raises(InputError, match="input 'x' is no array in the processor's memory"):
        program([[1.0], [1.0, 2.0]], y)


def test_outputs_have_types(program, tmp_path):
    wanted = dict.fromkeys("rs", AccessType(SHAPE, (), "float32"))
    assert program.outputs == wanted
    program.save(tmp_path)
    loaded = glenside.load(tmp_path)
    assert loaded.outputs == wanted
    x, y = arrays()
    np.testing.assert_array_equal(loaded.bind(x, y)(), right(x, y))
    unsafe = glenside.load(tmp_path, trusted=False)
    r = np.empty(SHAPE, np.float32)
    assert unsafe(x, y, out={"r": r})[0] is r
    np.testing.assert_array_equal(r, right(x, y)[0])
    np.testing.assert_array_equal(unsafe.bind(x, y)(), right(x, y))


def test_threads_share_a_program_with_buffers_of_their_own(program):
    def many(seed):
        x, y = arrays(seed)
        out = tuple(np.empty(SHAPE, np.float32) for _ in range(2))
        bound = program.bind(x, y)
        wanted = right(x, y)
        for _ in range(100):
            program(x, y, out=out)
            for got in (out, program(x, y), bound()):
                if not np.array_equal(got, wanted):
                    return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many, range(4)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("takes", [(), ("y",), ("y", "x")])
def test_a_program_reads_those_of_its_inputs_that_it_needs(takes, target):
    """Also one of several, and none."""
    leaves = {name: tensor(name, SHAPE) for name in "xyz"}
    term = constant(1, SHAPE)
    for name in takes:
        term = elementwise("sub", term, leaves[name])
    types = {name: leaf.type for name, leaf in leaves.items()}
    program = glenside.optimize(Model("some", types, {}, {"r": term}), target, rules=())
    x, y = arrays()
    want = 1 - sum(({"x": x, "y": y}[name] for name in takes), np.zeros(SHAPE, "float32"))
    np.testing.assert_allclose(program(x, y, x), want, rtol=1e-6)
    np.testing.assert_allclose(program(z=x, y=y, x=x), want, rtol=1e-6)
    np.testing.assert_allclose(program.bind(x, y, x)(), want, rtol=1e-6)


class Reversed:
    """An executable that takes its inputs in another order."""

    names = ("b", "a")

    def call(self, values, out=None):
        return list(values)


def test_executables_take_inputs_in_the_order_that_they_say():
    types = {name: AccessType((), (), "float32") for name in "ab"}
    caller = Caller(Reversed(), types)
    assert caller.quick is None
    assert caller(("first", "second")) == ["second", "first"]


def test_a_network_is_right_whatever_it_is_called_by():
    program = glenside.optimize(small_network(), "cpu", check=False)
    image = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype(np.float32)
    once = program(image)
    out = np.empty_like(once)
    np.testing.assert_array_equal(program(image=image, out=out), once)
    np.testing.assert_array_equal(program.bind({"image": image})(), once)
