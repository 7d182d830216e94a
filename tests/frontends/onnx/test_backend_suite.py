"""ONNX's own backend tests, run through ``onnx.backend.test``.

What is out of scope stands in a list with its reason, and must be refused with one of our errors.
The rest must pass natively, that is with onnxruntime and ``onnx.reference`` blocked, but for the
operators that are left to a host.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import onnx.backend.test
import onnx.reference
import onnxruntime
import pytest
from onnx.backend.test.loader import load_model_tests

from glenside.errors import GlensideError
from glenside.frontends.onnx.backend import GlensideBackend

OUT_OF_SCOPE = {
    "element types that no target here computes with": (
        r"FLOAT8|FLOAT4|E8M0|_INT2_|_INT4_|_UINT2_|_UINT4_"
        r"|_to_U?INT[24](_|$)|linear_(e4m3fn|e5m2|u?int[24](_|$)|float4)"
    ),
    "strings": r"string|strnorm|regex_full_match|label_encoder",
    "sequences and optionals as inputs or outputs of a model": (
        r"sequence_(insert|map)|split_to_sequence|identity_(sequence|opt)|if_(seq|opt)"
        r"|loop1[36]_seq|optional_get_element_(optional|sequence)"
        r"|optional_has_element_(tensor_input|optional_input|empty_optional_input)"
    ),
    "random results": r"bernoulli|training_dropout(?!_zero)",
    "training": r"adam|adagrad|momentum|gradient",
    "decoding of image files": r"image_decoder",
    "results whose shape depends on the data": r"nonmaxsuppression",
    "the Scan of opset 8, which nobody exports any more": r"test_scan_sum",
    "onnxruntime does not run it either": r"bitcast_bool_to_uint8",
}

HOST = (
    r"ai_onnx_ml_(array_feature_extractor|binarizer|tree_ensemble)|bitcast|det_"
    r"|tfidfvectorizer|roialign_mode_max"
)
"""Operators that have no meaning as access patterns and run on onnxruntime."""

# The stored answers carry more rounding than the test's tolerance allows, ours less.
LOOSE = {
    "test_dft_inverse": {"atol": 1e-5},  # A float32 FFT of numbers near 50.
    "test_dft_inverse_opset19": {"atol": 1e-5},
    "test_attention_4d_causal_fp16": {"rtol": 3e-3},  # Every step of the softmax in float16.
    "test_attention_4d_causal_fp16_expanded": {"rtol": 3e-3},
}


def reason_for(name: str) -> str | None:
    return next((why for why, what in OUT_OF_SCOPE.items() if re.search(what, name)), None)


with warnings.catch_warnings(), np.errstate(all="ignore"):
    # The suite computes its inputs and answers here, overflows among them.
    warnings.simplefilter("ignore")
    SUITE = onnx.backend.test.BackendTest(GlensideBackend, __name__, LOOSE)
    NODE_CASES = load_model_tests(kind="node")

for kind, group in SUITE.test_cases.items():
    for method in [each for each in dir(group) if each.startswith("test_")]:
        if method.endswith("_cuda") or reason_for(method):
            delattr(group, method)
    if kind != "OnnxBackendRealModelTest":  # The light models have tests of their own.
        globals()[kind] = group


@pytest.fixture(autouse=True)
def _no_other_runtime(request, monkeypatch):
    """Nothing but our own interpreter may run, except for host operators."""

    def blocked(*args, **kwargs):
        raise AssertionError("another runtime was used")

    monkeypatch.setattr(onnx.reference.ReferenceEvaluator, "__init__", blocked)
    if not re.search(HOST, request.node.name):
        monkeypatch.setattr(onnxruntime, "InferenceSession", blocked)


def test_enough_runs_natively():
    names = [case.name for case in NODE_CASES if not reason_for(case.name)]
    native = [name for name in names if not re.search(HOST, name)]
    assert len(names) >= 1617
    assert len(native) >= 1587


@pytest.mark.parametrize("why", OUT_OF_SCOPE)
def test_what_is_out_of_scope_is_refused_clearly(why):
    cases = [case for case in NODE_CASES if reason_for(case.name) == why]
    assert cases or why == "training"
    for case in cases:
        inputs = case.data_sets[0][0]
        with pytest.raises(GlensideError) as caught:
            GlensideBackend.prepare(case.model).run(inputs)
        assert "\n" not in str(caught.value)
