"""What the code generator's tests share: convolutions in the paper's form, and the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glenside.codegen.compile import Executable, compile_terms
from glenside.language import Term, evaluate, random_inputs, topological_order
from glenside.language.builders import (
    access,
    cart_prod,
    compute,
    outer_only,
    pad,
    reshape,
    squeeze,
    transpose,
    windows,
)
from glenside.language.shape import is_float

TOLERANCE = {"float16": 2e-2, "bfloat16": 2e-2, "float32": 1e-4, "float64": 1e-10}


def convolution(
    x: Term,
    w: Term,
    stride: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    accumulate: str | None = None,
) -> Term:
    """ONNX Conv of NCHW data with OIHW weights; ``pads`` are top, left, bottom, right."""
    n, c = x.shape[:2]
    o, per_group, kh, kw = w.shape
    padded = pad(pad(access(x, 1), 2, pads[0], pads[2]), 3, pads[1], pads[3])
    if groups == 1:
        seen = squeeze(windows(padded, (c, kh, kw), (1, *stride), (1, *dilation)), 1)
        product = compute("dot", cart_prod(access(w, 1), seen), accumulate)
        return outer_only(transpose(product, (1, 0, 2, 3)))
    data = reshape(outer_only(padded), (n, groups, per_group, *padded.shape[2:]))
    data = access(transpose(data, (1, 0, 2, 3, 4)), 2)
    seen = squeeze(windows(data, (per_group, kh, kw), (1, *stride), (1, *dilation)), 2)
    weights = access(reshape(w, (groups, o // groups, per_group, kh, kw)), 2)
    product = compute("dot", cart_prod(weights, seen, 1), accumulate)
    product = transpose(product, (2, 0, 1, 3, 4))
    return reshape(product, (n, o, *product.shape[3:]))


def numpy_convolution(
    x: np.ndarray,
    w: np.ndarray,
    stride: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> np.ndarray:
    """The same said plainly: for each kernel position, a product over channels."""
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    n, _, height, width = padded.shape
    o, per_group, kh, kw = w.shape
    oh = (height - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    ow = (width - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    result = np.zeros((n, groups, o // groups, oh, ow))
    data = padded.reshape(n, groups, per_group, height, width)
    weights = w.reshape(groups, o // groups, per_group, kh, kw)
    for i in range(kh):
        for j in range(kw):
            top, left = i * dilation[0], j * dilation[1]
            part = data[..., top : top + (oh - 1) * stride[0] + 1 : stride[0],
                        left : left + (ow - 1) * stride[1] + 1 : stride[1]]  # fmt: skip
            result += np.einsum("ngchw,goc->ngohw", part, weights[..., i, j])
    return result.reshape(n, o, oh, ow)


def leaves(outputs: Sequence[Term]) -> dict[str, Any]:
    """Types of the tensors below ``outputs``, by name."""
    return {t["name"]: t.type for t in topological_order(outputs) if t.op == "tensor"}


def poison(program: Executable) -> None:
    """Fills the program's working memory with NaN patterns, so that nothing read is left over."""
    program._arena.view(np.uint8)[:] = 0xFF


def run(
    outputs: Term | Sequence[Term],
    params: Mapping[str, np.ndarray] | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    threads: int = 2,
) -> tuple[list[np.ndarray], dict[str, np.ndarray], Executable]:
    """Compiles and runs on poisoned memory: the results, the inputs used and the program."""
    terms = [outputs] if isinstance(outputs, Term) else list(outputs)
    params = params or {}
    types = {name: t for name, t in leaves(terms).items() if name not in params}
    given = random_inputs(types) if inputs is None else dict(inputs)
    program = compile_terms(terms, types, params, threads=threads)
    poison(program)
    return program.run(given), given, program


def check(
    outputs: Term | Sequence[Term],
    params: Mapping[str, np.ndarray] | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    tolerance: float | None = None,
) -> Executable:
    """Every element of every output equals what the interpreter says."""
    terms = [outputs] if isinstance(outputs, Term) else list(outputs)
    results, given, program = run(terms, params, inputs)
    with np.errstate(all="ignore"):
        expected = evaluate(terms, {**given, **(params or {})})
    for got, wanted in zip(results, expected, strict=True):
        compare(got, wanted, tolerance)
    return program


def compare(got: np.ndarray, wanted: np.ndarray, tolerance: float | None = None) -> None:
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    if not is_float(wanted.dtype):
        np.testing.assert_array_equal(got, wanted)
        return
    close = TOLERANCE[wanted.dtype.name] if tolerance is None else tolerance
    np.testing.assert_allclose(
        got.astype("float64"), wanted.astype("float64"), rtol=close, atol=close
    )


def weights(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
