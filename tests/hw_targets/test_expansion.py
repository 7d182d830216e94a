"""Tiled work expanded into calls on the units' own sizes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glenside
from glenside.errors import CheckFailed, GlensideError, ShapeError, TargetError
from glenside.extraction import FewestCycles, extract
from glenside.extraction.cycles import term_cycles
from glenside.hw_targets import expand, find_target
from glenside.hw_targets.declare import samples
from glenside.hw_targets.expansion import tile_calls
from glenside.hw_targets.operation import accelerator_of
from glenside.hw_targets.units.systolic_array import UNIT
from glenside.language import Term, builders, evaluate, register_unit, topological_order, units
from glenside.language.shape import FLOATS, NUMBERS
from glenside.report import count_units
from glenside.rewrites import StopReason, contains, saturate
from glenside.rewrites.rules.blocking import BLOCKING, split_into
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic
from glenside.rewrites.ruleset import RuleSet
from tests.effort import tries
from tests.strategies import environment, shapes

ARRAY = "systolic-array"


def matrix(name: str, shape: tuple[int, ...], split: int, dtype: str = "float32") -> Term:
    return builders.access(builders.tensor(name, shape, dtype), split)


def product(m: int, k: int, n: int, size: tuple[int, int], dtype: str = "float32") -> Term:
    a, b = matrix("a", (m, k), 1, dtype), matrix("b", (n, k), 1, dtype)
    return builders.blocked(ARRAY, size, a, b)


def calls(terms: list[Term]) -> list[Term]:
    return [term for term in topological_order(terms) if term.op in ("call", "blocked")]


def same(a: Any, b: Any) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype
    if a.dtype.name in FLOATS:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(a, b)


# --- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("unrolled", [False, True])
@settings(max_examples=tries(30))
@given(
    dtype=st.sampled_from(NUMBERS),
    accumulate=st.sampled_from(("float64", "int64", None)),
    batch=shapes(most=2),
    p=shapes(most=2),
    q=shapes(most=2),
    depth=st.integers(0, 7),
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_a_product_in_tiles_is_the_product(
    unrolled: bool,
    dtype: str,
    accumulate: str | None,
    batch: tuple[int, ...],
    p: tuple[int, ...],
    q: tuple[int, ...],
    depth: int,
    size: tuple[int, int],
) -> None:
    a = matrix("a", (*batch, *p, depth), len(batch + p), dtype)
    b = matrix("b", (*batch, *q, depth), len(batch + q), dtype)
    term = builders.blocked(ARRAY, size, a, b, len(batch), accumulate)
    (expanded,) = expand([term], unrolled=unrolled, check=False)
    assert expanded.type == term.type
    found = calls([expanded])
    assert {call["parameters"] for call in found} == {size}
    tiles = max(math.ceil(depth / size[0]), 1) * max(math.ceil(math.prod(q) / size[1]), 1)
    assert sum(map(tile_calls, found)) == tile_calls(term) == tiles * math.prod(batch)
    meant = builders.compute("dot", builders.cart_prod(a, b, len(batch)), accumulate)
    got, right = evaluate([expanded, meant], environment([term]))
    same(got, right)


def test_a_large_product_stays_a_small_term() -> None:
    term = product(512, 512, 512, (16, 16))
    (expanded,) = expand([term], check=False)
    assert tile_calls(term) == 32 * 32
    assert (
        len(topological_order([expanded]))
        == len(topological_order(expand([product(33, 33, 33, (16, 16))], check=False))) - 4
    )  # 33 is padded, thrice with zeros and cut once.
    env = environment([term])
    got, right = evaluate([expanded, term], env)
    np.testing.assert_array_equal(got, right)


def test_tiles_of_all_three_sizes() -> None:
    a, b, c = matrix("a", (512, 512), 1), matrix("b", (512, 512), 1), matrix("c", (512, 512), 2)
    term = builders.call("tensor-core", (), a, b, c)
    (expanded,) = expand([term], check=False)
    assert tile_calls(term) == 32_768
    (call,) = calls([expanded])
    assert [x.shape[call["batch"] :] for x in call.children] == [(16, 16)] * 3
    assert len(topological_order([expanded])) < 40


def test_one_tile_needs_no_loop() -> None:
    (expanded,) = expand([product(5, 3, 4, (3, 4))])
    (call,) = calls([expanded])
    assert call["batch"] == 0
    assert call is expanded


# --- calls of declared units ---------------------------------------------------------------------

DECLARED = (
    "vta-dense",
    "vta-batch-dense",
    "vta-dense-int8",
    "vta-batch-dense-int8",
    "tensor-core",
    "tensor-core-fp16",
    "flex-linear",
    "flex-maxpool",
    "flex-layer-norm",
)


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("name", DECLARED)
def test_calls_of_declared_units(name: str, unrolled: bool) -> None:
    declared = accelerator_of(name)
    assert declared is not None
    checked = declared.checked
    fixed = {size: 2 * length + (length > 1) for size, length in declared.tiling.tile.items()}
    sizes = next(iter(samples.varied(checked.names, checked.conditions, fixed)))
    dtype = (declared.dtypes or ("float32",))[0]
    types = [each.of(sizes, dtype) for each in declared.tiling.operands.values()]
    operands = [matrix(str(i), t.shape, t.split, t.dtype) for i, t in enumerate(types)]
    term = builders.call(name, [sizes[p] for p in checked.parameters], *operands)
    (expanded,) = expand([term], unrolled=unrolled)
    got, right = evaluate([expanded, term], environment([term]))
    same(got, right)
    for call in calls([expanded]):
        for declared_type, x in zip(declared.tiling.operands.values(), call.children, strict=True):
            lengths = dict(zip([size.text for size in declared_type.axes],
                               x.shape[call["batch"] :], strict=True))  # fmt: skip
            for size, length in declared.tiling.tile.items():
                assert lengths.get(size, length) == length
            for size, lanes in declared.tiling.lanes.items():
                assert lengths.get(size, lanes) % lanes == 0
    assert sum(map(tile_calls, calls([expanded]))) == tile_calls(term)


# --- convolutions --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("im2col", ["", "im2col-"])
@settings(max_examples=20)
@given(data=st.data())
def test_convolutions_in_tiles(layout: str, im2col: str, data: st.DataObject) -> None:
    def draw(most: int) -> int:
        return data.draw(st.integers(1, most))

    rows, columns, kh, kw, sh, sw = draw(3), draw(3), draw(3), draw(2), draw(2), draw(2)
    c, o = (draw(5), draw(5)) if im2col else (rows * draw(2), columns * draw(2))
    n, h, w = draw(2), kh + draw(4) - 1, kw + draw(3) - 1
    shape = (n, c, h, w) if layout == "nchw" else (n, h, w, c)
    kernel = (o, c, kh, kw) if layout == "nchw" else (kh, kw, c, o)
    filters, image = matrix("w", kernel, 4), matrix("x", shape, 4)
    unit = f"systolic-conv2d-{im2col}{layout}"
    term = builders.call(unit, (rows, columns, kh, kw, sh, sw), filters, image)
    (expanded,) = expand([term], check=False)
    assert {call["unit"] for call in calls([expanded])} == {ARRAY}
    depth = math.ceil(c * kh * kw / rows) if im2col else kh * kw * c // rows
    assert tile_calls(term) == depth * math.ceil(o / columns)
    env = environment([term])
    meant = units.meaning(term, term.children)
    got, right, run = evaluate([expanded, meant, term], env)
    same(got, right)
    same(run, right)


# --- the simulator and the checks ----------------------------------------------------------------


@pytest.fixture
def faulty() -> Any:
    """A simulator with a fault in its third pass; counts the passes."""
    seen: list[tuple[Any, ...]] = []

    def simulate(parameters: Any, arrays: list[Any]) -> Any:
        seen.append(tuple(a.shape for a in arrays))
        assert UNIT.simulate is not None
        result = UNIT.simulate(parameters, arrays)
        if len(seen) == 3:
            result = result + 1
        return result

    register_unit(dataclasses.replace(UNIT, simulate=simulate))
    yield seen
    register_unit(UNIT)


@pytest.mark.parametrize("unrolled", [False, True])
def test_a_fault_in_one_tile_changes_the_result(faulty: Any, unrolled: bool) -> None:
    term = product(5, 7, 9, (3, 4))
    (expanded,) = expand([term], unrolled=unrolled, check=False)
    env = environment([term])
    got, right = evaluate([expanded, builders.compute("dot", builders.cart_prod(*term.children))],
                          env)  # fmt: skip
    assert faulty == [((5, 3), (3, 4))] * 9
    assert not np.array_equal(got, right)


def test_an_expansion_that_computes_something_else_is_found(faulty: Any) -> None:
    with pytest.raises(CheckFailed, match=r"blocked systolic-array \(3, 4\) of .* its tiles"):
        expand([product(5, 7, 9, (3, 4))])


def test_a_batch_of_calls_needs_operands_that_share_it() -> None:
    x, w = matrix("x", (2, 5, 3), 2), matrix("w", (3, 3, 4), 1)
    with pytest.raises(ShapeError, match="do not share their first 1 outer axes"):
        builders.call(ARRAY, (3, 4), x, w, batch=1)


def test_a_batch_of_calls_has_no_single_meaning() -> None:
    (expanded,) = expand([product(5, 7, 9, (3, 4))])
    (call,) = calls([expanded])
    assert glenside.language.parse(str(expanded)) is expanded
    with pytest.raises(GlensideError, match="before its tiles are expanded"):
        units.meaning(call, call.children)


# --- agreement with the rules that split ---------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_the_rules_that_split_find_the_unrolled_expansion(dtype: str) -> None:
    term = product(32, 32, 32, (16, 16), dtype)
    whole = builders.compute("dot", builders.cart_prod(*term.children))
    rules = [
        RuleSet("splits", (split_into(0, 16), split_into(1, 16))),
        BLOCKING,
        LAYOUT,
        RuleSet("unit", (systolic(16, 16),)),
    ]
    result = saturate([whole], rules)
    assert result.stop_reason is StopReason.SATURATED
    (expanded,) = expand([term], unrolled=True)
    assert len(calls([expanded])) == tile_calls(term) == 4
    assert contains(result.egraph, expanded) == result.egraph.roots[0]
    (loops,) = expand([term])
    first, second, right = evaluate([expanded, loops, whole], environment([whole]))
    np.testing.assert_array_equal(first, right)
    np.testing.assert_array_equal(second, right)


def test_a_large_product_is_found_in_few_nodes() -> None:
    whole = builders.compute("dot", builders.cart_prod(*product(128, 128, 128, (16, 16)).children))
    result = saturate([whole], find_target("systolic-array:16x16").rules())
    assert result.stop_reason is StopReason.SATURATED
    assert result.nodes <= 9
    assert contains(result.egraph, product(128, 128, 128, (16, 16))) == result.egraph.roots[0]


# --- targets -------------------------------------------------------------------------------------


def test_of_several_arrays_the_one_with_the_fewest_cycles_is_taken() -> None:
    def dot(m: int, k: int, n: int, name: str) -> Term:
        a, b = matrix(f"{name}a", (m, k), 1), matrix(f"{name}b", (n, k), 1)
        return builders.compute("dot", builders.cart_prod(a, b))

    terms = [dot(10, 64, 4, "deep"), dot(10, 4, 64, "wide"), dot(500, 64, 64, "large")]
    for name in ("systolic-array:64x4,4x64,32x32", "systolic-array:64x4,4x64+systolic-array:32x32"):
        target = find_target(name)
        result = saturate(terms, target.rules())
        found = extract(result.egraph, target.cost_model()).terms
        assert [term["parameters"] for term in found] == [(64, 4), (4, 64), (32, 32)]
        # Weights, then the stream, filled and drained: 2 R + C + M - 2 a pass.
        assert [term_cycles(term) for term in found] == [140, 80, 4 * 594]
        (use,) = count_units(found)
        assert (use.calls, use.tiles, use.cycles) == (3, 6, 2596)
    assert isinstance(target.cost_model(), FewestCycles)


def test_convolutions_go_to_the_array_that_forms_windows() -> None:
    x, w = builders.tensor("x", (1, 8, 9, 9)), builders.tensor("w", (4, 8, 3, 3))
    looks = builders.windows(builders.access(x, 1), (8, 3, 3), (1, 1, 1))
    looks = builders.squeeze(looks, 1)
    term = builders.compute("dot", builders.cart_prod(builders.access(w, 1), looks))
    term = builders.transpose(term, (1, 0, 2, 3))
    program = glenside.optimize(term, "systolic-array:4x4:conv2d")
    assert program.report.offloads == {ARRAY: 1}
    assert program.term.op == "call"
    assert program.term["unit"].startswith("systolic-conv2d-")
    (use,) = program.report.units
    assert use.tiles == 18 and "18 tile calls" in str(program.report)
    assert use.cycles == 18 * (2 * 4 + 4 + 49 - 2)
    assert program.report.to_json()["units"][use.unit]["tiles"] == 18
    (expanded,) = program.expanded()
    assert {call["unit"] for call in calls([expanded])} == {ARRAY}
    got, right = evaluate([expanded, term], environment([term]))
    same(got, right)


@pytest.mark.parametrize("options", ["", "16", "16x", "16x16,", "0x4", "16x16:conv", ":conv2d"])
def test_sizes_that_are_none_are_refused(options: str) -> None:
    with pytest.raises(TargetError, match="takes its size"):
        find_target(f"{ARRAY}:{options}")
