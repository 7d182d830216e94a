"""Relax modules give, compiled by TVM, what the interpreter gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

import glenside
import tests.strategies as random_terms
from glenside.errors import GlensideError, ModelError
from glenside.exporters.relax import to_relax
from glenside.frontends.onnx import import_model
from glenside.frontends.relax import import_relax
from glenside.language import OPERATORS, Term, builders, evaluate, parse, topological_order
from glenside.language.shape import FLOATS
from tests.effort import tries
from tests.models import small_network

Array = np.ndarray[Any, Any]
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
TOLERANCE = {"float16": 1e-2, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-12}


def export(
    terms: Sequence[Term], params: Mapping[str, Array], names: Mapping[Term, str] | None = None
) -> tvm.IRModule:
    leaves = {t["name"]: t.type for t in topological_order(terms) if t.op == "tensor"}
    inputs = {name: type_ for name, type_ in leaves.items() if name not in params}
    outputs = {f"y{i}": term for i, term in enumerate(terms)}
    return to_relax("program", inputs, params, outputs, names)


def run(module: tvm.IRModule, inputs: Sequence[Array]) -> list[Array]:
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    given = [tvm.runtime.tensor(np.ascontiguousarray(x).reshape(x.shape)) for x in inputs]
    result = machine["main"](*given)
    return [result.numpy()] if hasattr(result, "numpy") else [each.numpy() for each in result]


def assert_same(
    terms: Sequence[Term], env: Mapping[str, Array], params: Sequence[str] = ()
) -> tvm.IRModule:
    """Exports, compiles, runs and compares, also what is read from the module; gives the module."""
    module = export(terms, {name: env[name] for name in params})
    leaves = dict.fromkeys(t["name"] for t in topological_order(terms) if t.op == "tensor")
    inputs = [env[name] for name in leaves if name not in params]
    again = import_relax(module)
    given = dict(zip(again.inputs, inputs, strict=True))
    read = evaluate(again.roots, {**given, **again.params})
    for mine, right in zip([*run(module, inputs), *read], 2 * evaluate(terms, env), strict=True):
        assert (mine.dtype, mine.shape) == (right.dtype, right.shape)
        if right.dtype.name in FLOATS:
            near = TOLERANCE[right.dtype.name]
            mine, right = mine.astype("float64"), right.astype("float64")
            np.testing.assert_allclose(mine, right, rtol=near, atol=near)
        else:
            np.testing.assert_array_equal(mine, right)
    return module


def kernels(module: tvm.IRModule) -> list[str]:
    return [v.name_hint for v, f in module.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def _is_exact(term: Term) -> bool:
    """Floats beyond the range of an integer have no defined conversion."""
    return not any(t.op == "constant" and not np.isfinite(t["value"])
                   for t in topological_order([term])) or all(
        t.dtype in FLOATS for t in topological_order([term]))  # fmt: skip


@settings(max_examples=tries(30))
@given(
    random_terms.terms(operators=sorted(OPERATORS.keys() - {"host_op"})).filter(_is_exact),
    st.booleans(),
)
def test_random_programs(term: Term, constant: bool) -> None:
    env = random_terms.environment([term])
    assert_same([term], env, list(env)[1:] if constant else ())


CONVOLUTION = """
(let ((%w (access 1 (tensor w (4 3 3 3))))
      (%x (pad zero 3 1 1 (pad zero 2 1 1 (tensor x (1 3 8 8)))))
      (%p (squeeze 1 (windows (3 3 3) (1 1 1) (access 1 %x))))
      (%c (transpose (1 0 2 3) (compute dot (cart-prod %w %p)))))
  (access 4 (compute relu (access 0 %c))))
