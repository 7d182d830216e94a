"""Networks of transformers, small, and recurrent layers, against PyTorch: the benchmark's own.

The interpreter computes what was imported: no kernel is compiled.
"""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test-torch)")

from benchmarks import torch_models  # noqa: E402
from glenside.frontends import load_model  # noqa: E402
from glenside.language import evaluate  # noqa: E402

SMALL = [
    "bert", "distilbert", "gpt2", "llama", "t5", "t5_encoder", "whisper_encoder", "clip_text",
    "wav2vec2", "lstm", "gru",
]  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_a_network_computes_what_pytorch_does(name):
    if name not in ("lstm", "gru"):
        pytest.importorskip("transformers", reason="transformers is not installed")
    module, given = torch_models.prepared(name)
    model = load_model(module, example_inputs=given)
    arrays = dict(
        zip(model.inputs, (t.numpy() for t in torch_models.flat_tensors(given)), strict=True)
    )
    results = evaluate(model.roots, {**model.params, **arrays})
    with torch.inference_mode():
        right = torch_models.flat_tensors(torch_models.called(module, given)())
    assert len(results) == len(right)
    for got, wanted in zip(results, right, strict=True):
        assert torch_models.difference(got, wanted) <= torch_models.TOLERANCE
