"""Parameters, shapes, functions, names and errors of Relax modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm
from glenside.errors import ModelError, UnsupportedOperator
from glenside.frontends.relax import import_relax
from glenside.language import Model, evaluate
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

Array = np.ndarray[Any, Any]


def run(model: Model, **inputs: Array) -> list[Array]:
    return evaluate(model.roots, {**model.params, **inputs})


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def module_of(*functions: relax.Function) -> tvm.IRModule:
    return tvm.IRModule({tvm.ir.GlobalVar(f.attrs["global_symbol"]): f for f in functions})


def test_constants_and_names() -> None:
    weights = normal(4, 3)
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        y = builder.emit(relax.op.matmul(x, relax.op.permute_dims(relax.const(weights))), "y")
        z = builder.emit(relax.op.add(y, relax.const(1.0)), "z")
        builder.emit_func_output(z)
    model = import_relax(builder.get())
    assert list(model.inputs) == ["x"]
    ((name, array),) = model.params.items()
    assert name.endswith(".x") and array.shape == (4, 3)
    assert model.names[model.outputs["out0"]] == "z"
    assert model.operators == {"matmul": 1, "add": 1}
    (got,) = run(model, x=normal(2, 3))
    np.testing.assert_allclose(got, normal(2, 3) @ weights.T + 1, rtol=1e-5)


@R.function
def weighted(
    x: R.Tensor((2, 3), "float32"), w: R.Tensor((3,), "float32"), s: R.Tensor((), "float32")
) -> R.Tensor((2, 3), "float32"):
    R.func_attr({"global_symbol": "main", "num_input": 1})
    y = R.multiply(x, w)
    return R.add(y, s)


def test_parameters_are_inputs_weights_or_seeded() -> None:
    plain = import_relax(module_of(weighted.without_attr("num_input")))
    assert list(plain.inputs) == ["x", "w", "s"] and not plain.params
    given = import_relax(module_of(weighted), params={"w": normal(3)}, seed=1)
    assert list(given.inputs) == ["x"]
    np.testing.assert_array_equal(given.params["w"], normal(3))
    again = import_relax(module_of(weighted), params={"w": normal(3)}, seed=1)
    np.testing.assert_array_equal(given.params["s"], again.params["s"])
    held = weighted.with_attr("params", [tvm.runtime.tensor(normal(3)), tvm.runtime.tensor(normal())])
    model = import_relax(module_of(held))
    (got,) = run(model, x=normal(2, 3))
    np.testing.assert_allclose(got, normal(2, 3) * normal(3) + normal(), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"params": {"v": np.zeros(3, "float32")}}, "no parameter v"),
        ({"params": {"w": np.zeros(4, "float32")}}, "'w'.*shape .4,."),
        ({"params": {"w": np.zeros(3)}}, "'w' is float32, got float64"),
        ({"shapes": {"y": (2, 3)}}, "no parameter y"),
        ({"shapes": {"x": (2, 4)}}, "'x'.*shape .2, 4."),
        ({"shapes": {"x": (6,)}}, "'x'.*shape .6,."),
    ],
)
def test_what_does_not_fit_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        import_relax(module_of(weighted), **options)


@I.ir_module
class Dynamic:
    @R.function
    def main(
        x: R.Tensor(("n", 3, "m"), "float32"), y: R.Tensor(("n", "3 * m"), "float32")
    ) -> R.Tensor(("n", "3 * m"), "float32"):
        n = T_int64()
        m = T_int64()
        flat = R.reshape(x, R.shape([n, 3 * m]))
        return R.add(flat, y)


def T_int64() -> Any:
    return None
