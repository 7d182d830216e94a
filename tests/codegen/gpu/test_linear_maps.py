"""Small constant maps, written out: minimal filtering's transforms, differences of neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.record import Kernel
from glenside.codegen.small_maps import SmallMap, small_map
from glenside.extraction import extract
from glenside.hw_targets import find_target
from glenside.language import Term, topological_order
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
from glenside.rewrites import rule_named, saturate
from tests.codegen.gpu.gpu_help import device_kernels, run_on_opencl

RNG = np.random.default_rng(5)


class _FewWindows:
    """Reading three by three windows is dear, so that tiles are chosen."""

    name = "few-windows"

    def node_cost(self, op, attributes, result, operands):  # type: ignore[no-untyped-def]
        return (float(op == "windows" and 3 in attributes["shape"]), 1.0)


def _layer(shape: tuple[int, ...], filters: int, border: tuple[int, int], tail: str) -> Term:
    x, w = tensor("x", shape), tensor("w", (filters, shape[1], 3, 3))
    padded = x
    for axis in (2, 3):
        padded = pad(padded, axis, *border)
    looks = squeeze(windows(access(padded, 1), (shape[1], 3, 3), (1, 1, 1)), 1)
    y = compute("dot", cart_prod(access(w, 1), looks))
    y = outer_only(transpose(y, (1, 0, 2, 3)))
    if tail == "bare":
        return y
    y = elementwise("add", y, tensor("b", (1, filters, 1, 1)))
    return elementwise("relu", elementwise("add", y, tensor("r", y.shape)))


def _filtered(term: Term, m: int) -> Term:
    explored = saturate([term], [rule_named(f"winograd({m},3)")])
    (made,) = extract(explored.egraph, _FewWindows(), original=[term]).terms
    assert made is not term
    return made


def _arrays(term: Term) -> dict[str, np.ndarray]:
    leaves = [t for t in topological_order([term]) if t.op == "tensor"]
    return {t["name"]: RNG.standard_normal(t.shape).astype("float32") for t in leaves}


def _right(env: dict[str, np.ndarray], border: tuple[int, int], tail: str) -> np.ndarray:
    x = np.pad(env["x"].astype(float), ((0, 0), (0, 0), border, border))
    looks = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    y = np.einsum("nchwij,kcij->nkhw", looks, env["w"].astype(float))
    return y if tail == "bare" else np.maximum(y + env["b"] + env["r"], 0)


@pytest.mark.parametrize(
    ("shape", "filters", "border", "m", "tail"),
    [
        ((1, 4, 8, 8), 6, (1, 1), 4, "fused"),
        ((3, 3, 13, 10), 5, (1, 1), 4, "fused"),
        ((1, 3, 14, 14), 4, (1, 1), 4, "bare"),
        ((2, 3, 9, 7), 4, (2, 0), 2, "bare"),
        ((1, 5, 6, 6), 3, (1, 1), 2, "fused"),
    ],
    ids=str,
)
def test_layers(
    shape: tuple[int, ...], filters: int, border: tuple[int, int], m: int, tail: str
) -> None:
    term = _layer(shape, filters, border, tail)
    env = _arrays(term)
    params = {name: env.pop(name) for name in ("w", "b") if name in env}
    made = _filtered(term, m)
    (got,) = run_on_opencl([made], env, params)
    right = _right({**env, **params}, border, tail)
    assert np.linalg.norm(got - right) <= 2e-6 * np.linalg.norm(right)
    # Both transforms and what is between; the filters' is done, edges and what follows are fused.
    x = {name: tensor(name, array.shape).type for name, array in env.items()}
    cut, kernels = device_kernels([made], x, params)
    assert len(kernels) == len(cut.steps) == 3
    maps = [isinstance(s, Kernel) and small_map(s.anchor, cut.weights) for s in cut.steps]
    assert [isinstance(each, SmallMap) for each in maps] == [True, False, True]
    assert isinstance(maps[0], SmallMap)
    assert len(maps[0].factors) == 2  # Along one axis, then along the other.


def _map(matrix: np.ndarray, taps: int, swapped: bool = False) -> Term:
    looks = windows(access(tensor("x", (3, 11)), 1), (taps,), (2,))
    rows = access(tensor("m", matrix.shape), 1)
    return compute("dot", cart_prod(looks, rows) if swapped else cart_prod(rows, looks))


@pytest.mark.parametrize("swapped", [False, True])
def test_any_matrix_of_many_zeros(swapped: bool) -> None:
    matrix = (np.eye(5, dtype="float32") - np.eye(5, k=1, dtype="float32"))[:, :4]
    matrix[2] = 0
    term = _map(matrix, 4, swapped)
    cut = cut_program([term], {"x": tensor("x", (3, 11)).type}, {"m": matrix}, plain=True)
    (step,) = cut.steps
    assert isinstance(step, Kernel)
    found = small_map(step.anchor, cut.weights)
    assert found is not None
    assert found.operations == np.count_nonzero(matrix)
    x = RNG.standard_normal((3, 11)).astype("float32")
    (got,) = run_on_opencl([term], {"x": x}, {"m": matrix})
    looks = np.lib.stride_tricks.sliding_window_view(x, 4, 1)[:, ::2]
    right = np.einsum("cwt,rt->cwr" if swapped else "cwt,rt->rcw", looks, matrix)
    assert np.allclose(got, right, rtol=1e-5, atol=1e-6)


def test_dense_matrices_are_left_to_tiles() -> None:
    matrix = RNG.standard_normal((5, 4)).astype("float32")
    cut = cut_program(
        [_map(matrix, 4)], {"x": tensor("x", (3, 11)).type}, {"m": matrix}, plain=True
    )
    (step,) = cut.steps
    assert isinstance(step, Kernel)
    assert small_map(step.anchor, cut.weights) is None


def test_the_cost_model_chooses_by_layer() -> None:
    """Layers of much arithmetic are filtered, small ones are not, nor is anything in tf32."""
    target = find_target("cuda:sm_90")
    for shape, filters, chosen in (
        ((1, 512, 28, 28), 512, True),
        ((1, 64, 224, 224), 64, True),
        ((1, 3, 224, 224), 64, False),
        ((1, 64, 56, 56), 64, False),
        ((1, 512, 7, 7), 512, False),
    ):
        term = _layer(shape, filters, (1, 1), "fused")
        explored = saturate([term], target.rules())
        found = extract(explored.egraph, target.cost_model(), original=[term], constants={"w", "b"})
        tiles = {t["shape"] for t in topological_order(found.terms) if t.op == "windows"}
        assert (tiles == {(6, 6)}) == chosen, shape
