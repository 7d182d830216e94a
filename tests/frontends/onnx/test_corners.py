"""Empty axes, old forms, absent operands and rare dtypes, found by the sweep over all operators."""

import numpy as np
import pytest
from onnx import helper

from glenside.errors import ModelError
from glenside.frontends.onnx import import_model

NO_AXES = np.zeros(0, np.float32)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32"])
def test_positions_of_maxima_beside_the_padding(ask, dtype):
    """The least number of the data does not tie with the padding."""
    least = 0 if dtype == "float32" else np.iinfo(dtype).min
    x = np.full((1, 1, 3, 3), least, dtype)
    ask.node("MaxPool", [x], outputs=2, kernel_shape=[2, 2], pads=[1, 1, 1, 1], opset=12)


@pytest.mark.parametrize(("value", "count"), [(2, 1), (0, 0)])
def test_a_number_alone_has_a_place_without_axes(ask, value, count):
    """ONNX: for scalar input, NonZero produces output shape (0, N) instead of (1, N)."""
    node = helper.make_node("NonZero", ["x"], ["y"])
    imported = import_model(ask.model_of([node], {}, ["y"], {"x": np.float32(value)}))
    assert imported.outputs["y"].shape == (0, count)


@pytest.mark.parametrize("opset", [18, 20])
def test_group_normalisation_had_a_scale_a_group(ask, floats, opset):
    inputs = [floats(2, 4, 3), floats(2), floats(2)]
    ask.node("GroupNormalization", inputs, opset=opset, num_groups=2)


@pytest.mark.parametrize("onesided", [0, 1])
def test_spectra_of_signals_without_an_axis_of_parts(ask, floats, onesided):
    constants = {"step": np.int64(4), "window": np.hanning(8).astype(np.float32)}
    ask.node("STFT", [floats(2, 32)], constants, opset=17, onesided=onesided)


@pytest.mark.parametrize("x", [np.zeros((2, 3)), np.zeros((0, 3)), np.float32([[0, -1, 2]])])
def test_data_without_a_range_is_quantised(ask, x):
    ask.node("DynamicQuantizeLinear", [x.astype(np.float32)], outputs=3)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("how", ["tf_half_pixel_for_nn", "half_pixel"])
def test_images_are_resized_by_the_rule_of_opset_11(ask, floats, mode, how):
    constants = {"roi": NO_AXES, "scales": np.float32([1, 1, 2, 1.5])}
    attributes = {"mode": mode, "coordinate_transformation_mode": how}
    ask.node("Resize", [floats(1, 1, 4, 4)], constants, opset=11, **attributes)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [[1, 2, 3, 4], [2, 1, 2, 3, 4]])
def test_affine_grids(ask, floats, align, size):
    rank = len(size) - 2
    constants = {"size": np.array(size)}
    ask.node("AffineGrid", [floats(size[0], rank, rank + 1)], constants, align_corners=align)


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin", "Hardmax", "Softmax", "LogSoftmax"])
def test_nothing_of_nothing(ask, operator):
    ask.node(operator, [np.zeros((0, 3), np.float32)], axis=1)


@pytest.mark.parametrize("operator", ["Hardmax", "Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [11, 13])
def test_along_an_empty_axis_there_is_nothing(ask, operator, opset):
    ask.node(operator, [np.zeros((2, 0), np.float32)], opset=opset, axis=1)


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_no_position_of_an_empty_axis_is_the_best(ask, operator):
    node = helper.make_node(operator, ["x"], ["y"], name="node", axis=1)
    with pytest.raises(ModelError, match=r"node 'node' \(Arg.*axis 1 of shape \(2, 0\) is empty"):
        import_model(ask.model_of([node], {"x": np.zeros((2, 0), np.float32)}, ["y"]))


def test_statistics_of_doubles_have_the_stash_type(ask, floats):
    inputs = {"x": floats(2, 4).astype(np.float64), "s": floats(4).astype(np.float64)}
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean", "spread"])
    imported = import_model(ask.model_of([node], inputs, ["y", "mean", "spread"], opset=17))
    y, mean, _ = ask.terms(imported, inputs)
    assert (y.dtype, mean.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(mean, inputs["x"].mean(1, keepdims=True), rtol=1e-6)
