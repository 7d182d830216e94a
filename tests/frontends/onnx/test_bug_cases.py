"""Reported bugs of importers: what each model must give, or how it must be refused.

Tests are named after their cases; those that are about more than importing are in
``tests/test_bug_cases.py``.
"""

import numpy as np
import pytest

from glenside.errors import ModelError, UnsupportedOperator
from glenside.frontends.onnx import import_model
from tests.bug_cases import ANSWERED, FOLDER, REFUSED, assert_right, load, named, present


@pytest.mark.parametrize("name", named(ANSWERED))
def test_gives_the_right_answer(name, ask):
    model, inputs, wanted = load(name)
    assert_right(ask.terms(model, inputs), wanted)


@pytest.mark.parametrize("name", named(REFUSED))
def test_says_why_it_is_refused(name):
    with pytest.raises(ModelError) as caught:
        import_model(FOLDER / name)
    assert "\n" not in str(caught.value)


@present("two_unsupported.onnx")
def test_unsupported_ops():
    """All unsupported nodes are in one error."""
    with pytest.raises(UnsupportedOperator) as caught:
        import_model(FOLDER / "two_unsupported.onnx")
    assert len(caught.value.nodes) == 2


@present("conv_negative_pad.onnx")
def test_pad_negative():
    """The attribute is named."""
    with pytest.raises(ModelError, match=r"\(Conv\).*pads"):
        import_model(FOLDER / "conv_negative_pad.onnx")


@present("conv_same_lower.onnx", "conv_same_upper.onnx")
def test_pad_same_upper_lower(ask):
    """The side of odd padding matters."""
    upper, inputs, _ = load("conv_same_upper.onnx")
    lower, _, _ = load("conv_same_lower.onnx")
    assert not np.allclose(ask.terms(upper, inputs)[0], ask.terms(lower, inputs)[0])


@present("maxpool_pad_negative.onnx", "maxpool_ceil.onnx")
def test_maxpool_neg_padding(ask):
    """Padding under a maximum is never an output."""
    for name in ("maxpool_pad_negative.onnx", "maxpool_ceil.onnx"):
        model, inputs, _ = load(name)
        below = {key: -1 - np.abs(value) for key, value in inputs.items()}
        (got,) = ask.terms(model, below)
        assert np.isin(got, next(iter(below.values()))).all()


@present("dynamic_batch_conv.onnx")
def test_dynamic_batch():
    """It is never taken as one."""
    with pytest.raises(ModelError, match=r"shapes=.*'X'"):
        import_model(FOLDER / "dynamic_batch_conv.onnx")


@present("shape_gather_concat_reshape.onnx")
def test_shape_subgraph():
    """Shape arithmetic folds away."""
    model, _, _ = load("shape_gather_concat_reshape.onnx")
    (result,) = model.roots
    assert (result.op, result.shape) == ("reshape", (2, 12))
    assert not model.params


@present("fold_blowup.onnx")
def test_fold_size_blowup():
    """What only repeats a constant is not folded."""
    model, _, _ = load("fold_blowup.onnx")
    assert sum(array.nbytes for array in model.params.values()) <= 2048


@present("conv_group2.onnx", "conv_depthwise_x8.onnx")
def test_conv_group_2():
    """A grouped convolution is one product."""
    for name in ("conv_group2.onnx", "conv_depthwise_x8.onnx"):
        model, _, _ = load(name)
        (product,) = (term for term in model.terms() if term.op == "cart_prod")
        assert product["batch"] == 1


@present("int8_max_min.onnx")
def test_integers_stay_integers():
    model, _, _ = load("int8_max_min.onnx")
    assert {term.dtype for term in model.terms()} == {"int8"}
