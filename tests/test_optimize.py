"""The main job, end to end."""

import numpy as np
import onnx
import pytest

import glenside
from glenside.errors import CheckFailed, InputError, ModelError, TargetError
from glenside.hw_targets import find_target
from glenside.language import builders as b
from tests.models import LIGHT, onnxruntime_answers, small_network, two_outputs

IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")


@pytest.mark.parametrize("target", ["cpu", "systolic-array:16x16", "systolic-array:3x5"])
def test_a_small_network_computes_what_onnxruntime_computes(target):
    model = small_network()
    program = glenside.optimize(model, target)
    (expected,) = onnxruntime_answers(model, image=IMAGE)
    np.testing.assert_allclose(program(IMAGE), expected, rtol=1e-4, atol=1e-5)
    assert program.report.max_rel_error < 1e-4
    assert program.report.stop_reason == "saturated"
    assert program.report.operators == 5


def test_convolution_and_gemm_are_offloaded_grouped_ones_included():
    report = glenside.optimize(small_network(), "systolic-array:16x16").report
    assert report.offloads == {"systolic-array": 2}
    assert report.cost_after < report.cost_before


def test_the_cpu_target_makes_no_calls():
    assert glenside.optimize(small_network(), "cpu").report.offloads == {}


def test_without_the_exploratory_rule_nothing_is_offloaded():
    target = find_target("systolic-array:16x16")
    im2col, *others = target.rules()
    rules = [im2col.without("reshape-out-of-dot"), *others]
    report = glenside.optimize(small_network(), target, rules=rules).report
    # The Gemm is in matrix form as imported; the convolution is not.
    assert report.offloads == {"systolic-array": 1}


def test_models_are_paths_protos_and_terms(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(small_network(), str(path))
    by_path = glenside.optimize(path)
    by_text = glenside.optimize(str(path))
    by_proto = glenside.optimize(small_network())
    assert by_path.text == by_text.text == by_proto.text

    x = b.tensor("x", (3, 4))
    double = glenside.optimize(b.elementwise("add", x, x))
    np.testing.assert_array_equal(double(np.ones((3, 4), "float32")), np.full((3, 4), 2.0))


def test_parameters_of_a_term_are_given_by_name():
    x, w = b.tensor("x", (3, 4)), b.tensor("w", (5, 4))
    term = b.compute("dot", b.cart_prod(b.access(x, 1), b.access(w, 1)))
    weights = np.arange(20, dtype="float32").reshape(5, 4)
    program = glenside.optimize(term, params={"w": weights})
    assert list(program.inputs) == ["x"]
    got = program(np.eye(3, 4, dtype="float32"))
    np.testing.assert_array_equal(got, weights.T[:3])


def test_the_same_input_gives_the_same_program():
    first, second = (glenside.optimize(small_network(), "systolic-array:16x16") for _ in range(2))
    assert first.text == second.text


@pytest.mark.parametrize("limit", [{"node_limit": 1}, {"iter_limit": 0}, {"time_limit": 0.0}])
def test_on_a_limit_the_program_is_valid_and_no_worse(limit):
    program = glenside.optimize(small_network(), "systolic-array:16x16", **limit)
    (name,) = limit
    assert program.report.stop_reason == name
    assert program.report.cost_after <= program.report.cost_before
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    np.testing.assert_allclose(program(IMAGE), expected, rtol=1e-4, atol=1e-5)


def test_a_dynamic_batch_is_fixed_by_shapes():
    program = glenside.optimize(small_network("n"), shapes={"image": (3, 4, 9, 7)})
    images = np.random.default_rng(1).standard_normal((3, 4, 9, 7)).astype("float32")
    (expected,) = onnxruntime_answers(small_network("n"), image=images)
    np.testing.assert_allclose(program(images), expected, rtol=1e-4, atol=1e-5)


def test_a_dynamic_batch_without_shapes_is_asked_for():
    with pytest.raises(ModelError, match=r"shapes=.*image"):
        glenside.optimize(small_network("n"))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("cpux", "did you mean 'cpu'"),
        ("systolic-array", "systolic-array:RxC"),
        ("systolic-array:0x4", "systolic-array:RxC"),
        ("systolic-array:16", "systolic-array:RxC"),
        ("", "unknown target"),
    ],
)
def test_an_unknown_target_is_refused_with_what_would_be_accepted(target, said):
    with pytest.raises(TargetError, match=said):
        glenside.optimize(small_network(), target)


def test_something_that_is_no_model_is_refused():
    with pytest.raises(ModelError, match="a model is a path"):
        glenside.optimize(42)


