"""Whole models: they import, every stated type agrees, and their outputs are the stored ones."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from glenside.frontends.relay import import_relay, seeded_arrays
from glenside.language import evaluate

CASES = Path(__file__).parent / "cases"
MANIFEST = json.loads((CASES / "manifest.json").read_text())

# Convolutions without groups and dense layers; convolutions with groups and products of batches.
PRODUCTS = {
    "efficientnet": (35, 16),
    "lstm_wlm": (36, 0),
    "mobilenet_v1": (15, 13),
    "mobilenet_v2": (41, 17),
    "resmlp": (38, 0),
    "resnet20": (22, 0),
    "resnet50_from_onnx": (54, 0),
    "resnet50_from_pytorch": (54, 0),
    "transformer": (66, 36),
}


def test_imports_with_every_stated_type_agreeing_and_one_term_a_product(relay_file):
    model = import_relay(relay_file)
    assert model.name == relay_file.stem
    leaves = {leaf["name"]: leaf.type for leaf in model.leaves()}
    assert leaves.keys() - model.inputs.keys() == model.params.keys()
    assert all(term.item == () for term in model.roots)
    batches = [term["batch"] for term in model.terms() if term.op == "cart_prod"]
    if relay_file.stem in PRODUCTS:
        assert (batches.count(0), batches.count(1)) == PRODUCTS[relay_file.stem]


@pytest.mark.parametrize("name", MANIFEST)
def test_outputs_are_the_stored_ones(name, relay_data):
    file = relay_data / f"{name}.relay"
    if not file.exists():
        pytest.skip(f"{file} is not there (GLENSIDE_RELAY_DATA names the folder)")
    wanted, stored = MANIFEST[name], np.load(CASES / f"{name}.npz")
    model = import_relay(file)
    inputs = [[name, list(type_.shape), type_.dtype] for name, type_ in model.inputs.items()]
    assert inputs == wanted["inputs"]
    arrays = seeded_arrays(file)
    assert len(arrays) == wanted["n_params"]
    digest = hashlib.sha256(b"".join(array.tobytes() for array in arrays.values()))
    assert digest.hexdigest() == wanted["params_sha256"]
    data = {name: arrays[name] for name in model.inputs}
    outputs = evaluate(model.roots, {**model.params, **data})
    for i, (output, described) in enumerate(zip(outputs, wanted["outputs"], strict=True)):
        assert (list(output.shape), output.dtype.name) == (described["shape"], described["dtype"])
        sampled = output.reshape(-1)[:: described["every"]]
        tolerance = 2e-5 * described["max_abs"]
        np.testing.assert_allclose(sampled, stored[f"out{i}"], rtol=0, atol=tolerance)
        assert output.argmax() == described["argmax"]