"""


def test_a_convolution_is_one_kernel_without_copies() -> None:
    term = parse(CONVOLUTION)
    env = {"x": normal(1, 3, 8, 8), "w": normal(4, 3, 3, 3, seed=1)}
    module = assert_same([term], env, ["w"])
    assert len(kernels(module)) == 2
    assert [p.name for p in module["main"].params] == ["x"]


def test_several_outputs_among_them_an_input_a_parameter_and_a_view() -> None:
    x, w = builders.tensor("x", (2, 6)), builders.tensor("w", (3, 4))
    y = builders.elementwise("exp", x)
    outputs = [x, y, builders.reshape(y, (3, 4)), w, builders.transpose(w, (1, 0)), y]
    module = assert_same(outputs, {"x": normal(2, 6), "w": normal(3, 4)}, ["w"])
    assert len(kernels(module)) == 1


def test_names_are_kept_where_possible() -> None:
    x = builders.tensor("input:0", (2, 3))
    y = builders.compute("sum", builders.access(x, 1))
    module = export([builders.elementwise("neg", y)], {}, {y: "layer/sum"})
    assert "layer_sum" in kernels(module)
    assert module["main"].params[0].name == "input_0"


def test_parameters_of_one_number_are_no_constants() -> None:
    x, w = builders.tensor("x", (2, 3)), builders.tensor("w", (4, 3))
    term = builders.compute("dot", builders.cart_prod(builders.access(x, 1), builders.access(w, 1)))
    wide = np.broadcast_to(np.float32(0.5), (4, 3))
    module = assert_same([term], {"x": normal(2, 3), "w": wide}, ["w"])
    assert "GenericConst" not in module.script(show_meta=True)


def test_what_parameters_alone_decide_is_computed_while_exporting() -> None:
    x, w = builders.tensor("x", (4, 3)), builders.tensor("w", (3,))
    term = builders.elementwise("mul", x, builders.elementwise("sqrt", w))
    module = assert_same([term], {"x": normal(4, 3), "w": np.abs(normal(3))}, ["w"])
    assert len(kernels(module)) == 1 and "sqrt" not in module.script()


def test_accelerator_invocations_are_kernels_named_after_the_unit() -> None:
    blocked = parse(
        "(blocked systolic-array (4 2) (access 1 (tensor x (5 7))) (access 1 (tensor w (3 7))))"
    )
    call = parse(
        "(call systolic-array (4 2) (access 1 (tensor a (5 4))) (access 0 (tensor b (4 2))))"
    )
    relu = builders.elementwise("relu", builders.outer_only(call))
    env = {"x": normal(5, 7), "w": normal(3, 7), "a": normal(5, 4), "b": normal(4, 2)}
    module = assert_same([blocked, relu], env, ["w"])
    assert len([n for n in kernels(module) if n.startswith("systolic_array_4_2")]) == 2


def test_shared_work_does_not_multiply() -> None:
    x = builders.tensor("x", (8,))
    term = x
    for _ in range(40):
        # Written out, this would be 2**40 operators.
        term = builders.elementwise("mul", term, builders.elementwise("sigmoid", term))
    assert_same([term], {"x": normal(8)})


def test_long_chains() -> None:
    term = builders.tensor("x", (4,))
    for _ in range(1500):
        term = builders.elementwise("tanh", term)
    module = export([term], {})
    # Equal kernels are stored once.
    assert len(kernels(module)) <= 4
    np.testing.assert_allclose(
        run(module, [normal(4)])[0], evaluate([term], {"x": normal(4)})[0], rtol=1e-4
    )


def test_host_operators_and_unknown_tensors_are_refused() -> None:
    x = builders.tensor("x", (4,))
    with pytest.raises(GlensideError, match="Hardmax is a host operator"):
        export([builders.host_op("Hardmax", [x], (4,), version=13)], {})
    with pytest.raises(GlensideError, match=r"'x' .*neither an input nor a parameter"):
        to_relax("program", {}, {}, {"y": builders.elementwise("neg", x)})


def test_a_light_model() -> None:
    model = import_model(LIGHT / "light_shufflenet.onnx")
    module = to_relax(model.name, model.inputs, model.params, model.outputs, model.names)
    ((_, kind),) = model.inputs.items()
    x = (np.arange(kind.size).reshape(kind.shape) / kind.size).astype("float32")
    wanted = onnx.numpy_helper.to_array(onnx.load_tensor(LIGHT / "light_shufflenet_output_0.pb"))
    np.testing.assert_allclose(run(module, [x])[0], wanted, rtol=1e-3, atol=1e-5)


def test_relax_in_and_out() -> None:
    x = relax.Var("x", relax.TensorType((2, 3, 6, 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        y = builder.emit(relax.op.nn.conv2d(x, relax.const(normal(4, 3, 3, 3)), padding=1))
        y = builder.emit(relax.op.nn.max_pool2d(y, (2, 2), (2, 2)))
        y = builder.emit(relax.op.nn.softmax(relax.op.reshape(y, (2, 36))))
        builder.emit_func_output(y)
    module = builder.get()
    model = import_relax(module)
    again = to_relax(model.name, model.inputs, model.params, model.outputs, model.names)
    data = normal(2, 3, 6, 6, seed=1)
    np.testing.assert_allclose(run(again, [data])[0], run(module, [data])[0], rtol=1e-4, atol=1e-6)
    third = import_relax(again)
    (mine,) = evaluate(third.roots, {"x": data, **third.params})
    np.testing.assert_allclose(mine, run(module, [data])[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("target", ["cpu", "systolic-array:4x4"])
def test_what_a_program_exports_can_be_optimised_again(target: str) -> None:
    program = glenside.optimize(small_network(), target)
    module = tvm.ir.load_json(tvm.ir.save_json(program.to_relax()))
    again = glenside.optimize(module, target)
    x = normal(1, 4, 9, 7)
    np.testing.assert_allclose(again(x), program(x), rtol=1e-4, atol=1e-6)
    assert again.report.offloads == program.report.offloads


def test_kernels_that_do_not_say_what_they_compute_are_refused() -> None:
    x = builders.tensor("x", (4,))
    module = export([builders.elementwise("exp", x)], {})
    for variable, function in module.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            module.update_func(variable, function.without_attr("glenside.meaning"))
    with pytest.raises(GlensideError, match=r"1 unsupported node: .*call_tir.*loops are not read"):
        import_relax(module)


@pytest.mark.parametrize(
    ("meaning", "said"),
    [
        ("(tensor in1 (4))", "'in1' is none of 1 operands"),
        ("(tensor in0 (5))", "operand 0 is .* it must be"),
        ("(tensor in0", "not closed"),
        ("(access 1 (slice 0 0 3 (tensor in0 (4))))", "is stated to be"),
    ],
)
def test_kernels_that_say_nonsense_are_refused(meaning: str, said: str) -> None:
    module = export([builders.elementwise("exp", builders.tensor("x", (4,)))], {})
    for variable, function in module.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            module.update_func(variable, function.with_attr("glenside.meaning", meaning))
    with pytest.raises(ModelError, match=said):
        import_relax(module)


def test_names_that_become_one_identifier_stay_apart() -> None:
    a, b, c = (builders.tensor(name, (2,)) for name in ("a.b", "a_b", "a/b"))
    term = builders.elementwise("sub", builders.elementwise("sub", a, b), c)
    module = assert_same([term], {"a.b": np.float32([9, 8]), "a_b": np.float32([1, 2]),
                                  "a/b": np.float32([3, 5])})  # fmt: skip
    assert [p.name for p in module["main"].params] == ["a_b_1", "a_b", "a_b_2"]
