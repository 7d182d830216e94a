import re
import subprocess
import tempfile

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import glenside
import tests.strategies as random_terms
from glenside.errors import GlensideError, InputError
from glenside.exporters.c import CProgram, to_c
from glenside.exporters.c.naming import distinct, identifier
from glenside.hw_targets import numerics
from glenside.language import OPERATORS, AccessType, Model, builders, evaluate, topological_order
from glenside.language.shape import FLOATS

RNG = np.random.default_rng(7)


def network() -> object:
    """Convolution with stride and padding, pool, grouped convolution, matrix, softmax."""
    weights = {
        "w1": RNG.normal(size=(8, 3, 3, 3)),
        "w2": RNG.normal(size=(6, 4, 3, 1)),
        "m": RNG.normal(size=(6 * 4 * 6, 10)),
        "b": RNG.normal(size=10),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], strides=[2, 1], pads=[1, 0, 0, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], group=2),
        helper.make_node("MaxPool", ["c2"], ["p"], kernel_shape=[1, 3], strides=[1, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "m", "b"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 12, 15))],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("r1", TensorProto.FLOAT, None),
        ],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


MODEL = network()
X = RNG.normal(size=(2, 3, 12, 15)).astype(np.float32)


def expected() -> list:
    session = onnxruntime.InferenceSession(
        MODEL.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": X})


@pytest.mark.parametrize("target", ["cpu", "vta", "systolic-array:8x4", "flexasr+hlscnn"])
def test_gives_the_numbers_of_onnxruntime_with_and_without_python_simulators(target, tmp_path):
    program = glenside.optimize(MODEL, target=target)
    folder = program.to_c(tmp_path)
    for simulate in (True, False):
        for got, want in zip(
            CProgram(folder, simulate=simulate).run({"x": X}), expected(), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["vta", "systolic-array:8x4"])
def test_every_call_is_a_function_of_the_driver_header(target, tmp_path):
    program = glenside.optimize(MODEL, target=target)
    folder = program.to_c(tmp_path)
    header = (folder / "glenside_units.h").read_text()
    declared = set(re.findall(r"^void (\w+)\(", header, re.MULTILINE))
    called = re.findall(r"^ +(\w+)\(", (folder / "small_net.c").read_text(), re.MULTILINE)
    calls = [name for name in called if name in declared]
    assert len(calls) == sum(program.report.offloads.values()) > 2


def test_a_program_of_its_own_needs_no_python(tmp_path):
    folder = glenside.optimize(MODEL, target="vta").to_c(tmp_path)
    subprocess.run(["make", "-C", folder, "CFLAGS=-Wextra -Werror -O1"], check=True)
    X.tofile(folder / "x")
    subprocess.run(["./small_net", "x", "y", "r1"], cwd=folder, check=True)
    want = expected()
    y, r1 = (np.fromfile(folder / name, np.float32) for name in ("y", "r1"))
    np.testing.assert_allclose(y.reshape(want[0].shape), want[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(r1.reshape(want[1].shape), want[1], rtol=1e-4, atol=1e-5)


def test_a_missing_file_is_named_by_the_program(tmp_path):
    folder = glenside.optimize(MODEL, target="cpu").to_c(tmp_path)
    subprocess.run(["make", "-C", folder], check=True, capture_output=True)
    ran = subprocess.run(["./small_net", "none", "y", "z"], cwd=folder, capture_output=True)
    assert ran.returncode == 1
    assert ran.stderr.decode() == "none: cannot read 4320 bytes\n"


def test_numbers_of_the_unit_come_from_its_python_simulator(tmp_path):
    x = RNG.normal(size=(5, 32)).astype(np.float32)
    w = RNG.normal(size=(16, 32)).astype(np.float32)
    b = RNG.normal(size=16).astype(np.float32)
    dot = builders.compute(
        "dot",
        builders.cart_prod(
            builders.access(builders.tensor("x", (5, 32)), 1),
            builders.access(builders.tensor("w", (16, 32)), 1),
        ),
    )
    term = builders.elementwise("add", dot, builders.tensor("b", (16,)))
    model = Model(
        "linear",
        {"x": AccessType((5, 32), (), "float32")},
        {"w": w, "b": b},
        {"y": term},
        {},
    )
    program = glenside.optimize(model, target="flexasr:adaptivfloat")
    assert program.report.offloads == {"flexasr": 1}
    folder = program.to_c(tmp_path)
    rounded = numerics.adaptivfloat
    want = rounded(rounded(x) @ rounded(w).T + rounded(b)).astype(np.float32)
    assert not np.array_equal(want, x @ w.T + b)
    (got,) = CProgram(folder).run({"x": x})
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float64", "int8", "int32", "uint8", "bool", "int64"])
def test_element_types(dtype, tmp_path):
    x = RNG.integers(0, 2 if dtype == "bool" else 100, (3, 5)).astype(dtype)
    leaf = builders.tensor("x", x.shape, dtype)
    function = "or" if dtype == "bool" else "maximum"
    term = builders.elementwise(
        function, leaf, builders.pad(builders.slice_(leaf, 0, 1, 3), 0, 0, 1)
    )
    program = glenside.optimize(term, target="cpu")
    (got,) = CProgram(program.to_c(tmp_path)).run({"x": x})
    shifted = np.concatenate([x[1:], np.zeros((1, 5), dtype)])
    want = x | shifted if dtype == "bool" else np.maximum(x, shifted)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_random_programs_agree_with_the_interpreter(data):
    term = data.draw(random_terms.terms([name for name in OPERATORS if name != "host_op"]))
    leaves = {t["name"]: t.type for t in topological_order([term]) if t.op == "tensor"}
    assume(leaves and all(t.dtype != "float16" for t in topological_order([term])))
    inputs = random_terms.environment([term])
    want = evaluate([term], inputs)[0]
    with tempfile.TemporaryDirectory() as folder:
        made = to_c(folder, "f", leaves, {}, {"y": term})
        (got,) = CProgram(made).run(inputs)
    close = 3e-2 if any(t.dtype == "bfloat16" for t in topological_order([term])) else 1e-5
    got, want = (a.astype("float64") if a.dtype.name in FLOATS else a for a in (got, want))
    np.testing.assert_allclose(got, want, rtol=close, atol=close / 10)


def test_integers_are_added_up_in_32_bits_by_a_blocked_product(tmp_path):
    x, w = (RNG.integers(-128, 128, (5, 19)).astype(np.int8) for _ in range(2))
    sides = [builders.access(builders.tensor(n, (5, 19), "int8"), 1) for n in "xw"]
    term = builders.compute("dot", builders.cart_prod(*sides), "int32")
    program = glenside.optimize(term, target="systolic-array:8x4")
    assert program.report.offloads == {"systolic-array": 1}
    (got,) = CProgram(program.to_c(tmp_path)).run({"x": x, "w": w})
    np.testing.assert_array_equal(got, x.astype(np.int32) @ w.astype(np.int32).T)


def test_infinities_and_nan_are_spelt_in_c(tmp_path):
    x = np.array([[np.nan, 1.0], [-np.inf, np.inf], [2.0, -3.0]], np.float32)
    leaf = builders.tensor("x", x.shape)
    padded = builders.pad(leaf, 0, 1, 0, value=float("nan"))
    lowest = builders.pad(leaf, 0, 1, 0, value="lowest")
    term = builders.compute("max", builders.access(builders.transpose(lowest, (1, 0)), 1))
    model = Model(
        "odd", {"x": AccessType(x.shape, (), "float32")}, {}, {"a": term, "b": padded}, {}
    )
    program = glenside.optimize(model, target="cpu")
    a, b = CProgram(program.to_c(tmp_path)).run({"x": x})
    np.testing.assert_array_equal(a, [np.nan, np.inf])
    np.testing.assert_array_equal(b, np.concatenate([np.full((1, 2), np.nan, np.float32), x]))


def test_an_input_that_nothing_uses_keeps_its_place(tmp_path):
    types = {name: AccessType((2,), (), "float32") for name in ("a", "b", "c")}
    term = builders.elementwise("sub", builders.tensor("a", (2,)), builders.tensor("c", (2,)))
    program = glenside.optimize(Model("m", types, {}, {"y": term}, {}), target="cpu")
    given = {n: np.array([k, 2 * k], np.float32) for k, n in enumerate(types, 1)}
    (got,) = CProgram(program.to_c(tmp_path)).run(given)
    np.testing.assert_array_equal(got, [-2, -4])


NAMES = ("double", "main", "exp", "all", "3 d", "glenside_units", "naïve", "_", "class")


@pytest.mark.parametrize("name", NAMES)
def test_names_may_be_anything(name, tmp_path):
    types = {n: AccessType((2,), (), "float32") for n in ("int", "a b", "a-b", "result")}
    a, b, c, d = (builders.tensor(n, (2,)) for n in types)
    outputs = {
        "return": builders.elementwise("sub", a, b),
        "int": builders.elementwise("sub", c, d),
        "int ": builders.elementwise("mul", a, c),
    }
    program = glenside.optimize(Model(name, types, {}, outputs), target="cpu", check=False)
    folder = program.to_c(tmp_path)
    subprocess.run(["make", "-C", folder, "CFLAGS=-Wextra -Werror -O0"], check=True)
    w, x, y, z = (np.array([k, 3 * k], np.float32) for k in range(1, 5))
    built = CProgram(folder).run(dict(zip(types, (w, x, y, z), strict=True)))
    for got, want in zip(built, (w - x, y - z, w * y), strict=True):
        np.testing.assert_array_equal(got, want)


def test_units_whose_names_are_alike_are_two_functions(tmp_path):
    for name, operands in (("twin-unit", "register sizes"), ("twin_unit", "register result")):
        x, w = operands.split()
        glenside.Accelerator(
            name,
            operands={x: "((M) (K))", w: "((N) (K))"},
            computes=f"(compute dot (cart-prod ?{x} ?{w}))",
            constraints=["K <= 4"] if name == "twin-unit" else ["K > 4"],
            simulate=lambda sizes, x, w, sign=(-1) ** ("_" in name): sign * (x @ w.T),
        )
    products = {}
    for k in (3, 5):
        sides = [builders.access(builders.tensor(f"{n}{k}", (2, k)), 1) for n in "xw"]
        products[f"y{k}"] = builders.compute("dot", builders.cart_prod(*sides))
    types = {f"{n}{k}": AccessType((2, k), (), "float32") for k in (3, 5) for n in "xw"}
    model = Model("twins", types, {}, products)
    program = glenside.optimize(model, target="twin-unit+twin_unit", check=False)
    assert program.report.offloads == {"twin-unit": 1, "twin_unit": 1}
    given = {n: RNG.integers(0, 9, t.shape).astype(np.float32) for n, t in types.items()}
    y3, y5 = CProgram(program.to_c(tmp_path)).run(given)
    np.testing.assert_array_equal(y3, given["x3"] @ given["w3"].T)
    np.testing.assert_array_equal(y5, -(given["x5"] @ given["w5"].T))


def test_identifiers():
    said = ("a-b", "a.b", "int", "y1", "expf", "3", "", "_x_", "size_t", "strange", "x", "é")
    names = ("a_b", "a_b", "int_", "y1_", "expf_", "n3", "f", "x", "size_t_", "strange_", "x", "f")
    assert tuple(identifier(each, "f") for each in said) == names
    assert distinct(["a", "a", "a_1", "b"], {"b"}) == ["a", "a_1", "a_1_1", "b_1"]


def test_the_same_program_gives_the_same_files(tmp_path):
    program = glenside.optimize(MODEL, target="vta")
    one, two = (program.to_c(tmp_path / name) for name in ("one", "two"))
    files = sorted(path.name for path in one.iterdir())
    assert "glenside_simulators.c" in files
    for name in files:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


def test_bfloat16_is_its_bits_in_c(tmp_path):
    x = np.array([1, 2.5, -3, np.nan, np.inf, 3e38, 1.00390625, -0.0]).astype("bfloat16")
    leaf = builders.tensor("x", x.shape, "bfloat16")
    outputs = {"y": builders.elementwise("mul", leaf, leaf), "z": builders.cast(leaf, "float32")}
    made = to_c(tmp_path, "f", {"x": leaf.type}, {}, outputs)
    assert "uint16_t" in (tmp_path / "f.h").read_text()
    got, wide = CProgram(made).run({"x": x})
    with np.errstate(over="ignore"):
        right = (x.astype("float32") ** 2).astype("bfloat16")
    np.testing.assert_array_equal(got.view(np.uint16), right.view(np.uint16))
    np.testing.assert_array_equal(wide, x.astype("float32"))


def test_what_c_cannot_say_is_refused(tmp_path):
    half = builders.elementwise("add", *[builders.tensor("x", (2,), "float16")] * 2)
    with pytest.raises(GlensideError, match="C source has no type for float16"):
        glenside.optimize(half, target="cpu").to_c(tmp_path)
    leaf = builders.tensor("x", (2,))
    opaque = builders.host_op("Mish", [leaf], (2,), version=18)
    with pytest.raises(GlensideError, match=r"C source cannot hold host operators \(Mish\)"):
        glenside.optimize(opaque, target="cpu").to_c(tmp_path)


def test_inputs_are_checked(tmp_path):
    program = CProgram(glenside.optimize(MODEL, target="cpu").to_c(tmp_path))
    with pytest.raises(InputError, match="no value was given for input 'x'"):
        program.run({})
    with pytest.raises(InputError, match=r"must be float32 of shape \(2, 3, 12, 15\), got float64"):
        program.run({"x": X.astype(np.float64)})
    with pytest.raises(InputError, match="holds no program in C"):
        CProgram(tmp_path / "none")
