"""What the units compute, against NumPy; and that other operands are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from glenside.errors import ShapeError
from glenside.language import Term, builders, evaluate

RNG = np.random.default_rng(0)


def operand(name: str, shape: tuple[int, ...], split: int) -> Term:
    return builders.access(builders.tensor(name, shape, "int32"), split)


def run(term: Term) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    leaves = [x if x.op == "tensor" else x.children[0] for x in term.children]
    env = {x["name"]: RNG.integers(-5, 6, x.shape).astype("int32") for x in leaves}
    return evaluate([term], env)[0], env


def correlate(x: np.ndarray, w: np.ndarray, stride: tuple[int, int]) -> np.ndarray:
    """(N C H W) with (O C kh kw), position by position."""
    (n, _, height, width), (o, _, kh, kw) = x.shape, w.shape
    sh, sw = stride
    out = np.zeros((n, o, (height - kh) // sh + 1, (width - kw) // sw + 1), x.dtype)
    for i, j in itertools.product(range(out.shape[2]), range(out.shape[3])):
        part = x[:, :, i * sh : i * sh + kh, j * sw : j * sw + kw]
        out[:, :, i, j] = np.einsum("nckl,ockl->no", part, w)
    return out


def test_flex_maxpool() -> None:
    value, env = run(builders.call("flex-maxpool", (), operand("x", (6, 32), 0)))
    np.testing.assert_array_equal(value, np.maximum(env["x"][0::2], env["x"][1::2]))


def test_flex_linear() -> None:
    operands = operand("x", (3, 4), 1), operand("w", (5, 4), 1), operand("b", (5,), 1)
    term = builders.call("flex-linear", (), *operands)
    value, env = run(term)
    assert (term.outer, term.item) == ((3, 5), ())
    np.testing.assert_array_equal(value, env["x"] @ env["w"].T + env["b"])


def test_vta_dense() -> None:
    value, env = run(
        builders.call("vta-dense", (), operand("x", (3, 4), 1), operand("w", (5, 4), 1))
    )
    np.testing.assert_array_equal(value, env["x"] @ env["w"].T)


def test_hlscnn_conv2d() -> None:
    x, w = operand("x", (2, 3, 6, 7), 4), operand("w", (4, 3, 3, 2), 4)
    value, env = run(builders.call("hlscnn-conv2d", (2, 1, 1, 0, 2, 3), x, w))
    padded = np.pad(env["x"], ((0, 0), (0, 0), (1, 2), (0, 3)))
    np.testing.assert_array_equal(value, correlate(padded, env["w"], (2, 1)))


@pytest.mark.parametrize("im2col", ["", "im2col-"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_systolic_conv2d(layout: str, im2col: str) -> None:
    x, w = (2, 6, 5, 4), (4, 6, 3, 2)
    if layout == "nhwc":
        x, w = (2, 5, 4, 6), (3, 2, 6, 4)
    sizes = (3, 2, 3, 2, 1, 2)
    unit = f"systolic-conv2d-{im2col}{layout}"
    value, env = run(builders.call(unit, sizes, operand("w", w, 4), operand("x", x, 4)))
    if layout == "nhwc":
        expected = correlate(
            env["x"].transpose(0, 3, 1, 2), env["w"].transpose(3, 2, 0, 1), (1, 2)
        ).transpose(0, 2, 3, 1)
    else:
        expected = correlate(env["x"], env["w"], (1, 2))
    np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    ("unit", "parameters", "shapes"),
    [
        ("flex-maxpool", (), [((5, 16), 0)]),
        ("flex-maxpool", (), [((4, 16), 1)]),
        ("flex-maxpool", (2,), [((4, 16), 0)]),
        ("flex-linear", (), [((3, 4), 1), ((5, 4), 1), ((4,), 1)]),
        ("flex-linear", (), [((3, 4), 1), ((5, 4), 1)]),
        ("vta-dense", (), [((2, 3, 4), 2), ((5, 4), 1)]),
        ("hlscnn-conv2d", (1, 1), [((1, 3, 4, 4), 4), ((2, 3, 1, 1), 4)]),
        ("hlscnn-conv2d", (1, 1, 0, 0, 0, 0), [((1, 3, 4, 4), 4), ((2, 2, 1, 1), 4)]),
        ("systolic-conv2d-nchw", (2, 1, 1, 1, 1, 1), [((2, 3, 1, 1), 4), ((1, 3, 4, 4), 4)]),
        ("systolic-conv2d-nchw", (1, 1, 3, 1, 1, 1), [((2, 3, 1, 1), 4), ((1, 3, 4, 4), 4)]),
        ("systolic-conv2d-nhwc", (1, 1, 1, 1), [((1, 1, 3, 2), 4), ((1, 4, 4, 3), 4)]),
    ],
)
def test_what_a_unit_does_not_take_is_refused(
    unit: str, parameters: tuple[int, ...], shapes: list[tuple[tuple[int, ...], int]]
) -> None:
    operands = [operand(f"x{i}", shape, split) for i, (shape, split) in enumerate(shapes)]
    with pytest.raises(ShapeError, match=unit.partition("-")[0]):
        builders.call(unit, parameters, *operands)
