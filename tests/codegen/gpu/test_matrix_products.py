"""Products of plain matrices in two stages, against NumPy on an OpenCL device."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.dispatch import space_of
from glenside.codegen.gpu.interface import make_builder
from glenside.codegen.gpu.mapping.choose import best_mapping
from glenside.codegen.gpu.mapping.kinds import MATRICES
from glenside.codegen.gpu.mapping.reading import read_mapping
from glenside.codegen.gpu.matrices.mapping import MatrixMapping
from glenside.codegen.gpu.matrices.tiling import MatrixShape, as_matrices
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.record import Kernel
from glenside.language import Term
from glenside.language.builders import (
    access,
    cart_prod,
    compute,
    elementwise,
    outer_only,
    pad,
    squeeze,
    tensor,
    transpose,
    windows,
)
from tests.codegen.gpu.gpu_help import run_on_opencl

RNG = np.random.default_rng(3)
H200 = device_profile("cuda:sm_90")


def _batched(batch: int, rows: int, width: int, depth: int) -> Term:
    known = access(tensor("w", (batch, rows, depth)), 2)
    streamed = access(transpose(tensor("x", (batch, depth, width)), (0, 2, 1)), 2)
    return compute("dot", cart_prod(known, streamed, 1))


def _pointwise(images: int, channels: int, size: tuple[int, int], filters: int) -> Term:
    """A convolution by 1 x 1 with a bias and relu."""
    x, w = tensor("x", (images, channels, *size)), tensor("w", (filters, channels, 1, 1))
    looks = squeeze(windows(access(x, 1), (channels, 1, 1), (1, 1, 1)), 1)
    y = outer_only(transpose(compute("dot", cart_prod(access(w, 1), looks)), (1, 0, 2, 3)))
    return elementwise("relu", elementwise("add", y, tensor("b", (1, filters, 1, 1))))


def _space(term: Term, params: dict[str, np.ndarray], shape: tuple[int, ...]) -> ProductSpace:
    cut = cut_program([term], {"x": tensor("x", shape).type}, params, plain=True)
    builder = make_builder(cut)
    (step,) = cut.steps
    assert isinstance(step, Kernel)
    builder.at_step(0)
    space = space_of(builder, step, H200)
    assert space is not None
    return space


@pytest.mark.parametrize(
    ("sizes", "mapping"),
    [
        ((3, 70, 52, 41), MatrixMapping(32, 64, 8, (8, 8), 2)),
        ((2, 64, 49, 32), MatrixMapping(64, 56, 16, (8, 7), 1)),
        ((1, 30, 51, 20), MatrixMapping(32, 64, 16, (4, 4), 1)),
        ((2, 40, 36, 64), MatrixMapping(64, 40, 8, (4, 5), 4)),
    ],
    ids=str,
)
def test_batches(sizes: tuple[int, int, int, int], mapping: MatrixMapping) -> None:
    batch, rows, width, depth = sizes
    w = RNG.standard_normal((batch, rows, depth)).astype("float32")
    x = RNG.standard_normal((batch, depth, width)).astype("float32")
    term = _batched(*sizes)
    (got,) = run_on_opencl([term], {"x": x}, {"w": w}, choose=lambda space, limits: mapping)
    right = w.astype(float) @ x.astype(float)
    assert np.linalg.norm(got - right) <= 1e-6 * np.linalg.norm(right)


def test_rows_of_pixels_are_one_loop() -> None:
    """A convolution by 1 x 1 is a product of matrices for each image, what follows is fused."""
    term = _pointwise(2, 12, (6, 10), 20)
    arrays = {"x": (2, 12, 6, 10), "w": (20, 12, 1, 1), "b": (1, 20, 1, 1)}
    env = {name: RNG.standard_normal(shape).astype("float32") for name, shape in arrays.items()}
    params = {name: env[name] for name in "wb"}
    shape = as_matrices(_space(term, params, arrays["x"]))
    assert shape is not None
    assert (shape.rows, shape.width, shape.depth, shape.step) == (20, 60, 12, 60)
    assert [stride for _, stride in shape.outer] == [12 * 60]
    mapping = MatrixMapping(32, 32, 8, (4, 4), 1)
    (got,) = run_on_opencl([term], {"x": env["x"]}, params, choose=lambda s, _: mapping)
    product = np.einsum("nchw,kc->nkhw", env["x"].astype(float), env["w"][:, :, 0, 0])
    assert np.allclose(got, np.maximum(product + env["b"], 0), rtol=1e-5, atol=1e-5)


def test_windows_and_borders_are_something_else() -> None:
    w = np.ones((8, 4, 3, 3), "float32")
    x, taps = tensor("x", (1, 4, 9, 9)), tensor("w", w.shape)
    looks = squeeze(windows(access(x, 1), (4, 3, 3), (1, 1, 1)), 1)
    term = compute("dot", cart_prod(access(taps, 1), looks))
    assert as_matrices(_space(term, {"w": w}, x.shape)) is None
    row = tensor("x", (1, 4, 9, 8))
    point = np.ones((8, 4, 1, 1), "float32")
    looks = squeeze(windows(access(pad(row, 3, 1, 0), 1), (4, 1, 1), (1, 1, 1)), 1)
    term = compute("dot", cart_prod(access(tensor("w", point.shape), 1), looks))
    assert as_matrices(_space(term, {"w": point}, row.shape)) is None


def test_mappings_keep_the_limits_and_read_back() -> None:
    w = np.zeros((36, 256, 128), "float32")
    space = _space(_batched(36, 256, 196, 128), {"w": w}, (36, 128, 196))
    found = MATRICES.ranked(space, H200).mappings
    assert found[0] == best_mapping(space, H200)
    assert [each.predicted for each in found] == sorted(each.predicted for each in found)
    for each in found:
        assert each.threads <= H200.threads_per_group
        assert 4 * each.local_elements <= H200.static_local_bytes
        assert each.rows % each.tile[0] == each.columns % each.tile[1] == 0
    assert read_mapping(found[0].to_json()) == found[0]
    small = dataclasses.replace(H200, name="small", static_local_bytes=8 << 10)
    assert all(
        4 * each.local_elements <= 8 << 10 for each in MATRICES.ranked(space, small).mappings
    )
    assert isinstance(as_matrices(space), MatrixShape)
