"""bfloat16 from memory to memory: what is rounded, how, and what is kept."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import glenside
from glenside.codegen.compile import compile_terms
from glenside.frontends.onnx import import_model
from glenside.language import AccessType, Model, evaluate
from glenside.language import builders as b
from tests.codegen.codegen_help import compare, leaves
from tests.codegen.gpu.device_help import check
from tests.exporters.running import run as run_onnx

BITS = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def _every_value() -> np.ndarray:
    return BITS.view("bfloat16")


def _nearest(values: np.ndarray) -> np.ndarray:
    """The nearest bfloat16 of each float32 by a search among all of them, ties to even bits."""
    all_bits = np.arange(0x7F81, dtype=np.uint32)
    known = (all_bits << 16).astype(np.uint32).view(np.float32).astype(np.float64)
    known[-1] = 2.0**128  # What infinity would be, were there one more power.
    size = np.abs(values.astype(np.float64))
    above = np.minimum(np.searchsorted(known, size), 0x7F80)
    below = np.maximum(above - 1, 0)
    lower, upper = size - known[below], known[above] - size
    even = np.where(below % 2 == 0, below, above)
    chosen = np.where(lower < upper, below, np.where(upper < lower, above, even))
    chosen = np.where(np.isinf(size), 0x7F80, chosen)
    return (chosen | (np.signbit(values).astype(np.int64) << 15)).astype(np.uint16)


@pytest.fixture(scope="module")
def casts():
    """float32 to bfloat16 and back, compiled."""
    x, half = b.tensor("x", (4099,)), b.tensor("half", (1 << 16,), "bfloat16")
    types = {"x": x.type, "half": half.type}
    return compile_terms([b.cast(x, "bfloat16"), b.cast(half, "float32")], types, {}, threads=1)


def _floats() -> np.ndarray:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32)
    bits[:2000] = bits[:2000] & 0xFFFF0000 | 0x8000  # Half way.
    values = bits.view(np.float32)
    values[np.isnan(values)] = 1.0
    values[:6] = np.inf, -np.inf, 3.4e38, -3.39e38, 1e-45, -0.0
    return values


def test_floats_are_rounded_to_the_nearest_ties_to_even(casts):
    x = _floats()
    got, _ = casts.run({"x": x, "half": _every_value()})
    np.testing.assert_array_equal(got.view(np.uint16), _nearest(x))


def test_every_value_widens_to_itself_and_nan_stays_nan(casts):
    x = np.full(4099, np.nan, np.float32)
    x.view(np.uint32)[:3] = 0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF  # What a carry would turn to 0.
    halves, wide = casts.run({"x": x, "half": _every_value()})
    assert np.isnan(halves.astype(np.float32)).all()
    np.testing.assert_array_equal(wide.view(np.uint32), BITS.astype(np.uint32) << 16)


def test_sums_are_formed_in_float32():
    """In steps of bfloat16, ones would add up to 256."""
    x, y = b.tensor("x", (3, 1000), "bfloat16"), b.tensor("y", (5, 1000), "bfloat16")
    terms = [
        b.compute("sum", b.access(x, 1)),
        b.compute("mean", b.access(x, 1)),
        b.compute("dot", b.cart_prod(b.access(x, 1), b.access(y, 1))),
    ]
    ones = {"x": np.ones((3, 1000), "bfloat16"), "y": np.ones((5, 1000), "bfloat16")}
    program = compile_terms(terms, {"x": x.type, "y": y.type}, {}, threads=1)
    for results in (evaluate(terms, ones), program.run(ones)):
        for got, right in zip(results, (1000, 1, 1000), strict=True):
            assert got.dtype == "bfloat16" and (got.astype(float) == right).all()


def test_an_onnx_model_in_bfloat16_goes_in_and_out():
    helper, half = onnx.helper, onnx.TensorProto.BFLOAT16
    rng = np.random.default_rng(1)
    w = rng.standard_normal((16, 12)).astype("bfloat16")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "halves",
        [helper.make_tensor_value_info("x", half, (7, 16))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (7, 12))],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    model = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]))
    assert model.inputs["x"].dtype == model.params["w"].dtype.name == "bfloat16"
    x = rng.standard_normal((7, 16)).astype("bfloat16")
    program = glenside.optimize(model, target="cpu")
    got = program(x)
    right = np.maximum(x.astype("float32") @ w.astype("float32"), 0)
    np.testing.assert_allclose(got, right, rtol=2**-8, atol=1e-6)
    assert (got == got.astype("bfloat16")).all() and (got != right).any()
    (exported,) = run_onnx(program.to_onnx(), {"x": x})
    np.testing.assert_allclose(exported, got, rtol=2**-7, atol=1e-6)


def test_a_saved_program_and_its_arrays_are_read_back(tmp_path):
    from glenside.array_files import read_array, read_npz, write_npz

    x = b.tensor("x", (5,), "bfloat16")
    w = np.array([1, 2, 3, 4, 5.5]).astype("bfloat16")
    term = b.elementwise("mul", x, b.tensor("w", (5,), "bfloat16"))
    model = Model("m", {"x": AccessType((5,), (), "bfloat16")}, {"w": w}, {"y": term}, {})
    glenside.optimize(model, target="cpu").save(tmp_path / "p")
    given = np.array([1, -1, 0.5, np.inf, 3]).astype("bfloat16")
    got = glenside.load(tmp_path / "p")(given)
    np.testing.assert_array_equal(got.view(np.uint16), (given * w).view(np.uint16))
    np.save(tmp_path / "x.npy", given)
    write_npz(tmp_path / "x.npz", {"x": given})
    for read in (read_array(tmp_path / "x.npy"), read_npz(tmp_path / "x.npz")["x"]):
        assert read.dtype == "bfloat16" and read.tobytes() == given.tobytes()


def test_a_chain_of_roundings_compiles_in_the_size_it_has():
    """Each rounding names its operand five times: written out, a chain grows without end."""
    from glenside.codegen.device.compile import compile_for_device
    from glenside.codegen.gpu.devices import device_profile

    x = b.tensor("x", (3, 8), "bfloat16")
    z = x
    for _ in range(6):
        z = b.elementwise("add", b.elementwise("mul", z, x), x)
    limits = device_profile("opencl:cpu")
    program = compile_for_device([z], {"x": x.type}, {}, limits, "opencl", choose=None, build=None)
    assert len(program.source) < 8000
    values = {"x": (np.arange(24).reshape(3, 8) / 16).astype(np.float32).astype("bfloat16")}
    (got,) = compile_terms([z], {"x": x.type}, {}, threads=1).run(values)
    (want,) = evaluate([z], values)
    np.testing.assert_array_equal(got.view(np.uint16), want.view(np.uint16))


def test_roundings_under_guards_compile_in_the_size_they_have():
    """Under a border's guard, and where extremes are compared, nothing can be kept in a cell."""
    x = b.tensor("x", (1, 2, 5, 6), "bfloat16")
    w = b.tensor("w", (3, 2, 3, 3), "bfloat16")
    z = x
    for _ in range(6):
        z = b.elementwise("add", b.elementwise("mul", z, x), x)

    def padded(y):
        return b.compute("relu", b.access(b.pad(b.pad(y, 2, 1, 1, 0.0), 3, 1, 1, 0.0), 4))

    windows = b.windows(b.access(padded(z), 1), (2, 3, 3), (1, 1, 1))
    terms = [
        padded(z),
        padded(b.cast(z, "float32")),
        padded(padded(b.compute("exp", b.access(z, 4)))),
        b.compute("dot", b.cart_prod(b.access(w, 1), windows)),
        b.compute("softmax", b.access(padded(z), 3)),
        b.compute("argmax", b.access(z, 3)),
    ]
    rng = np.random.default_rng(0)
    values = {
        name: (rng.random(of.shape) - 0.5).astype(np.float32).astype("bfloat16")
        for name, of in {"x": x, "w": w}.items()
    }
    for term in terms:
        program = check(term, inputs={name: values[name] for name in leaves([term])})
        assert len(program.source) < 12000
    got = compile_terms(terms, leaves(terms), {}, threads=1).run(values)
    for each, wanted in zip(got, evaluate(terms, values), strict=True):
        compare(each, wanted)
