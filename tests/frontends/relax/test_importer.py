"""Parameters, shapes, functions, names and errors of Relax modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, script

from glenside.errors import ModelError, UnsupportedOperator
from glenside.frontends.relax import import_relax
from glenside.language import Model, evaluate

Array = np.ndarray[Any, Any]


def module_of(body: str) -> tvm.IRModule:
    """A module from TVMScript; ``TENSOR(2, 3))`` stands for a float32 tensor of that shape."""
    text = body.replace("TENSOR(", 'R.Tensor(dtype="float32", shape=(')
    indented = "\n".join("    " + line for line in text.strip().splitlines())
    module = script.from_source(f"@I.ir_module\nclass Module:\n{indented}\n")
    assert isinstance(module, tvm.IRModule)
    return module


def run(model: Model, **inputs: Array) -> list[Array]:
    return evaluate(model.roots, {**model.params, **inputs})


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


WEIGHTED = """
@R.function
def main(x: TENSOR(2, 3)), w: TENSOR(3,)), s: TENSOR())):
    R.func_attr({"num_input": 1})
    y = R.multiply(x, w)
    z = R.add(y, s)
    return z
"""


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


def test_a_constant_used_twice_is_one_parameter() -> None:
    shared = relax.const(normal(3))
    x = relax.Var("x", relax.TensorType((3,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        y = builder.emit(relax.op.add(x, shared))
        builder.emit_func_output(builder.emit(relax.op.multiply(y, shared)))
    model = import_relax(builder.get())
    assert len(model.params) == 1
    np.testing.assert_allclose(run(model, x=normal(3))[0], 2 * normal(3) ** 2, rtol=1e-6)


def test_parameters_are_inputs_weights_or_seeded() -> None:
    module = module_of(WEIGHTED)
    given = import_relax(module, params={"w": normal(3)}, seed=1)
    assert list(given.inputs) == ["x"]
    np.testing.assert_array_equal(given.params["w"], normal(3))
    again = import_relax(module, params={"w": normal(3)}, seed=1)
    np.testing.assert_array_equal(given.params["s"], again.params["s"])
    main = module["main"]
    plain = import_relax(tvm.IRModule({"main": main.without_attr("num_input")}))
    assert list(plain.inputs) == ["x", "w", "s"] and not plain.params
    held = [tvm.runtime.tensor(normal(3)), tvm.runtime.tensor(normal())]
    model = import_relax(tvm.IRModule({"main": main.with_attr("params", held)}))
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
        import_relax(module_of(WEIGHTED), **options)


DYNAMIC = """
@R.function
def main(x: TENSOR("n", 3, "m")), y: TENSOR("n", "3 * m"))):
    n = T.int64()
    m = T.int64()
    flat = R.reshape(x, R.shape([n, 3 * m]))
    z = R.add(flat, y)
    return z
"""


def test_symbolic_lengths_are_given_by_shapes() -> None:
    module = module_of(DYNAMIC)
    model = import_relax(module, shapes={"x": (2, 3, 4)})
    assert model.inputs["y"].shape == (2, 12)
    (got,) = run(model, x=normal(2, 3, 4), y=normal(2, 12))
    np.testing.assert_allclose(got, normal(2, 3, 4).reshape(2, 12) + normal(2, 12))
    with pytest.raises(ModelError, match=r"'x' is .* give its shape with shapes={'x': "):
        import_relax(module)
    with pytest.raises(ModelError, match="'y'"):
        import_relax(module, shapes={"x": (2, 3, 4), "y": (2, 13)})


def test_unknown_rank_is_given_by_shapes() -> None:
    x = relax.Var("x", relax.TensorType(dtype="float32", ndim=-1))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.exp(x)))
    with pytest.raises(ModelError, match="give its shape"):
        import_relax(builder.get())
    assert import_relax(builder.get(), shapes={"x": ()}).outputs["out0"].shape == ()


def test_functions_closures_and_tuples() -> None:
    model = import_relax(
        module_of("""
@R.function
def main(x: TENSOR(2, 3)), t: R.Tuple(TENSOR(3,)), R.Tuple(TENSOR(3,))))):
    with R.dataflow():
        a = t[0]
        b = Module.scale(x, a)
        c = t[1]
        d = c[0]
        narrow = R.strided_slice(b, axes=[0], begin=[0], end=[1])
        e = Module.scale(narrow, d)
        f = (e, (b,))
        R.output(f)
    return f
@R.function(private=True)
def scale(x: TENSOR("k", 3)), w: TENSOR(3,))) -> TENSOR("k", 3)):
    k = T.int64()
    @R.function
    def inner(p: TENSOR(3,))) -> TENSOR(3,)):
        q = R.add(p, w)
        return q
    v = inner(w)
    y = R.multiply(x, v)
    r = R.broadcast_to(y, R.shape([k, 3]))
    return r
