"""Small models that users of other tools reported as failing, and what is right for each.

``GLENSIDE_BUG_CASES`` names another folder of the same form: ``cases.json`` lists the cases, and
beside each MODEL.onnx stands a MODEL.npz with inputs (``in_NAME``) and right outputs (``out0``...).
"""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from glenside.errors import ModelError, UnsupportedOperator
from glenside.frontends.onnx import import_model

FOLDER = Path(os.environ.get("GLENSIDE_BUG_CASES") or Path(__file__).parent / "bugs")
CASES = json.loads((FOLDER / "cases.json").read_text())["cases"]
MODELS = sorted({name for case in CASES for name in case["models"]})
ANSWERED = [name for name in MODELS if (FOLDER / name).with_suffix(".npz").exists()]
REFUSED = [name for name in MODELS if name not in ANSWERED]


def load(name):
    """The model, its inputs and the right outputs; shapes are given where the model asks."""
    with np.load((FOLDER / name).with_suffix(".npz")) as stored:
        inputs = {k.removeprefix("in_"): stored[k] for k in stored if k.startswith("in_")}
        outputs = [stored[k] for k in sorted(stored) if k.startswith("out")]
    path = FOLDER / name
    try:
        model = import_model(path)
    except ModelError as problem:
        assert "shapes=" in str(problem)
        model = import_model(path, shapes={key: value.shape for key, value in inputs.items()})
    return model, inputs, outputs


@pytest.mark.parametrize("name", ANSWERED)
def test_gives_the_right_answer(name, ask):
    model, inputs, wanted = load(name)
    got = ask.terms(model, inputs)
    for mine, right in zip(got, wanted, strict=True):
        assert mine.shape == right.shape and mine.dtype == right.dtype
        loose = right.dtype == np.float16
        np.testing.assert_allclose(
            mine, right, rtol=1e-2 if loose else 1e-4, atol=1e-3 if loose else 1e-6
        )


@pytest.mark.parametrize("name", REFUSED)
def test_says_why_it_is_refused(name):
    with pytest.raises(ModelError) as caught:
        import_model(FOLDER / name)
    assert "\n" not in str(caught.value)


def present(name):
    return pytest.mark.skipif(name not in MODELS, reason=f"the folder has no {name}")


@present("two_unsupported.onnx")
def test_all_unsupported_nodes_are_in_one_error():
    with pytest.raises(UnsupportedOperator) as caught:
        import_model(FOLDER / "two_unsupported.onnx")
    assert len(caught.value.nodes) == 2


@present("conv_negative_pad.onnx")
def test_negative_padding_names_the_attribute():
    with pytest.raises(ModelError, match=r"\(Conv\).*pads"):
        import_model(FOLDER / "conv_negative_pad.onnx")


@present("conv_same_lower.onnx")
def test_the_side_of_odd_padding_matters(ask):
    upper, inputs, _ = load("conv_same_upper.onnx")
    lower, _, _ = load("conv_same_lower.onnx")
    assert not np.allclose(ask.terms(upper, inputs)[0], ask.terms(lower, inputs)[0])


@present("maxpool_pad_negative.onnx")
def test_padding_under_a_maximum_is_never_an_output(ask):
    for name in ("maxpool_pad_negative.onnx", "maxpool_ceil.onnx"):
        model, inputs, _ = load(name)
        below = {key: -1 - np.abs(value) for key, value in inputs.items()}
        (got,) = ask.terms(model, below)
        assert np.isin(got, next(iter(below.values()))).all()


@present("dynamic_batch_conv.onnx")
def test_a_dynamic_batch_is_never_taken_as_one():
    with pytest.raises(ModelError, match=r"shapes=.*'X'"):
        import_model(FOLDER / "dynamic_batch_conv.onnx")


@present("shape_gather_concat_reshape.onnx")
def test_shape_arithmetic_folds_away():
    model, _, _ = load("shape_gather_concat_reshape.onnx")
    (result,) = model.roots
    assert (result.op, result.shape) == ("reshape", (2, 12))
    assert not model.params


@present("fold_blowup.onnx")
def test_what_only_repeats_a_constant_is_not_folded():
    model, _, _ = load("fold_blowup.onnx")
    assert sum(array.nbytes for array in model.params.values()) <= 2048


@present("deep_chain_3000.onnx")
def test_a_deep_chain_imports_quickly():
    started = time.perf_counter()
    import_model(FOLDER / "deep_chain_3000.onnx")
    assert time.perf_counter() - started < 2


@present("conv_group2.onnx")
def test_a_grouped_convolution_is_one_product():
    for name in ("conv_group2.onnx", "conv_depthwise_x8.onnx"):
        model, _, _ = load(name)
        (product,) = (term for term in model.terms() if term.op == "cart_prod")
        assert product["batch"] == 1


@present("int8_max_min.onnx")
def test_integers_stay_integers():
    model, _, _ = load("int8_max_min.onnx")
    assert {term.dtype for term in model.terms()} == {"int8"}
