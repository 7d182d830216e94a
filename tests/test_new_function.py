"""A function that is declared here and nowhere else has a meaning, code and exports everywhere."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import tvm
from tvm import relax

import glenside
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.emit import emit
from glenside.errors import GlensideError
from glenside.exporters.c import CProgram
from glenside.exporters.onnx.expressions import Expression
from glenside.exporters.onnx.graph import Graph, Names
from glenside.language import FUNCTIONS, Function, Term, evaluate
from glenside.language.builders import elementwise, tensor
from glenside.language.shape import FLOATS
from tests.codegen.gpu.gpu_help import device_kernels

X = np.array([[-8.0, -1.0, -1e-12, 0.0], [1e-3, 1.0, 2.0, 27.0]], "float32")
RIGHT = {"cube_root": np.cbrt(X), "distance": np.hypot(X, X[::-1])}


@pytest.fixture(autouse=True)
def _declared(monkeypatch):
    """One function of an element and one of two; nothing else knows of them."""
    for function in (
        Function(
            "cube_root",
            "map",
            np.cbrt,
            domain=FLOATS,
            monotone=True,
            libm="cbrt",
            onnx="Mul(Sign(x), Pow(Abs(x), 0.3333333333333333))",
        ),
        Function(
            "distance",
            "fold",
            np.hypot,
            domain=FLOATS,
            commutes=True,
            libm="hypot",
            onnx="Sqrt(Add(Mul(a, a), Mul(b, b)))",
        ),
    ):
        monkeypatch.setitem(FUNCTIONS, function.name, function)


def terms() -> list[Term]:
    x, y = tensor("x", (2, 4)), tensor("y", (2, 4))
    return [elementwise("cube_root", x), elementwise("distance", x, y)]


def inputs() -> list[np.ndarray]:
    return [X, X[::-1]]


def close(found, right) -> None:
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", RIGHT)
def test_its_meaning_is_numpy_s(name):
    term = terms()[list(RIGHT).index(name)]
    close(evaluate([term], {"x": X, "y": X[::-1]})[0], RIGHT[name])


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_it_runs(target):
    if target == "opencl":
        pytest.importorskip("pyopencl")
    for term, right in zip(terms(), RIGHT.values(), strict=True):
        program = glenside.optimize(term, target=target)
        close(program(*inputs()[: len(program.inputs)]), right)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_it_runs_on_every_float(dtype):
    given = X.astype(glenside.language.AccessType((2, 4), (), dtype).dtype)
    program = glenside.optimize(elementwise("cube_root", tensor("x", (2, 4), dtype)), "cpu")
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-12}[dtype]
    right = np.cbrt(given.astype("float64"))
    np.testing.assert_allclose(np.asarray(program(given), "float64"), right, rtol=tolerance)


def test_cuda_calls_it_by_its_name_in_c():
    limits = device_profile("cuda:sm_90")
    types = {name: tensor(name, (2, 4)).type for name in "xy"}
    text = emit(device_kernels(terms(), types, {}, limits)[1], "cuda", limits).text
    assert "cbrtf(" in text and "hypotf(" in text


def test_onnx_has_the_expression_it_is_declared_with():
    for term, right in zip(terms(), RIGHT.values(), strict=True):
        model = glenside.optimize(term).to_onnx()
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        given = dict(zip((each.name for each in session.get_inputs()), inputs(), strict=False))
        close(session.run(None, given)[0], right)


def test_relax_and_c_compute_it(tmp_path):
    for term, (name, right) in zip(terms(), RIGHT.items(), strict=True):
        program = glenside.optimize(term)
        given = inputs()[: len(program.inputs)]
        built = tvm.compile(program.to_relax(), target="llvm")
        machine = relax.VirtualMachine(built, tvm.cpu())
        tensors = [tvm.runtime.tensor(np.ascontiguousarray(each)) for each in given]
        close(machine["main"](*tensors).numpy(), right)
        folder = program.to_c(tmp_path / name)
        (done,) = CProgram(folder).run(dict(zip(program.inputs, given, strict=True)))
        close(done, right)


def test_without_a_name_in_c_or_onnx_the_error_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(FUNCTIONS, "nameless", Function("nameless", "map", np.cbrt, domain=FLOATS))
    term = elementwise("nameless", tensor("x", (2, 4)))
    with pytest.raises(GlensideError, match=r"compute nameless: .* the name \(libm\)"):
        glenside.optimize(term)


@pytest.mark.parametrize("text", ["Log(", "x + 1", "Log('x')", "Log(z)", "x.y(x)"])
def test_what_is_no_expression_of_onnx_operators_is_refused(text):
    graph = Graph(Names(), opset=17)
    x = graph.constant(X)
    with pytest.raises(GlensideError, match="no expression of ONNX operators"):
        Expression(text).apply(graph, x=x)


@pytest.mark.parametrize("name", ["log1p", "expm1"])
def test_onnx_keeps_the_digits_of_small_values(name):
    small = np.array([1e-7, -3e-6, 2e-4, 0.5], "float32")
    model = glenside.optimize(elementwise(name, tensor("x", (4,)))).to_onnx()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (done,) = session.run(None, {session.get_inputs()[0].name: small})
    right = getattr(np, name)(small.astype("float64"))
    np.testing.assert_allclose(done, right, rtol=1e-6)
