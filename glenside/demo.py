"""``make demo``: SqueezeNet on a 16x16 systolic array and on the CPU, held against its own answer.

The network and its answer ship inside the installed ``onnx`` package.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from rich.console import Console

import glenside

TARGETS = ("systolic-array:16x16", "cpu")


def main() -> int:
    """Runs the demonstration; 0 when every answer is right."""
    import onnx
    from onnx import numpy_helper

    console = Console()
    models = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = models / "light_squeezenet.onnx"
    answer = onnx.load_tensor(str(models / "light_squeezenet_output_0.pb"))
    expected = numpy_helper.to_array(answer)

    right = True
    for target in TARGETS:
        console.print(f"\n[bold]glenside optimize {model.name} --target {target}[/]")
        program = glenside.optimize(model, target)
        console.print(program.report)
        # The input that ONNX's own test runner feeds these models.
        arrays = {
            name: (np.arange(t.size).reshape(t.shape) / t.size).astype(t.dtype)
            for name, t in program.inputs.items()
        }
        (result,) = program.run(arrays)
        agrees = np.allclose(result, expected, rtol=1e-3, atol=1e-5)
        right = right and agrees
        error = float(np.abs(result - expected).max())
        console.print(
            f"the answer that ships with the model: "
            f"{'equal' if agrees else 'DIFFERENT'} (largest difference {error:.1e})"
        )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
