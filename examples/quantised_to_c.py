"""A float network quantised for VTA, as C: calls of the accelerator, their simulator, a Makefile.

The C program is built, run on a file, and held against the program that it was made from.
"""

import subprocess
import tempfile
from pathlib import Path

import numpy as np

import glenside
from glenside.language import builders as b


def network():
    """Two layers with a ReLU between them."""
    x, first = b.access(b.tensor("x", (16, 64)), 1), b.access(b.tensor("first", (32, 64)), 1)
    hidden = b.elementwise("relu", b.compute("dot", b.cart_prod(x, first)))
    second = b.access(b.tensor("second", (10, 32)), 1)
    return b.compute("dot", b.cart_prod(b.access(hidden, 1), second))


def main() -> None:
    """Quantises, offloads, writes C, builds it, runs it."""
    rng = np.random.default_rng(0)
    draw = {"x": (16, 64), "first": (32, 64), "second": (10, 32)}
    arrays = {name: rng.standard_normal(shape).astype("float32") for name, shape in draw.items()}
    samples = {"x": np.stack([arrays.pop("x")])}
    program = glenside.optimize(
        network(), "vta:int8", params=arrays, quantize=glenside.Quantization(samples)
    )
    print(program.report.offloads, program.report.quantization.relative)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(program.to_c(made))
        subprocess.run(["make", "-s", "-C", folder], check=True)
        x = samples["x"][0]
        x.tofile(folder / "x.bin")
        subprocess.run(["./term", "x.bin", "y.bin"], cwd=folder, check=True)
        y = np.fromfile(folder / "y.bin", "float32").reshape(16, 10)
    print(f"largest difference of C from Python: {np.abs(y - program(x)).max():.1e}")
    assert np.allclose(y, program(x), atol=1e-5)


if __name__ == "__main__":
    main()
