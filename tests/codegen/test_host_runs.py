"""Host operators of a program: one session a run, every result at once, constants prepared."""

import ml_dtypes
import numpy as np
import pytest

from glenside.codegen.compile import compile_terms
from glenside.codegen.launch import available_threads
from glenside.codegen.load import load
from glenside.codegen.plan import HostCall
from glenside.errors import GlensideError, TargetError
from glenside.language import builders, evaluate, topological_order
from glenside.language.host import HostSession

X = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")


def leaf(name="x", shape=(2, 3)):
    return builders.tensor(name, shape)


def host(operator, *operands, version=18, shape=None, **options):
    return builders.host_op(
        operator, operands, shape or operands[0].shape, version=version, **options
    )


def compiled(*outputs, **params):
    leaves = [term for term in topological_order(outputs) if term.op == "tensor"]
    inputs = {term["name"]: term.type for term in leaves if term["name"] not in params}
    return compile_terms(outputs, inputs, params)


def host_steps(program):
    return [step for step in program.plan.steps if isinstance(step, HostCall)]


def test_operators_in_a_chain_run_together():
    term = host("Mish", host("Celu", host("Selu", leaf())))
    program = compiled(term)
    (step,) = host_steps(program)
    assert [node.operator for node in step.nodes] == ["Selu", "Celu", "Mish"]
    assert list(step.results) == [node.outputs[0] for node in step.nodes]
    np.testing.assert_allclose(program.run({"x": X})[0], evaluate([term], {"x": X})[0], rtol=1e-6)


def test_operators_side_by_side_run_together_though_kernels_lie_between():
    x = leaf()
    doubled = builders.elementwise("add", x, x)
    terms = [host("Mish", x), builders.elementwise("exp", doubled), host("Celu", x)]
    program = compiled(*terms)
    assert len(host_steps(program)) == 1
    for got, right in zip(program.run({"x": X}), evaluate(terms, {"x": X}), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-6)


def test_a_kernel_between_two_operators_parts_them():
    term = host("Mish", builders.elementwise("exp", host("Celu", leaf())))
    program = compiled(term)
    kinds = [type(step).__name__ for step in program.plan.steps]
    assert kinds == ["HostCall", "KernelCall", "HostCall"]
    np.testing.assert_allclose(program.run({"x": X})[0], evaluate([term], {"x": X})[0], rtol=1e-6)


def test_an_operand_that_lies_otherwise_parts_them():
    term = host("Mish", builders.transpose(host("Celu", leaf()), (1, 0)))
    program = compiled(term)
    assert len(host_steps(program)) == 2
    np.testing.assert_allclose(program.run({"x": X})[0], evaluate([term], {"x": X})[0], rtol=1e-6)


def test_all_results_of_an_operator_come_of_one_run(monkeypatch):
    k = builders.tensor("k", (1,), "int64")
    options = {"version": 11, "shape": (2, 2)}
    values = host("TopK", leaf(), k, **options)
    places = host("TopK", leaf(), k, dtype="int64", output=1, **options)
    program = compiled(places, values, k=np.array([2]))
    (step,) = host_steps(program)
    (node,) = step.nodes
    assert len(step.results) == len(node.outputs) == 2
    runs = []
    run = HostSession.run
    monkeypatch.setattr(HostSession, "run", lambda s, given: runs.append(given) or run(s, given))
    got_places, got_values = program.run({"x": X})
    np.testing.assert_array_equal(got_places, np.argsort(-X, 1)[:, :2])
    np.testing.assert_array_equal(got_values, -np.sort(-X, 1)[:, :2])
    (given,) = runs
    assert len(given) == 1, "the parameter k is part of the session"


def test_values_of_different_opsets_run_apart():
    term = host("Celu", host("Celu", leaf(), version=12), version=18)
    assert len(host_steps(compiled(term))) == 2


def test_bfloat16_goes_in_and_out():
    x = builders.tensor("x", (2, 3), "bfloat16")
    term = builders.host_op("Identity", [x], (2, 3), "bfloat16", version=14)
    given = X.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(compiled(term).run({"x": given})[0], given)


def test_a_saved_program_has_its_runs(tmp_path):
    program = compiled(host("Mish", host("Celu", leaf())))
    program.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.plan.steps == program.plan.steps
    np.testing.assert_array_equal(loaded.run({"x": X})[0], program.run({"x": X})[0])


def test_threads_sleep_between_runs(monkeypatch):
    import onnxruntime

    made = []
    session = onnxruntime.InferenceSession
    monkeypatch.setattr(
        onnxruntime, "InferenceSession",
        lambda model, options, **more: made.append(options) or session(model, options, **more),
    )  # fmt: skip
    compiled(host("Elu", leaf(shape=(5, 7))))
    (options,) = made
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.intra_op_num_threads == available_threads()


def test_what_onnxruntime_refuses_is_named():
    with pytest.raises(TargetError, match="onnxruntime refuses the host operators Nonsense"):
        compiled(host("Nonsense", leaf()))


def test_a_result_of_another_shape_is_named():
    program = compiled(host("Mish", leaf(), shape=(3, 2)))
    with pytest.raises(GlensideError, match=r"Mish: declared as float32 of shape \(3, 2\)"):
        program.run({"x": X})
