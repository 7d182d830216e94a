"""The networks that the onnx package ships: their stored answers, and random weights."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from glenside.frontends.onnx import import_model
from glenside.samples import sample_model

FOLDER = Path(onnx.__file__).parent / "backend/test/data/light"
SMALL = ["squeezenet", "shufflenet", "inception_v1"]
ALL = sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("light_*.onnx"))


def ramp(model):
    return {
        name: (np.arange(kind.size).reshape(kind.shape) / kind.size).astype(kind.dtype)
        for name, kind in model.inputs.items()
    }


@pytest.mark.parametrize("name", SMALL)
def test_gives_the_answer_stored_beside_the_model(name, ask):
    model = import_model(FOLDER / f"light_{name}.onnx")
    (got,) = ask.terms(model, ramp(model))
    wanted = numpy_helper.to_array(onnx.load_tensor(FOLDER / f"light_{name}_output_0.pb"))
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_with_drawn_weights_agrees_with_onnxruntime(name, ask):
    proto = sample_model(name)
    model = import_model(proto)
    rng = np.random.default_rng(1)
    inputs = {n: rng.standard_normal(t.shape).astype(t.dtype) for n, t in model.inputs.items()}
    (wanted,) = ask.onnxruntime(proto, inputs)
    (got,) = ask.terms(model, inputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_imports_without_spending_memory_on_constant_weights(name):
    model = import_model(FOLDER / f"light_{name}.onnx")
    assert len(model.inputs) == 1
    held = sum(array.itemsize for array in model.params.values() if not any(array.strides))
    held += sum(array.nbytes for array in model.params.values() if any(array.strides))
    assert held < 2**20


@pytest.mark.parametrize(
    ("name", "products"), [("squeezenet", 26), ("resnet50", 54), ("shufflenet", 50)]
)
def test_every_convolution_and_gemm_is_one_product(name, products):
    """Grouped convolutions too: one term, not one a group."""
    model = import_model(FOLDER / f"light_{name}.onnx")
    assert sum(term.op == "cart_prod" for term in model.terms()) == products


def test_weights_keep_their_names():
    model = import_model(FOLDER / "light_squeezenet.onnx")
    assert {"conv1_w_0", "conv1_b_0", "fire2/expand3x3_w_0"} <= model.params.keys()
    assert list(model.inputs) == ["data_0"]
    assert list(model.outputs) == ["softmaxout_1"]
    assert "softmaxout_1" in model.names.values()


def test_progress_counts_the_nodes():
    seen = []
    import_model(FOLDER / "light_squeezenet.onnx", progress=lambda *step: seen.append(step))
    assert seen[-1] == (105, 105)
    assert [done for done, _ in seen] == list(range(1, 106))
