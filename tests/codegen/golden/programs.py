"""The programs of the golden kernels, and the text that code generation makes of them.

Each stands for a kind of kernel; ``python tools/golden.py`` shows what a change of code generation
changes in their text, ``python tools/golden.py --update`` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glenside.codegen.compile import lower_terms
from glenside.codegen.cpu.schedule import PORTABLE
from glenside.codegen.device.text import print_kernels
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.dispatch import make_kernels
from glenside.codegen.gpu.interface import make_builder
from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.record import Kernel
from glenside.exporters.c.functions import c_function
from glenside.frontends.lowering.normalization import standardised
from glenside.language import Term, topological_order
from glenside.language.builders import (
    access,
    cart_prod,
    cast,
    compute,
    constant,
    elementwise,
    tensor,
    transpose,
    windows,
)
from tests.codegen.codegen_help import convolution, weights

FOLDER = Path(__file__).parent
_SUFFIXES = {"c": "c", "opencl": "cl", "cuda": "cu"}


@dataclass(frozen=True)
class Golden:
    """A program, and what its text is made for: a device's profile, or C."""

    device: str
    program: Callable[[], Term]
    params: Mapping[str, np.ndarray]

    @property
    def dialect(self) -> str:
        """``c``, ``opencl`` or ``cuda``."""
        return self.device.partition(":")[0]

    def text(self) -> str:
        """What code generation makes of it."""
        term = self.program()
        leaves = [each for each in topological_order([term]) if each.op == "tensor"]
        inputs = {each["name"]: each.type for each in leaves if each["name"] not in self.params}
        if self.dialect == "c":
            return c_function(
                "golden", lower_terms([term], inputs, self.params, PORTABLE), ["y"]
            ).source
        limits = device_profile(self.device)
        cut = cut_program(
            [term],
            inputs,
            self.params,
            plain=True,
            rows_last=limits.has_matrix_units,
            streams=lambda product: True,
        )
        builder = make_builder(cut)
        kernels = []
        for number, step in enumerate(cut.steps):
            assert isinstance(step, Kernel)
            kernels += make_kernels(builder, step, number, limits, self.dialect)
        text = print_kernels(kernels, limits, self.dialect).text
        for part in {part for kernel in kernels for part in kernel.library}:
            assert part.strip() in text
            text = text.replace(part.strip(), "// (what is written by hand)")
        return text


def _layer(dtype: str = "float32") -> Term:
    """A convolution with bias and relu."""
    y = convolution(tensor("x", (1, 8, 14, 14), dtype), tensor("w", (16, 8, 3, 3), dtype),
                    pads=(1, 1, 1, 1))  # fmt: skip
    return elementwise("relu", elementwise("add", y, tensor("b", (1, 16, 1, 1), dtype)))


def _depthwise() -> Term:
    return convolution(tensor("x", (1, 32, 16, 16)), tensor("w", (32, 1, 3, 3)), (2, 2),
                       (1, 1, 1, 1), groups=32)  # fmt: skip


def _product(shape: tuple[int, int, int], dtype: str) -> Term:
    rows, columns, depth = shape
    x, w = tensor("x", (rows, depth), dtype), tensor("w", (columns, depth), dtype)
    return elementwise("relu", compute("dot", cart_prod(access(x, 1), access(w, 1))))


def _softmax() -> Term:
    return compute("softmax", access(tensor("x", (6, 200)), 1))


def _layer_norm() -> Term:
    """In half precision, with statistics in float32, after a residual."""
    x, y = tensor("x", (128, 768), "float16"), tensor("y", (128, 768), "float16")
    norm = standardised(cast(elementwise("add", x, y), "float32"), [1], 1e-5)
    return cast(norm, "float16")


def _functions() -> Term:
    """Functions of one element, each of another kind of code."""
    x = tensor("x", (5, 40))
    y = elementwise("sigmoid", elementwise("log1p", elementwise("abs", x)))
    y = elementwise("mod", y, elementwise("erf", x))
    return elementwise("maximum", elementwise("round", y), constant(0.5, (5, 40)))


def _integers() -> Term:
    """Divisions and shifts of integers, which are defined for every operand."""
    x, y = tensor("x", (3, 50), "int32"), tensor("y", (3, 50), "int32")
    return elementwise("div", elementwise("shift_left", x, y), elementwise("bit_xor", x, y))


def _brain_floats() -> Term:
    x, y = tensor("x", (64, 32), "bfloat16"), tensor("y", (64, 32), "bfloat16")
    return elementwise("tanh", elementwise("mul", x, y))


def _filtering() -> Term:
    """How minimal filtering, F(2x2, 3x3), transforms what it reads."""
    looks = windows(access(tensor("x", (8, 16, 16)), 1), (4, 4), (2, 2))
    rows = access(tensor("m", (16, 4, 4)), 1)
    return compute("dot", cart_prod(rows, looks))


_B = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], "float32")
_FILTERING = np.einsum("ik,jl->ijkl", _B, _B).reshape(16, 4, 4)


def _attention(heads: int, tokens: int, width: int, dtype: str = "float32") -> Term:
    """Rows that are softmaxed and multiplied in one kernel."""
    q, k, v = (access(tensor(name, (heads, tokens, width), dtype), 2) for name in "qkv")
    scores = compute("dot", cart_prod(q, k, 1))
    rows = compute("softmax", access(scores, 2))
    return compute("dot", cart_prod(rows, access(transpose(v, (0, 2, 1)), 2), 1))


def _of_layer(dtype: str = "float32") -> dict[str, np.ndarray]:
    return {"w": weights(16, 8, 3, 3, dtype=dtype), "b": weights(1, 16, 1, 1, dtype=dtype)}


GOLDEN = {
    "convolution": Golden("c", _layer, _of_layer()),
    "softmax": Golden("c", _softmax, {}),
    "convolution_staged": Golden("opencl:mali-g72", _layer, _of_layer()),
    "functions": Golden("opencl:mali-g72", _functions, {}),
    "integers": Golden("opencl:mali-g72", _integers, {}),
    "convolution_copied": Golden("cuda:sm_90", _layer, _of_layer()),
    "depthwise": Golden("cuda:sm_90", _depthwise, {"w": weights(32, 1, 3, 3)}),
    "filtering": Golden("cuda:sm_90", _filtering, {"m": _FILTERING}),
    "matrices": Golden(
        "cuda:sm_90",
        lambda: _product((1024, 768, 512), "float32"),
        {"w": weights(768, 512)},
    ),
    "softmax_rows": Golden("cuda:sm_90", _softmax, {}),
    "layer_norm": Golden("cuda:sm_90", _layer_norm, {}),
    "layer_norm_exchanged": Golden(
        "opencl:mali-g72", lambda: standardised(tensor("x", (9, 70)), [1], 1e-5), {}
    ),
    "matrix_units": Golden(
        "cuda:sm_90",
        lambda: _product((64, 128, 64), "float16"),
        {"w": weights(128, 64, dtype="float16")},
    ),
    "streamed": Golden("opencl:mali-g72", lambda: _attention(2, 33, 8), {}),
    "streamed_units": Golden("cuda:sm_90", lambda: _attention(12, 128, 64, "float16"), {}),
    "brain_floats": Golden("cuda:sm_90", _brain_floats, {}),
}
"""By the name of their file."""


def path(name: str) -> Path:
    """Where the text of a golden kernel is."""
    return FOLDER / f"{name}.{_SUFFIXES[GOLDEN[name].dialect]}"
