"""Whatever the user has becomes a model."""

import numpy as np
import onnx
import onnx.parser
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


def test_what_is_bound_is_known_while_importing():
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        view (float[2,6] x, int64[k] s, float[n] unused) => (float[a,b] y) { y = Reshape(x, s) }""")
    with pytest.raises(ModelError, match="'s'"):
        load_model(proto, shapes={"s": (2,), "unused": (1,)})
    params = {"s": np.array([-1, 4]), "unused": np.ones(3, "float32")}
    model = load_model(proto, params=params)
    assert list(model.inputs) == ["x"] and not model.params
    assert model.roots[0].shape == (3, 4)
    with pytest.raises(InputError, match=r"'s' is int64 of shape \(3,\), got int64 of shape"):
        load_model(proto, params=params, shapes={"s": (3,)})


def test_relay_of_a_lone_function():
    text = "fn (%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) { nn.dense(%x, %w) }"
    model = load_model(text, params={"w": np.ones((4, 3), "float32")})
    assert list(model.inputs) == ["x"] and model.roots[0].shape == (2, 4)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"zz": np.ones(3, "float32")}, "'zz'.*the inputs of two_outputs are 'a', 'b'"),
        ({"b": np.ones(4, "float32")}, r"params: 'b' is float32 of shape \(3,\), got .*\(4,\)"),
        ({"b": np.ones(3)}, "params: 'b' is float32 .*got float64"),
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


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "the path of the model is empty"),
        ("n" * 300, r"cannot read the model 'n+\.\.\.n+': File name too long"),
        ("(compute relu\0x)", "cannot read the model .*null"),
        ("/dev/null", "/dev/null is a pipe or a device; a model is a file"),
        ("/proc/self/mem", "cannot read the model '/proc/self/mem': Input/output error"),
        ("loop", "cannot read the model 'loop': Too many levels of symbolic links"),
        ("loop/model.relay", "cannot read the model .*: Too many levels of symbolic links"),
        ("missing.relay", "missing.relay: no such file"),
        (".", "is a directory"),
    ],
)
def test_a_path_that_cannot_be_read_is_said_to_be_so(path, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ModelError, match=said):
        load_model(path)
