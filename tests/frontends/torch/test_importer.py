"""What is read of an ExportedProgram beside its operators: names, weights, structure, refusals."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test-torch)")

from torch import nn  # noqa: E402

import glenside  # noqa: E402
from glenside.errors import ModelError, UnsupportedOperator  # noqa: E402
from glenside.frontends import load_model  # noqa: E402
from glenside.language import evaluate  # noqa: E402


class Tied(nn.Module):
    """An embedding whose table is the last layer's too, and a buffer."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)
        self.head = nn.Linear(4, 9, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("shift", torch.arange(9.0))

    def forward(self, ids, scale=None):
        logits = self.head(self.table(ids)) + self.shift
        return {"logits": logits if scale is None else logits * scale, "none": None, "n": 3}


class States(nn.Module):
    def forward(self, x, state, more):
        return x + state[0] * state[1], (more["a"], [more["b"] * 2])


IDS = torch.tensor([[1, 8, 0]])


def test_parameters_keep_their_names_and_share_their_memory():
    module = Tied()
    model = load_model(module, example_inputs=(IDS,))
    assert model.params.keys() == {"table.weight", "shift"}  # The tied weight is held once.
    assert np.shares_memory(model.params["table.weight"], module.table.weight.detach().numpy())
    assert np.shares_memory(model.params["shift"], module.shift.numpy())


def test_outputs_are_called_as_the_module_calls_them_and_what_is_no_tensor_is_left_out():
    model = load_model(Tied(), example_inputs=(IDS,))
    assert list(model.outputs) == ["logits"]


def test_inputs_by_keyword_keep_their_names():
    inputs = {"ids": IDS, "scale": torch.tensor([2.0])}
    module = Tied()
    model = load_model(module, example_inputs=inputs)
    assert list(model.inputs) == ["ids", "scale"]
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    (got,) = evaluate(model.roots, {**model.params, **arrays})
    np.testing.assert_allclose(got, module(**inputs)["logits"].detach().numpy(), rtol=1e-5)


def test_parts_of_tuples_and_mappings_are_inputs_of_their_own():
    a, b, c, d, e = (torch.full((2,), float(i)) for i in range(5))
    model = load_model(States(), example_inputs=(a, (b, c), {"a": d, "b": e}))
    assert list(model.inputs) == ["x", "state.0", "state.1", "more.a", "more.b"]
    arrays = dict(zip(model.inputs, (t.numpy() for t in (a, b, c, d, e)), strict=True))
    assert [list(each) for each in evaluate(model.roots, arrays)] == [[2, 2], [3, 3], [8, 8]]
    assert list(model.outputs) == ["out0", "out1", "out2"]


def test_an_exported_program_needs_no_examples():
    module = nn.Linear(3, 2)
    program = torch.export.export(module, (torch.randn(4, 3),))
    x = torch.randn(4, 3)
    got = glenside.optimize(program, "cpu")(x.numpy())
    np.testing.assert_allclose(got, module(x).detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("precise", [torch.float16, torch.bfloat16])
def test_a_program_in_half_precision(precise):
    module = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()).to(precise)
    x = torch.randn(4, 8).to(precise)
    program = glenside.optimize(module, (x,), target="cpu")
    assert {t.dtype for t in program.inputs.values()} == {str(precise).removeprefix("torch.")}
    from glenside.frontends.torch.values import as_array

    got = program(as_array(x, "x")).astype(np.float32)
    right = module(x).detach().float().numpy()
    np.testing.assert_allclose(got, right, atol=0.03 * np.abs(right).max())


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image):
        return self.conv(image).mean((2, 3))


def dynamic():
    batch = torch.export.Dim("batch", min=1, max=64)
    example = torch.randn(2, 3, 8, 8)
    return torch.export.export(Conv(), (example,), dynamic_shapes={"image": {0: batch}})


def test_dynamic_dimensions_are_refused_by_name():
    with pytest.raises(ModelError, match=r"'image' has the dynamic dimension batch \(axis 0"):
        load_model(dynamic())


def test_dynamic_dimensions_become_what_shapes_says():
    program = dynamic()
    model = load_model(program, shapes={"image": (5, 3, 8, 8)})
    assert model.inputs["image"].shape == (5, 3, 8, 8)
    assert "conv.weight" in model.params
    x = torch.randn(5, 3, 8, 8)
    (got,) = evaluate(model.roots, {**model.params, "image": x.numpy()})
    np.testing.assert_allclose(got, program.module()(x).detach().numpy(), atol=1e-5)


