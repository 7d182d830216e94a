"""Whatever the user has becomes a model."""

import numpy as np
import pytest

from glenside.errors import InputError, ModelError
from glenside.frontends import load_model
from glenside.language import builders as b
from glenside.language import evaluate
from tests.models import small_network, two_outputs

RELAY = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
  nn.dense(%x, %w, units=None)
}
"""


def test_an_onnx_model_as_path_proto_or_bytes(tmp_path):
    proto = two_outputs()
    path = tmp_path / "two.onnx"
    path.write_bytes(proto.SerializeToString())
    models = [load_model(each) for each in (path, str(path), proto, proto.SerializeToString())]
    assert all(list(m.outputs.values()) == list(models[0].outputs.values()) for m in models)


def test_relay_as_text_and_as_a_file_of_any_name(tmp_path):
    (tmp_path / "net.relay").write_text(RELAY)
    (tmp_path / "net.txt").write_text(RELAY)
    weights = np.ones((4, 3), "float32")
    for source in (RELAY, tmp_path / "net.relay", str(tmp_path / "net.txt")):
        model = load_model(source, params={"w": weights})
        assert list(model.inputs) == ["x"]
        x = np.arange(6, dtype="float32").reshape(2, 3)
        (got,) = evaluate(model.roots, {"x": x, **model.params})
        np.testing.assert_array_equal(got, x @ weights.T)


def test_a_term_whose_tensors_are_inputs_unless_params_names_them():
    x, w = b.tensor("x", (2,)), b.tensor("w", (2,))
    model = load_model(b.elementwise("add", x, w), params={"w": np.ones(2, "float32")})
    assert list(model.inputs) == ["x"] and list(model.params) == ["w"]


def test_an_input_of_an_onnx_model_can_be_bound():
    model = load_model(two_outputs(), params={"b": np.ones(3, "float32")})
    assert list(model.inputs) == ["a"] and list(model.params) == ["b"]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"zz": np.ones(3, "float32")}, "'zz'.*the inputs of two_outputs are 'a', 'b'"),
        ({"b": np.ones(4, "float32")}, "parameter 'b'"),
        ({"b": np.ones(3)}, "parameter 'b'"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(params, said):
    with pytest.raises(InputError, match=said):
        load_model(two_outputs(), params=params)


def test_a_name_used_for_two_tensors_is_refused():
    two = b.concat(0, b.tensor("x", (2,)), b.tensor("x", (3,)))
    with pytest.raises(InputError, match="'x' is used as"):
        load_model(two)


@pytest.mark.parametrize("nothing", [None, 3, [small_network()], {"model": 1}])
def test_anything_else_is_refused(nothing):
    with pytest.raises(ModelError, match="a model is a path"):
        load_model(nothing)