def test_a_wrong_kernel_is_caught_and_the_first_wrong_node_named(monkeypatch):
    from glenside.language.units import Unit, find_unit, register_unit

    right = find_unit("systolic-array")

    def off_by_a_bit(parameters, arrays):
        return right.simulate(parameters, arrays) * np.float32(1.01)

    register_unit(Unit(right.name, right.meaning, off_by_a_bit, right.array))
    try:
        with pytest.raises(CheckFailed, match=r"scores.*differs from NumPy.*first"):
            glenside.optimize(small_network(), "systolic-array:16x16")
    finally:
        register_unit(right)


def test_several_outputs_come_as_a_tuple():
    program = glenside.optimize(two_outputs())
    a, c = np.arange(6, dtype="float32").reshape(2, 3), np.array([1, 2, 3], "float32")
    total, product = program(a, c)
    np.testing.assert_array_equal(total, a + c)
    np.testing.assert_array_equal(product, a * c)


def test_inputs_go_in_by_position_keyword_or_mapping():
    program = glenside.optimize(two_outputs())
    a, c = np.ones((2, 3), "float32"), np.full(3, 2.0, "float32")
    for total, _ in (program(a, c), program(a=a, b=c), program(a, b=c), program({"a": a, "b": c})):
        np.testing.assert_array_equal(total, np.full((2, 3), 3.0))


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "'a' is missing, 'b' is missing"),
        ((np.ones((2, 3), "float32"),), {}, "'b' is missing"),
        ((np.ones((2, 3)), np.ones(3, "float32")), {}, "'a' must be float32 of shape .2, 3."),
        ((np.ones((3, 2), "float32"), np.ones(3, "float32")), {}, "got float32 of shape .3, 2."),
        ((1, 2, 3), {}, "got 3 arrays"),
        ((np.ones((2, 3), "float32"),), {"a": 1}, "given twice"),
        ((), {"z": 1}, "'z' is not one of them"),
    ],
)
def test_wrong_inputs_are_refused_by_name(args, kwargs, said):
    program = glenside.optimize(two_outputs())
    with pytest.raises(InputError, match=said):
        program(*args, **kwargs)


def test_squeezenet_is_wholly_offloaded_and_right():
    program = glenside.optimize(LIGHT / "light_squeezenet.onnx", "systolic-array:16x16")
    assert program.report.offloads == {"systolic-array": 26}
    assert program.report.stop_reason == "saturated"
    shape = program.inputs["data_0"].shape
    x = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype("float32")
    expected = onnx.numpy_helper.to_array(
        onnx.load_tensor(str(LIGHT / "light_squeezenet_output_0.pb"))
    )
    np.testing.assert_allclose(program(x), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "limit",
    [
        {"node_limit": -1},
        {"node_limit": 1.5},
        {"iter_limit": "a"},
        {"time_limit": float("nan")},
        {"ilp_limit": -1},
    ],
)
def test_limits_that_mean_nothing_are_refused(limit):
    with pytest.raises(InputError, match=next(iter(limit))):
        glenside.optimize(two_outputs(), **limit)


def test_what_is_no_target_or_no_rule_is_refused():
    with pytest.raises(TargetError, match="a name or a Target"):
        glenside.optimize(two_outputs(), target=3)
    with pytest.raises(glenside.GlensideError, match="neither a rule nor a rule set"):
        glenside.optimize(two_outputs(), rules=[3])


def test_the_check_draws_positions_that_exist():
    table, k = b.tensor("table", (3, 2)), b.tensor("k", (5,), "int64")
    program = glenside.optimize(b.gather(table, k, 0))
    assert program.report.max_rel_error == 0


@pytest.mark.parametrize("channels", [64, 128, 1024])
def test_a_bias_and_a_pool_after_an_offloaded_convolution(channels):
    x = b.tensor("x", (1, channels, 7, 7))
    w, bias = b.tensor("w", (channels, channels)), b.tensor("b", (1, channels, 1, 1))
    pixels = b.access(b.transpose(x, (0, 2, 3, 1)), 3)
    product = b.compute("dot", b.cart_prod(b.access(w, 1), pixels))
    convolved = b.elementwise("add", b.transpose(product, (1, 0, 2, 3)), bias)
    pooled = b.compute("mean", b.access(convolved, 2))
    report = glenside.optimize(pooled, "systolic-array:3x5").report
    assert report.offloads == {"systolic-array": 1} and report.max_rel_error < 1e-5


def test_the_source_is_the_same_in_every_run():
    program = glenside.optimize(small_network(), check=False)
    assert program.source == glenside.optimize(small_network(), check=False).source
    assert '"0x' not in program.source