def test_examples_fix_the_dynamic_dimensions_of_an_exported_program():
    model = load_model(dynamic(), example_inputs=(torch.randn(7, 3, 8, 8),))
    assert model.inputs["image"].shape == (7, 3, 8, 8)
    with pytest.raises(ModelError, match="the program takes image; got 2 values"):
        load_model(dynamic(), example_inputs=(IDS, IDS))


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ({"picture": (1, 3, 8, 8)}, "no input picture; there are image"),
        ({"image": (1, 4, 8, 8)}, "is of shape"),
        ({"image": (1, 3, 8)}, "is of shape"),
        ({"image": (100, 3, 8, 8)}, "do not fit"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, told):
    with pytest.raises(ModelError, match=told):
        load_model(dynamic(), shapes=shapes)


def refused(function, *inputs):
    class Module(nn.Module):
        def forward(self, *args):
            return function(*args)

    with pytest.raises(UnsupportedOperator) as caught:
        load_model(Module(), example_inputs=inputs)
    return caught.value.nodes[0]


@pytest.mark.parametrize(
    ("function", "operator", "told"),
    [
        (lambda x: x + torch.randn(3), "aten.randn.default", "random numbers"),
        (lambda x: torch.fft.rfft(x).abs(), "aten._fft_r2c.default", "complex"),
        (lambda x: torch.linalg.inv(x), "aten.linalg_inv_ex.default", "factorised"),
        (lambda x: x.as_strided((2, 2), (1, 1)), "aten.as_strided.default", "memory"),
        (lambda x: torch.cdist(x, x), "aten._cdist_forward.default", "sub, mul, sum"),
    ],
)
def test_what_has_no_meaning_is_refused_with_a_reason(function, operator, told):
    node = refused(function, torch.randn(3, 3))
    assert node.operator == operator
    assert told in node.reason


def test_a_refusal_names_the_module_of_the_node():
    class Inner(nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x)

    model = nn.Sequential(nn.Linear(3, 3), Inner())
    with pytest.raises(UnsupportedOperator, match=r"'1/linalg_inv_ex' \(aten\.linalg_inv_ex"):
        load_model(model, example_inputs=(torch.randn(3, 3),))


def test_what_no_output_needs_may_be_anything():
    class Module(nn.Module):
        def forward(self, x):
            torch.linalg.inv(x)
            return x + 1

    assert load_model(Module(), example_inputs=(torch.randn(3, 3),)).outputs


@pytest.mark.parametrize("layer", [nn.BatchNorm2d(3), nn.Dropout(0.5)], ids=repr)
def test_a_module_in_training_mode_is_refused(layer):
    with pytest.raises(ModelError, match=r"call \.eval\(\) on the module"):
        load_model(layer.train(), example_inputs=(torch.randn(2, 3, 4, 4),))


def test_a_buffer_that_changes_is_refused_by_name():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count += 1
            return x + self.count

    with pytest.raises(ModelError, match=r"'count' is changed by a call"):
        load_model(Counter(), example_inputs=(torch.randn(2),))


def test_a_module_needs_examples_and_nothing_else_takes_them():
    with pytest.raises(ModelError, match=r"give example_inputs=\(\.\.\.\)"):
        load_model(nn.Linear(2, 2))
    with pytest.raises(ModelError, match="example_inputs must be a tuple"):
        load_model(nn.Linear(2, 2), example_inputs=3)
    with pytest.raises(ModelError, match="for a PyTorch module; the model is a str"):
        load_model("model.onnx", example_inputs=(IDS,))


def test_what_export_cannot_trace_is_one_line():
    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(ModelError, match=r"torch\.export cannot export Branch: ") as caught:
        load_model(Branch(), example_inputs=(torch.randn(2),))
    assert "\n" not in str(caught.value)


def test_complex_inputs_and_empty_parameters_are_refused_by_name():
    with pytest.raises(ModelError, match="input 'x': dtype complex64 is not supported"):
        load_model(States(), example_inputs=(torch.randn(2, dtype=torch.complex64), (torch.ones(2), torch.ones(2)), {"a": IDS, "b": IDS}))  # fmt: skip  # noqa: E501
    with torch.device("meta"):
        module = nn.Linear(2, 2)
    with pytest.raises(ModelError, match="'weight' is on the device meta"):
        load_model(module, example_inputs=(torch.randn(2, 2, device="meta"),))


def test_the_same_module_gives_the_same_program():
    texts = set()
    for _ in range(2):
        torch.manual_seed(0)
        model = load_model(Tied(), example_inputs=(IDS,))
        texts.add(str(model.roots[0]))
    assert len(texts) == 1


def test_indices_out_of_range_are_refused_at_a_call():
    program = glenside.optimize(Tied(), (IDS,), "cpu", check=False)
    with pytest.raises(glenside.errors.InputError, match="takes indices from 0 to 8, got 9"):
        program(np.array([[1, 9, 0]]))
