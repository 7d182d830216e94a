"""Networks to try things on: drawn weights, the same for the same seed, answers that differ."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from glenside.errors import InputError
from glenside.samples import sample_model, sample_names
from tests.models import onnxruntime_answers


def test_the_same_seed_gives_the_same_weights():
    assert sample_model("squeezenet", 3) == sample_model("squeezenet", 3)
    assert sample_model("squeezenet", 3) != sample_model("squeezenet", 4)


def test_weights_are_drawn_and_inputs_are_images():
    model = sample_model("squeezenet")
    onnx.checker.check_model(model)
    assert [each.name for each in model.graph.input] == ["data_0"]
    assert "ConstantOfShape" not in {node.op_type for node in model.graph.node}
    filters = [numpy_helper.to_array(each) for each in model.graph.initializer]
    assert all(len(np.unique(each)) > 0.9 * each.size for each in filters if each.ndim == 4)


def test_the_answer_depends_on_the_image():
    model = sample_model("squeezenet")
    rng = np.random.default_rng(0)
    images = [rng.standard_normal((1, 3, 224, 224)).astype("float32") * k for k in (0.5, 3)]
    first, second = (onnxruntime_answers(model, data_0=image)[0] for image in images)
    assert abs(first - second).max() > 0.05 * first.max()


def test_an_unknown_name_lists_those_there_are():
    assert "resnet50" in sample_names()
    with pytest.raises(
        InputError, match=r"no sample network is called 'x': bvlc_alexnet, .*zfnet512"
    ):
        sample_model("x")
