"""PyTorch's networks through ``glenside.optimize`` on the CPU: covered, right, how fast.

Every network has random weights. It is right where no output differs from PyTorch's eager result
by more than 1e-5 of that output's largest value. Times are medians of calls taken in turn in one
process; torch.compile is timed where a C++ compiler is there (``--compiled``).

    python benchmarks/torch_models.py [NAME ...] [--json FILE] [--compiled] [--import-only]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

TOLERANCE = 1e-5
"""Of the largest value of an output."""
RUNS = 7

Case = tuple[Any, Any]
"""A module, and what it is called with."""


def _vision(name: str, size: int = 224) -> Callable[[], Case]:
    def make() -> Case:
        import torch
        import torchvision

        return getattr(torchvision.models, name)(), (torch.randn(1, 3, size, size),)

    return make


def _timm(name: str, size: int = 224) -> Callable[[], Case]:
    def make() -> Case:
        import timm
        import torch

        return timm.create_model(name, pretrained=False), (torch.randn(1, 3, size, size),)

    return make


def _transformer(name: str, config: str, sizes: dict[str, Any], *inputs: str) -> Callable[[], Case]:
    """A network of transformers, small; ``inputs`` says what it is called with."""

    def make() -> Case:
        import torch
        import transformers

        settings = getattr(transformers, config)(**sizes)
        module = getattr(transformers, name)._from_config(settings)
        length = 16
        known = {
            "input_ids": torch.randint(3, 90, (1, length)),
            "decoder_input_ids": torch.randint(3, 90, (1, 7)),
            "attention_mask": torch.ones(1, length, dtype=torch.int64),
            "input_features": torch.randn(1, 80, 200),
            "input_values": torch.randn(1, 4000),
            "pixel_values": torch.randn(1, 3, 64, 64),
            "pixel_mask": torch.ones(1, 64, 64, dtype=torch.int64),
        }
        return module, {name: known[name] for name in inputs}

    return make


def _module(kind: str, *sizes: int, **options: Any) -> Callable[[], Case]:
    def make() -> Case:
        import torch

        return getattr(torch.nn, kind)(*sizes, **options), (torch.randn(2, 12, sizes[0]),)

    return make


_SMALL = {
    "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128,
}  # fmt: skip
_DETR = {
    "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_queries": 10,
}  # fmt: skip

MODELS: dict[str, Callable[[], Case]] = {
    "resnet18": _vision("resnet18"),
    "resnet50": _vision("resnet50"),
    "mobilenet_v2": _vision("mobilenet_v2"),
    "mobilenet_v3_large": _vision("mobilenet_v3_large"),
    "densenet121": _vision("densenet121"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "convnext_tiny": _vision("convnext_tiny"),
    "vit_b_16": _vision("vit_b_16"),
    "swin_t": _vision("swin_t"),
    "deit_tiny": _timm("deit_tiny_patch16_224"),
    "levit_128s": _timm("levit_128s"),
    "mobilevit_xxs": _timm("mobilevit_xxs", 256),
    "bert": _transformer("BertModel", "BertConfig", _SMALL, "input_ids", "attention_mask"),
    "distilbert": _transformer(
        "DistilBertModel", "DistilBertConfig",
        {"vocab_size": 100, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
        "input_ids", "attention_mask",
    ),
    "gpt2": _transformer(
        "GPT2LMHeadModel", "GPT2Config",
        {"vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 4, "use_cache": False},
        "input_ids",
    ),
    "llama": _transformer(
        "LlamaForCausalLM", "LlamaConfig", {**_SMALL, "num_key_value_heads": 2, "use_cache": False},
        "input_ids",
    ),
    "t5": _transformer(
        "T5ForConditionalGeneration", "T5Config",
        {"vocab_size": 100, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2,
         "num_heads": 4, "use_cache": False},
        "input_ids", "decoder_input_ids",
    ),
    "t5_encoder": _transformer(
        "T5EncoderModel", "T5Config",
        {"vocab_size": 100, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2,
         "num_heads": 4},
        "input_ids",
    ),
    "whisper_encoder": lambda: _whisper(),
    "clip_text": _transformer(
        "CLIPTextModel", "CLIPTextConfig", {**_SMALL, "eos_token_id": 2, "bos_token_id": 1},
        "input_ids",
    ),
    "wav2vec2": _transformer(
        "Wav2Vec2Model", "Wav2Vec2Config",
        {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 128, "conv_dim": (32,) * 7, "num_conv_pos_embeddings": 16,
         "num_conv_pos_embedding_groups": 4},
        "input_values",
    ),
    "detr": lambda: _detr(),
    "lstm": _module("LSTM", 16, 24, num_layers=2, bidirectional=True, batch_first=True),
    "gru": _module("GRU", 16, 24, num_layers=2, batch_first=True),
}  # fmt: skip


def _whisper() -> Case:
    import torch
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=100, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
        max_source_positions=100, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1,
    )  # fmt: skip
    return transformers.WhisperModel(config).get_encoder(), (torch.randn(1, 80, 200),)


def _detr() -> Case:
    import torch
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 64, 128], depths=[1, 1, 1, 1],
        out_features=["stage4"],
    )  # fmt: skip
    config = transformers.DetrConfig(
        use_timm_backbone=False, backbone_config=backbone, backbone=None,
        use_pretrained_backbone=False, **_DETR,
    )  # fmt: skip
    return transformers.DetrForObjectDetection(config), {"pixel_values": torch.randn(1, 3, 64, 64)}


def prepared(name: str) -> Case:
    """The module as it runs at inference; nothing in it is plain zeros."""
    import torch

    torch.manual_seed(0)
    module, given = MODELS[name]()
    for kind, buffer in module.named_buffers():
        if kind.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
        elif kind.endswith("running_mean"):
            buffer.normal_(0, 0.1)
    with torch.no_grad():
        for parameter in module.parameters():
            # Heads and biases that begin as zeros would hide what comes before them.
            if parameter.is_floating_point() and not parameter.any():
                parameter.normal_(0, 0.1)
    return module.eval(), given


def flat_tensors(value: Any) -> list[Any]:
    """The tensors of a result, in order."""
    import torch
    from torch.utils import _pytree

    return [each for each in _pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]


def called(module: Any, given: Any) -> Callable[[], Any]:
    """A call of a module."""
    if isinstance(given, dict):
        return lambda: module(**given)
    return lambda: module(*given)


def difference(got: Any, right: Any) -> float:
    """The largest difference, as a part of the largest value."""
    right = right.detach().float().numpy()
    apart = float(np.abs(np.asarray(got, np.float64) - right).max(initial=0))
    return apart / max(float(np.abs(right).max(initial=0)), 1e-30)


def measure(name: str, import_only: bool, compiled: bool) -> dict[str, Any]:
    """What there is to tell of one network."""
    import torch

    import glenside
    from glenside.frontends import load_model

    module, given = prepared(name)
    found: dict[str, Any] = {"model": name}
    start = time.perf_counter()
    try:
        if import_only:
            model = load_model(module, example_inputs=given)
            found["import_s"] = time.perf_counter() - start
            found["operators"] = sum(model.operators.values())
            return found
        program = glenside.optimize(module, given, "cpu", check=False)
    except glenside.GlensideError as problem:
        return {**found, "refused": str(problem)}
    found["compile_s"] = time.perf_counter() - start
    arrays = {n: t.numpy() for n, t in zip(program.inputs, flat_tensors(given), strict=True)}
    with torch.inference_mode():
        right = flat_tensors(called(module, given)())
        results = program.run(arrays)
        found["error"] = max(difference(*pair) for pair in zip(results, right, strict=True))
        found["right"] = found["error"] <= TOLERANCE
        calls: dict[str, Callable[[], Any]] = {
            "ours_ms": lambda: program.run(arrays),
            "eager_ms": called(module, given),
        }
        if compiled:
            calls["compiled_ms"] = called(torch.compile(module), given)
            calls["compiled_ms"]()
        times: dict[str, list[float]] = {kind: [] for kind in calls}
        for _ in range(RUNS):
            for kind, call in calls.items():
                start = time.perf_counter()
                call()
                times[kind].append((time.perf_counter() - start) * 1e3)
    return found | {kind: statistics.median(each) for kind, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], default=[])
    parser.add_argument("--json", help="write what was measured to this file")
    parser.add_argument("--compiled", action="store_true", help="time torch.compile as well")
    parser.add_argument("--import-only", action="store_true", help="only read the graphs")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: pip install 'glenside[torch]'")
        return
    warnings.filterwarnings("ignore", module="transformers|timm|torch")
    torch.set_num_threads(2)
    rows = []
    for name in options.names or MODELS:
        try:
            row = measure(name, options.import_only, options.compiled)
        except ImportError as problem:
            row = {"model": name, "skipped": str(problem)}
        rows.append(row)
        told = "  ".join(
            f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items() if key != "model"
        )  # fmt: skip
        print(f"{name:20} {told}", flush=True)
        if options.json:  # After each, so that a run that is ended leaves what it measured.
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)
    wrong = [row["model"] for row in rows if row.get("right") is False]
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
