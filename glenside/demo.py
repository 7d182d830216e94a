"""``make demo``: SqueezeNet on a 16x16 systolic array and on the CPU, held against onnxruntime.

The network ships inside the installed ``onnx`` package; its weights are drawn from a seed, so that
its answers depend on the image, and a wrong program would give others.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from rich.console import Console

import glenside
from glenside.check import relative_error
from glenside.samples import sample_model

TARGETS = ("systolic-array:16x16", "cpu")
CLOSE = 1e-4
"""The largest error, relative to the largest score, that counts as the same answer."""

Array = np.ndarray[Any, Any]


def _image(seed: int) -> Array:
    """Seven by seven patches of colour."""
    patches = np.random.default_rng(seed).standard_normal((1, 3, 7, 7), "float32")
    return np.kron(3 * patches, np.ones((1, 1, 32, 32), "float32"))


def main() -> int:
    """Runs the demonstration; 0 when every answer is right."""
    import onnxruntime

    console = Console()
    model = sample_model("squeezenet")
    images = [_image(seed) for seed in (1, 2)]
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (name,) = (each.name for each in session.get_inputs())
    expected: list[Array] = [session.run(None, {name: image})[0] for image in images]
    apart = relative_error(expected[1], expected[0])

    right = apart > 100 * CLOSE
    for target in TARGETS:
        console.print(f"\n[bold]glenside optimize squeezenet.onnx --target {target}[/]")
        program = glenside.optimize(model, target)
        console.print(program.report)
        scores = [program.run(image)[0] for image in images]
        errors = [relative_error(s, e) for s, e in zip(scores, expected, strict=True)]
        right = right and max(errors) < CLOSE
        console.print(
            f"two images, beside onnxruntime: {'equal' if max(errors) < CLOSE else 'DIFFERENT'} "
            f"(largest error {max(errors):.0e} of the largest score; the images' own answers "
            f"are {apart:.0%} apart)"
        )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
