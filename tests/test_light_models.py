"""The nine real networks that the onnx package ships.

As shipped, each weight tensor holds one number over and over, which hides errors of layout; so the
same graphs are also run with random weights, against onnxruntime.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import glenside
from glenside.check import relative_error
from glenside.extraction import extract
from glenside.frontends.onnx import import_model
from glenside.hw_targets import find_target
from glenside.language import topological_order
from glenside.report import count_offloads
from glenside.rewrites import StopReason, saturate
from glenside.samples import sample_model, sample_names
from tests.models import LIGHT, onnxruntime_answers

OFFLOADS = {
    "bvlc_alexnet": 8,
    "densenet121": 121,
    "inception_v1": 58,
    "inception_v2": 70,
    "resnet50": 54,
    "shufflenet": 50,
    "squeezenet": 26,
    "vgg19": 19,
    "zfnet512": 8,
}
"""Convolutions and fully connected layers of each network."""

NETWORKS = sorted(OFFLOADS)


def test_the_list_is_complete():
    assert sample_names() == NETWORKS


@pytest.mark.parametrize("network", ["shufflenet", "squeezenet"])
def test_the_answer_that_ships_with_the_network(network):
    """Of the small ones: with one number for all weights it shows less than random weights do."""
    path = LIGHT / f"light_{network}.onnx"
    program = glenside.optimize(path, "cpu", check=False)
    # The input that onnx's own test runner makes.
    inputs = {
        name: (np.arange(t.size).reshape(t.shape) / t.size).astype(t.dtype)
        for name, t in program.inputs.items()
    }
    answer = numpy_helper.to_array(onnx.load_tensor(str(LIGHT / f"light_{network}_output_0.pb")))
    np.testing.assert_allclose(program(inputs), answer, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS)
def test_every_layer_is_offloaded(network):
    model = import_model(LIGHT / f"light_{network}.onnx")
    target = find_target("systolic-array:16x16")
    found = saturate(model.roots, target.rules())
    assert found.stop_reason is StopReason.SATURATED
    used = extract(found.egraph, target.cost_model(), original=model.roots)
    assert count_offloads(topological_order(used.terms)) == {"systolic-array": OFFLOADS[network]}


@pytest.mark.parametrize(
    ("network", "target"),
    [
        *((network, "cpu") for network in NETWORKS),
        # Every kind of layer on the array: grouped and depthwise convolutions, residues, concats.
        *((network, "systolic-array:16x16") for network in ("resnet50", "shufflenet")),
        ("squeezenet", "systolic-array:16x16"),
    ],
)
def test_random_weights_agree_with_onnxruntime(network, target):
    model = sample_model(network)
    program = glenside.optimize(model, target, check=False)
    calls = {"systolic-array": OFFLOADS[network]} if target != "cpu" else {}
    assert program.report.offloads == calls
    assert program.report.host_ops == {}
    assert program.report.stop_reason == "saturated"

    (name,) = program.inputs
    image = np.random.default_rng(0).standard_normal(program.inputs[name].shape).astype("float32")
    (expected,) = onnxruntime_answers(model, **{name: image})
    assert np.ptp(expected) > 1e-4, "an answer that is all alike would show nothing"
    assert relative_error(program(image), expected) < 1e-3