""")
    )
    assert list(model.inputs) == ["x", "t.0", "t.1.0"]
    x, a, d = normal(2, 3), normal(3), normal(4)[1:]
    narrow, wide = run(model, x=x, **{"t.0": a, "t.1.0": d})
    np.testing.assert_allclose(wide, x * (a + a), rtol=1e-6)
    np.testing.assert_allclose(narrow, (x * (a + a))[:1] * (d + d), rtol=1e-6)
    assert "scale/inner/q" in model.names.values()


def test_match_cast_and_shape_arithmetic() -> None:
    model = import_relax(
        module_of("""
@R.function
def main(x: TENSOR(2, 6))):
    k = T.int64()
    half = T.int64()
    y = R.match_cast(x, TENSOR(k, 6)))
    s = R.shape_to_tensor(R.shape_of(y))
    rev = R.flip(s, axis=0)
    shape = R.tensor_to_shape(rev)
    m = R.match_cast(shape, R.Shape([half, k]))
    z = R.reshape(y, R.shape([half, k]))
    return z
""")
    )
    np.testing.assert_array_equal(run(model, x=normal(2, 6))[0], normal(2, 6).reshape(6, 2))
    assert not model.params


def test_everything_unsupported_is_listed_at_once() -> None:
    with pytest.raises(UnsupportedOperator) as caught:
        import_relax(
            module_of("""
@R.function
def main(x: TENSOR(4, 6))):
    a = R.atan2(x, x)
    b = R.add(a, x)
    c = R.nn.batch_norm(x, R.const([1.0] * 6), R.const([1.0] * 6), R.const([1.0] * 6),
                        R.const([1.0] * 6), axis=1, training=True)
    d = R.nonzero(b)
    e = R.unique(x)
    return (c, d, e)
""")
        )
    assert [(n.node, n.operator) for n in caught.value.nodes] == [
        ("a", "atan2"),
        ("c", "nn.batch_norm"),
        ("d", "nonzero"),
        ("e", "unique"),
    ]
    assert "training" in str(caught.value)


def test_what_the_result_does_not_need_may_be_unsupported() -> None:
    model = import_relax(
        module_of("""
@R.function
def main(x: TENSOR(4, 6))):
    a = R.nonzero(x)
    b = R.add(a, a)
    return (x, R.nn.relu(x))
""")
    )
    assert len(model.outputs) == 2


def test_tir_functions_are_unsupported() -> None:
    with pytest.raises(UnsupportedOperator, match=r"'y' \(call_tir\)"):
        import_relax(
            module_of("""
@T.prim_func(private=True, s_tir=True)
def kernel(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("b"):
            v = T.axis.spatial(4, i)
            b[v] = a[v]
@R.function
def main(x: TENSOR(4,))):
    y = R.call_tir(Module.kernel, (x,), out_ty=TENSOR(4,)))
    return y
""")
        )


def test_recursion_is_an_error() -> None:
    with pytest.raises(ModelError, match="deep"):
        import_relax(
            module_of("""
@R.function
def main(x: TENSOR(4,))) -> TENSOR(4,)):
    y: TENSOR(4,)) = Module.main(x)
    return y
""")
        )


def test_a_stated_type_that_is_wrong_is_an_error() -> None:
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    y = relax.Var("y", relax.TensorType((5,), "float32"))
    block = relax.BindingBlock([relax.VarBinding(y, relax.op.exp(x))])
    main = relax.Function([x], relax.SeqExpr([block], y), y.ty).with_attr("global_symbol", "main")
    with pytest.raises(ModelError, match=r"y: is stated to be .*but is float32 of shape \(4,\)"):
        import_relax(tvm.IRModule({"main": main}))


def test_the_only_function_is_taken_and_none_is_an_error() -> None:
    body = "@R.function\ndef forward(x: TENSOR(4,))):\n    y = R.exp(x)\n    return y"
    assert import_relax(module_of(body)).name == "forward"
    with pytest.raises(ModelError, match="must have a Relax function main; there are: none"):
        import_relax(tvm.IRModule())


def test_long_chains_and_progress() -> None:
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        y = x
        for _ in range(3000):
            y = builder.emit(relax.op.tanh(y))
        builder.emit_func_output(y)
    seen: list[tuple[int, int]] = []
    model = import_relax(builder.get(), progress=lambda done, total: seen.append((done, total)))
    assert model.operators == {"tanh": 3000}
    assert seen[0] == (1, 3000) and seen[-1] == (3000, 3000)
