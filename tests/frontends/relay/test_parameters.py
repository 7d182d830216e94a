"""Which parameters are inputs, where weights come from, and lengths that the text leaves open."""

import numpy as np
import pytest

from glenside.errors import ModelError
from glenside.frontends.relay import import_relay, seeded_arrays
from glenside.language import evaluate

TEXT = """def @main(%first: Tensor[(2, 3), float32], %input_1: Tensor[(3), float32],
  %inputs: float32, %image2: float32, %database: float32, %w: Tensor[(4, 3), float32],
  %gamma: Tensor[(4), float32], %state: (float32, int64), %unused: float32) {
  %0 = nn.dense(add(%first, %input_1), %w);
  (multiply(%0, %gamma), add(%database, add(%inputs, %image2)), %state)
}"""


def test_inputs_are_the_first_parameter_data_and_tuples():
    model = import_relay(TEXT)
    assert list(model.inputs) == ["first", "input_1", "inputs", "image2", "state.0", "state.1"]
    assert list(model.params) == ["database", "w", "gamma"]
    assert list(model.outputs) == ["out0", "out1", "out2", "out3"]


def test_operators_that_compute_something_from_an_input_are_counted():
    assert import_relay(TEXT).operators == {"add": 3, "nn.dense": 1, "multiply": 1}
    weights = import_relay(
        "def @main(%x: Tensor[(2), float32], %w: Tensor[(4), float32]) "
        "{ add(%x, split(tanh(%w), indices_or_sections=2).0) }"
    )
    assert weights.operators == {"add": 1}


def test_names_are_those_of_the_text():
    model = import_relay(TEXT)
    assert "%0" in model.names.values()
    named = {name: term for term, name in model.names.items()}
    assert named["%0"].shape == (2, 4)


def test_given_arrays_are_used_and_the_rest_is_seeded():
    w = np.arange(12, dtype="float32").reshape(4, 3)
    model = import_relay(TEXT, params={"w": w, "inputs": np.float32(2)}, seed=3)
    assert model.params["w"] is w
    assert "inputs" not in model.inputs and model.params["inputs"] == 2
    np.testing.assert_array_equal(model.params["gamma"], seeded_arrays(TEXT, seed=3)["gamma"])
    assert (model.params["gamma"] != import_relay(TEXT).params["gamma"]).any()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"v": np.zeros(2)}, "the model has no parameter 'v'"),
        ({"w": np.zeros((4, 3))}, "'w' is float32 of shape .4, 3., got float64 of shape .4, 3."),
        ({"w": np.zeros((3, 4), "float32")}, "'w' is float32 of shape .4, 3., got float32 of"),
    ],
)
def test_given_arrays_must_fit(params, message):
    with pytest.raises(ModelError, match=message):
        import_relay(TEXT, params=params)


def test_the_recipe():
    text = """def @main(
      %x: Tensor[(100), float16], %ids: Tensor[(99), int8], %Data_2: Tensor[(9, 9), float32],
      %a_max: float32, %a_min: float32, %s: float32, %my_var: Tensor[(1, 99), float32],
      %b: Tensor[(99, 1), float32], %k: Tensor[(8, 4, 3, 3), float32],
      %hwio: Tensor[(3, 3, 16, 8), float32]) { %x }"""
    arrays = seeded_arrays(text, seed=5)

    def rng(position):
        return np.random.default_rng([5, position])

    wanted = [
        rng(0).standard_normal(100),
        rng(1).integers(0, 10, 99),
        rng(2).standard_normal((9, 9)),
        6.0,
        0.0,
        rng(5).standard_normal(),
        rng(6).uniform(0.5, 1.5, (1, 99)),
        0.1 * rng(7).standard_normal((99, 1)),
        rng(8).standard_normal((8, 4, 3, 3)) / np.sqrt(36),
        rng(9).standard_normal((3, 3, 16, 8)) / np.sqrt(144),
    ]
    for array, value in zip(arrays.values(), wanted, strict=True):
        np.testing.assert_array_equal(array, np.asarray(value).astype(array.dtype))


OPEN = (
    "def @main(%data: Tensor[(?, 3), float32], %w: Tensor[(4, 3), float32]) { nn.dense(%data, %w) }"
)


def test_unknown_lengths_are_asked_for_in_one_sentence_and_never_guessed():
    with pytest.raises(ModelError, match=r"give its shape with shapes=\{'data': \(\.\.\.\)\}") as e:
        import_relay(OPEN)
    assert "Tensor[(?, 3), float32]" in str(e.value)


def test_shapes_settle_unknown_lengths():
    model = import_relay(OPEN, shapes={"data": (5, 3)})
    assert model.inputs["data"].shape == (5, 3)
    assert model.roots[0].shape == (5, 4)
    assert seeded_arrays(OPEN, shapes={"data": (5, 3)})["data"].shape == (5, 3)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"data": (5, 4)}, "which shapes gives as .5, 4."),
        ({"data": (5,)}, "which shapes gives as"),
        ({"data": (-1, 3)}, "must not be negative"),
        ({"data": (2.5, 3)}, "must be an integer"),
        ({"data": (5, 3), "nobody": (1,)}, "no parameter nobody"),
    ],
)
def test_shapes_must_fit(shapes, message):
    with pytest.raises(ModelError, match=message):
        import_relay(OPEN, shapes=shapes)


def test_a_weight_too_large_to_draw_is_asked_for():
    text = "def @main(%x: float32, %w: Tensor[(99999999, 99999999), float32]) { add(%x, %w) }"
    with pytest.raises(ModelError, match="give it with params="):
        import_relay(text)
    huge = np.broadcast_to(np.float32(1), (99999999, 99999999))
    assert import_relay(text, params={"w": huge}).params["w"] is huge


def test_progress_counts_the_bindings():
    seen = []
    import_relay(TEXT, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_a_parameter_may_be_the_result():
    model = import_relay("def @main(%x: float32) { %x }")
    assert evaluate(model.roots, {"x": np.float32(3)}) == [3]
